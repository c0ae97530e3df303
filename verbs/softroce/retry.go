package softroce

import (
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

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
				q.ordMeter.Give(1)
			}
		}
		q.hi = q.sentTo()
		q.next = i
		q.nextPkt = uint32(max(psnDiff(psn, e.psn), 0))
		q.rewound = true
		q.st.retransmits++
		return
	}
}

// touch starts the wait for an answer anew. Live it saves reading the clock, and
// the timer goes round once more.
func (q *qp) touch() {
	if s := q.dev.net.s; s.Virtual() {
		q.due = s.Now().Add(ackTimeout(q.attr.Timeout))
	} else {
		q.moved = true
	}
}

// armTimer sets the retry timer. It runs on over answers, and looks at the time of the
// latest when it fires.
func (q *qp) armTimer(idle bool) {
	switch {
	case q.attr.Timeout == 0:
	case !q.timerSet:
		q.setTimer(ackTimeout(q.attr.Timeout))
	case idle:
		q.touch()
	}
}

func (q *qp) setTimer(d sched.Duration) {
	q.timerSet, q.moved = true, false
	q.due = q.dev.net.s.Now().Add(d)
	q.timer.Reset(d)
}

func (q *qp) stopTimer() {
	if q.timerSet {
		q.timerSet = false
		q.timer.Stop()
	}
}

// ackTimeout is 4.096 us x 2^n (IB specification 9.7.6.1.3).
func ackTimeout(n uint8) sched.Duration { return 4096 * sched.Nanosecond << (n & 31) }

// timeout runs when the timer fired: after an RNR NAK, or without an answer.
func (q *qp) timeout() {
	q.timerSet = false
	if !q.sends() {
		return
	}
	now := q.dev.net.s.Now()
	if q.rnrUntil != 0 {
		if now < q.rnrUntil {
			q.setTimer(q.rnrUntil.Sub(now))
			return
		}
		q.rnrUntil = 0
		q.rewound = false
		return // send goes on
	}
	if q.head.Load() == q.sentTo() || q.attr.Timeout == 0 {
		return
	}
	if q.moved {
		q.due = now.Add(ackTimeout(q.attr.Timeout))
	}
	if now < q.due {
		q.setTimer(q.due.Sub(now))
		return
	}
	if q.pipe == nil && q.peer != nil && q.peer.pending.Load() > 0 {
		return // what was sent on a direct wire waits for the peer's engine
	}
	q.st.timeouts++
	if q.retries == 0 {
		q.st.retryExceeded++
		q.failPSN(q.una, verbs.RetryExcErr)
		return
	}
	q.retries--
	q.rewound = false
	q.rewind(q.una)
	q.rewound = false
}
