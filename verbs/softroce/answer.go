package softroce

import "example.org/nfsrdma/verbs"

// acked handles an acknowledgement of all PSNs up to psn: those of SENDs and
// WRITEs. A READ is answered by its data only.
func (q *qp) acked(psn uint32) {
	if psnDiff(psn, q.una) < 0 || psnDiff(psn, q.sendPSN) >= 0 {
		return // seen before, or of what was not sent
	}
	hi := q.sentTo()
	una := q.una
	for i := q.head.Load(); i < hi; i++ {
		e := q.wqe(i)
		if e.done || !e.usesWire() {
			continue
		}
		if e.wr.Op == verbs.OpRDMARead {
			if psnDiff(psn, e.psn+e.npkt-1) >= 0 {
				// The responder went past it: response packets were lost, or are late.
				q.rewind(e.psn + e.got)
			}
			break
		}
		if psnDiff(psn, e.psn+e.npkt-1) < 0 {
			if psnDiff(psn, e.psn) >= 0 { // part of a long message
				una = (psn + 1) & psnMask
				if i == q.next {
					q.nextPkt = max(q.nextPkt, uint32(psnDiff(una, e.psn)))
				}
			}
			break
		}
		e.done = true
		una = (e.psn + e.npkt) & psnMask
		if i >= q.next { // it had arrived before we went back
			q.next, q.nextPkt = i+1, 0
		}
	}
	q.answered(una)
}

// answered notes that all PSNs before una have their answer, and completes what it can.
func (q *qp) answered(una uint32) {
	if una == q.una {
		return
	}
	q.una = una
	q.retries, q.rnrRetries = int(q.attr.RetryCnt), int(q.attr.RNRRetry)
	q.rewound = false
	q.retire()
	if q.refused.status != verbs.Success && q.refused.psn == una {
		q.failPSN(una, q.refused.status)
		return
	}
	q.touch()
}

// readResponse takes a packet of READ data.
func (q *qp) readResponse(p *packet) {
	// Entries before the READ are acknowledged by it.
	i, hi := q.head.Load(), q.sentTo()
	var e *sendWQE
	for ; i < hi; i++ {
		e = q.wqe(i)
		if e.wr.Op == verbs.OpRDMARead && !e.done {
			break
		}
		e = nil
	}
	if e == nil || !e.begun {
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
	last := e.got == e.npkt-1
	order := e.got > 0 // a middle or last one may be of an earlier request
	if p.flags&pfFirst != 0 {
		order = e.got == e.from
	}
	if !order || (p.flags&pfLast != 0) != last || p.n != min(q.mtu, e.msg.n-off) {
		q.failAt(i, verbs.BadRespErr)
		return
	}
	switch q.copyTo(e.msg.seek(off), p) {
	case srcGone:
		q.st.lostSource++
		return // lost; the timer or the next packet asks again
	case dstGone:
		q.failAt(i, verbs.LocProtErr)
		return
	}
	e.got++
	if q.head.Load() < i {
		if q.acked((e.psn - 1) & psnMask); !q.sends() {
			return
		}
	}
	if last {
		e.done = true
		if i < q.next {
			q.readsOut--
			q.ordMeter.Give(1)
		} else { // it was to be sent again, and need not be
			q.next, q.nextPkt = i+1, 0
		}
	}
	q.answered((want + 1) & psnMask)
}

// nakked handles a NAK for psn: all before it has arrived.
func (q *qp) nakked(p *packet) {
	if psnDiff(p.psn, q.una) < 0 || psnDiff(p.psn, q.sendPSN) >= 0 {
		return
	}
	q.acked((p.psn - 1) & psnMask)
	if !q.sends() {
		return
	}
	switch p.nak {
	case nakPSN:
		q.st.rcvdSeqErr++
		q.rewind(p.psn)
	case nakRNR:
		q.notReady(p)
	case nakInvReq:
		q.refusedBy(p.psn, verbs.RemInvReqErr)
	case nakRemAccess:
		q.refusedBy(p.psn, verbs.RemAccessErr)
	default:
		q.refusedBy(p.psn, verbs.RemOpErr)
	}
}

// notReady waits as an RNR NAK asks, and then sends again.
func (q *qp) notReady(p *packet) {
	if q.rnrUntil != 0 {
		return // a copy
	}
	q.st.rcvdRNR++
	if q.attr.RNRRetry != 7 {
		if q.rnrRetries == 0 {
			q.st.rnrExceeded++
			q.refusedBy(p.psn, verbs.RNRRetryExcErr)
			return
		}
		q.rnrRetries--
	}
	q.rewound = false
	q.rewind(p.psn)
	q.setTimer(rnrDelay(p.rnr))
	q.rnrUntil = q.due
}

// refusedBy handles a fatal NAK.
func (q *qp) refusedBy(psn uint32, s verbs.Status) {
	if psn == q.una {
		q.failPSN(psn, s)
		return
	}
	q.refused = refusal{psn, s}
}
