package memfs

import (
	"context"

	"example.org/nfsrdma/nfsserver/vfs"
)

// regular finds a regular file for a data call.
func (fs *FS) regular(id vfs.ID) (*inode, error) {
	in := fs.inodes.get(id)
	switch {
	case in == nil:
		return nil, vfs.ErrStale
	case in.typ == vfs.Directory:
		return nil, vfs.ErrIsDir
	case in.typ != vfs.Regular:
		return nil, vfs.ErrInval
	}
	return in, nil
}

// lockRegular finds a regular file to change, locks it and fills w.
func (fs *FS) lockRegular(id vfs.ID, w *vfs.WCC) (*inode, error) {
	if w != nil {
		*w = vfs.WCC{}
	}
	in, err := fs.regular(id)
	if err != nil {
		if in = fs.inodes.get(id); in != nil {
			in.mu.RLock()
			in.before(w)
			in.mu.RUnlock()
		}
		return nil, err
	}
	in.mu.Lock()
	if in.dead {
		in.mu.Unlock()
		return nil, vfs.ErrStale
	}
	in.before(w)
	return in, nil
}

// clip cuts n to what the file holds at off; eof says that off+n reaches the end.
func (in *inode) clip(off uint64, n int) (int, bool) {
	if off >= in.size {
		return 0, true
	}
	if left := in.size - off; uint64(n) >= left {
		return int(left), true
	}
	return n, false
}

// Read copies data out.
func (fs *FS) Read(_ context.Context, id vfs.ID, off uint64, dst []byte, a *vfs.Attr) (n int, eof bool, err error) {
	in, err := fs.regular(id)
	if err != nil {
		return 0, false, err
	}
	in.mu.RLock()
	defer in.mu.RUnlock()
	if in.dead {
		return 0, false, vfs.ErrStale
	}
	n, eof = in.clip(off, len(dst))
	for done := 0; done < n; {
		i, o := off/ChunkSize, uint32(off%ChunkSize)
		m := min(n-done, int(ChunkSize-o))
		part := dst[done : done+m]
		k := 0
		if c := in.data.get(i); c != nil && o < c.n {
			k = copy(part, c.bytes()[o:])
		}
		clear(part[k:])
		done += m
		off += uint64(m)
	}
	fs.accessed(in)
	in.attr(a)
	return n, eof, nil
}

// Write stores all of src or, on an error, nothing.
func (fs *FS) Write(_ context.Context, id vfs.ID, off uint64, src []byte, stable bool, w *vfs.WCC) error {
	in, err := fs.lockRegular(id, w)
	if err != nil {
		return err
	}
	defer in.mu.Unlock()
	if len(src) == 0 {
		return nil
	}
	end, err := fs.writeEnd(off, len(src))
	if err != nil {
		return err
	}
	if !fs.opt.Discard {
		if !fs.chargeRange(in, off, end) {
			return vfs.ErrNoSpace
		}
		for len(src) > 0 {
			i, o := off/ChunkSize, uint32(off%ChunkSize)
			m := min(len(src), int(ChunkSize-o))
			fs.save(in, i, stable)
			fs.writeChunk(in, i, o, src[:m])
			src = src[m:]
			off += uint64(m)
		}
	}
	fs.wrote(in, end, stable)
	in.after(w)
	return nil
}

// Commit makes unstable data durable. Whole chunks are committed, so it may be
// more than was asked for.
func (fs *FS) Commit(_ context.Context, id vfs.ID, off, n uint64, w *vfs.WCC) error {
	in, err := fs.lockRegular(id, w)
	if err != nil {
		return err
	}
	fs.commit(in, off, n)
	in.mu.Unlock()
	return nil
}

// writeEnd is the end of a write, if it may be there.
func (fs *FS) writeEnd(off uint64, n int) (uint64, error) {
	end := off + uint64(n)
	if end < off || end > fs.opt.MaxFileSize {
		return 0, vfs.ErrFBig
	}
	return end, nil
}

// wrote updates the attributes after a write that ended at end. mu is held.
func (fs *FS) wrote(in *inode, end uint64, stable bool) {
	in.size = max(in.size, end)
	in.modified(fs.opt.Now())
	if stable {
		fs.commitAll(in)
	}
}

// chargeRange takes the space that a write to [off, end) adds. mu is held.
func (fs *FS) chargeRange(in *inode, off, end uint64) bool {
	var need uint64
	for i := off / ChunkSize; i*ChunkSize < end; i++ {
		want := chunkLen(i, uint32(min(end-i*ChunkSize, ChunkSize)))
		if c := in.data.get(i); c == nil {
			need += uint64(want)
		} else if c.n < want {
			need += uint64(want - c.n)
		}
	}
	if !fs.charge(need) {
		return false
	}
	in.used += need
	return true
}

// writeChunk stores src at o in chunk i, whose space is charged. Bytes of a
// chunk past the end of the file are always zero. mu is held.
func (fs *FS) writeChunk(in *inode, i uint64, o uint32, src []byte) {
	end := o + uint32(len(src))
	c := in.data.get(i)
	if want := chunkLen(i, end); c == nil || c.n < want || c.shared() {
		c = fs.replace(in, i, c, want, o, end)
	}
	copy(c.bytes()[o:end], src)
}

// replace puts a new chunk of at least n bytes in the place of old, with its
// bytes outside [from, to), and returns it. mu is held.
func (fs *FS) replace(in *inode, i uint64, old *chunk, n, from, to uint32) *chunk {
	if old != nil {
		n = max(n, old.n)
	}
	c := fs.pool.get(n)
	c.refs.Store(held)
	fill(c.bytes()[:from], old, 0)
	fill(c.bytes()[to:], old, to)
	in.data.set(i, c)
	if old != nil {
		fs.dropChunk(old)
	}
	return c
}

// fill sets dst to the bytes of c at off, and to zero past its end.
func fill(dst []byte, c *chunk, off uint32) {
	k := 0
	if c != nil && off < c.n {
		k = copy(dst, c.bytes()[off:])
	}
	clear(dst[k:])
}

func (fs *FS) dropChunk(c *chunk) {
	if c.drop() {
		l := chunkList{c}
		fs.pool.put(&l)
	}
}

// truncate cuts off the chunks past size and clears the rest of the last one.
// It does not set the size. mu is held.
func (fs *FS) truncate(in *inode, size uint64) {
	var free chunkList
	var gone uint64
	in.data.truncate((size+ChunkSize-1)/ChunkSize, func(c *chunk) {
		gone += uint64(c.n)
		if c.drop() {
			free.push(c)
		}
	})
	fs.pool.put(&free)
	in.used -= gone
	fs.used.Add(-int64(gone))

	i, o := size/ChunkSize, uint32(size%ChunkSize)
	c := in.data.get(i)
	if o == 0 || size >= in.size || c == nil || o >= c.n {
		return
	}
	if c.shared() {
		c = fs.replace(in, i, c, c.n, o, c.n)
	}
	clear(c.bytes()[o:])
}
