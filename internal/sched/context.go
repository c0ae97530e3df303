package sched

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// WithTimeout is context.WithTimeout in the scheduler's time.
func (s *Sched) WithTimeout(parent context.Context, d Duration) (context.Context, context.CancelFunc) {
	if s.v == nil {
		return context.WithTimeout(parent, d.Std())
	}
	c, cancel := s.newContext(parent)
	c.deadline = s.v.now.Add(d)
	c.timer = s.NewTimer(func() { c.cancel(context.DeadlineExceeded) })
	c.timer.Reset(d)
	return c, cancel
}

// WithCancel is context.WithCancel whose cancel takes effect at once and in
// order when time is virtual. A context of the context package works too, but
// wakes a waiting task from another goroutine, at no certain place in the trace.
func (s *Sched) WithCancel(parent context.Context) (context.Context, context.CancelFunc) {
	if s.v == nil {
		return context.WithCancel(parent)
	}
	c, cancel := s.newContext(parent)
	return c, cancel
}

type ctxKey struct{}

// vctx is a context of virtual time. mu guards what foreign goroutines may touch.
type vctx struct {
	context.Context // the parent
	v               *virtual
	deadline        Time
	timer           *Timer
	done            chan struct{}
	mu              sync.Mutex
	err             error
	subs            []wake
	kids            []*vctx
	stopParent      func() bool
}

func (s *Sched) newContext(parent context.Context) (*vctx, context.CancelFunc) {
	c := &vctx{Context: parent, v: s.v, done: make(chan struct{})}
	if parent.Done() != nil {
		if p, _ := parent.Value(ctxKey{}).(*vctx); p != nil && p.v == s.v && parent.Done() == p.done {
			p.mu.Lock()
			if p.err != nil {
				err := p.err
				p.mu.Unlock()
				c.cancel(err)
			} else {
				p.kids = append(p.kids, c)
				p.mu.Unlock()
			}
		} else {
			c.stopParent = context.AfterFunc(parent, func() { c.cancelForeign(parent.Err()) })
		}
	}
	return c, func() { c.cancel(context.Canceled) }
}

func (c *vctx) Deadline() (time.Time, bool) { return c.Context.Deadline() }
func (c *vctx) Done() <-chan struct{}       { return c.done }

func (c *vctx) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *vctx) Value(key any) any {
	if _, ok := key.(ctxKey); ok {
		return c
	}
	return c.Context.Value(key)
}

func (c *vctx) end(err error) (subs []wake, kids []*vctx) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, nil
	}
	c.err = err
	close(c.done)
	if c.stopParent != nil {
		c.stopParent()
	}
	subs, kids = c.subs, c.kids
	c.subs, c.kids = nil, nil
	return subs, kids
}

func (c *vctx) cancel(err error) {
	subs, kids := c.end(err)
	if c.timer != nil {
		c.timer.Stop()
	}
	for _, x := range subs {
		x.w.cancel(err)
	}
	for _, k := range kids {
		k.cancel(err)
	}
}

// cancelForeign runs in a goroutine that is not ours.
func (c *vctx) cancelForeign(err error) {
	subs, kids := c.end(err)
	for _, x := range subs {
		x.err = err
		c.v.foreign.inject(x)
	}
	for _, k := range kids {
		k.cancelForeign(err)
	}
}

// subscribe lets the end of ctx wake w, until the returned function is called.
func (v *virtual) subscribe(ctx context.Context, w *Waiter) func() {
	if c, _ := ctx.Value(ctxKey{}).(*vctx); c != nil && c.v == v && ctx.Done() == c.done {
		c.mu.Lock()
		c.subs = append(c.subs, wake{w: w, seq: w.seq})
		c.mu.Unlock()
		return func() {
			c.mu.Lock()
			for i, x := range c.subs {
				if x.w == w {
					c.subs = append(c.subs[:i], c.subs[i+1:]...)
					break
				}
			}
			c.mu.Unlock()
		}
	}
	return v.foreign.watch(ctx, w)
}

// foreign holds the waits whose context is not of virtual time, and the wakes
// that come for them from other goroutines.
type foreign struct {
	pending atomic.Bool
	mu      sync.Mutex
	wakes   []wake
	watched map[*Waiter]context.Context
}

// wake ends one wait, number seq of its waiter, and no later one.
type wake struct {
	w   *Waiter
	seq uint64
	err error
}

func (f *foreign) watch(ctx context.Context, w *Waiter) func() {
	f.mu.Lock()
	if f.watched == nil {
		f.watched = map[*Waiter]context.Context{}
	}
	f.watched[w] = ctx
	f.mu.Unlock()
	x := wake{w: w, seq: w.seq}
	stop := context.AfterFunc(ctx, func() { x.err = ctx.Err(); f.inject(x) })
	return func() {
		stop()
		f.mu.Lock()
		delete(f.watched, w)
		f.mu.Unlock()
	}
}

func (f *foreign) inject(x wake) {
	f.mu.Lock()
	f.wakes = append(f.wakes, x)
	f.mu.Unlock()
	f.pending.Store(true)
}

// deliver wakes those whose context has ended and who still wait.
func (f *foreign) deliver() {
	f.mu.Lock()
	f.pending.Store(false)
	ws := f.wakes
	f.wakes = nil
	f.mu.Unlock()
	for _, x := range ws {
		if x.w.waiting && x.w.seq == x.seq {
			x.w.cancel(x.err)
		}
	}
}

// rescue looks, before a deadlock is reported, for waits whose context has
// ended although its goroutine did not come round to say so.
func (f *foreign) rescue() bool {
	f.mu.Lock()
	var ws []wake
	for w, ctx := range f.watched {
		if err := ctx.Err(); err != nil && !w.woken {
			ws = append(ws, wake{w: w, err: err})
		}
	}
	f.mu.Unlock()
	for _, x := range ws {
		x.w.cancel(x.err)
	}
	return len(ws) > 0
}
