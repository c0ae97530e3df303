package dirfs

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash/fnv"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"example.org/nfsrdma/nfsserver/vfs"
)

// ident tells an object from all others, also from those that had its number before.
type ident struct {
	dev, ino uint64
	tag      uint64 // generation, or a hash of handle or birth time
}

// place is a name of an object.
type place struct {
	dir  *node
	name string
}

// A node is an object that has been given an ID.
type node struct {
	// Constant.
	id    vfs.ID
	ident ident
	typ   vfs.Type

	// mu makes changes and the attributes around them one step; of a directory, also what
	// a name leads to and the note of it. Directories come before files, and
	// directories in the order of their IDs.
	mu        sync.RWMutex
	exclusive bool   // made by an exclusive CREATE
	verf      uint64 // of that

	// Guarded by table.mu. Names that were seen, the newest first; one for
	// a directory, none for the root. They are hints.
	at []place

	// Guarded by cache.mu.
	file *file
	gone bool // nothing is kept open of it any more
}

// maxPlaces bounds the names remembered of a file with many links. If all those go, the others serve
// only after a look-up, or if its file handle leads to one.
const maxPlaces = 1024

// table holds the nodes. Its mutex is the innermost, and held for no system call.
type table struct {
	mu    sync.RWMutex
	byID  map[vfs.ID]*node
	byKey map[ident]*node
	byIno map[inode]*node  // the newest with that number
	reuse map[inode]uint64 // how often a number was removed, on file systems without handles and birth times
}

type inode struct{ dev, ino uint64 }

func (i *ident) inode() inode { return inode{i.dev, i.ino} }

func newTable() table {
	return table{byID: make(map[vfs.ID]*node), byKey: make(map[ident]*node), byIno: make(map[inode]*node), reuse: make(map[inode]uint64)}
}

func (t *table) get(id vfs.ID) *node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.byID[id]
}

// identify says which object h is.
func (fs *FS) identify(h *handle) ident {
	id := ident{dev: devOf(&h.st), ino: h.st.Ino}
	var k kernelHandle
	if !fs.noHandles && nameToHandle(h.fd, &k) == nil {
		if gen, ok := fs.layout.generation(&k, id.ino); ok && id.dev == fs.dev {
			id.tag = uint64(gen)
			return id
		}
		id.tag = hash64(k.bytes())
		return id
	}
	if h.st.Mask&unix.STATX_BTIME != 0 && !fs.noBirth {
		var b [12]byte
		binary.BigEndian.PutUint64(b[:], uint64(h.st.Btime.Sec))
		binary.BigEndian.PutUint32(b[8:], h.st.Btime.Nsec)
		id.tag = hash64(b[:])
		return id
	}
	fs.table.mu.RLock()
	defer fs.table.mu.RUnlock()
	id.tag = fs.table.reuse[id.inode()]
	return id
}

func hash64(b []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(b)
	return h.Sum64()
}

// idOf makes the ID of an object: the same in each FS with the same key.
func (fs *FS) idOf(i ident) vfs.ID {
	ino := i.ino
	if i.dev != fs.dev {
		var b [16]byte
		binary.BigEndian.PutUint64(b[:], i.dev)
		binary.BigEndian.PutUint64(b[8:], i.ino)
		ino = hash64(b[:]) | 1<<63
	}
	gen := uint32(i.tag ^ i.tag>>32)
	return vfs.ID{Ino: ino, Gen: uint64(gen)<<32 | uint64(fs.mac(ino, gen))}
}

func (fs *FS) mac(ino uint64, gen uint32) uint32 {
	var b [12]byte
	binary.BigEndian.PutUint64(b[:], ino)
	binary.BigEndian.PutUint32(b[8:], gen)
	m := hmac.New(sha256.New, fs.key)
	m.Write(b[:])
	return binary.BigEndian.Uint32(m.Sum(nil))
}

// authentic says whether an ID was made with our key.
func (fs *FS) authentic(id vfs.ID) bool {
	return fs.mac(id.Ino, uint32(id.Gen>>32)) == uint32(id.Gen)
}

// know gives the node of an object that was seen as name in dir; a nil dir is no name. The caller
// holds what keeps calls of ours from moving the name: dir.mu or moves.
func (fs *FS) know(h *handle, dir *node, name string) *node {
	key := fs.identify(h)
	t := &fs.table
	t.mu.RLock()
	n := t.byKey[key]
	known := n != nil && (dir == nil || n == fs.root || len(n.at) > 0 && n.at[0] == place{dir, name})
	t.mu.RUnlock()
	if known {
		return n
	}
	id := fs.idOf(key)
	t.mu.Lock()
	defer t.mu.Unlock()
	if n = t.byKey[key]; n == nil {
		if old := t.byIno[key.inode()]; old != nil {
			t.forget(old.ident) // its number is used again, so it is gone
		}
		n = &node{id: id, ident: key, typ: h.typ()}
		t.byKey[key], t.byID[id], t.byIno[key.inode()] = n, n, n
	}
	if dir != nil {
		n.addPlace(dir, name)
	}
	return n
}

// addPlace remembers a name as the newest. table.mu is held.
func (n *node) addPlace(dir *node, name string) {
	n.dropPlace(dir, name)
	if n.typ == vfs.Directory {
		n.at = n.at[:0]
	}
	// The name may lie in a receive buffer.
	n.at = slices.Insert(n.at, 0, place{dir, strings.Clone(name)})
	if len(n.at) > maxPlaces {
		n.at = n.at[:maxPlaces]
	}
}

func (n *node) dropPlace(dir *node, name string) {
	n.at = slices.DeleteFunc(n.at, func(p place) bool { return p == place{dir, name} })
}

// places copies what is known of the names of n.
func (fs *FS) places(n *node) []place {
	fs.table.mu.RLock()
	defer fs.table.mu.RUnlock()
	return slices.Clone(n.at)
}

// unlinked notes that a name was taken from an object, whose last one it may have been.
func (fs *FS) unlinked(key ident, dir *node, name string, last bool) {
	t := &fs.table
	t.mu.Lock()
	n := t.byKey[key]
	if n != nil {
		n.dropPlace(dir, name)
	}
	if last {
		t.forget(key)
		if fs.weak {
			t.reuse[key.inode()]++
		}
	}
	t.mu.Unlock()
	if n != nil && last {
		fs.cache.drop(n)
	}
}

// forget takes an object out. mu is held.
func (t *table) forget(key ident) {
	n := t.byKey[key]
	if n == nil {
		return
	}
	delete(t.byKey, key)
	delete(t.byID, n.id)
	if t.byIno[key.inode()] == n {
		delete(t.byIno, key.inode())
	}
}
