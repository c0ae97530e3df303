package svcrdma

import (
	"errors"
	"math/bits"
	"sync"

	"example.org/nfsrdma/verbs"
)

// Buffer is registered memory of a pool.
type Buffer struct {
	Mem
	mr    verbs.MR
	class int
	pool  *pool
	next  *Buffer
}

// pool lends buffers up to a number of bytes. Who finds none is queued and served again when there is one, so
// that no thread waits for memory that only a thread can give back.
type pool struct {
	x     *Transport
	limit int

	mu     sync.Mutex
	size   int       // bytes of all buffers
	free   []*Buffer // by class
	head   *Request  // who waits, in order
	tail   *Request
	closed bool
}

// Class k holds smallest<<(2k) bytes of data and the room for a head.
const smallest = 4096

func classOf(n int) int {
	n = max(n-headRoom, 1)
	return (bits.Len(uint((n-1)/smallest)) + 1) / 2
}

func (p *pool) classLen(k int) int { return min(smallest<<(2*k), p.x.cfg.MaxPayload) + headRoom }

func newPool(x *Transport, limit int) *pool {
	p := &pool{x: x, limit: limit}
	p.free = make([]*Buffer, classOf(x.cfg.MaxPayload+headRoom)+1)
	return p
}

// get gives a buffer of at least n bytes; or nil, and then r waits: it is queued again with the buffer in
// *slot. n is at most MaxPayload + headRoom.
func (p *pool) get(n int, r *Request, slot **Buffer) (*Buffer, error) {
	k := classOf(n)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.head == nil {
		b, err := p.take(k)
		if b != nil || err != nil {
			return b, err
		}
	}
	r.conn.n.memWait.Add(1)
	r.waitClass, r.waitSlot, r.waitNext, r.waitPool = k, slot, nil, p
	r.where = parked
	if p.tail == nil {
		p.head = r
	} else {
		p.tail.waitNext = r
	}
	p.tail = r
	return nil, nil
}

// take finds or makes a buffer; nil if the limit is reached. mu is held.
func (p *pool) take(k int) (*Buffer, error) {
	if b := p.free[k]; b != nil {
		p.free[k], b.next = b.next, nil
		return b, nil
	}
	n := p.classLen(k)
	for j := 0; p.size+n > p.limit; j++ {
		if j == len(p.free) {
			return nil, nil
		}
		for p.free[j] != nil && p.size+n > p.limit {
			b := p.free[j]
			p.free[j] = b.next
			p.size -= len(b.Bytes)
			_ = b.mr.Close()
		}
	}
	mr, err := p.x.pd.AllocMR(n, p.x.sinkAccess())
	if err != nil {
		return nil, err
	}
	p.size += n
	return &Buffer{Mem: Mem{Bytes: mr.Bytes(), Addr: mr.Addr(), Len: uint32(n), LKey: mr.LKey()}, mr: mr, class: k, pool: p}, nil
}

// put gives b back, if it is one, and the longest waiting requests what they wait for.
func (b *Buffer) put() {
	if b == nil {
		return
	}
	p := b.pool
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		_ = b.mr.Close()
		return
	}
	b.next = p.free[b.class]
	p.free[b.class] = b
	var ready *Request
	last := &ready
	for r := p.head; r != nil; r = p.head {
		got, err := p.take(r.waitClass)
		if got == nil && err == nil {
			break
		}
		*r.waitSlot = got // nil after an error: it asks again, and sees it
		p.head = r.waitNext
		r.waitNext, r.waitPool = nil, nil
		*last, last = r, &r.waitNext
	}
	if p.head == nil {
		p.tail = nil
	}
	p.mu.Unlock()
	for r := ready; r != nil; {
		next := r.waitNext
		r.waitNext = nil
		r.conn.enqueue(r)
		r = next
	}
}

// forget takes the requests of c out of the queue.
func (p *pool) forget(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := &p.head
	p.tail = nil
	for *at != nil {
		if r := *at; r.conn == c {
			*at, r.waitNext, r.waitPool = r.waitNext, nil, nil
			continue
		}
		p.tail = *at
		at = &(*at).waitNext
	}
}

func (p *pool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var err error
	for k := range p.free {
		for b := p.free[k]; b != nil; b = b.next {
			err = errors.Join(err, b.mr.Close())
		}
		p.free[k] = nil
	}
	return err
}
