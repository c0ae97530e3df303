package softroce

import (
	"context"
	"fmt"
	"slices"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// cq is a completion queue.
type cq struct {
	dev     *Device
	name    string
	handler func(verbs.CQ)
	waiter  *sched.Waiter
	calls   gate // of the handler, until Close

	mu       lock
	ring     []verbs.WC // a power of two; at most depth are used
	depth    int
	head, n  int
	armed    arming
	overflow bool
	closed   bool
	users    int
	qps      []*qp
}

type arming uint8

const (
	notArmed arming = iota
	armedAny
	armedSolicited
)

// CreateCQ implements verbs.Device.
func (d *Device) CreateCQ(init verbs.CQInit) (verbs.CQ, error) {
	if init.Depth < 1 || init.Depth > d.attr.MaxCQE {
		return nil, fmt.Errorf("softroce: %s: completion queue %s of %d entries, must be 1 to max_cqe %d: %w",
			d.name, init.Name, init.Depth, d.attr.MaxCQE, verbs.ErrInvalid)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.usable(); err != nil {
		return nil, err
	}
	if err := d.limit(&d.res.CQ, d.attr.MaxCQ, "max_cq"); err != nil {
		return nil, err
	}
	c := &cq{dev: d, name: init.Name, handler: init.Handler, mu: d.net.lock(), depth: init.Depth, ring: make([]verbs.WC, min(pow2(init.Depth), 64))}
	c.waiter = d.net.s.NewWaiter("an event of completion queue " + init.Name)
	return c, nil
}

func pow2(n int) int {
	p := 1
	for p < n {
		p <<= 1
	}
	return p
}

// Poll implements verbs.CQ.
func (c *cq) Poll(wc []verbs.WC) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(wc), c.n)
	for i := range n {
		wc[i] = c.ring[(c.head+i)&(len(c.ring)-1)]
	}
	c.head = (c.head + n) & (len(c.ring) - 1)
	c.n -= n
	if n == 0 {
		if c.overflow {
			return 0, fmt.Errorf("softroce: completion queue %s of %d: %w", c.name, c.depth, verbs.ErrCQOverflow)
		}
		if c.closed {
			return 0, fmt.Errorf("softroce: completion queue %s: %w", c.name, verbs.ErrClosed)
		}
	}
	return n, nil
}

// Arm implements verbs.CQ.
func (c *cq) Arm(solicitedOnly bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !solicitedOnly:
		c.armed = armedAny
	case c.armed == notArmed:
		c.armed = armedSolicited
	}
	return c.n > 0 || c.overflow
}

// Wait implements verbs.CQ.
func (c *cq) Wait(ctx context.Context) error {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if !closed {
		if err := c.waiter.Wait(ctx); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fmt.Errorf("softroce: completion queue %s: %w", c.name, verbs.ErrClosed)
	}
	return nil
}

// Close implements verbs.CQ. No handler runs when it returns.
func (c *cq) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	if c.users > 0 {
		n := c.users
		c.mu.Unlock()
		return fmt.Errorf("softroce: completion queue %s is used by %d work queues: %w", c.name, n, verbs.ErrBusy)
	}
	c.closed = true
	c.n = 0
	c.mu.Unlock()
	c.calls.close()
	c.waiter.Wake()
	c.dev.mu.Lock()
	c.dev.res.CQ--
	c.dev.mu.Unlock()
	return nil
}

// push adds a completion. notify: the event is due; full: it is the first that did not fit.
// After that none is taken.
func (c *cq) push(wc *verbs.WC, solicited bool) (notify, full bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.overflow {
		return false, false
	}
	if c.n == c.depth {
		c.overflow = true
		return c.disarm(), true
	}
	if c.n == len(c.ring) {
		r := make([]verbs.WC, 2*len(c.ring))
		for i := range c.n {
			r[i] = c.ring[(c.head+i)&(len(c.ring)-1)]
		}
		c.ring, c.head = r, 0
	}
	c.ring[(c.head+c.n)&(len(c.ring)-1)] = *wc
	c.n++
	if c.armed == armedAny || c.armed == armedSolicited && (solicited || wc.Status != verbs.Success) {
		return c.disarm(), false
	}
	return false, false
}

func (c *cq) disarm() bool {
	was := c.armed != notArmed
	c.armed = notArmed
	return was
}

// notify delivers the event. No lock is held.
func (c *cq) notify() {
	if c.handler == nil {
		c.waiter.Wake()
		return
	}
	if c.calls.enter() {
		c.handler(c)
		c.calls.leave()
	}
}

// Overflow makes the queue overflow now, as if one completion too many had come. A closed queue stays as it is.
func (c *cq) Overflow() {
	c.mu.Lock()
	if c.closed || c.overflow {
		c.mu.Unlock()
		return
	}
	c.overflow = true
	notify := c.disarm()
	c.mu.Unlock()
	c.overflowed()
	if notify {
		c.notify()
	}
}

// overflowed fails the queue pairs that use the queue.
func (c *cq) overflowed() {
	c.dev.event(verbs.AsyncEvent{Type: verbs.EventCQErr, CQ: c})
	c.mu.Lock()
	qps := slices.Clone(c.qps)
	c.mu.Unlock()
	for _, q := range qps {
		q.fail()
	}
}

func (c *cq) use(q *qp) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fmt.Errorf("softroce: completion queue %s: %w", c.name, verbs.ErrClosed)
	}
	c.users++
	c.qps = append(c.qps, q)
	return nil
}

// unuse also drops the completions of a closed queue pair, as libibverbs does.
func (c *cq) unuse(q *qp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users--
	if i := slices.Index(c.qps, q); i >= 0 {
		c.qps = slices.Delete(c.qps, i, i+1)
	}
	k := 0
	for i := range c.n {
		wc := c.ring[(c.head+i)&(len(c.ring)-1)]
		if wc.QPN != q.num {
			c.ring[(c.head+k)&(len(c.ring)-1)] = wc
			k++
		}
	}
	c.n = k
}
