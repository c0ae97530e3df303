package softroce

import (
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// responder is the receiving half of a queue pair.
type responder struct {
	rcvPSN  uint32 // expected
	nakSent bool   // a sequence NAK is out; no more until the PSN comes
	ackDue  bool

	inMsg  kind // of the message being received, while more is true
	more   bool
	recv   recvWQE
	has    bool // recv holds a receive
	sink   message
	off    uint32 // received of the message
	wrKey  uint32 // WRITE
	wrAddr uint64
	wrLen  uint32

	reads   []readSlot // IRD of them
	readPos int
	arrived int         // READ requests accepted in this run
	reply   []*readSlot // to be answered
	// Answered in this run; of the runner alone, which notes when they leave the port.
	leaving []*readSlot
}

// readSlot is a responder resource: a READ that is being answered.
type readSlot struct {
	msg   message
	psn   uint32
	npkt  uint32
	left  sched.Time // when its last packet leaves the port
	spare bool       // of a repeated request
}

// receive takes a packet.
func (q *qp) receive(p *packet) {
	if q.closed || p.from != q.peer || q.state == verbs.Reset || q.state == verbs.Init || q.state == verbs.Error {
		if q.raw != nil {
			q.raw.seen(p)
		}
		return
	}
	if p.flags&pfBad != 0 && !isPlanted(BugICRC) {
		q.st.icrcErr++
		return
	}
	q.st.rcvdPkts++
	switch p.kind {
	case pkAck:
		if q.sends() {
			q.acked(p.psn)
		}
	case pkNak:
		if q.sends() {
			q.nakked(p)
		}
	case pkReadResp:
		if q.sends() {
			q.readResponse(p)
		}
	default:
		q.request(p)
	}
}

// request takes a request packet: in order, seen before, or after a gap.
func (q *qp) request(p *packet) {
	switch d := psnDiff(p.psn, q.rcvPSN); {
	case d > 0 && !isPlanted(BugPSN):
		q.st.outOfSeqReq++
		if !q.nakSent {
			q.nakSent = true
			q.st.sentSeqErr++
			q.nakAt(q.rcvPSN, nakPSN, 0)
		}
		return
	case d < 0:
		q.st.duplicateReq++
		q.duplicate(p)
		return
	}
	q.nakSent = false
	switch p.kind {
	case pkReadReq:
		q.readRequest(p)
	case pkWrite:
		q.writePacket(p)
	case pkInvalid:
		q.refuse(nakInvReq)
	default:
		q.sendPacket(p)
	}
}

// duplicate answers a request that was executed: a READ again, others with an
// acknowledgement.
func (q *qp) duplicate(p *packet) {
	switch p.kind {
	case pkReadReq:
	case pkInvalid:
		return // none such was executed
	default:
		q.ackDue = true
		return
	}
	s := &readSlot{psn: p.psn, npkt: q.packets(p.dlen), spare: true}
	if psnDiff(p.psn+s.npkt, q.rcvPSN) > 0 {
		return // more than was asked for then
	}
	s.msg.reset(&q.served)
	if p.dlen > 0 && q.dev.span(&s.msg, q, q.pd, p.rkey, p.va, p.dlen, byPeer|verbs.RemoteRead) != fine {
		return // what it named is gone: a late copy
	}
	q.reply = append(q.reply, s)
}

// advance accepts n PSNs.
func (q *qp) advance(n uint32) { q.rcvPSN = (q.rcvPSN + n) & psnMask }

func (q *qp) nakAt(psn uint32, code nakCode, rnr uint8) {
	q.flushAck()
	q.answerReads() // answers go in order of PSN
	p := q.packet(pkNak)
	p.psn, p.nak, p.rnr = psn, code, rnr
}

// refuse answers a request with a fatal NAK and fails the queue pair.
func (q *qp) refuse(code nakCode) {
	q.nakAt(q.rcvPSN, code, 0)
	switch code {
	case nakRemAccess:
		q.st.accessErr++
		q.asyncEvent(verbs.EventQPAccessErr)
	case nakInvReq:
		q.st.reqErr++
		q.asyncEvent(verbs.EventQPReqErr)
	default:
		q.asyncEvent(verbs.EventQPFatal)
	}
	q.becomeError()
}

// sequenceOK checks first, middle and last against the message under way.
func (q *qp) sequenceOK(p *packet) bool {
	first := p.flags&pfFirst != 0
	if first == q.more || !first && q.inMsg != p.kind && (q.inMsg != pkSend || p.kind != pkSendInv) {
		return isPlanted(BugOrder)
	}
	return p.n == q.mtu || p.flags&pfLast != 0 && p.n < q.mtu && (p.n > 0 || first)
}

// takeRecv gets a receive for the message, or answers that none is there.
func (q *qp) takeRecv() bool {
	if q.has {
		return true
	}
	ok, low := q.rq.take(&q.recv)
	if low {
		q.outbox.events = append(q.outbox.events, asyncEvent{srq: q.srq, typ: uint8(verbs.EventSRQLimitReached)})
	}
	if ok {
		q.has = true
		return true
	}
	q.notReadyHere()
	return false
}

// notReadyHere answers a SEND that finds no receive.
func (q *qp) notReadyHere() {
	if q.dev.attr.Caps&verbs.CapRNR == 0 {
		// iWARP has no such answer: the stream is terminated.
		q.refuse(nakRemOp)
		return
	}
	q.st.sentRNR++
	q.nakAt(q.rcvPSN, nakRNR, q.attr.MinRNR)
	q.nakSent = true // what follows is dropped without a NAK
}

func (q *qp) sendPacket(p *packet) {
	if !q.sequenceOK(p) {
		q.refuse(nakInvReq)
		return
	}
	if p.flags&pfFirst != 0 {
		if p.flags&pfNotReady != 0 {
			q.notReadyHere()
			return
		}
		if !q.takeRecv() {
			return
		}
		q.sink.reset(&q.served)
		for i := range q.recv.sges {
			s := &q.recv.sges[i]
			if s.Length == 0 {
				continue
			}
			if q.dev.span(&q.sink, q, q.recvPD, s.LKey, s.Addr, s.Length, verbs.LocalWrite) != fine {
				q.failRecv(verbs.LocProtErr, nakRemOp)
				return
			}
		}
		q.off = 0
		q.more, q.inMsg = true, p.kind
	}
	if q.off+p.n > q.sink.n {
		q.failRecv(verbs.LocLenErr, nakInvReq)
		return
	}
	if !q.place(q.sink.seek(q.off), p, verbs.LocProtErr) {
		return
	}
	q.off += p.n
	q.accept(p)
	if p.flags&pfLast == 0 {
		return
	}
	wc := verbs.WC{ID: q.recv.id, Op: verbs.OpRecv, ByteLen: q.off}
	if p.kind == pkSendInv {
		if q.dev.invalidate(q, p.imm) != fine {
			// The message is executed, but the key cannot be invalidated: a remote access error.
			q.rcvPSN = (q.rcvPSN - 1) & psnMask
			q.ackDue = false
			q.failRecv(verbs.LocAccessErr, nakRemAccess)
			return
		}
		q.st.remoteInv++
		wc.Flags |= verbs.WCWithInv
		wc.InvKey = p.imm
	}
	q.received(p, &wc)
}

// received completes a receive.
func (q *qp) received(p *packet, wc *verbs.WC) {
	if p.flags&pfImm != 0 {
		wc.Flags |= verbs.WCWithImm
		wc.Imm = p.imm
	}
	q.st.recvs++
	q.has = false
	q.complete(q.rcq, wc, p.flags&pfSolicited != 0)
}

// place copies a packet's payload; false: the packet was lost or the queue pair failed.
func (q *qp) place(dst cursor, p *packet, local verbs.Status) bool {
	if p.n == 0 {
		return true
	}
	switch q.copyTo(dst, p) {
	case srcGone:
		// As if it had not come; what follows will be out of sequence.
		q.st.lostSource++
		if p.flags&pfFirst != 0 {
			q.more = false
		}
		return false
	case dstGone:
		if p.kind == pkWrite {
			q.refuse(nakRemAccess)
		} else {
			q.failRecv(local, nakRemOp)
		}
		return false
	}
	return true
}

// failRecv completes the receive at hand with s and answers with code.
func (q *qp) failRecv(s verbs.Status, code nakCode) {
	q.complete(q.rcq, &verbs.WC{ID: q.recv.id, Status: s, Op: verbs.OpRecv}, true)
	q.has = false
	q.refuse(code)
}

// accept moves on by one packet, and owes an acknowledgement where one is asked for.
func (q *qp) accept(p *packet) {
	q.advance(1)
	if p.flags&pfLast != 0 {
		q.more = false
	}
	if p.flags&pfAckReq != 0 {
		if q.ackDue {
			q.st.ackDeferred++
		}
		q.ackDue = true
	}
}

func (q *qp) writePacket(p *packet) {
	if !q.sequenceOK(p) {
		q.refuse(nakInvReq)
		return
	}
	first, last := p.flags&pfFirst != 0, p.flags&pfLast != 0
	if first {
		if q.attr.Access&verbs.RemoteWrite == 0 && p.dlen > 0 {
			q.refuse(nakInvReq)
			return
		}
		if p.dlen > q.dev.attr.MaxMsgSize {
			q.refuse(nakInvReq)
			return
		}
		q.off, q.wrKey, q.wrAddr, q.wrLen = 0, p.rkey, p.va, p.dlen
		q.sink.reset(&q.served)
		if p.dlen > 0 {
			if q.dev.span(&q.sink, q, q.pd, p.rkey, p.va, p.dlen, byPeer|verbs.RemoteWrite) != fine {
				q.refuse(nakRemAccess)
				return
			}
		}
		q.more, q.inMsg = true, p.kind
	}
	if q.off+p.n > q.wrLen || last && q.off+p.n != q.wrLen {
		q.refuse(nakInvReq)
		return
	}
	imm := last && p.flags&pfImm != 0
	if imm && !q.takeRecv() {
		if first {
			q.more = false
		}
		return
	}
	if !q.place(q.sink.seek(q.off), p, verbs.LocProtErr) {
		return
	}
	q.off += p.n
	q.accept(p)
	if imm {
		q.received(p, &verbs.WC{ID: q.recv.id, Op: verbs.OpRecvRDMAWithImm, ByteLen: q.wrLen})
	}
}

func (q *qp) readRequest(p *packet) {
	if q.more {
		q.refuse(nakInvReq)
		return
	}
	if q.attr.Access&verbs.RemoteRead == 0 {
		q.refuse(nakInvReq)
		return
	}
	if len(q.reads) == 0 || p.dlen > q.dev.attr.MaxMsgSize {
		q.refuse(nakInvReq)
		return
	}
	// One more than IRD at the same time is an invalid request: those of this run,
	// or those whose answers have not left the port.
	s := &q.reads[q.readPos]
	if (q.arrived >= len(q.reads) || q.pipe != nil && s.left > q.dev.net.s.Now()) && !isPlanted(BugIRD) {
		q.refuse(nakInvReq)
		return
	}
	s.msg.disown()
	q.leave()
	if q.sec.live { // a peer that asks for more than was agreed may be copying from it
		p.from.section.wait()
	}
	s.msg.reset(&q.served)
	if p.dlen > 0 {
		if q.dev.span(&s.msg, q, q.pd, p.rkey, p.va, p.dlen, byPeer|verbs.RemoteRead) != fine {
			q.refuse(nakRemAccess)
			return
		}
	}
	q.arrived++
	q.st.respOutMax = max(q.st.respOutMax, uint64(q.arrived))
	q.readPos = (q.readPos + 1) % len(q.reads)
	s.psn = p.psn
	s.npkt = q.packets(p.dlen)
	q.advance(s.npkt)
	q.reply = append(q.reply, s)
}

// respond answers the READs and acknowledges, in order of PSN.
func (q *qp) respond() {
	q.answerReads()
	q.flushAck()
}

func (q *qp) answerReads() {
	for i, s := range q.reply {
		q.reply[i] = nil
		if q.state == verbs.Error {
			continue
		}
		id := s.msg.id.Load()
		for k := range s.npkt {
			p := q.packet(pkReadResp)
			p.psn, p.src, p.id, p.off = (s.psn+k)&psnMask, &s.msg, id, k*q.mtu
			p.n = min(q.mtu, s.msg.n-p.off)
			if k == 0 {
				p.flags |= pfFirst
			}
			if k == s.npkt-1 {
				p.flags |= pfLast
			}
		}
		if q.pipe != nil && !s.spare {
			q.leaving = append(q.leaving, s)
		}
	}
	q.reply = q.reply[:0]
}

// ackValid marks a PSN in qp.ackIn.
const ackValid = 1 << 32

// flushAck acknowledges all that was accepted.
func (q *qp) flushAck() {
	if !q.ackDue {
		return
	}
	q.ackDue = false
	q.answerReads()
	psn := (q.rcvPSN - 1) & psnMask
	if q.pipe == nil && q.peer != nil {
		q.outbox.ack, q.outbox.ackTo = ackValid|uint64(psn), q.peer
		return
	}
	q.packet(pkAck).psn = psn
}
