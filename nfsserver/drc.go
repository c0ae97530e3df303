package nfsserver

import (
	"hash/crc32"
	"sync"
)

// drcReplyMax is the longest reply that is remembered, in bytes without its XID's header: none of the
// procedures that need it is longer.
const drcReplyMax = 512

// drcSumLen is how many bytes of the arguments are part of a call's identity.
const drcSumLen = 256

type drcKey struct {
	host      string // the client's address without its port: it comes back from another
	xid, proc uint32
	sum       uint32
	args      int // length
}

// drcEntry is a call that runs or its reply. prev and next order the replies, oldest first.
type drcEntry struct {
	key        drcKey
	reply      []byte // an RPC message; nil while the call runs
	pins       int    // who copies the reply
	prev, next *drcEntry
	mem        [drcReplyMax]byte
}

type drcVerdict uint8

const (
	drcRun     drcVerdict = iota // execute; the entry, if any, waits for finish or abandon
	drcRunning                   // drop: the call runs
	drcDone                      // answer with the entry's reply, then unpin
)

// drc is the duplicate request cache: it keeps a call that must not be executed twice from being so when the
// client sends it again (RFC 1813 section 4.5). A nil drc remembers nothing.
type drc struct {
	n *counters

	mu      sync.Mutex
	entries map[drcKey]*drcEntry
	free    *drcEntry // by next
	left    int       // entries that have not been needed yet
	old     drcEntry  // head of the ring of replies
}

func newDRC(size int, n *counters) *drc {
	if size < 0 {
		return nil
	}
	d := &drc{n: n, entries: map[drcKey]*drcEntry{}, left: size}
	d.old.prev, d.old.next = &d.old, &d.old
	return d
}

// drcGrow is how many entries are allocated at a time.
const drcGrow = 64

// newDRCKey is the identity of a call.
func newDRCKey(host string, xid, proc uint32, args []byte) drcKey {
	return drcKey{host: host, xid: xid, proc: proc, args: len(args), sum: crc32.ChecksumIEEE(args[:min(len(args), drcSumLen)])}
}

// claim looks a call up. If it is to be executed and all entries are of calls that run, the entry is nil.
func (d *drc) claim(k drcKey) (*drcEntry, drcVerdict) {
	if d == nil {
		return nil, drcRun
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.entries[k]; e != nil {
		if e.reply == nil {
			d.n.drcInProgress.Add(1)
			return nil, drcRunning
		}
		d.n.drcHits.Add(1)
		e.pins++
		e.unlink()
		d.pushNewest(e)
		return e, drcDone
	}
	d.n.drcMisses.Add(1)
	e := d.take()
	if e == nil {
		d.n.drcFull.Add(1)
		return nil, drcRun
	}
	e.key = k
	d.entries[k] = e
	return e, drcRun
}

func (d *drc) take() *drcEntry {
	if n := min(d.left, drcGrow); d.free == nil && n > 0 {
		d.left -= n
		es := make([]drcEntry, n)
		for i := range es {
			es[i].next = d.free
			d.free = &es[i]
		}
	}
	if e := d.free; e != nil {
		d.free, e.next = e.next, nil
		return e
	}
	for e := d.old.next; e != &d.old; e = e.next {
		if e.pins == 0 {
			e.unlink()
			delete(d.entries, e.key)
			e.reply = nil
			d.n.drcEvicts.Add(1)
			return e
		}
	}
	return nil
}

func (d *drc) pushNewest(e *drcEntry) {
	e.prev, e.next = d.old.prev, &d.old
	e.prev.next, e.next.prev = e, e
}

func (e *drcEntry) unlink() {
	e.prev.next, e.next.prev = e.next, e.prev
	e.prev, e.next = nil, nil
}

// finish keeps the reply of a call.
func (d *drc) finish(e *drcEntry, reply []byte) {
	if e == nil {
		return
	}
	if len(reply) > drcReplyMax {
		d.abandon(e)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	e.reply = append(e.mem[:0], reply...)
	d.pushNewest(e)
}

// abandon forgets a call that was not executed.
func (d *drc) abandon(e *drcEntry) {
	if e == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.entries, e.key)
	e.reply = nil
	e.next = d.free
	d.free = e
}

func (d *drc) unpin(e *drcEntry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e.pins--
}
