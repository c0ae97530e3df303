package softroce

import (
	"fmt"
	"sync"

	"example.org/nfsrdma/internal/link"
)

// kind is a packet's operation. Position in the message (first, middle, last,
// only) is in the flags, as in the BTH opcode.
type kind uint8

const (
	pkSend kind = iota
	pkSendInv
	pkWrite
	pkReadReq
	pkReadResp
	pkAck
	pkNak
	pkInvalid // a request that is none of these
)

var kindNames = [...]string{"SEND", "SEND_INV", "WRITE", "READ_REQUEST", "READ_RESPONSE", "ACK", "NAK", "INVALID"}

type pflags uint8

const (
	pfFirst pflags = 1 << iota
	pfLast
	pfAckReq
	pfSolicited
	pfImm
	pfBad      // its ICRC is wrong
	pfNotReady // its receiver has no receive
)

// nakCode is the reason in a NAK's syndrome (IB specification 9.7.5.2.8).
type nakCode uint8

const (
	nakPSN nakCode = iota
	nakInvReq
	nakRemAccess
	nakRemOp
	nakRNR
)

var nakNames = [...]string{"PSN sequence error", "invalid request", "remote access error", "remote operational error", "RNR"}

// packet is what crosses the wire: headers by value, payload by reference.
type packet struct {
	dst   *qp
	from  *qp
	src   *message
	va    uint64 // WRITE first, READ request
	id    uint32 // of src
	psn   uint32
	rkey  uint32
	dlen  uint32 // of the whole message: WRITE first, READ request
	imm   uint32 // or the key to invalidate
	off   uint32 // of the payload in src
	n     uint32 // payload bytes
	kind  kind
	flags pflags
	nak   nakCode
	rnr   uint8 // timer code of an RNR NAK
}

func (p *packet) String() string {
	s := fmt.Sprintf("%s->%s %s", p.from.dev.name, p.dst.dev.name, kindNames[p.kind])
	first, last := p.flags&pfFirst != 0, p.flags&pfLast != 0
	switch p.kind {
	case pkReadReq, pkAck, pkNak: // always one packet
	default:
		s += map[[2]bool]string{{true, true}: " only", {true, false}: " first", {false, true}: " last", {false, false}: " middle"}[[2]bool{first, last}]
	}
	s += fmt.Sprintf(" psn %d", p.psn)
	switch p.kind {
	case pkWrite, pkReadReq:
		if first {
			s += fmt.Sprintf(" va %#x rkey %#x dlen %d", p.va, p.rkey, p.dlen)
		}
	case pkSendInv:
		if last {
			s += fmt.Sprintf(" inv %#x", p.imm)
		}
	case pkNak:
		s += " " + nakNames[p.nak]
		if p.nak == nakRNR {
			s += fmt.Sprintf(" timer %d", p.rnr)
		}
	}
	if p.flags&pfImm != 0 {
		s += fmt.Sprintf(" imm %#x", p.imm)
	}
	if p.n > 0 {
		s += fmt.Sprintf(" payload %d", p.n)
	}
	if p.flags&pfSolicited != 0 {
		s += " solicited"
	}
	if p.flags&pfAckReq != 0 {
		s += " ack"
	}
	return s
}

// size is the payload on the wire: what is carried beside the per-packet overhead.
func (p *packet) size() int {
	n := int(p.n)
	if p.kind == pkReadReq || p.kind == pkWrite && p.flags&pfFirst != 0 {
		n += 16 // RETH
	}
	return n
}

// flying is a packet on a modelled link.
type flying struct{ p [1]packet }

// flyingPool is for networks that are live. In virtual time each has its own list.
var flyingPool = sync.Pool{New: func() any { return new(flying) }}

func (n *Network) fly(p *packet) *flying {
	var f *flying
	if k := len(n.landed); k > 0 {
		f = n.landed[k-1]
		n.landed = n.landed[:k-1]
	} else {
		f = flyingPool.Get().(*flying)
	}
	f.p[0] = *p
	return f
}

// Fire is the packet's arrival.
func (f *flying) Fire() {
	q := f.p[0].dst
	if q.pending.CompareAndSwap(0, 1) {
		q.loop(f.p[:], nil)
		f.Drop()
		return
	}
	q.postMu.Lock()
	q.mail = append(q.mail, f.p[0])
	q.mailed.Store(true)
	q.postMu.Unlock()
	f.Drop()
	q.kick()
}

// Clone implements link.Packet.
func (f *flying) Clone() link.Packet { return f.p[0].from.dev.net.fly(&f.p[0]) }

// Drop implements link.Packet.
func (f *flying) Drop() {
	n := f.p[0].from.dev.net
	f.p[0] = packet{}
	if n.s.Virtual() {
		n.landed = append(n.landed, f)
	} else {
		flyingPool.Put(f)
	}
}

const psnMask = 1<<24 - 1

// psnDiff is a-b in the 24-bit sequence space: negative if a is before b.
func psnDiff(a, b uint32) int32 { return int32((a-b)<<8) >> 8 }
