package link

import (
	"runtime"

	"example.org/nfsrdma/internal/sched"
)

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

// nap is how soon a packet must be due for deliver to yield until then instead of setting the
// timer: an idle process sees a timer of microseconds about a millisecond late.
const nap = 20 * sched.Microsecond

// arm sets the timer for a packet that arrives at at.
func (l *live) arm(now, at sched.Time) {
	if l.delivering || l.armed && l.at <= at {
		return
	}
	l.armed, l.at = true, at
	d := at.Sub(now)
	if d <= nap {
		d = 0
	}
	l.timer.Reset(d)
}

// deliver hands over what is due, in order of arrival, and sets the timer for the rest.
func (l *live) deliver() {
	p := l.p
	p.mu.Lock()
	defer p.mu.Unlock()
	l.armed = false
	if l.delivering {
		return // that goroutine sees what is due now
	}
	l.delivering = true
	for q := l.first(); q != nil; q = l.first() {
		at := q.next()
		if at > l.now { // the clock is read once for a batch
			l.now = p.s.Now()
		}
		switch {
		case at <= l.now:
			l.fire(q.pop())
		case at.Sub(l.now) <= nap:
			l.yield()
		default:
			l.delivering = false
			l.arm(l.now, at)
			return
		}
	}
	l.delivering = false
}

// fire hands a packet over without the lock, which is held again even after a panic.
func (l *live) fire(pk Packet) {
	l.p.mu.Unlock()
	defer l.p.mu.Lock()
	pk.Fire()
}

func (l *live) yield() {
	l.p.mu.Unlock()
	defer l.p.mu.Lock()
	runtime.Gosched()
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
