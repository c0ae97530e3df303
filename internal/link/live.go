package link

import "example.org/nfsrdma/internal/sched"

// live delivers the packets of a pipe by the wall clock, with one timer for all.
// The pipe's mutex guards it.
type live struct {
	p          *Pipe
	timer      *sched.Timer
	armed      bool
	at         sched.Time // when the timer fires, if armed
	delivering bool       // one goroutine at a time does, so that order is kept
	now        sched.Time // as last read by it
}

func newLive(p *Pipe) *live {
	l := &live{p: p}
	l.timer = p.s.NewTimer(l.deliver)
	return l
}

// arm sets the timer for a packet that arrives at at.
func (l *live) arm(now, at sched.Time) {
	if l.delivering || l.armed && l.at <= at {
		return
	}
	l.armed, l.at = true, at
	l.timer.Reset(max(at.Sub(now), 0))
}

// deliver hands over what is due, in order of arrival, and sets the timer for the rest.
func (l *live) deliver() {
	p := l.p
	p.mu.Lock()
	l.armed = false
	if !l.delivering { // or else that goroutine sees what is due now
		l.delivering = true
		for pk := l.due(); pk != nil; pk = l.due() {
			p.mu.Unlock()
			pk.Fire()
			p.mu.Lock()
		}
		l.delivering = false
		if q := l.first(); q != nil {
			l.arm(l.now, q.next())
		}
	}
	p.mu.Unlock()
}

// due takes the next packet that has arrived; nil if there is none.
func (l *live) due() Packet {
	q := l.first()
	if q == nil {
		return nil
	}
	if at := q.next(); at > l.now { // the clock is read once for a batch
		if l.now = l.p.s.Now(); at > l.now {
			return nil
		}
	}
	return q.pop()
}

// first is the lane whose packet arrives first; nil if both are empty.
func (l *live) first() *lane {
	a, b := &l.p.inOrder, &l.p.late
	switch {
	case a.n == 0 && b.n == 0:
		return nil
	case b.n == 0 || a.n > 0 && a.next() <= b.next():
		return a
	}
	return b
}
