package packetfuzz

import (
	"math/rand/v2"

	"example.org/nfsrdma/verbs/softroce"
)

// gen makes packets of bytes, as they follow on what the oracle has seen. Each decision takes one byte; where there are
// no more, it is zero. Below 0x80 a decision is the legal one.
type gen struct {
	in []byte
	o  *oracle
}

// RandomInput fills b, most of it with legal decisions.
func RandomInput(r *rand.Rand, b []byte) {
	calm := 200 + r.IntN(56)
	for i := range b {
		v := r.Uint32()
		if b[i] = byte(v); i > 0 && int(v>>8&255) < calm {
			b[i] &= 0x7f
		}
	}
}

func (g *gen) byte() byte {
	if len(g.in) == 0 {
		return 0
	}
	b := g.in[0]
	g.in = g.in[1:]
	return b
}

// odd is 0, or one of n unusual things.
func (g *gen) odd(n int) int {
	if b := g.byte(); b >= 0x80 {
		return 1 + int(b-0x80)%n
	}
	return 0
}

func pick[T any](g *gen, list ...T) T { return list[int(g.byte())%len(list)] }

// startPSN begins near the wrap as a rule.
func (g *gen) startPSN() uint32 {
	return pick[uint32](g, psnMask-2, 0, 1, psnMask, psnMask-20, 1<<23-2, 1<<23, 100)
}

// burst is what arrives together: one packet, or several READs.
func (g *gen) burst() []softroce.RawPacket {
	op := g.opcode()
	p := g.packet(op, g.o.epsn)
	if op != softroce.OpcReadRequest {
		return []softroce.RawPacket{p}
	}
	ps := []softroce.RawPacket{p}
	for range g.odd(maxIRD + 1) {
		last := &ps[len(ps)-1]
		if last.DMALen > size {
			break
		}
		p = g.packet(op, last.PSN+count(last.DMALen))
		ps = append(ps, p)
	}
	return ps
}

const maxIRD = 3

// opcode is one that may come now, or any.
func (g *gen) opcode() uint8 {
	if f := g.odd(64); f > 0 {
		return pick(g, uint8(f), uint8(f), uint8(f), 0x13, 0x15, 0x18, 0x1f, uint8(f)+0x20, 0xff)
	}
	switch g.o.msg {
	case 'S':
		return pick[uint8](g, 1, 2, 3, 2, 1, 1, 2, 0x16)
	case 'W':
		return pick[uint8](g, 7, 8, 7, 9)
	}
	return pick[uint8](g, 10, 4, 12, 0, 6, 12, 11, 5, 12, 0, 6, 6, 6, 0x17)
}

func (g *gen) packet(op uint8, psn uint32) softroce.RawPacket {
	p := softroce.RawPacket{Opcode: op, PSN: psn & psnMask}
	if f := g.odd(12); f > 0 {
		p.PSN = (p.PSN + [...]uint32{0, 1, 2, psnMask, psnMask - 1, psnMask - 4, 5, 1<<23 - 1, 1 << 23, 1<<23 + 1, 1 << 20, psnMask - 15, 1 << 22}[f]) & psnMask
	}
	kind, first, last, imm := shape(op)
	n := mtu
	switch {
	case kind == 'R', kind == 0 && op >= 0x10:
		n = 0
	case last && kind == 'W' && !first:
		n = min(max(int(g.o.dlen)-g.o.off, 0), mtu)
	case last:
		n = pick(g, 8, 0, 1, 4, 63, mtu, mtu-1, 100, 2)
	}
	if kind == 'R' || kind == 'W' && first {
		p.DMALen = uint32(n)
		if kind == 'R' {
			p.DMALen = pick[uint32](g, 64, 0, 1, mtu, mtu+1, 3*mtu, 1000, 5)
		} else if !last {
			p.DMALen = pick[uint32](g, 2*mtu, mtu+1, 3*mtu, 700, 1000)
		}
		g.reth(&p, kind)
	}
	if f := g.odd(8); f > 0 { // another length
		n = [...]int{0, 0, n + 1, max(n-1, 0), mtu, mtu + 4, max(n-4, 0), 2 * mtu, 4}[f]
	}
	p.Payload, p.Pad = g.payload(n)
	p.AckReq = g.odd(1) == 0
	if imm || op >= 0x16 {
		p.Imm = pick(g, 0xabcd, g.o.regs[0].key, 0, 1<<32-1)
	}
	switch g.odd(8) {
	case 1, 2:
		p.BadICRC = true
	case 3:
		p.Cut = true
	case 4:
		p.DestQP = 1
	case 5:
		p.PKey = pick[uint16](g, 0x1234, 0x7fff, 1)
	case 6:
		p.Pad = (p.Pad + 1 + g.byte()%3) & 3
	case 7:
		p.Solicited = true
	case 8:
		p.Payload = p.Payload[:max(len(p.Payload)-1, 0)]
	}
	return p
}

// reth names memory that is there and may be used so, or not.
func (g *gen) reth(p *softroce.RawPacket, kind uint8) {
	reg := pick(g, regBoth, regWrite)
	if kind == 'R' {
		reg = pick(g, regBoth, regRead)
	}
	if f := g.odd(3); f > 0 {
		reg = []int{0, regOwn, regRead, regWrite}[f]
	}
	r := &g.o.regs[reg]
	p.RKey = r.key
	p.VA = r.addr + uint64(g.byte()&0x7f)*8
	switch g.odd(14) {
	case 1:
		p.RKey ^= 1
	case 2:
		p.RKey = 0
	case 3:
		p.RKey = 1<<32 - 1
	case 4:
		p.VA = r.addr + size - uint64(p.DMALen) // to its end
	case 5:
		p.VA = r.addr + size - uint64(p.DMALen) + 1
	case 6:
		p.VA = r.addr - 1
	case 7:
		p.VA = r.addr + size
	case 8:
		p.VA = 1<<64 - 1 // wraps
	case 9:
		p.VA = -uint64(p.DMALen)
	case 10:
		p.DMALen = 1<<32 - 1
	case 11:
		p.DMALen = 1 << 31
	case 12:
		p.DMALen = 1<<30 + 1
	case 13:
		p.DMALen = pick[uint32](g, 0, size+1, p.DMALen+1, p.DMALen-1, size)
	case 14:
		p.VA, p.DMALen = r.addr+8, -uint32(r.addr) // wraps in 32 bits
	}
}

// payload is n bytes and their pad.
func (g *gen) payload(n int) ([]byte, uint8) {
	if n == 0 {
		return nil, 0
	}
	seed := g.byte()
	b := make([]byte, (n+3)&^3)
	for i := range b {
		b[i] = seed + byte(i)*3
	}
	return b, uint8(-n & 3)
}
