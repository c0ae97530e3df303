package dirfs

import (
	"sync"

	"golang.org/x/sys/unix"
)

// A file is a descriptor open for data. Its references are the calls that use it.
type file struct {
	fd    int
	write bool

	// Guarded by cache.mu.
	n          *node // nil: out of the cache, to be closed with the last reference
	refs       int
	prev, next *file
}

// cache keeps files open between calls, the ones used last.
type cache struct {
	mu   sync.Mutex
	ring file // newest at next, oldest at prev
	n    int
	max  int
}

func (c *cache) init(n int) {
	c.max = n
	c.ring.prev, c.ring.next = &c.ring, &c.ring
}

// get returns the file of n, with a reference, if it is open for that use.
func (c *cache) get(n *node, write bool) *file {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := n.file
	if f == nil || write && !f.write {
		return nil
	}
	f.refs++
	c.unlink(f)
	c.link(f)
	return f
}

// put adds a descriptor and returns the file of n, with a reference. Of two that
// can write, the first is kept; of an object that is gone, none.
func (c *cache) put(n *node, fd int, write bool) *file {
	c.mu.Lock()
	if f := n.file; f != nil && (f.write || !write) {
		f.refs++
		c.mu.Unlock()
		_ = unix.Close(fd)
		return f
	}
	if n.gone {
		c.mu.Unlock()
		return &file{fd: fd, write: write, refs: 1}
	}
	var shut []int
	if n.file != nil {
		shut = c.remove(n.file, shut)
	}
	f := &file{fd: fd, write: write, n: n, refs: 1}
	n.file = f
	c.link(f)
	c.n++
	for old := c.ring.prev; c.n > c.max && old != &c.ring; {
		prev := old.prev
		if old.refs == 0 {
			shut = c.remove(old, shut)
		}
		old = prev
	}
	c.mu.Unlock()
	closeAll(shut)
	return f
}

func (c *cache) release(f *file) {
	c.mu.Lock()
	f.refs--
	shut := f.refs == 0 && f.n == nil
	c.mu.Unlock()
	if shut {
		_ = unix.Close(f.fd)
	}
}

// drop closes the file of n, which is gone, as soon as no call uses it.
func (c *cache) drop(n *node) {
	c.mu.Lock()
	n.gone = true
	var shut []int
	if n.file != nil {
		shut = c.remove(n.file, shut)
	}
	c.mu.Unlock()
	closeAll(shut)
}

func (c *cache) dropAll() {
	c.mu.Lock()
	var shut []int
	for c.ring.next != &c.ring {
		shut = c.remove(c.ring.next, shut)
	}
	c.mu.Unlock()
	closeAll(shut)
}

func (c *cache) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// remove takes f out, and adds its descriptor to shut if nobody uses it. mu is held.
func (c *cache) remove(f *file, shut []int) []int {
	c.unlink(f)
	c.n--
	f.n.file = nil
	f.n = nil
	if f.refs == 0 {
		shut = append(shut, f.fd)
	}
	return shut
}

func (c *cache) link(f *file) {
	f.prev, f.next = &c.ring, c.ring.next
	f.prev.next, f.next.prev = f, f
}

func (c *cache) unlink(f *file) {
	f.prev.next, f.next.prev = f.next, f.prev
	f.prev, f.next = nil, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}
