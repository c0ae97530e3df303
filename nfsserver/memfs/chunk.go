package memfs

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"example.org/nfsrdma/nfsserver/vfs"
)

// ChunkSize is the unit of file data in bytes. Only the first chunk of a file
// may be smaller: minChunk doubled as often as its data needs.
const (
	ChunkSize = 64 << 10
	minChunk  = 4 << 10
	classes   = 5 // 4, 8, 16, 32, 64 KiB

	firstSlab = 1 << 20
	maxSlab   = 32 << 20
)

// held is one holder that keeps the chunk: a file, or its version of the last
// commit. The bits below count pins: pages lent out.
const held = 1 << 32

// A chunk is a piece of a slab. It is free when refs is 0. While anybody else
// has a reference, its bytes do not change.
type chunk struct {
	refs atomic.Int64
	slab *vfs.Slab
	off  uint32
	n    uint32
	next *chunk // on the free list, or on the way to it
}

func (c *chunk) bytes() []byte { return c.slab.Mem[c.off : c.off+c.n : c.off+c.n] }

// shared reports whether anybody but the one holder refers to c. The holder's
// lock keeps new pins away, so false stays false.
func (c *chunk) shared() bool { return c.refs.Load() != held }

func (c *chunk) pin() { c.refs.Add(1) }

// unpin and drop report whether c became free.
func (c *chunk) unpin() bool {
	n := c.refs.Add(-1)
	if int32(n) < 0 {
		panic("memfs: page released twice")
	}
	return n == 0
}

func (c *chunk) drop() bool {
	n := c.refs.Add(-held)
	if n < 0 {
		panic("memfs: chunk dropped twice")
	}
	return n == 0
}

func (c *chunk) page(off, n uint32) vfs.Page {
	return vfs.Page{Slab: c.slab, Off: c.off + off, Len: n, Ref: c}
}

// chunkLen is the length of chunk number i if its data ends at end, 1 to ChunkSize.
func chunkLen(i uint64, end uint32) uint32 {
	if i > 0 || end > ChunkSize/2 {
		return ChunkSize
	}
	return minChunk << class(end)
}

// class is the smallest class that holds n bytes.
func class(n uint32) int { return bits.Len32((n - 1) / minChunk) }

// chunkList gathers chunks that became free.
type chunkList struct{ head *chunk }

func (l *chunkList) push(c *chunk) {
	c.next = l.head
	l.head = c
}

func (l *chunkList) pop() *chunk {
	c := l.head
	l.head = c.next
	c.next = nil
	return c
}

// pool cuts slabs into chunks and keeps the free ones, last freed first. A chunk
// that was split for smaller files stays split.
type pool struct {
	mu    sync.Mutex
	free  [classes]chunkList
	all   []*chunk
	slabs []*vfs.Slab
}

// get returns a chunk of class n without a reference. Its bytes are what they
// were: the caller overwrites or clears all of them.
func (p *pool) get(n uint32) *chunk {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.take(class(n))
}

func (p *pool) take(class int) *chunk {
	if p.free[class].head == nil {
		if class == classes-1 {
			p.addSlab()
		} else {
			c := p.take(class + 1)
			c.n /= 2
			half := &chunk{slab: c.slab, off: c.off + c.n, n: c.n}
			p.all = append(p.all, half)
			p.free[class].push(half)
			return c
		}
	}
	return p.free[class].pop()
}

func (p *pool) addSlab() {
	size := min(firstSlab<<min(len(p.slabs), 8), maxSlab)
	s := vfs.NewSlab(size)
	p.slabs = append(p.slabs, s)
	cs := make([]chunk, size/ChunkSize)
	for i := len(cs) - 1; i >= 0; i-- {
		cs[i].slab, cs[i].off, cs[i].n = s, uint32(i*ChunkSize), ChunkSize
		p.all = append(p.all, &cs[i])
		p.free[classes-1].push(&cs[i])
	}
}

// lend appends n bytes of pinned pages to out: whole chunks, and for the rest
// one of at least last bytes.
func (p *pool) lend(n int, last uint32, out *vfs.Pages) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n > 0 {
		m := uint32(min(n, ChunkSize))
		c := p.take(class(max(m, last)))
		c.refs.Store(1)
		out.List = append(out.List, c.page(0, m))
		n -= int(m)
	}
}

// put takes back chunks that have no reference.
func (p *pool) put(l *chunkList) {
	if l.head == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for l.head != nil {
		c := l.pop()
		p.free[class(c.n)].push(c)
	}
}

// zeroPages lends zeros for holes. Its slab is never written. The pins are
// spread so that readers do not meet on one counter.
type zeroPages struct {
	slab *vfs.Slab
	pins [16]chunk
}

const zeroSize = 1 << 20

func (z *zeroPages) init() {
	z.slab = vfs.NewSlab(zeroSize)
	for i := range z.pins {
		z.pins[i].refs.Store(held) // never free
	}
}

func (z *zeroPages) page(i uint64, n int) vfs.Page {
	c := &z.pins[i%uint64(len(z.pins))]
	c.pin()
	return vfs.Page{Slab: z.slab, Len: uint32(n), Ref: c}
}
