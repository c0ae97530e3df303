package softroce

import (
	"sync/atomic"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// requester is the sending half of a queue pair. Send queue entries are counted
// without end: head <= una... <= next <= tail.
//
//	head    oldest entry without a completion
//	next    entry to be sent next, from its packet nextPkt on
type requester struct {
	postState atomic.Uint32
	recvState atomic.Uint32

	sq       []sendWQE
	next     uint64
	nextPkt  uint32
	hi       uint64 // highest next so far: what was sent before going back
	ackSeen  uint64 // of ackIn
	sendPSN  uint32 // of the next new entry
	readsOut int    // READs sent and not answered
	unacked  int    // packets since the last acknowledgement request

	retries    int
	rnrRetries int
	rnrUntil   sched.Time // hold until then; 0 no
	rewound    bool       // already went back to una; until progress
	timerSet   bool
	progress   sched.Time // of the latest acknowledgement
}

// ackEvery is after how many packets an acknowledgement is asked for within a message.
const ackEvery = 64

// window bounds the packets that are not acknowledged, far below half the PSN space.
const window = 1 << 14

func (q *qp) wqe(i uint64) *sendWQE { return &q.sq[i&uint64(len(q.sq)-1)] }

// send starts and sends what the rules allow, up to tail.
func (q *qp) send(tail uint64) {
	if q.state == verbs.Error {
		q.flushSends(tail)
		q.flushRecvs()
		return
	}
	if q.state != verbs.RTS || q.rnrUntil != 0 {
		return
	}
	if n := tail - q.head.Load(); n > q.st.sqMax {
		q.st.sqMax = n
	}
	q.sendMore(tail)
	q.hi = max(q.hi, q.next)
	if h := q.head.Load(); h < q.sentTo() {
		q.armTimer()
		if tail-h > uint64(q.init.MaxSendWR)/2 {
			q.wantAck()
		}
	}
}

// wantAck lets acknowledgements wake the engine; one may be there already.
func (q *qp) wantAck() {
	if q.needAck.Load() {
		return
	}
	q.needAck.Store(true)
	q.takeAck()
}

func (q *qp) sendMore(tail uint64) {
	for q.next < tail && q.state == verbs.RTS {
		e := q.wqe(q.next)
		if !e.begun && !q.begin(e) {
			return
		}
		if e.bad != verbs.Success {
			// Earlier work must be answered first.
			if q.next == q.head.Load() {
				q.failHead(e.bad)
			} else {
				q.wantAck()
			}
			return
		}
		if e.done { // executed here, or acknowledged before we went back
			q.next, q.nextPkt = q.next+1, 0
			q.retire()
			continue
		}
		if int(psnDiff(e.psn+q.nextPkt, q.oldestPSN())) > window {
			return
		}
		if e.wr.Op == verbs.OpRDMARead {
			if q.readsOut >= q.attr.ORD {
				return
			}
			q.sendRead(e)
			continue
		}
		if !q.sendPackets(e) {
			return
		}
	}
}

// sentTo is the end of the entries of which anything was sent.
func (q *qp) sentTo() uint64 {
	hi := max(q.hi, q.next)
	if hi == q.next && q.nextPkt > 0 {
		hi++
	}
	return hi
}

// oldestPSN is that of the oldest entry without a completion.
func (q *qp) oldestPSN() uint32 {
	h := q.head.Load()
	if h == q.next {
		return q.sendPSN
	}
	for i := h; i < q.next; i++ {
		if e := q.wqe(i); e.usesWire() {
			return e.psn
		}
	}
	return q.sendPSN
}

// begin resolves an entry's memory and gives it its PSNs, or executes it. False: not yet.
func (q *qp) begin(e *sendWQE) bool {
	if e.wr.Flags&verbs.Fence != 0 && q.readsOut > 0 {
		return false
	}
	e.begun = true
	e.msg.reset(&q.flight)
	switch e.wr.Op {
	case verbs.OpLocalInv:
		q.st.localInv++
		e.done = true
		if q.dev.invalidate(q, e.wr.InvKey) != fine {
			e.bad = verbs.MWBindErr
		}
		return true
	case verbs.OpRegMR:
		q.st.regMR++
		e.done = true
		if e.wr.Reg.(*fastMR).register(q, e.wr.Key, e.wr.Access) != fine {
			e.bad = verbs.MWBindErr
		}
		return true
	case verbs.OpBindMW:
		q.st.bindMW++
		e.done = true
		if e.wr.MW.(*mw).bind(q, e.wr.Key, &e.wr.Bind) != fine {
			e.bad = verbs.MWBindErr
		}
		return true
	}
	if e.wr.Flags&verbs.Inline != 0 {
		if len(e.msg.buf) > 0 {
			e.msg.add(seg{e.msg.buf, &q.flight, e.msg.gen})
		}
	} else {
		var need verbs.Access
		if e.wr.Op == verbs.OpRDMARead {
			need = verbs.LocalWrite
			if q.dev.attr.Transport == verbs.IWARP {
				need |= verbs.RemoteWrite
			}
		}
		for i := range e.sges {
			s := &e.sges[i]
			if s.Length == 0 {
				continue
			}
			if q.dev.span(&e.msg, q, s.LKey, s.Addr, s.Length, need) != fine {
				e.bad = verbs.LocProtErr
				return true
			}
		}
	}
	e.psn = q.sendPSN
	e.npkt = max((e.msg.n+q.mtu-1)/q.mtu, 1)
	q.sendPSN = (q.sendPSN + e.npkt) & psnMask
	switch e.wr.Op {
	case verbs.OpRDMARead:
		q.st.reads++
		q.st.readBytes += uint64(e.msg.n)
	case verbs.OpRDMAWrite, verbs.OpRDMAWriteWithImm:
		q.st.writes++
		q.st.writeBytes += uint64(e.msg.n)
	default:
		q.st.sends++
		q.st.sendBytes += uint64(e.msg.n)
	}
	return true
}

// sendRead sends the request for what is missing of a READ.
func (q *qp) sendRead(e *sendWQE) {
	off := q.nextPkt * q.mtu
	q.emit(&packet{
		kind: pkReadReq, flags: pfFirst | pfLast, psn: (e.psn + q.nextPkt) & psnMask,
		va: e.wr.RemoteAddr + uint64(off), rkey: e.wr.RKey, dlen: e.msg.n - off,
	})
	q.readsOut++
	q.st.readsOutMax = max(q.st.readsOutMax, uint64(q.readsOut))
	q.next++
	q.nextPkt = 0
}

// sendPackets sends the packets of a SEND or WRITE; false: the window is full.
func (q *qp) sendPackets(e *sendWQE) bool {
	oldest := q.oldestPSN()
	for k := q.nextPkt; k < e.npkt; k++ {
		if int(psnDiff(e.psn+k, oldest)) > window {
			q.nextPkt = k
			return false
		}
		p := packet{psn: (e.psn + k) & psnMask, src: &e.msg, off: k * q.mtu}
		p.n = min(q.mtu, e.msg.n-p.off)
		if k == 0 {
			p.flags |= pfFirst
		}
		switch e.wr.Op {
		case verbs.OpSend, verbs.OpSendWithImm:
			p.kind = pkSend
		case verbs.OpSendWithInv:
			p.kind = pkSendInv
			p.imm = e.wr.InvKey
		default:
			p.kind = pkWrite
			if k == 0 {
				p.va, p.rkey, p.dlen = e.wr.RemoteAddr, e.wr.RKey, e.msg.n
			}
		}
		q.unacked++
		if k == e.npkt-1 {
			p.flags |= pfLast | pfAckReq
			if e.wr.Op == verbs.OpSendWithImm || e.wr.Op == verbs.OpRDMAWriteWithImm {
				p.flags |= pfImm
				p.imm = e.wr.Imm
			}
			if e.wr.Flags&verbs.Solicited != 0 {
				p.flags |= pfSolicited
			}
		}
		if q.unacked >= ackEvery {
			p.flags |= pfAckReq
		}
		if p.flags&pfAckReq != 0 {
			q.unacked = 0
		}
		q.emit(&p)
	}
	q.next++
	q.nextPkt = 0
	if e.wr.Flags&verbs.Signaled != 0 || q.init.SignalAll {
		q.wantAck()
	}
	return true
}

// retire gives the completions of the answered entries at the head, in order.
func (q *qp) retire() {
	h := q.head.Load()
	for h < q.next {
		e := q.wqe(h)
		if !e.done {
			break
		}
		if e.wr.Flags&verbs.Signaled != 0 || q.init.SignalAll {
			wc := verbs.WC{ID: e.wr.ID, Op: e.wr.Op}
			if e.wr.Op == verbs.OpRDMARead {
				wc.ByteLen = e.msg.n
			}
			q.complete(q.scq, &wc, false)
		}
		e.wr.MW, e.wr.Reg, e.wr.Bind.MR = nil, nil, nil
		h++
	}
	q.head.Store(h)
	if h == q.next && q.needAck.Load() {
		q.needAck.Store(false)
	}
}

// acked handles an acknowledgement of all PSNs up to psn: those of SENDs and
// WRITEs. A READ is answered by its data only.
func (q *qp) acked(psn uint32) {
	moved := false
	hi := q.sentTo()
	for i := q.head.Load(); i < hi; i++ {
		e := q.wqe(i)
		if !e.usesWire() || e.done {
			continue
		}
		last := (e.psn + e.npkt - 1) & psnMask
		if e.wr.Op == verbs.OpRDMARead {
			if psnDiff(psn, last) >= 0 {
				// The responder went past it: response packets were lost.
				q.rewind(e.psn + e.got)
			}
			break
		}
		if psnDiff(psn, last) < 0 {
			if psnDiff(psn, e.psn) >= 0 {
				moved = true // part of a long message
			}
			break
		}
		e.done = true
		moved = true
		if i >= q.next { // it had arrived before we went back
			q.next, q.nextPkt = i+1, 0
		}
	}
	if moved {
		q.progressed()
		q.retire()
	}
}

func (q *qp) progressed() {
	q.retries, q.rnrRetries = int(q.attr.RetryCnt), int(q.attr.RNRRetry)
	q.rewound = false
	q.progress = q.dev.net.s.Now()
}

// rewind sends again from psn on.
func (q *qp) rewind(psn uint32) {
	if q.rewound {
		return // until an answer comes or the timer
	}
	psn &= psnMask
	q.hi = max(q.hi, q.next)
	for i := q.head.Load(); i < q.sentTo(); i++ {
		e := q.wqe(i)
		if !e.usesWire() || psnDiff(psn, e.psn+e.npkt-1) > 0 {
			continue
		}
		if i > q.next {
			return // it went back further: to a READ that was not answered
		}
		for k := i; k < q.next; k++ {
			if x := q.wqe(k); x.wr.Op == verbs.OpRDMARead && !x.done {
				q.readsOut--
			}
		}
		q.next = i
		q.nextPkt = uint32(max(psnDiff(psn, e.psn), 0))
		q.rewound = true
		q.st.retransmits++
		return
	}
}

// readResponse takes a packet of READ data.
func (q *qp) readResponse(p *packet) {
	// Entries before the READ are acknowledged by it.
	i := q.head.Load()
	var e *sendWQE
	for ; i < q.next; i++ {
		e = q.wqe(i)
		if e.wr.Op == verbs.OpRDMARead && !e.done {
			break
		}
		e = nil
	}
	if e == nil {
		q.st.duplicateReq++
		return
	}
	want := (e.psn + e.got) & psnMask
	switch d := psnDiff(p.psn, want); {
	case d < 0:
		return // seen before
	case d > 0:
		q.st.rcvdSeqErr++
		q.rewind(want)
		return
	}
	off := e.got * q.mtu
	if off+p.n > e.msg.n || (p.flags&pfLast != 0) != (e.got == e.npkt-1) {
		q.failAt(i, verbs.BadRespErr)
		return
	}
	switch copyTo(e.msg.seek(off), p.src, p.off, p.n) {
	case srcGone:
		q.st.lostSource++
		return // lost; the timer or the next packet asks again
	case dstGone:
		q.failAt(i, verbs.LocProtErr)
		return
	}
	e.got++
	if q.head.Load() < i {
		q.acked((e.psn - 1) & psnMask)
	}
	q.progressed()
	if e.got == e.npkt {
		e.done = true
		q.readsOut--
		q.retire()
	}
}

// nakked handles a NAK for psn: all before it has arrived.
func (q *qp) nakked(p *packet) {
	if psnDiff(p.psn, q.oldestPSN()) < 0 {
		return
	}
	q.acked((p.psn - 1) & psnMask)
	switch p.nak {
	case nakPSN:
		q.st.rcvdSeqErr++
		q.rewound = false
		q.rewind(p.psn)
	case nakRNR:
		q.st.rcvdRNR++
		if q.attr.RNRRetry != 7 {
			if q.rnrRetries == 0 {
				q.st.rnrExceeded++
				q.failPSN(p.psn, verbs.RNRRetryExcErr)
				return
			}
			q.rnrRetries--
		}
		q.rewound = false
		q.rewind(p.psn)
		d := rnrDelay(p.rnr)
		q.rnrUntil = q.dev.net.s.Now().Add(d)
		q.timer.Reset(d)
		q.timerSet = true
	case nakInvReq:
		q.failPSN(p.psn, verbs.RemInvReqErr)
	case nakRemAccess:
		q.failPSN(p.psn, verbs.RemAccessErr)
	default:
		q.failPSN(p.psn, verbs.RemOpErr)
	}
}

// armTimer sets the retry timer if it is not running. It runs on over
// acknowledgements and looks at the time of the latest when it fires.
func (q *qp) armTimer() {
	if q.timerSet || q.attr.Timeout == 0 {
		return
	}
	q.timerSet = true
	q.progress = q.dev.net.s.Now()
	q.timer.Reset(ackTimeout(q.attr.Timeout))
}

// ackTimeout is 4.096 us x 2^n (IB specification 9.7.6.1.3).
func ackTimeout(n uint8) sched.Duration { return 4096 * sched.Nanosecond << (n & 31) }

// timeout runs when the timer fired: after an RNR NAK, or without an answer.
func (q *qp) timeout() {
	q.timerSet = false
	if q.state != verbs.RTS {
		return
	}
	now := q.dev.net.s.Now()
	if q.rnrUntil != 0 {
		if now < q.rnrUntil {
			q.timer.Reset(q.rnrUntil.Sub(now))
			q.timerSet = true
			return
		}
		q.rnrUntil = 0
		q.rewound = false
		return // send goes on
	}
	if q.head.Load() == q.sentTo() {
		return
	}
	d := ackTimeout(q.attr.Timeout)
	if gone := now.Sub(q.progress); gone < d {
		q.timer.Reset(d - gone)
		q.timerSet = true
		return
	}
	q.st.timeouts++
	if q.retries == 0 {
		q.st.retryExceeded++
		q.failHead(verbs.RetryExcErr)
		return
	}
	q.retries--
	q.rewound = false
	for i := q.head.Load(); i < q.sentTo(); i++ {
		if e := q.wqe(i); e.usesWire() && !e.done {
			q.rewind(e.psn + e.got)
			break
		}
	}
	q.rewound = false
	q.progress = now
}

// failPSN fails the entry that psn belongs to.
func (q *qp) failPSN(psn uint32, s verbs.Status) {
	for i := q.head.Load(); i < q.sentTo(); i++ {
		e := q.wqe(i)
		if e.usesWire() && psnDiff(psn, e.psn+e.npkt-1) <= 0 {
			q.failAt(i, s)
			return
		}
	}
}

// failAt completes what came before entry i with success, i with s, and flushes the rest.
func (q *qp) failAt(i uint64, s verbs.Status) {
	for h := q.head.Load(); h < i; h++ {
		if e := q.wqe(h); e.wr.Op == verbs.OpRDMARead && !e.done {
			// A READ before it was not answered: it fails first.
			i = h
		}
	}
	for h := q.head.Load(); h < i; h++ {
		q.wqe(h).done = true
	}
	if q.next <= i {
		q.next = i + 1
	}
	q.wqe(i).done = false
	q.retire()
	q.failHead(s)
}

// failHead completes the oldest entry with s and moves to ERR.
func (q *qp) failHead(s verbs.Status) {
	h := q.head.Load()
	e := q.wqe(h)
	q.st.sendErr++
	q.endFlight()
	q.complete(q.scq, &verbs.WC{ID: e.wr.ID, Status: s, Op: e.wr.Op}, true)
	q.head.Store(h + 1)
	q.next = max(q.next, h+1)
	q.becomeError()
}

// flushSends completes all that is posted with WRFlushErr.
func (q *qp) flushSends(tail uint64) {
	h := q.head.Load()
	for ; h < tail; h++ {
		e := q.wqe(h)
		if e.done {
			if e.wr.Flags&verbs.Signaled != 0 || q.init.SignalAll {
				q.complete(q.scq, &verbs.WC{ID: e.wr.ID, Op: e.wr.Op, ByteLen: e.msg.n}, false)
			}
		} else {
			q.complete(q.scq, &verbs.WC{ID: e.wr.ID, Status: verbs.WRFlushErr, Op: e.wr.Op}, true)
		}
		e.wr.MW, e.wr.Reg, e.wr.Bind.MR = nil, nil, nil
		e.done = false
	}
	q.head.Store(h)
	q.next, q.nextPkt, q.hi = h, 0, h
	q.readsOut = 0
}
