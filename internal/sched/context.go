package sched

import (
	"context"
	"slices"
	"sync"
)

// WithTimeout is context.WithTimeout in the scheduler's time.
func (s *Sched) WithTimeout(parent context.Context, d Duration) (context.Context, context.CancelFunc) {
	if s.v == nil {
		return context.WithTimeout(parent, d.Std())
	}
	c, cancel := s.newContext(parent)
	if d <= 0 {
		c.cancel(context.DeadlineExceeded)
	}
	if c.Err() == nil {
		c.timer = s.v.getTimer()
		c.timer.f = func() { c.cancel(context.DeadlineExceeded) }
		c.timer.Reset(d)
	}
	return c, cancel
}

// WithCancel is context.WithCancel whose cancel takes effect at once and in
// order when time is virtual. A context of the context package works too, but
// from another goroutine takes effect at no certain place in the trace.
func (s *Sched) WithCancel(parent context.Context) (context.Context, context.CancelFunc) {
	if s.v == nil {
		return context.WithCancel(parent)
	}
	c, cancel := s.newContext(parent)
	return c, cancel
}

type ctxKey struct{}

// subs are the waits that the end of a context ends.
type subs struct{ list []wake }

// wake ends one wait, number seq of its waiter, and no later one.
type wake struct {
	w   *Waiter
	seq uint64
}

func (b *subs) add(w *Waiter) {
	w.sub = len(b.list)
	b.list = append(b.list, wake{w, w.seq})
}

func (b *subs) remove(w *Waiter) {
	i, n := w.sub, len(b.list)-1
	if i > n || b.list[i].w != w {
		return // the context has ended
	}
	b.list[i] = b.list[n]
	b.list[i].w.sub = i
	b.list[n] = wake{}
	b.list = b.list[:n]
}

func (b *subs) cancel(err error) {
	list := b.list
	b.list = nil
	for _, x := range list {
		if x.w.waiting && x.w.seq == x.seq {
			x.w.cancel(err)
		}
	}
}

// vctx is a context of virtual time. Only err may be looked at by other goroutines.
type vctx struct {
	context.Context // the parent
	v               *virtual
	timer           *Timer
	done            chan struct{}
	subs            subs
	kids            []*vctx
	mu              sync.Mutex
	err             error
}

func (s *Sched) newContext(parent context.Context) (*vctx, context.CancelFunc) {
	c := &vctx{Context: parent, v: s.v, done: make(chan struct{})}
	switch p := s.v.own(parent); {
	case parent.Done() == nil:
	case p == nil:
		if w := s.v.watch(parent); parent.Err() == nil {
			w.kids = append(w.kids, c)
		} else {
			c.cancel(parent.Err())
		}
	case p.Err() != nil:
		c.cancel(p.Err())
	default:
		p.kids = append(p.kids, c)
	}
	return c, func() {
		c.cancel(context.Canceled)
		if p := s.v.own(parent); p != nil {
			p.kids = without(p.kids, c)
		} else if parent.Done() != nil {
			w := s.v.watch(parent)
			w.kids = without(w.kids, c)
		}
	}
}

// getTimer re-uses the timers of contexts that have ended, and so their
// entries in the heap.
func (v *virtual) getTimer() *Timer {
	n := len(v.timers) - 1
	if n < 0 {
		return v.s.NewTimer(nil)
	}
	t := v.timers[n]
	v.timers = v.timers[:n]
	return t
}

func without(l []*vctx, c *vctx) []*vctx {
	return slices.DeleteFunc(l, func(x *vctx) bool { return x == c })
}

// own finds the context of this scheduler that ends ctx.
func (v *virtual) own(ctx context.Context) *vctx {
	c, _ := ctx.Value(ctxKey{}).(*vctx)
	if c == nil || c.v != v || ctx.Done() != c.done {
		return nil
	}
	return c
}

func (c *vctx) Done() <-chan struct{} { return c.done }

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

func (c *vctx) cancel(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	c.mu.Unlock()
	close(c.done)
	if t := c.timer; t != nil {
		t.Stop()
		t.f, c.timer = nil, nil
		c.v.timers = append(c.v.timers, t)
	}
	c.subs.cancel(err)
	kids := c.kids
	c.kids = nil
	for _, k := range kids {
		k.cancel(err)
	}
}

// foreign holds the contexts that are not of virtual time and that somebody
// waits with. Their end is seen at the next event after it, and at the latest
// before time goes on.
type foreign struct {
	list []*watched // few: one a context
}

type watched struct {
	ctx  context.Context
	stop func() bool
	subs subs
	kids []*vctx
}

// maxIdle is how many foreign contexts are kept for a next wait with them.
const maxIdle = 16

func (v *virtual) watch(ctx context.Context) *watched {
	f, done := &v.foreign, ctx.Done()
	for _, w := range f.list {
		if w.ctx.Done() == done {
			return w
		}
	}
	if len(f.list) >= maxIdle {
		f.list = slices.DeleteFunc(f.list, func(w *watched) bool {
			idle := len(w.subs.list) == 0 && len(w.kids) == 0
			if idle {
				w.stop()
			}
			return idle
		})
	}
	w := &watched{ctx: ctx}
	w.stop = context.AfterFunc(ctx, func() { v.alert.Or(foreignEnded) })
	f.list = append(f.list, w)
	return w
}

// check ends the waits of contexts that have ended, and says whether there were any.
func (f *foreign) check() (any bool) {
	for i := 0; i < len(f.list); i++ {
		w := f.list[i]
		err := w.ctx.Err()
		if err == nil {
			continue
		}
		any = true
		f.list = slices.Delete(f.list, i, i+1)
		i--
		w.stop()
		w.subs.cancel(err)
		for _, k := range w.kids {
			k.cancel(err)
		}
	}
	return any
}

func (f *foreign) close() {
	for _, w := range f.list {
		w.stop()
	}
	f.list = nil
}

// subscribe lets the end of ctx end w's wait.
func (v *virtual) subscribe(ctx context.Context, w *Waiter) *subs {
	if c := v.own(ctx); c != nil {
		c.subs.add(w)
		return &c.subs
	}
	x := v.watch(ctx)
	x.subs.add(w)
	return &x.subs
}
