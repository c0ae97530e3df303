package softroce

import (
	"fmt"

	"example.org/nfsrdma/verbs"
)

// RawPacket is a packet of a reliable connection by its fields (IB specification chapter 9), each of which may be wrong.
type RawPacket struct {
	Opcode    uint8 // of the BTH
	PSN       uint32
	DestQP    uint32 // 0: the peer's
	PKey      uint16 // 0: the default, 0xffff
	AckReq    bool
	Solicited bool
	Pad       uint8 // bytes at the end of Payload that are none of the message's, 0 to 3

	VA       uint64 // RETH
	RKey     uint32
	DMALen   uint32
	Syndrome uint8  // AETH
	Imm      uint32 // ImmDt, or the key of IETH
	Payload  []byte // with the pad: a multiple of 4

	BadICRC bool
	Cut     bool // it ends within its headers
}

// Opcodes of reliable connections.
const (
	OpcSendFirst    = 0x00
	OpcSendMiddle   = 0x01
	OpcSendLast     = 0x02
	OpcSendLastImm  = 0x03
	OpcSendOnly     = 0x04
	OpcSendOnlyImm  = 0x05
	OpcWriteFirst   = 0x06
	OpcWriteMiddle  = 0x07
	OpcWriteLast    = 0x08
	OpcWriteLastImm = 0x09
	OpcWriteOnly    = 0x0a
	OpcWriteOnlyImm = 0x0b
	OpcReadRequest  = 0x0c
	OpcReadFirst    = 0x0d // responses
	OpcReadMiddle   = 0x0e
	OpcReadLast     = 0x0f
	OpcReadOnly     = 0x10
	OpcAck          = 0x11
	OpcSendLastInv  = 0x16
	OpcSendOnlyInv  = 0x17
)

// Syndromes of an AETH: the low five bits are credits, the RNR timer, or one of the codes of a NAK.
const (
	SynAck = 0x00
	SynRNR = 0x20
	SynNak = 0x60
)

const defaultPKey = 0xffff

// opcodes says what a packet of each is; those that are not in it are invalid requests.
var opcodes = map[uint8]packet{
	OpcSendFirst: {kind: pkSend, flags: pfFirst}, OpcSendMiddle: {kind: pkSend}, OpcSendLast: {kind: pkSend, flags: pfLast},
	OpcSendLastImm: {kind: pkSend, flags: pfLast | pfImm}, OpcSendOnly: {kind: pkSend, flags: pfFirst | pfLast},
	OpcSendOnlyImm: {kind: pkSend, flags: pfFirst | pfLast | pfImm},
	OpcWriteFirst:  {kind: pkWrite, flags: pfFirst}, OpcWriteMiddle: {kind: pkWrite}, OpcWriteLast: {kind: pkWrite, flags: pfLast},
	OpcWriteLastImm: {kind: pkWrite, flags: pfLast | pfImm}, OpcWriteOnly: {kind: pkWrite, flags: pfFirst | pfLast},
	OpcWriteOnlyImm: {kind: pkWrite, flags: pfFirst | pfLast | pfImm},
	OpcReadRequest:  {kind: pkReadReq, flags: pfFirst | pfLast},
	OpcReadFirst:    {kind: pkReadResp, flags: pfFirst}, OpcReadMiddle: {kind: pkReadResp}, OpcReadLast: {kind: pkReadResp, flags: pfLast},
	OpcReadOnly: {kind: pkReadResp, flags: pfFirst | pfLast}, OpcAck: {kind: pkAck},
	OpcSendLastInv: {kind: pkSendInv, flags: pfLast}, OpcSendOnlyInv: {kind: pkSendInv, flags: pfFirst | pfLast},
}

// opcAtomicAck is a response; requests for atomics are invalid.
const opcAtomicAck = 0x12

// Raw is a peer that sends what it is told.
type Raw struct {
	q, peer *qp
	see     func(RawPacket)
}

// NewRaw makes a raw peer of own, a queue pair in INIT that peer was connected to with Modify. see gets each packet
// that peer sends, within an event: it must not wait. The network must have a link, for a direct wire carries no ACK.
func NewRaw(own, peer verbs.QP, see func(RawPacket)) (*Raw, error) {
	q, _ := own.(*qp)
	p, _ := peer.(*qp)
	if q == nil || p == nil || q.dev.net != p.dev.net || q.dev.net.cfg.Link == nil {
		return nil, fmt.Errorf("softroce: a raw peer needs two queue pairs of one network with a link: %w", verbs.ErrInvalid)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state != verbs.Init {
		return nil, fmt.Errorf("softroce: queue pair %s is in %v, a raw peer's is in INIT: %w", q.init.Name, q.state, verbs.ErrState)
	}
	r := &Raw{q: q, peer: p, see: see}
	q.raw = r
	return r, nil
}

// Send lets packets arrive at the peer, all in one turn of its engine. Payloads are taken by reference until then.
func (r *Raw) Send(list ...RawPacket) {
	ps := make([]packet, 0, len(list))
	for i := range list {
		if p, ok := r.decode(&list[i]); ok {
			ps = append(ps, p)
		}
	}
	if len(ps) > 0 {
		r.peer.offer(ps, r.q)
	}
}

// decode checks what belongs to no queue pair (IB specification 9.6), and drops what fails.
func (r *Raw) decode(w *RawPacket) (packet, bool) {
	pad := uint32(w.Pad & 3)
	n := uint32(len(w.Payload))
	switch {
	case w.Cut, n%4 != 0, pad > n, n > 1<<16:
		return packet{}, false
	case w.DestQP != 0 && w.DestQP != r.peer.num, w.PKey != 0 && w.PKey&0x7fff != defaultPKey&0x7fff:
		return packet{}, false
	case w.Opcode == opcAtomicAck, w.Opcode >= 0x20: // or of another transport
		return packet{}, false
	}
	p, ok := opcodes[w.Opcode]
	if !ok {
		p.kind = pkInvalid
	}
	p.dst, p.from, p.psn = r.peer, r.q, w.PSN&psnMask
	p.va, p.rkey, p.dlen, p.imm = w.VA, w.RKey, w.DMALen, w.Imm
	if w.AckReq {
		p.flags |= pfAckReq
	}
	if w.Solicited {
		p.flags |= pfSolicited
	}
	if w.BadICRC {
		p.flags |= pfBad
	}
	switch p.kind {
	case pkAck:
		return p, p.syndrome(w.Syndrome)
	case pkReadReq:
		if n > 0 {
			p.kind = pkInvalid
		}
		return p, true
	case pkReadResp:
		if p.flags&(pfFirst|pfLast) != 0 && w.Syndrome&0xe0 != SynAck {
			return p, false
		}
	}
	if p.n = n - pad; p.n > 0 {
		m, g := &message{}, &guard{}
		m.reset(&r.q.flight)
		m.add(seg{w.Payload[:p.n], g, g.allow()})
		p.src = m
	}
	return p, true
}

// syndrome makes an ACK what its AETH says; false: a reserved one, which is dropped.
func (p *packet) syndrome(s uint8) bool {
	switch s & 0xe0 {
	case SynAck:
		return true
	case SynRNR:
		p.kind, p.nak, p.rnr = pkNak, nakRNR, s&0x1f
		return true
	case SynNak:
		p.kind, p.nak = pkNak, nakCode(s&0x1f)
		return s&0x1f < uint8(nakRNR)
	}
	return false
}

// seen gives the peer's packet to see.
func (r *Raw) seen(p *packet) {
	w := RawPacket{PSN: p.psn, DestQP: r.q.num, AckReq: p.flags&pfAckReq != 0, Solicited: p.flags&pfSolicited != 0,
		VA: p.va, RKey: p.rkey, DMALen: p.dlen, Imm: p.imm, BadICRC: p.flags&pfBad != 0}
	const shape = pfFirst | pfLast | pfImm
	kind := p.kind
	switch {
	case kind == pkAck:
		w.Opcode, w.Syndrome = OpcAck, SynAck|0x1f
	case kind == pkNak && p.nak == nakRNR:
		w.Opcode, w.Syndrome = OpcAck, SynRNR|p.rnr
	case kind == pkNak:
		w.Opcode, w.Syndrome = OpcAck, SynNak|uint8(p.nak)
	default:
		if kind == pkSendInv && p.flags&pfLast == 0 {
			kind = pkSend
		}
		for o, k := range opcodes {
			if k.kind == kind && k.flags&shape == p.flags&shape {
				w.Opcode = o
			}
		}
	}
	if p.n > 0 {
		w.Pad = uint8(-p.n & 3)
		w.Payload = make([]byte, p.n+uint32(w.Pad))
		m, g := &message{}, &guard{}
		m.add(seg{w.Payload, g, g.allow()})
		if r.q.copyTo(m.seek(0), p) != copied {
			return // its memory is gone
		}
	}
	r.see(w)
}
