package xprtrdma

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// regionPool has the regions of a mode that keeps them from call to call. They are allocated when
// first needed. A call that needs more than there are waits its turn, in order of arrival; what
// cannot ever be had is an error.
type regionPool struct {
	alloc func() (*region, error)
	stats *counters

	x     *Xprt       // each of its slots keeps its last region
	tight atomic.Bool // none does any more: there are too few

	mu    sync.Mutex
	free  []*region
	total int
	most  int   // that the pool may have
	full  error // the device has no more, since this error
	head  *Req
	tail  *Req
}

// poolWait is a Req's place in the line of a pool, or in a line. Guarded by its lock.
type poolWait struct {
	next   *Req
	n      int
	queued bool // in a line
	done   bool
	err    error
}

func (p *regionPool) init(x *Xprt, most int, alloc func() (*region, error)) {
	p.x, p.stats, p.most, p.alloc = x, &x.stats, most, alloc
}

// get gives q n regions more.
func (p *regionPool) get(ctx context.Context, q *Req, n int) error {
	if n == 1 {
		if g := q.kept.Swap(nil); g != nil {
			q.regs = append(q.regs, g)
			return nil
		}
	}
	p.mu.Lock()
	if p.head == nil {
		if ok, err := p.serve(q, n); ok || err != nil {
			p.mu.Unlock()
			return err
		}
	}
	q.pool = poolWait{n: n}
	if p.tail == nil {
		p.head = q
	} else {
		p.tail.pool.next = q
	}
	p.tail = q
	p.mu.Unlock()
	for {
		err := q.w.Wait(ctx)
		p.mu.Lock()
		if q.pool.done {
			p.mu.Unlock()
			return q.pool.err
		}
		if err != nil {
			p.remove(q)
			p.wake()
			p.mu.Unlock()
			return err
		}
		p.mu.Unlock()
	}
}

// serve moves n regions to q, if they are free or can be allocated.
func (p *regionPool) serve(q *Req, n int) (ok bool, err error) {
	for len(p.free) < n && p.total < p.most && p.full == nil {
		g, err := p.alloc()
		if err != nil {
			p.full = err
			break
		}
		p.stats.mrsAllocated.Add(1)
		p.total++
		p.free = append(p.free, g)
	}
	if len(p.free) < n {
		p.gather()
	}
	k := len(p.free) - n
	switch {
	case k >= 0:
		q.regs = append(q.regs, p.free[k:]...)
		clear(p.free[k:])
		p.free = p.free[:k]
		return true, nil
	case n > p.most:
		return false, &MarshalError{What: "call", Size: n, Limit: p.most, Unit: "memory regions", Knob: "Credits and MaxDataSegs"}
	case p.full != nil && n > p.total:
		err := fmt.Errorf("%d memory regions wanted, the device has %d: %w", n, p.total, p.full)
		p.full = nil // a later call asks again: the device may have some then
		return false, err
	}
	return false, nil
}

// gather takes the regions that slots keep, and lets them keep none from now on.
func (p *regionPool) gather() {
	p.tight.Store(true)
	for i := range p.x.reqs {
		if g := p.x.reqs[i].kept.Swap(nil); g != nil {
			p.free = append(p.free, g)
		}
	}
}

// wake serves those who wait, as far as it goes.
func (p *regionPool) wake() {
	for q := p.head; q != nil; q = p.head {
		ok, err := p.serve(q, q.pool.n)
		if !ok && err == nil {
			return
		}
		p.remove(q)
		q.pool.done, q.pool.err = true, err
		q.w.Wake()
	}
}

func (p *regionPool) remove(q *Req) {
	var prev *Req
	for x := p.head; x != nil; prev, x = x, x.pool.next {
		if x != q {
			continue
		}
		if prev == nil {
			p.head = q.pool.next
		} else {
			prev.pool.next = q.pool.next
		}
		if p.tail == q {
			p.tail = prev
		}
		return
	}
}

// put takes q's regions back. Those that are still valid although the connection is broken are closed:
// nobody knows whether their key is registered.
func (p *regionPool) put(q *Req, broken bool) {
	if len(q.regs) == 1 && !broken && !p.tight.Load() {
		g := q.regs[0]
		g.valid = false
		q.regs[0], q.regs = nil, q.regs[:0]
		q.kept.Store(g)
		if !p.tight.Load() {
			return
		}
		if g = q.kept.Swap(nil); g == nil {
			return // gathered
		}
		q.regs = append(q.regs, g)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, g := range q.regs {
		q.regs[i] = nil
		if broken && g.valid {
			g.close()
			p.stats.mrsRecycled.Add(1)
			p.total--
			p.full = nil
			continue
		}
		g.valid = false
		p.free = append(p.free, g)
	}
	q.regs = q.regs[:0]
	p.wake()
}

// reap closes the regions that were loose on a connection. No call has any of it.
func (p *regionPool) reap(gen uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.x.reqs {
		if g := p.x.reqs[i].kept.Load(); g != nil && g.loose == gen && p.x.reqs[i].kept.CompareAndSwap(g, nil) {
			p.free = append(p.free, g)
		}
	}
	keep := p.free[:0]
	for _, g := range p.free {
		if g.loose != gen {
			keep = append(keep, g)
			continue
		}
		g.close()
		p.stats.mrsRecycled.Add(1)
		p.total--
		p.full = nil
	}
	clear(p.free[len(keep):])
	p.free = keep
}

func (p *regionPool) close() error {
	var errs []error
	p.gather()
	for _, g := range p.free {
		errs = append(errs, g.close())
	}
	p.free = nil
	return errors.Join(errs...)
}
