package memfs

import (
	"maps"
	"slices"
)

// savedData is the committed version of a file with unstable data: its size,
// and the chunks that were replaced since (nil for a hole).
type savedData struct {
	size   uint64
	chunks map[uint64]*chunk
}

// save keeps chunk i as it is before an unstable write; holding it makes the
// write go to a copy. mu is held.
func (fs *FS) save(in *inode, i uint64, stable bool) {
	if !fs.opt.TrackUnstable || stable {
		return
	}
	if in.saved == nil {
		in.saved = &savedData{size: in.size, chunks: make(map[uint64]*chunk)}
	}
	if _, ok := in.saved.chunks[i]; ok {
		return
	}
	c := in.data.get(i)
	if c != nil {
		c.refs.Add(held)
	}
	in.saved.chunks[i] = c
}

// commit makes the chunks that hold [off, off+n) durable, to the end if n is 0. mu is held.
func (fs *FS) commit(in *inode, off, n uint64) {
	if in.saved == nil {
		return
	}
	end := off + n
	if n == 0 || end < off || end >= in.size {
		end = in.size
	}
	if off >= end {
		return
	}
	first, last := off/ChunkSize, (end-1)/ChunkSize
	for _, i := range slices.Sorted(maps.Keys(in.saved.chunks)) {
		if i < first || i > last {
			continue
		}
		if c := in.saved.chunks[i]; c != nil {
			fs.dropChunk(c)
		}
		delete(in.saved.chunks, i)
	}
	in.saved.size = max(in.saved.size, min(in.size, (last+1)*ChunkSize))
	if len(in.saved.chunks) == 0 && in.saved.size == in.size {
		in.saved = nil
	}
}

// commitAll makes the file durable as it is. A stable write and a change of the size do so;
// a server may commit more and sooner than asked (RFC 1813 section 3.3.7). mu is held.
func (fs *FS) commitAll(in *inode) { fs.commit(in, 0, 0) }

// Crash stands for a restart of the server: with TrackUnstable, data written
// unstable and not committed since is lost. Pages that are lent stay valid.
// The write verifier changes.
func (fs *FS) Crash() {
	fs.tree.Lock()
	defer fs.tree.Unlock()
	// All at one moment: a COMMIT between the loss of its data and the change of the verifier would hide it.
	var all []*inode
	fs.inodes.each(func(in *inode) bool {
		in.mu.Lock()
		all = append(all, in)
		return true
	})
	fs.verf.Add(1)
	for _, in := range all {
		fs.restore(in)
		in.mu.Unlock()
	}
}

// restore goes back to the committed version. mu is held.
func (fs *FS) restore(in *inode) {
	s := in.saved
	if s == nil {
		return
	}
	in.saved = nil
	for _, i := range slices.Sorted(maps.Keys(s.chunks)) {
		old, now := s.chunks[i], in.data.get(i)
		in.data.set(i, old)
		var delta int64
		if old != nil {
			delta += int64(old.n)
		}
		if now != nil {
			delta -= int64(now.n)
			fs.dropChunk(now)
		}
		in.used += uint64(delta)
		fs.used.Add(delta)
	}
	fs.truncate(in, s.size)
	in.size = s.size
	in.modified(fs.opt.Now())
}

// WriteVerf is the write verifier: it changes when unstable data may have been lost.
func (fs *FS) WriteVerf() uint64 { return fs.verf.Load() }
