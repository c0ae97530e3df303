package xprtrdma

import (
	"errors"
	"fmt"
	"sort"
	"sync"
	"unsafe"

	"example.org/nfsrdma/verbs"
)

// pinCache keeps buffers registered, for windows to be bound to (a pin-down cache). A registration that no call
// uses stays until the cache has too many bytes or the device too few regions; the one used longest ago goes first.
//
// The trouble of such caches is memory that is freed and mapped anew while it is registered. Here the cache holds the
// buffer: Go neither moves nor frees it, so its address means the same memory for as long as it is in the cache.
// Memory from elsewhere (mmap) must stay mapped until Close. The regions have no remote
// rights, so what stays registered stays out of reach.
type pinCache struct {
	x    *Xprt
	line line

	mu     sync.Mutex
	sorted []*pin // by base; ranges may overlap
	idle   pin    // list of those without users; next is the one used longest ago
	bytes  int    // of idle ones
	count  int    // of idle ones
	most   int    // bytes of idle ones
}

// pin is a registered buffer.
type pin struct {
	mr         verbs.MR
	buf        []byte
	base       uintptr
	users      int
	prev, next *pin // while idle
}

const maxIdlePins = 1024

func (c *pinCache) init(x *Xprt) {
	c.x, c.most = x, x.cfg.PinBytes
	c.idle.prev, c.idle.next = &c.idle, &c.idle
	c.line.try = c.getAll
}

func baseOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// addr is the address of b in the region.
func (p *pin) addr(b []byte) uint64 { return p.mr.Addr() + uint64(baseOf(b)-p.base) }

// getAll has all buffers of a call registered, or none.
func (c *pinCache) getAll(q *Req) error {
	for i := range q.nmaps {
		m := &q.maps[i]
		p := c.find(m.buf)
		if p == nil {
			var err error
			if p, err = c.add(q, m.buf); err != nil {
				c.putAll(q)
				return err
			}
		}
		m.pin = p
	}
	return nil
}

// find takes a registration that covers b.
func (c *pinCache) find(b []byte) *pin {
	base := baseOf(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	i := sort.Search(len(c.sorted), func(i int) bool { return c.sorted[i].base > base })
	for k := i - 1; k >= 0 && k >= i-4; k-- { // what lies further back is as good as not there
		if p := c.sorted[k]; base-p.base+uintptr(len(b)) <= uintptr(len(p.buf)) {
			if p.users++; p.users == 1 {
				c.unlink(p)
			}
			return p
		}
	}
	return nil
}

// add registers b, and what is behind it in the same memory up to a whole number of pages. What depends on where b
// lies is left out: virtual time goes the same way every time.
func (c *pinCache) add(q *Req, b []byte) (*pin, error) {
	t0 := c.x.s.Now()
	buf := b[:min(cap(b), pagesOf(len(b))*verbs.PageSize)]
	mr, err := c.x.pd.RegMR(buf, verbs.LocalWrite|verbs.MWBind)
	for errors.Is(err, verbs.ErrNoResources) && c.evict(&q.work) {
		mr, err = c.x.pd.RegMR(buf, verbs.LocalWrite|verbs.MWBind)
	}
	q.timed(t0)
	if err != nil {
		return nil, fmt.Errorf("register %d bytes: %w", len(buf), err)
	}
	q.work.regs++
	q.work.pages += pagesOf(len(buf))
	p := &pin{mr: mr, buf: buf, base: baseOf(buf), users: 1}
	c.mu.Lock()
	defer c.mu.Unlock()
	i := sort.Search(len(c.sorted), func(i int) bool { return c.sorted[i].base > p.base })
	c.sorted = append(c.sorted, nil)
	copy(c.sorted[i+1:], c.sorted[i:])
	c.sorted[i] = p
	return p, nil
}

func (c *pinCache) putAll(q *Req) {
	c.mu.Lock()
	for i := range q.nmaps {
		m := &q.maps[i]
		if p := m.pin; p != nil {
			m.pin = nil
			if p.users--; p.users == 0 {
				c.link(p)
			}
		}
	}
	full := c.bytes > c.most || c.count > maxIdlePins
	c.mu.Unlock()
	for full && c.evict(&q.work) {
		c.mu.Lock()
		full = c.bytes > c.most || c.count > maxIdlePins
		c.mu.Unlock()
	}
}

func (c *pinCache) release(q *Req) {
	c.putAll(q)
	c.line.put(q)
}

// evict deregisters what was used longest ago. False: nothing that is unused can be.
func (c *pinCache) evict(w *regWork) bool {
	for tries := 0; tries < 64; tries++ {
		c.mu.Lock()
		p := c.idle.next
		if p == &c.idle {
			c.mu.Unlock()
			return false
		}
		c.unlink(p)
		i := c.indexOf(p)
		c.sorted = append(c.sorted[:i], c.sorted[i+1:]...)
		c.mu.Unlock()
		err := p.mr.Close()
		if err == nil {
			w.invs++
			return true
		}
		// A window is bound to it still, whose unbinding nobody waits for.
		c.mu.Lock()
		i = sort.Search(len(c.sorted), func(i int) bool { return c.sorted[i].base > p.base })
		c.sorted = append(c.sorted, nil)
		copy(c.sorted[i+1:], c.sorted[i:])
		c.sorted[i] = p
		c.link(p)
		c.mu.Unlock()
	}
	return false
}

// dropIdle deregisters all that is unused: a new connection may need what the device, or the limit of locked
// memory, has no more of.
func (c *pinCache) dropIdle() {
	var w regWork
	for c.evict(&w) {
	}
	c.x.stats.invs.Add(uint64(w.invs))
}

func (c *pinCache) anyIdle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count > 0
}

func (c *pinCache) indexOf(p *pin) int {
	i := sort.Search(len(c.sorted), func(i int) bool { return c.sorted[i].base >= p.base })
	for c.sorted[i] != p {
		i++
	}
	return i
}

func (c *pinCache) link(p *pin) {
	last := c.idle.prev
	last.next, p.prev, p.next, c.idle.prev = p, last, &c.idle, p
	c.bytes += len(p.buf)
	c.count++
}

func (c *pinCache) unlink(p *pin) {
	p.prev.next, p.next.prev = p.next, p.prev
	p.prev, p.next = nil, nil
	c.bytes -= len(p.buf)
	c.count--
}

func (c *pinCache) close() error {
	var errs []error
	for _, p := range c.sorted {
		errs = append(errs, p.mr.Close())
	}
	c.sorted = nil
	return errors.Join(errs...)
}
