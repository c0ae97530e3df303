package softroce

import (
	"fmt"
	"sync"
	"sync/atomic"

	"example.org/nfsrdma/verbs"
)

type regionKind uint8

const (
	kindMR     regionKind = iota
	kindFast              // fast-registration region
	kindFMR               // fast memory region
	kindMW                // memory window
	kindGlobal            // every DMA address, by rkey
	kindLocal             // every DMA address, by lkey
)

// region is what a key stands for. The fields below key change only while the
// key is not valid, and are read within a section.
type region struct {
	dev   *Device
	pd    *PD
	kind  regionKind
	index uint32
	g     guard

	tag    atomic.Uint32      // its low byte
	user   atomic.Pointer[qp] // whose engine copies, since the key is valid: none, this one, several
	mu     sync.Mutex         // closed, what a key stands for, and changes of bound
	bound  atomic.Int32       // windows bound to it
	closed bool

	key    atomic.Uint32 // the valid key, or the one that will be
	access verbs.Access
	addr   uint64
	length uint64
	base   uint64  // what the first byte's address is for users of the key: addr, or 0 if zero based
	mem    []byte  // kindMR: all of it
	pages  []seg   // kindFast, kindFMR
	parent *region // kindMW
	qp     *qp     // kindMW type 2: the owner
}

// keyTable finds a region by the index in its key, without a lock.
type keyTable struct {
	mu     sync.Mutex
	chunks [keyChunks]atomic.Pointer[[keyChunk]atomic.Pointer[region]]
	free   []uint32 // a queue: an index rests as long as it can
	grown  int
	next   []int // order in which chunks come into use
}

const (
	keyChunk  = 1024
	keyChunks = 256
	maxKeys   = keyChunk * keyChunks
)

func (t *keyTable) get(key uint32) *region {
	i := key >> 8
	if i >= maxKeys {
		return nil
	}
	c := t.chunks[i/keyChunk].Load()
	if c == nil {
		return nil
	}
	return c[i%keyChunk].Load()
}

func (d *Device) newRegion(pd *PD, kind regionKind) (*region, error) {
	t := &d.keys
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.free) == 0 {
		if t.grown == keyChunks {
			return nil, fmt.Errorf("softroce: %s: all %d keys are in use: %w", d.name, maxKeys, verbs.ErrNoResources)
		}
		if t.next == nil {
			t.next = d.rng.Perm(keyChunks)
		}
		c := t.next[t.grown]
		t.grown++
		t.chunks[c].Store(new([keyChunk]atomic.Pointer[region]))
		for _, i := range d.rng.Perm(keyChunk) {
			if k := uint32(c*keyChunk + i); k != 0 { // keys 0 to 255 are never valid
				t.free = append(t.free, k)
			}
		}
	}
	i := t.free[0]
	t.free = t.free[1:]
	r := &region{dev: d, pd: pd, kind: kind, index: i}
	r.tag.Store(d.rng.Uint32())
	r.key.Store(i<<8 | r.tag.Load()&0xff)
	t.chunks[i/keyChunk].Load()[i%keyChunk].Store(r)
	return r, nil
}

// drop frees the key's index. The next user of the index starts with another tag.
func (d *Device) drop(r *region) {
	t := &d.keys
	t.mu.Lock()
	defer t.mu.Unlock()
	t.chunks[r.index/keyChunk].Load()[r.index%keyChunk].Store(nil)
	t.free = append(t.free, r.index)
}

// nextKey changes the tag.
func (r *region) nextKey() uint32 {
	return r.index<<8 | r.tag.Add(1)&0xff
}

// why is the reason that an access fails.
type why uint8

const (
	fine why = iota
	badKey
	badPD
	badRights
	badRange
	badOwner
	unmapped
)

func (w why) String() string {
	return [...]string{"fine", "no such key", "other protection domain", "right missing", "out of range",
		"window of another queue pair", "address not mapped"}[w]
}

// byPeer is added to the rights needed when it is the peer that names the key.
const byPeer verbs.Access = 1 << 31

// span appends to m the memory that [addr, addr+n) of key names, after checking
// domain, rights and bounds. q is the queue pair that would use it; n is not 0.
func (d *Device) span(m *message, q *qp, pd *PD, key uint32, addr uint64, n uint32, need verbs.Access) why {
	r := d.keys.get(key)
	if r == nil {
		return badKey
	}
	if r.kind != kindMR { // whose fields never change
		q.enter()
		r.usedBy(q, need)
	}
	gen, ok := r.g.current()
	if !ok {
		return badKey
	}
	if r.key.Load() != key && !isPlanted(BugStaleKey) {
		return badKey
	}
	if r.pd != pd && !isPlanted(BugDomain) {
		return badPD
	}
	remote := need&byPeer != 0
	need &^= byPeer
	if r.access&need != need || remote && r.kind == kindLocal || !remote && r.kind == kindMW {
		if !isPlanted(BugRights) {
			return badRights
		}
	}
	switch r.kind {
	case kindGlobal, kindLocal:
		return d.dma.span(m, addr, n)
	case kindMW:
		if r.qp != nil && r.qp != q {
			return badOwner
		}
	}
	off := addr - r.base
	if addr < r.base || off > r.length || uint64(n) > r.length-off {
		if !isPlanted(BugBounds) || uint64(n) > r.length {
			return badRange
		}
		off = 0
	}
	return r.slice(m, &r.g, gen, off, n)
}

// slice appends n bytes of the region at off, guarded by g in generation gen.
func (r *region) slice(m *message, g *guard, gen uint32, off uint64, n uint32) why {
	switch r.kind {
	case kindMR:
		m.add(seg{r.mem[off : off+uint64(n)], g, gen})
	case kindFast, kindFMR:
		i := uint64(0)
		if first := uint64(len(r.pages[0].b)); off >= first { // all others but the last are whole pages
			i, off = 1+(off-first)/verbs.PageSize, (off-first)%verbs.PageSize
		}
		for ; n > 0; i++ {
			p := r.pages[i].b
			k := min(n, uint32(uint64(len(p))-off))
			m.add(seg{p[off : off+uint64(k)], g, gen})
			n -= k
			off = 0
		}
	case kindMW:
		// Its parent cannot be deregistered while it is bound.
		return r.parent.slice(m, g, gen, r.addr-r.parent.addr+off, n)
	}
	return fine
}

// several stands for more than one user of a region.
var several qp

// usedBy notes, before the key is looked at, whose engine will copy: that which receives.
func (r *region) usedBy(q *qp, need verbs.Access) {
	if need&(verbs.LocalWrite|verbs.RemoteWrite) == 0 {
		q = q.peer
	}
	if q == nil || r.user.Load() == q || r.user.CompareAndSwap(nil, q) {
		return
	}
	if r.user.Load() != &several {
		r.user.Store(&several)
	}
}

// waitCopies waits for the copies that began while the key was valid. q's engine calls it, and is not copying.
func (r *region) waitCopies(q *qp) {
	q.leave()
	switch u := r.user.Load(); u {
	case nil, q:
	case &several:
		q.sec.wait()
	default:
		if q.sec.live {
			u.section.wait()
		}
	}
}

// invalidate ends a fast registration or a type 2 window by its key. It fails
// for a key that is not valid or of a kind that cannot be invalidated.
func (d *Device) invalidate(q *qp, key uint32) why {
	r := d.keys.get(key)
	if r == nil {
		return badKey
	}
	gen, ok := r.g.current()
	if !ok || r.key.Load() != key {
		return badKey
	}
	if r.pd != q.pd {
		return badPD
	}
	switch r.kind {
	case kindFast:
		ok = r.g.end(gen)
		r.waitCopies(q)
		if !ok {
			return badKey
		}
		return fine
	case kindMW:
		return r.unbindKey(q, gen)
	}
	return badRights
}

// unbindKey ends the binding of a type 2 window in generation gen.
func (r *region) unbindKey(q *qp, gen uint32) why {
	q.leave()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch now := r.g.gen.Load(); {
	case now != gen:
		return badKey
	case r.qp == nil:
		return badRights
	case r.qp != q:
		return badOwner
	}
	r.unbind()
	return fine
}

// unbind ends a window's binding, if there is one. r.mu is held.
func (r *region) unbind() {
	r.g.revoke(&r.dev.net.sec)
	if r.parent == nil {
		return
	}
	r.parent.bound.Add(-1)
	r.parent = nil
	if r.qp != nil {
		r.qp = nil
		r.dev.ownWindows(r, nil)
	}
}
