package packetfuzz

import (
	"bytes"
	"fmt"
	"slices"

	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
)

// Codes of a NAK (IB specification 9.7.5.2.8).
const (
	nakPSN    = softroce.SynNak + 0
	nakInvReq = softroce.SynNak + 1
	nakAccess = softroce.SynNak + 2
	nakOp     = softroce.SynNak + 3
	nakRNR    = softroce.SynRNR + rnrTimer
)

// diff is a-b in the PSN space of 24 bits, negative if a is before b.
func diff(a, b uint32) int {
	d := int((a - b) & psnMask)
	if d >= 1<<23 {
		d -= 1 << 24
	}
	return d
}

// region as the oracle knows it.
type region struct {
	addr uint64
	key  uint32
	mem  [size]byte
}

// receive that is posted.
type receive struct {
	id  uint64
	off int // in the own region
	n   int
}

// answer is one that may come.
type answer struct {
	syn  []byte // any of these; READ data has none
	psn  uint32
	data []byte
	op   uint8
}

// want is what must come of a step.
type want struct {
	answers []answer
	silence bool // is right too, as is an ACK of what was acknowledged before
	dead    bool // the queue pair is in error
	wcs     []verbs.WC
}

// oracle is the responder of the IB specification, sections 9.7.2 to 9.7.4 and 9.9.3.
type oracle struct {
	regs  [numRegions]region
	ird   int
	reads int    // accepted of those that arrive together
	epsn  uint32 // expected
	held  bool   // a NAK is out, no more until the expected PSN comes
	dead  bool
	msg   uint8 // of a message under way: its first opcode; idle if none
	off   int
	va    uint64 // of the WRITE under way
	reg   int
	dlen  uint32
	cur   *receive
	recvs []receive
	past  []softroce.RawPacket // READs that were accepted
	want  want
}

const idle = 0xff

func (o *oracle) reset(r *Rig, psn uint32, ird int) {
	for i := range o.regs {
		g := &o.regs[i]
		g.addr, g.key = r.mr[i].Addr(), r.mr[i].RKey()
		fill(g.mem[:], i)
	}
	o.ird, o.epsn, o.held, o.dead, o.msg, o.off, o.cur = ird, psn, false, false, idle, 0, nil
	o.recvs, o.past = o.recvs[:0], o.past[:0]
}

// step says what comes of packets that arrive together.
func (o *oracle) step(ps []softroce.RawPacket) *want {
	o.want = want{}
	o.reads = 0
	for i := range ps {
		o.packet(&ps[i])
	}
	o.want.dead = o.dead
	return &o.want
}

func (o *oracle) ack() {
	o.want.answers = append(o.want.answers, answer{syn: []byte{softroce.SynAck}, psn: (o.epsn - 1) & psnMask})
}

func (o *oracle) nak(syn ...byte) {
	o.want.answers = append(o.want.answers, answer{syn: syn, psn: o.epsn})
}

// fatal refuses a request: the queue pair goes to error, and all receives are flushed.
func (o *oracle) fatal(syn ...byte) { o.fail(verbs.WRFlushErr, syn...) }

// fail does so with the status of the receive under way.
func (o *oracle) fail(s verbs.Status, syn ...byte) {
	o.nak(syn...)
	o.dead = true
	if o.cur != nil {
		o.want.wcs = append(o.want.wcs, verbs.WC{ID: o.cur.id, Status: s})
	}
	for _, r := range o.recvs {
		o.want.wcs = append(o.want.wcs, verbs.WC{ID: r.id, Status: verbs.WRFlushErr})
	}
	o.cur, o.recvs = nil, o.recvs[:0]
}

// access finds memory that the peer may use so; false: a remote access error. No bytes are always fine.
func (o *oracle) access(key uint32, va uint64, n uint32, need verbs.Access) (reg int, ok bool) {
	if n == 0 {
		return 0, true
	}
	for i := range o.regs {
		g := &o.regs[i]
		if g.key != key {
			continue
		}
		off := va - g.addr
		return i, rights[i]&need != 0 && va >= g.addr && off <= size && uint64(n) <= size-off
	}
	return 0, false
}

func count(n uint32) uint32 { return max((n+mtu-1)/mtu, 1) }

func (o *oracle) packet(p *softroce.RawPacket) {
	switch {
	case o.dead, p.BadICRC, p.Cut, p.DestQP != 0, p.PKey != 0 && p.PKey&0x7fff != 0x7fff, len(p.Payload)%4 != 0, int(p.Pad) > len(p.Payload):
		return
	case p.Opcode >= 0x20:
		return // of another transport: 9.6.1.1
	case p.Opcode >= softroce.OpcReadFirst && p.Opcode <= 0x12:
		return // a response, and nothing was asked
	}
	n := len(p.Payload) - int(p.Pad)
	d := diff(p.PSN, o.epsn)
	switch {
	case d > 0:
		if !o.held {
			o.nak(nakPSN)
			o.held = true
		}
		return
	case d < 0 && p.Opcode == softroce.OpcReadRequest && len(p.Payload) == 0:
		o.repeated(p, d)
		return
	case d < 0 && p.Opcode == softroce.OpcReadRequest:
		return
	case d < 0:
		if kind, _, _, _ := shape(p.Opcode); kind == 0 {
			return // none such was executed
		}
		o.ack()
		o.want.silence = !p.AckReq // 9.7.5.1.3: or none, if none is asked for
		return
	}
	o.held = false
	kind, first, last, imm := shape(p.Opcode)
	switch {
	case kind == 0, kind == 'R' && len(p.Payload) > 0:
		o.fatal(nakInvReq)
	case first != (o.msg == idle), !first && kind != o.msg:
		o.fatal(nakInvReq)
	case kind == 'R':
		o.read(p)
	default:
		short := n != mtu && !last || n > mtu || n == 0 && last && !first
		if kind == 'W' {
			o.write(p, n, first, last, imm, short)
		} else {
			o.send(p, n, first, last, imm, short)
		}
	}
}

// shape of a request: S, W or R; 0 if it is reserved or not supported.
func shape(op uint8) (kind uint8, first, last, imm bool) {
	switch op {
	case 0, 1, 2, 3, 4, 5:
		return 'S', op == 0 || op >= 4, op >= 2, op == 3 || op == 5
	case 6, 7, 8, 9, 10, 11:
		return 'W', op == 6 || op >= 10, op >= 8, op == 9 || op == 11
	case 0x0c:
		return 'R', true, true, false
	case 0x16, 0x17:
		return 'S', op == 0x17, true, false
	}
	return 0, false, false, false
}

// repeated is a READ whose PSN was seen: it is answered as far as it lies in what was asked for then. A range that is
// not valid is one that no READ before had, or whose memory is gone: it is dropped, since only a request with the
// expected PSN is refused.
func (o *oracle) repeated(p *softroce.RawPacket, d int) {
	o.want.silence = true // it may also be none that was asked for: 9.7.4.1.2 lets it be dropped
	reg, ok := o.access(p.RKey, p.VA, p.DMALen, verbs.RemoteRead)
	if !ok || p.DMALen > size || d+int(count(p.DMALen)) > 0 {
		return
	}
	o.want.silence = !o.asked(p)
	o.data(p, reg)
}

// asked says whether a READ is part of one that was accepted, and so must be answered again.
func (o *oracle) asked(p *softroce.RawPacket) bool {
	for i := range o.past {
		x := &o.past[i]
		off := diff(p.PSN, x.PSN) * mtu
		if off >= 0 && p.RKey == x.RKey && p.VA == x.VA+uint64(off) && off+int(p.DMALen) <= int(x.DMALen) {
			return true
		}
	}
	return false
}

// data answers a READ.
func (o *oracle) data(p *softroce.RawPacket, reg int) {
	k := count(p.DMALen)
	for i := range k {
		a := answer{psn: (p.PSN + i) & psnMask, op: softroce.OpcReadMiddle}
		switch {
		case k == 1:
			a.op = softroce.OpcReadOnly
		case i == 0:
			a.op = softroce.OpcReadFirst
		case i == k-1:
			a.op = softroce.OpcReadLast
		}
		if p.DMALen > 0 {
			g := &o.regs[reg]
			at := p.VA - g.addr + uint64(i*mtu)
			a.data = g.mem[at:min(at+mtu, p.VA-g.addr+uint64(p.DMALen))]
		}
		o.want.answers = append(o.want.answers, a)
	}
}

func (o *oracle) read(p *softroce.RawPacket) {
	o.reads++
	reg, ok := o.access(p.RKey, p.VA, p.DMALen, verbs.RemoteRead)
	switch {
	case o.reads > o.ird && ok:
		o.fatal(nakInvReq)
	case o.reads > o.ird:
		o.fatal(nakInvReq, nakAccess)
	case !ok && p.DMALen > 1<<30:
		o.fatal(nakInvReq, nakAccess)
	case !ok:
		o.fatal(nakAccess)
	default:
		o.data(p, reg)
		o.past = append(o.past, *p)
		o.epsn = (o.epsn + count(p.DMALen)) & psnMask
	}
}

// accepted moves on by a packet.
func (o *oracle) accepted(p *softroce.RawPacket, n int, last bool) {
	o.epsn = (o.epsn + 1) & psnMask
	o.off += n
	if last {
		o.msg = idle
	}
	if p.AckReq {
		o.ack()
	}
}

func (o *oracle) take() bool {
	if o.cur != nil {
		return true
	}
	if len(o.recvs) == 0 {
		o.nak(nakRNR)
		o.held = true
		return false
	}
	r := o.recvs[0]
	o.cur, o.recvs = &r, slices.Delete(o.recvs, 0, 1)
	return true
}

func (o *oracle) received(p *softroce.RawPacket, n int, imm bool) {
	w := verbs.WC{ID: o.cur.id, ByteLen: uint32(n)}
	if imm {
		w.Flags, w.Imm = verbs.WCWithImm, p.Imm
	}
	o.want.wcs = append(o.want.wcs, w)
	o.cur = nil
}

func (o *oracle) send(p *softroce.RawPacket, n int, first, last, imm, short bool) {
	if first && !short && !o.take() {
		return
	}
	if short {
		o.fatal(nakInvReq)
		return
	}
	if first {
		o.off, o.msg = 0, 'S'
	}
	if o.off+n > o.cur.n {
		o.fail(verbs.LocLenErr, nakInvReq)
		return
	}
	copy(o.regs[regOwn].mem[o.cur.off+o.off:], p.Payload[:n])
	if p.Opcode == softroce.OpcSendLastInv || p.Opcode == softroce.OpcSendOnlyInv {
		// No key is there that a peer may invalidate.
		o.fail(verbs.LocAccessErr, nakAccess)
		return
	}
	o.accepted(p, n, last)
	if last {
		o.received(p, o.off, imm)
	}
}

func (o *oracle) write(p *softroce.RawPacket, n int, first, last, imm, short bool) {
	if short {
		codes := []byte{nakInvReq}
		if _, ok := o.access(p.RKey, p.VA, p.DMALen, verbs.RemoteWrite); first && !ok {
			codes = append(codes, nakAccess)
		}
		o.fatal(codes...)
		return
	}
	if first {
		reg, ok := o.access(p.RKey, p.VA, p.DMALen, verbs.RemoteWrite)
		bad := n > int(p.DMALen) || last && n != int(p.DMALen) || p.DMALen > 1<<30
		switch {
		case !ok && bad:
			o.fatal(nakAccess, nakInvReq)
			return
		case !ok:
			o.fatal(nakAccess)
			return
		}
		o.off, o.msg, o.va, o.reg, o.dlen = 0, 'W', p.VA, reg, p.DMALen
	}
	if o.off+n > int(o.dlen) || last && o.off+n != int(o.dlen) {
		o.fatal(nakInvReq)
		return
	}
	if imm && !o.take() {
		if first {
			o.msg = idle
		}
		return
	}
	if n > 0 {
		g := &o.regs[o.reg]
		copy(g.mem[int(o.va-g.addr)+o.off:], p.Payload[:n])
	}
	o.accepted(p, n, last)
	if last && imm {
		o.received(p, int(o.dlen), true)
	}
}

// compare says what is otherwise than the oracle has it.
func (o *oracle) compare(r *Rig, w *want) error {
	got := r.seen
	if len(got) == 0 && w.silence {
		w.answers = nil
	}
	for i, a := range w.answers {
		if i >= len(got) {
			return fmt.Errorf("%d answers, want %d: next %s", len(got), len(w.answers), a)
		}
		p := &got[i]
		if p.PSN != a.psn {
			return fmt.Errorf("answer %s, want %s", Format(p), a)
		}
		if a.syn == nil {
			if p.Opcode != a.op || !bytes.Equal(p.Payload[:len(p.Payload)-int(p.Pad)], a.data) {
				return fmt.Errorf("answer %s, want %s", Format(p), a)
			}
			continue
		}
		syn := p.Syndrome
		if syn < softroce.SynRNR {
			syn = softroce.SynAck // credits
		}
		if p.Opcode != softroce.OpcAck || !slices.Contains(a.syn, syn) {
			return fmt.Errorf("answer %s, want %s", Format(p), a)
		}
	}
	if len(got) > len(w.answers) {
		return fmt.Errorf("an answer too many: %s", Format(&got[len(w.answers)]))
	}
	if state := r.qp.Query().State; (state == verbs.Error) != w.dead {
		return fmt.Errorf("the queue pair is in %v", state)
	}
	wcs, err := r.completions()
	if err != nil {
		return err
	}
	for i, c := range wcs {
		if i >= len(w.wcs) {
			return fmt.Errorf("completion %+v of nothing", c)
		}
		x := w.wcs[i]
		if c.ID != x.ID || c.Status != x.Status || x.Status == verbs.Success && (c.ByteLen != x.ByteLen || c.Flags != x.Flags || c.Imm != x.Imm) {
			return fmt.Errorf("completion %+v, want %+v", c, x)
		}
	}
	if len(wcs) < len(w.wcs) {
		return fmt.Errorf("no completion, want %+v", w.wcs[len(wcs)])
	}
	return o.memory(r)
}

// memory compares every byte.
func (o *oracle) memory(r *Rig) error {
	for i := range o.regs {
		b := r.mr[i].Bytes()
		if bytes.Equal(b, o.regs[i].mem[:]) {
			continue
		}
		for k := range b {
			if b[k] != o.regs[i].mem[k] {
				return fmt.Errorf("byte %d of region %s is %#x, want %#x", k, regionNames[i], b[k], o.regs[i].mem[k])
			}
		}
	}
	return nil
}
