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
	r.wait = poolWait{class: k, slot: slot}
	p.park(r)
	return nil, nil
}

// reserve counts n bytes that others lend to r as the pool's, until r ends; or gives false, and then r waits.
func (p *pool) reserve(n int, r *Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.head == nil && p.room(n) {
		p.size += n
		r.reserved = n
		return true
	}
	r.wait = poolWait{bytes: n}
	p.park(r)
	return false
}

// poolWait is what a parked request waits for: a buffer of a class, put into slot, or bytes to reserve.
type poolWait struct {
	class int
	slot  **Buffer
	bytes int
	next  *Request
}

// park puts r, which has said what it waits for, at the end of the queue. mu is held.
func (p *pool) park(r *Request) {
	r.conn.n.memWait.Add(1)
	r.where = parked
	if p.tail == nil {
		p.head = r
	} else {
		p.tail.wait.next = r
	}
	p.tail = r
}

// room makes room for n bytes, at the cost of free buffers; false if there is none. mu is held.
func (p *pool) room(n int) bool {
	for j := 0; p.size+n > p.limit; j++ {
		if j == len(p.free) {
			return false
		}
		for p.free[j] != nil && p.size+n > p.limit {
			b := p.free[j]
			p.free[j] = b.next
			p.size -= len(b.Bytes)
			_ = b.mr.Close()
		}
	}
	return true
}

// take finds or makes a buffer; nil if the limit is reached. mu is held.
func (p *pool) take(k int) (*Buffer, error) {
	if b := p.free[k]; b != nil {
		p.free[k], b.next = b.next, nil
		return b, nil
	}
	n := p.classLen(k)
	if !p.room(n) {
		return nil, nil
	}
	mr, err := p.x.pd.AllocMR(n, p.x.sinkAccess())
	if err != nil {
		return nil, err
	}
	p.size += n
	return &Buffer{Mem: Mem{Bytes: mr.Bytes(), Addr: mr.Addr(), Len: uint32(n), LKey: mr.LKey()}, mr: mr, class: k, pool: p}, nil
}

// give hands out what the first in the queue wait for, as far as there is room, and takes them off it. mu is held.
func (p *pool) give() (ready *Request) {
	last := &ready
	for r := p.head; r != nil; r = p.head {
		if w := &r.wait; w.slot == nil {
			if !p.room(w.bytes) {
				break
			}
			p.size += w.bytes
			r.reserved = w.bytes
		} else {
			b, err := p.take(w.class)
			if b == nil && err == nil {
				break
			}
			*w.slot = b // nil after an error: it asks again, and sees it
		}
		p.head = r.wait.next
		r.wait.next = nil
		*last, last = r, &r.wait.next
	}
	if p.head == nil {
		p.tail = nil
	}
	return ready
}

// wake queues those whom give took off.
func wake(r *Request) {
	for r != nil {
		next := r.wait.next
		r.wait.next = nil
		r.conn.enqueue(r)
		r = next
	}
}

// unreserve ends a reservation.
func (p *pool) unreserve(n int) {
	p.mu.Lock()
	p.size -= n
	ready := p.give()
	p.mu.Unlock()
	wake(ready)
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
	ready := p.give()
	p.mu.Unlock()
	wake(ready)
}

// forget takes the requests of c out of the queue.
func (p *pool) forget(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := &p.head
	p.tail = nil
	for *at != nil {
		if r := *at; r.conn == c {
			*at, r.wait.next = r.wait.next, nil
			continue
		}
		p.tail = *at
		at = &(*at).wait.next
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
