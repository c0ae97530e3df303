package memfs

import (
	"context"

	"example.org/nfsrdma/nfsserver/vfs"
)

// maxLend bounds the bytes of one ReadPages or GrabPages.
const maxLend = 1 << 30

// ReadPages appends the chunks of the range to out, holes as zeros. At most 1 GiB
// is lent at once.
func (fs *FS) ReadPages(_ context.Context, id vfs.ID, off uint64, n int, out *vfs.Pages, a *vfs.Attr) (eof bool, err error) {
	in, err := fs.regular(id)
	if err != nil {
		return false, err
	}
	if n < 0 {
		return false, vfs.ErrInval
	}
	in.mu.RLock()
	defer in.mu.RUnlock()
	if in.dead {
		return false, vfs.ErrStale
	}
	n, eof = in.clip(off, min(n, maxLend))
	for n > 0 {
		i, o := off/ChunkSize, uint32(off%ChunkSize)
		var m int
		if c := in.data.get(i); c != nil && o < c.n {
			m = min(n, int(c.n-o))
			c.pin()
			out.List = append(out.List, c.page(o, uint32(m)))
		} else {
			m = in.hole(i, o, min(n, zeroSize))
			out.List = append(out.List, fs.zero.page(i, m))
		}
		n -= m
		off += uint64(m)
	}
	fs.accessed(in)
	in.attr(a)
	return eof, nil
}

// hole is the length of the hole that starts at o in chunk i, up to n.
func (in *inode) hole(i uint64, o uint32, n int) int {
	m := int(ChunkSize - o)
	for m < n {
		i++
		if in.data.get(i) != nil {
			break
		}
		m += ChunkSize
	}
	return min(m, n)
}

// ReleasePages gives pages back and empties p.
func (fs *FS) ReleasePages(p *vfs.Pages) {
	var free chunkList
	for k := range p.List {
		if c := p.List[k].Ref.(*chunk); c.unpin() {
			free.push(c)
		}
	}
	p.Reset()
	fs.pool.put(&free)
}

// GrabPages appends empty chunks to out. The write must start at a chunk and
// end at one, or end no earlier than the file. Lent memory is not charged to
// the capacity before it becomes the file's.
func (fs *FS) GrabPages(id vfs.ID, off uint64, n int, out *vfs.Pages) bool {
	in, err := fs.regular(id)
	if err != nil || n <= 0 || n > maxLend {
		return false
	}
	end, err := fs.writeEnd(off, n)
	if err != nil {
		return false
	}
	last := uint32(0)
	if !fs.opt.Discard {
		if off%ChunkSize != 0 {
			return false
		}
		if end%ChunkSize != 0 {
			in.mu.RLock()
			defer in.mu.RUnlock()
			if end < in.size {
				return false
			}
			last = ChunkSize
			if end < ChunkSize {
				last = 0
				if in.data.head != nil {
					last = in.data.head.n
				}
			}
		}
	}
	fs.pool.lend(n, last, out)
	return true
}

// WritePages makes pages of GrabPages the file's, or, on an error, none. It empties p.
func (fs *FS) WritePages(_ context.Context, id vfs.ID, off uint64, p *vfs.Pages, stable bool, w *vfs.WCC) error {
	// Whatever is not the file's at the end goes back.
	defer fs.ReleasePages(p)
	in, err := fs.lockRegular(id, w)
	if err != nil {
		return err
	}
	defer in.mu.Unlock()
	n := p.Len()
	if n == 0 {
		return nil
	}
	end, err := fs.writeEnd(off, n)
	if err != nil {
		return err
	}
	if !fs.opt.Discard {
		if !fs.grabbed(off, p) {
			return vfs.ErrInval
		}
		if !fs.chargeRange(in, off, end) {
			return vfs.ErrNoSpace
		}
		for k := range p.List {
			i := off/ChunkSize + uint64(k)
			fs.save(in, i, stable)
			fs.swapChunk(in, i, &p.List[k])
		}
	}
	fs.wrote(in, end, stable)
	in.after(w)
	return nil
}

// grabbed checks that p is what GrabPages gave for off.
func (fs *FS) grabbed(off uint64, p *vfs.Pages) bool {
	if off%ChunkSize != 0 {
		return false
	}
	for k := range p.List {
		g := &p.List[k]
		c, ok := g.Ref.(*chunk)
		if !ok || c.refs.Load() != 1 || g.Off != c.off || g.Len == 0 || g.Len > c.n {
			return false
		}
		if k < len(p.List)-1 && g.Len != ChunkSize {
			return false
		}
	}
	return true
}

// swapChunk makes g's chunk number i of the file, and leaves the old one in g,
// pinned, to be released. mu is held.
func (fs *FS) swapChunk(in *inode, i uint64, g *vfs.Page) {
	c, old := g.Ref.(*chunk), in.data.get(i)
	want := chunkLen(i, g.Len)
	if old != nil {
		want = max(want, old.n)
	}
	if c.n != want { // the file changed between grab and write
		fs.writeChunk(in, i, 0, g.Bytes())
		return
	}
	fill(c.bytes()[g.Len:], old, g.Len)
	c.refs.Store(held)
	in.data.set(i, c)
	if old == nil {
		*g = fs.zero.page(i, 0)
		return
	}
	old.refs.Add(1 - held)
	*g = old.page(0, old.n)
}
