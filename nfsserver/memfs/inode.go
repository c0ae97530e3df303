package memfs

import (
	"sync"
	"sync/atomic"

	"example.org/nfsrdma/nfsserver/vfs"
)

// An inode is one object.
type inode struct {
	// Constant once the inode is in the table.
	id        vfs.ID
	typ       vfs.Type
	target    string // of a symbolic link
	rdev      [2]uint32
	dir       *directory // of a directory; what is in it is guarded by FS.tree
	exclusive bool       // made by an exclusive CREATE
	verf      uint64     // of that CREATE

	atime    atomic.Uint64 // packed; set under a read lock of mu
	atimeDue atomic.Bool   // changed since atime was set

	// Readers on other processors take mu all the time: it has a cache line to itself.
	_  [64]byte
	mu sync.RWMutex // guards what follows
	_  [64]byte

	dead         bool // no name is left
	mode         uint32
	nlink        uint32
	uid, gid     uint32
	size         uint64
	used         uint64 // bytes of chunks
	mtime, ctime vfs.Time
	data         filemap
	saved        *savedData // what Crash restores; nil if nothing is unstable
}

const nsPerSec = 1_000_000_000

func packTime(t vfs.Time) uint64   { return uint64(t.Sec)<<32 | uint64(t.Nsec) }
func unpackTime(v uint64) vfs.Time { return vfs.Time{Sec: uint32(v >> 32), Nsec: uint32(v)} }

// attr fills a, if not nil. mu is held.
func (in *inode) attr(a *vfs.Attr) {
	if a == nil {
		return
	}
	*a = vfs.Attr{
		ID: in.id, Type: in.typ,
		Mode: in.mode, Nlink: in.nlink, UID: in.uid, GID: in.gid,
		Size: in.size, Used: in.used,
		RdevMajor: in.rdev[0], RdevMinor: in.rdev[1],
		Atime: unpackTime(in.atime.Load()), Mtime: in.mtime, Ctime: in.ctime,
	}
}

func (in *inode) rlockAttr(a *vfs.Attr) {
	in.mu.RLock()
	in.attr(a)
	in.mu.RUnlock()
}

// before and after fill one side of w, if not nil. mu is held.
func (in *inode) before(w *vfs.WCC) {
	if w != nil {
		in.attr(&w.Before)
		w.After = w.Before // of a call that fails
	}
}

func (in *inode) after(w *vfs.WCC) {
	if w != nil {
		in.attr(&w.After)
	}
}

// changed moves ctime on, always forward, so that a SETATTR guard sees every
// change even if the clock stands. It returns the new ctime. mu is held.
func (in *inode) changed(now vfs.Time) vfs.Time {
	if packTime(now) <= packTime(in.ctime) {
		now = in.ctime
		now.Nsec++
		if now.Nsec >= nsPerSec {
			now = vfs.Time{Sec: now.Sec + 1}
		}
	}
	in.ctime = now
	return now
}

// modified is changed for the content: mtime too. mu is held.
func (in *inode) modified(now vfs.Time) {
	in.mtime = in.changed(now)
	if !in.atimeDue.Load() {
		in.atimeDue.Store(true)
	}
}

// accessed sets atime at the first access after a change, like Linux's
// relatime; so reads do not meet on the clock. mu is held for reading.
func (fs *FS) accessed(in *inode) {
	if in.atimeDue.Load() && in.atimeDue.CompareAndSwap(true, false) {
		in.atime.Store(packTime(fs.opt.Now()))
	}
}

// A table finds inodes by number without a lock. Adding and removing is done
// under FS.tree. Numbers are used again, generations are not.
type table struct {
	pages atomic.Pointer[[]*tablePage]
	spare []uint64 // numbers to use again
	next  uint64
	gen   uint64
	count uint64
}

const tablePageLen = 256

type tablePage [tablePageLen]atomic.Pointer[inode]

// get returns nil for an ID that is stale or never was.
func (t *table) get(id vfs.ID) *inode {
	pages := t.pages.Load()
	if pages == nil || id.Ino/tablePageLen >= uint64(len(*pages)) {
		return nil
	}
	in := (*pages)[id.Ino/tablePageLen][id.Ino%tablePageLen].Load()
	if in == nil || in.id.Gen != id.Gen {
		return nil
	}
	return in
}

func (t *table) add(in *inode) {
	var ino uint64
	if n := len(t.spare); n > 0 {
		ino, t.spare = t.spare[n-1], t.spare[:n-1]
	} else {
		t.next++
		ino = t.next
	}
	t.gen++
	t.count++
	in.id = vfs.ID{Ino: ino, Gen: t.gen}

	var pages []*tablePage
	if p := t.pages.Load(); p != nil {
		pages = *p
	}
	if ino/tablePageLen >= uint64(len(pages)) {
		grown := append(pages[:len(pages):len(pages)], new(tablePage))
		t.pages.Store(&grown)
		pages = grown
	}
	pages[ino/tablePageLen][ino%tablePageLen].Store(in)
}

func (t *table) remove(in *inode) {
	(*t.pages.Load())[in.id.Ino/tablePageLen][in.id.Ino%tablePageLen].Store(nil)
	t.spare = append(t.spare, in.id.Ino)
	t.count--
}

// each calls f for all inodes in the order of their numbers, until it returns false.
func (t *table) each(f func(*inode) bool) {
	for _, page := range *t.pages.Load() {
		for i := range page {
			if in := page[i].Load(); in != nil && !f(in) {
				return
			}
		}
	}
}

// newInode makes an object that has no name and is not in the table yet.
func (fs *FS) newInode(typ vfs.Type, mode uint32) *inode {
	in := &inode{typ: typ, mode: mode & 0o7777, nlink: 1}
	if typ == vfs.Directory {
		in.nlink = 2
		in.dir = newDirectory()
	}
	in.modified(fs.opt.Now())
	in.atime.Store(packTime(in.mtime))
	return in
}

// unlinked takes a name away from in; for a directory its only one. With the
// last one in ends. tree is held.
func (fs *FS) unlinked(in *inode) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.nlink--
	in.changed(fs.opt.Now())
	if in.nlink > 0 && in.typ != vfs.Directory {
		return
	}
	in.nlink = 0
	in.dead = true
	fs.commitAll(in)
	fs.truncate(in, 0)
	fs.inodes.remove(in)
}
