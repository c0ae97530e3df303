package sched

import (
	"context"
	"fmt"
)

// Waiter lets one task wait until somebody wakes it. A wake that comes first is
// kept (one, not a count). The same waiter serves any number of waits, one at a time.
type Waiter struct {
	s      *Sched
	what   string
	detail func() string

	// Virtual.
	task      *task
	woken     bool
	kept      bool // woken in the instant in which it was cancelled
	waiting   bool
	seq       uint64 // counts waits
	cancelled error
	sub       int // its place in the list of the context

	ch   chan struct{} // live: capacity 1
	lane *lane         // live
	next *Waiter       // in a wait list or free list
	n    int           // Sem: units wanted
	got  bool          // handed over by a wait list
}

// NewWaiter makes a waiter; what names it in reports ("a credit of mount 1").
func (s *Sched) NewWaiter(what string) *Waiter {
	w := &Waiter{}
	w.Init(s, what)
	return w
}

// Init makes w usable, where it is part of a larger struct.
func (w *Waiter) Init(s *Sched, what string) {
	w.s, w.what = s, what
	if s.v == nil {
		w.ch = make(chan struct{}, 1)
		w.lane = &s.lanes[s.inits.Add(1)%uint32(len(s.lanes))]
	}
}

// SetWhat changes what w is called in reports; detail, if not nil, adds to it.
func (w *Waiter) SetWhat(what string, detail func() string) { w.what, w.detail = what, detail }

func (w *Waiter) describe() string {
	if w.detail != nil {
		return fmt.Sprintf("%s (%s)", w.what, w.detail())
	}
	return w.what
}

// Wake ends the present wait, or the next one. It never waits, and may be
// called by tasks, events and timers.
func (w *Waiter) Wake() {
	if w.ch != nil {
		select {
		case w.ch <- struct{}{}:
		default:
		}
		return
	}
	if w.woken {
		w.kept = w.cancelled != nil // for the next wait
		return
	}
	w.woken = true
	if t := w.task; t != nil {
		w.s.v.post(w.s.v.now, t)
	}
}

// Fire is Wake, for a waiter that stands in the heap (Sleep).
func (w *Waiter) Fire() { w.Wake() }

// Wait waits for a wake. It returns nil, the error of ctx, ErrClosed,
// ErrAborted or a *DeadlockError.
func (w *Waiter) Wait(ctx context.Context) error {
	if w.ch != nil {
		return w.waitLive(ctx)
	}
	v := w.s.v
	if w.woken {
		w.woken = false
		v.tick()
		return nil
	}
	if v.closed {
		return v.spin()
	}
	if v.inEvent {
		panic("sched: a callback, or a goroutine that is no task (Fabric.Go starts tasks), waits in virtual time for " + w.describe())
	}
	if w.waiting {
		panic("sched: two tasks wait for " + w.describe())
	}
	w.seq++
	if ctx.Done() != nil {
		if err := ctx.Err(); err != nil {
			v.tick()
			return err
		}
		b := v.subscribe(ctx, w)
		defer b.remove(w)
	}
	w.waiting = true
	if v.cur != nil {
		v.park(w)
	} else if err := v.drive(w); err != nil {
		return err
	}
	w.waiting = false
	switch err := w.cancelled; {
	case err != nil:
		w.cancelled, w.woken, w.kept = nil, w.kept, false
		return err
	case w.woken:
		w.woken = false
		return nil
	default: // Close
		return ErrClosed
	}
}

func (v *virtual) spin() error {
	if t := v.cur; t != nil {
		if t.spins++; t.spins > maxSpins {
			if v.livelocked { // its error has named it
				panic(halt{})
			}
			panic(fmt.Sprintf("sched: task %q goes on waiting after Close", t.name))
		}
	}
	return ErrClosed
}

func (w *Waiter) waitLive(ctx context.Context) error {
	select { // A wake that is there wins over an end.
	case <-w.ch:
		return nil
	default:
	}
	if done := ctx.Done(); done != nil {
		select {
		case <-w.ch:
			return nil
		case <-done:
			return ctx.Err()
		case <-w.lane.end:
			return w.s.endErr()
		}
	}
	end := w.lane.end
	if ctx == Cleanup {
		end = w.lane.down
	}
	select {
	case <-w.ch:
		return nil
	case <-end:
		return w.s.endErr()
	}
}

// cancel ends the wait with err; virtual only.
func (w *Waiter) cancel(err error) {
	if w.woken {
		return
	}
	w.cancelled = err
	w.Wake()
}
