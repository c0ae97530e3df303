package memfs

import (
	"bytes"
	"fmt"
	"sync/atomic"
)

// Pinned is the number of pages that are lent and not yet released.
func (fs *FS) Pinned() int {
	fs.pool.mu.Lock()
	defer fs.pool.mu.Unlock()
	n := 0
	for _, c := range fs.pool.all {
		n += pins(&c.refs)
	}
	for i := range fs.zero.pins {
		n += pins(&fs.zero.pins[i].refs)
	}
	return n
}

func pins(refs *atomic.Int64) int { return int(refs.Load() & (held - 1)) }

// CheckConsistent verifies names, link counts, space and chunks against each
// other, for tests. Pages may be lent, but no call may be going on.
func (fs *FS) CheckConsistent() error {
	fs.tree.RLock()
	defer fs.tree.RUnlock()
	c := checker{fs: fs, links: make(map[*inode]uint32), holders: make(map[*chunk]int64)}
	c.tree(fs.root)
	c.inodes()
	c.chunks()
	return c.err
}

type checker struct {
	fs      *FS
	err     error // the first
	links   map[*inode]uint32
	holders map[*chunk]int64
}

func (c *checker) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("memfs: "+format, args...)
	}
}

// tree counts the names of all objects and follows directories.
func (c *checker) tree(in *inode) {
	c.links[in] += 2
	d := in.dir
	live := 0
	cookie := uint64(cookieParent)
	for _, e := range d.order {
		if e.cookie <= cookie || e.cookie > d.last {
			c.fail("cookie %d of %q is out of order", e.cookie, e.name)
		}
		cookie = e.cookie
		if e.in == nil {
			continue
		}
		live++
		if d.names[e.name] != e {
			c.fail("entry %q is not under its name", e.name)
		}
		if c.fs.inodes.get(e.in.id) != e.in {
			c.fail("entry %q leads to no object", e.name)
		}
		if e.in.dir == nil {
			c.links[e.in]++
			continue
		}
		c.links[in]++
		if c.links[e.in] > 0 {
			c.fail("directory %q has two names", e.name)
			return
		}
		if e.in.dir.parent != in {
			c.fail("directory %q has another parent", e.name)
		}
		c.tree(e.in)
	}
	if live != len(d.names) {
		c.fail("directory %d has %d names and %d entries", in.id.Ino, len(d.names), live)
	}
}

func (c *checker) inodes() {
	var count, used uint64
	c.fs.inodes.each(func(in *inode) bool {
		in.mu.RLock()
		defer in.mu.RUnlock()
		count++
		used += in.used
		if in.dead {
			c.fail("object %d is dead", in.id.Ino)
		}
		if in.nlink != c.links[in] {
			c.fail("object %d has %d links, counts %d", in.id.Ino, c.links[in], in.nlink)
		}
		c.data(in)
		return true
	})
	if count != c.fs.inodes.count {
		c.fail("%d objects, counted %d", count, c.fs.inodes.count)
	}
	if have := uint64(c.fs.used.Load()); have != used {
		c.fail("files use %d bytes, counted %d", used, have)
	}
}

func (c *checker) data(in *inode) {
	var used uint64
	in.data.each(func(i uint64, ch *chunk) {
		used += uint64(ch.n)
		c.holders[ch]++
		if i > 0 && ch.n != ChunkSize {
			c.fail("object %d: chunk %d of %d bytes", in.id.Ino, i, ch.n)
		}
		end := min(in.size-min(in.size, i*ChunkSize), uint64(ch.n))
		if end == 0 {
			c.fail("object %d: chunk %d is past the end %d", in.id.Ino, i, in.size)
		}
		if tail := ch.bytes()[end:]; bytes.Count(tail, []byte{0}) != len(tail) {
			c.fail("object %d: chunk %d is not zero past the end %d", in.id.Ino, i, in.size)
		}
	})
	if used != in.used {
		c.fail("object %d uses %d bytes, counted %d", in.id.Ino, used, in.used)
	}
	if in.saved == nil {
		return
	}
	for _, ch := range in.saved.chunks {
		if ch != nil {
			c.holders[ch]++
		}
	}
}

// chunks checks that free, held and lent chunks make up the slabs.
func (c *checker) chunks() {
	p := &c.fs.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	free := make(map[*chunk]bool)
	for k := range p.free {
		for ch := p.free[k].head; ch != nil; ch = ch.next {
			if class(ch.n) != k || free[ch] {
				c.fail("free list %d is broken", k)
				return
			}
			free[ch] = true
		}
	}
	var cut, slabs uint64
	for _, ch := range p.all {
		cut += uint64(ch.n)
		refs := ch.refs.Load()
		if refs/held != c.holders[ch] {
			c.fail("chunk with %d holders counts %d", c.holders[ch], refs/held)
		}
		if (refs == 0) != free[ch] {
			c.fail("chunk with references %#x, free %v", refs, free[ch])
		}
	}
	for _, s := range p.slabs {
		slabs += uint64(len(s.Mem))
	}
	if cut != slabs {
		c.fail("%d bytes of chunks in %d bytes of slabs", cut, slabs)
	}
}
