package softroce

import (
	"sync/atomic"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// requester is the sending half of a queue pair. Send queue entries are counted
// without end: head <= next <= hi <= tail.
//
//	head    oldest entry without a completion
//	next    entry to be sent next, from its packet nextPkt on
//	hi      end of the entries that were sent before going back to next
type requester struct {
	postState atomic.Uint32
	recvState atomic.Uint32

	sq       []sendWQE
	next     uint64
	nextPkt  uint32
	hi       uint64
	drainTo  uint64 // SQD: what was begun ends
	drained  bool   // SQD: it has ended
	ackSeen  uint64 // of ackIn
	waitTo   uint64 // end of the entries whose acknowledgement somebody waits for
	una      uint32 // oldest PSN without an answer
	sendPSN  uint32 // of the next new entry
	readsOut int    // READs sent and not answered
	ordMeter *sched.Meter
	unacked  int // packets since the last acknowledgement request

	retries    int
	rnrRetries int
	rnrUntil   sched.Time // hold until then; 0 no
	rewound    bool       // already went back to una; until progress
	refused    refusal

	timerSet bool
	due      sched.Time // when an answer is late
	moved    bool       // live: an answer came since the timer was set
}

// refusal is a fatal NAK that waits for the answers of READs before it: on a wire that
// reorders it may pass them.
type refusal struct {
	psn    uint32
	status verbs.Status // Success: none
}

// ackEvery is after how many packets an acknowledgement is asked for within a message.
const ackEvery = 64

// window bounds the packets that are not acknowledged, far below half the PSN space.
const window = 1 << 14

func (q *qp) wqe(i uint64) *sendWQE { return &q.sq[i&uint64(len(q.sq)-1)] }

// sends says whether the requester is at work.
func (q *qp) sends() bool { return q.state == verbs.RTS || q.state == verbs.SQD }

// send does what the rules allow of the work up to tail, or flushes it.
func (q *qp) send(tail uint64) {
	if q.sends() && q.rnrUntil == 0 {
		q.sendWork(tail)
	}
	if q.state == verbs.Error { // perhaps only now
		q.flushSends(tail)
		q.flushRecvs()
	}
}

func (q *qp) sendWork(tail uint64) {
	head := q.head.Load()
	if n := tail - head; n > q.st.sqMax {
		q.st.sqMax = n
	}
	idle := head == q.sentTo()
	if q.state == verbs.SQD {
		tail = q.drainTo
	}
	q.sendMore(tail)
	q.hi = max(q.hi, q.next)
	if head = q.head.Load(); head < q.sentTo() {
		q.armTimer(idle)
		if tail-head > uint64(q.init.MaxSendWR)/2 || q.state == verbs.SQD {
			q.wantAck()
		}
		if want := head < q.waitTo; want != q.needAck.Load() && q.pipe == nil {
			q.needAck.Store(want)
		}
	}
	if q.state == verbs.SQD && head == q.drainTo && !q.drained {
		q.drained = true
		q.asyncEvent(verbs.EventSQDrained)
	}
}

// wantAck lets the acknowledgement of what was sent so far wake the engine.
func (q *qp) wantAck() { q.waitTo = q.sentTo() }

func (q *qp) sendMore(tail uint64) {
	for q.next < tail && q.sends() {
		e := q.wqe(q.next)
		if !e.begun && !q.begin(e) {
			return
		}
		if q.next < q.hi && !e.done && e.bad == verbs.Success && !e.msg.alive() {
			e.bad = verbs.LocProtErr // it cannot be sent again
		}
		if e.bad != verbs.Success && !e.done {
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
		if int(psnDiff(e.psn+q.nextPkt, q.una)) > window {
			q.wantAck()
			return
		}
		if e.wr.Op == verbs.OpRDMARead {
			if q.readsOut >= q.attr.ORD {
				e.held = true
				return
			}
			q.sendRead(e)
			continue
		}
		if !q.sendPackets(e) {
			q.wantAck()
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

// begin resolves an entry's memory and gives it its PSNs, or executes it. False: not yet.
func (q *qp) begin(e *sendWQE) bool {
	if e.wr.Flags&verbs.Fence != 0 {
		if q.readsOut > 0 {
			return false
		}
		// The fence of an invalidation is for all earlier work: its memory may be in use.
		if e.wr.Op == verbs.OpLocalInv && q.next != q.head.Load() {
			q.wantAck()
			return false
		}
	}
	e.begun = true
	switch e.wr.Op {
	case verbs.OpLocalInv:
		q.st.localInv++
		q.executed(e, q.dev.invalidate(q, e.wr.InvKey))
		return true
	case verbs.OpRegMR:
		q.st.regMR++
		q.executed(e, e.wr.Reg.(*fastMR).register(q, e.wr.Key, e.wr.Access))
		return true
	case verbs.OpBindMW:
		q.st.bindMW++
		q.executed(e, e.wr.MW.(*mw).bind(q, e.wr.Key, &e.wr.Bind))
		return true
	}
	e.msg.disown()
	e.msg.reset(&q.flight)
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
			if q.dev.span(&e.msg, q, q.pd, s.LKey, s.Addr, s.Length, need) != fine {
				e.bad = verbs.LocProtErr
				return true
			}
		}
	}
	e.psn = q.sendPSN
	e.npkt = q.packets(e.msg.n)
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

// executed ends an entry that has no packets.
func (q *qp) executed(e *sendWQE, w why) {
	e.done = w == fine
	if !e.done {
		e.bad = verbs.MWBindErr
	}
}

// packets is how many of them, and so PSNs, n bytes take.
func (q *qp) packets(n uint32) uint32 { return max((n+q.mtu-1)/q.mtu, 1) }

// sendRead sends the request for what is missing of a READ.
func (q *qp) sendRead(e *sendWQE) {
	off := e.got * q.mtu
	e.from = e.got
	p := q.packet(pkReadReq)
	p.flags, p.psn = pfFirst|pfLast, (e.psn+e.got)&psnMask
	p.va, p.rkey, p.dlen = e.wr.RemoteAddr+uint64(off), e.wr.RKey, e.msg.n-off
	if e.held {
		e.held = false
		q.ordMeter.Waited(q.dev.net.s.Now().Sub(e.posted))
	}
	q.readsOut++
	q.ordMeter.Take(1)
	q.st.readsOutMax = max(q.st.readsOutMax, uint64(q.readsOut))
	q.next, q.nextPkt = q.next+1, 0
}

// sendPackets sends the packets of a SEND or WRITE; false: the window is full.
func (q *qp) sendPackets(e *sendWQE) bool {
	kind := pkWrite
	switch e.wr.Op {
	case verbs.OpSend, verbs.OpSendWithImm:
		kind = pkSend
	case verbs.OpSendWithInv:
		kind = pkSendInv
	}
	id := e.msg.id.Load()
	for k := q.nextPkt; k < e.npkt; k++ {
		if int(psnDiff(e.psn+k, q.una)) > window {
			q.nextPkt = k
			return false
		}
		p := q.packet(kind)
		p.psn, p.src, p.id, p.off = (e.psn+k)&psnMask, &e.msg, id, k*q.mtu
		p.n = min(q.mtu, e.msg.n-p.off)
		if k == 0 {
			p.flags |= pfFirst
			if kind == pkWrite {
				p.va, p.rkey, p.dlen = e.wr.RemoteAddr, e.wr.RKey, e.msg.n
			}
		}
		if kind == pkSendInv {
			p.imm = e.wr.InvKey
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
	}
	q.next, q.nextPkt = q.next+1, 0
	if e.signaled(q) {
		q.wantAck()
	}
	return true
}

// retire gives the completions of the answered entries at the head, in order.
func (q *qp) retire() {
	h := q.head.Load()
	was := h
	for h < q.next {
		e := q.wqe(h)
		if !e.done {
			break
		}
		q.succeed(e)
		h++
	}
	if h != was {
		q.head.Store(h)
	}
}

// succeed completes an entry that is done.
func (q *qp) succeed(e *sendWQE) {
	if e.signaled(q) {
		wc := verbs.WC{ID: e.wr.ID, Op: e.wr.Op}
		if e.wr.Op == verbs.OpRDMARead {
			wc.ByteLen = e.msg.n
		}
		q.complete(q.scq, &wc, false)
	}
	e.forget()
}
