package svctcp

import (
	"math/bits"
	"sync"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/svc"
)

// memory lends buffers, and counts what others lend, up to a number of bytes. A request that finds none is parked
// without a thread, and served again when its turn has come.
type memory struct {
	x      *Transport
	left   *sched.Sem
	parked *sched.Queue[*Request]
	free   []sync.Pool // of *Buffer, by class
}

// Buffer is lent memory.
type Buffer struct {
	svc.Mem
	class int
	of    *memory
}

// Class k holds smallest<<(2k) bytes of data and the room for a head.
const smallest = 4096

func classOf(n int) int {
	n = max(n-headRoom, 1)
	return (bits.Len(uint((n-1)/smallest)) + 1) / 2
}

func (m *memory) classLen(k int) int { return min(smallest<<(2*k), m.x.cfg.MaxPayload) + headRoom }

func newMemory(x *Transport, what string, limit int) *memory {
	m := &memory{x: x, left: x.s.NewSem(what, limit), parked: sched.NewQueue[*Request](x.s, "a request that waits for "+what)}
	m.free = make([]sync.Pool, classOf(x.cfg.MaxPayload+headRoom)+1)
	x.tasks.Go("svctcp "+what, m.serve)
	return m
}

// get gives a buffer of at least n bytes, at most MaxPayload + headRoom; nil if too much is lent.
func (m *memory) get(n int) *Buffer {
	k := classOf(n)
	if !m.left.TryAcquire(m.classLen(k)) {
		return nil
	}
	return m.make(k)
}

// wait is get that waits.
func (m *memory) wait(n int) (*Buffer, error) {
	k := classOf(n)
	if err := m.left.Acquire(m.x.ctx, m.classLen(k)); err != nil {
		return nil, err
	}
	return m.make(k), nil
}

func (m *memory) make(k int) *Buffer {
	if b, ok := m.free[k].Get().(*Buffer); ok {
		return b
	}
	n := m.classLen(k)
	return &Buffer{Mem: svc.Mem{Bytes: make([]byte, n), Len: uint32(n)}, class: k, of: m}
}

// put gives b back, if it is one.
func (b *Buffer) put() {
	if b != nil {
		n := len(b.Bytes)
		b.of.free[b.class].Put(b)
		b.of.left.Release(n)
	}
}

// park lets r wait: for a buffer of n bytes, or for n bytes of others. It is still held.
func (m *memory) park(r *Request, n int, reserve bool) {
	r.conn.n.memWait.Add(1)
	r.conn.busy.Add(1)
	r.wants, r.wantsReserve = n, reserve
	if !m.parked.Push(r) {
		m.giveUp(r, errShutdown)
	}
}

// serve gives those that are parked what they wait for, in order.
func (m *memory) serve() {
	for {
		r, err := m.parked.Pop(m.x.ctx)
		if err != nil {
			break
		}
		m.give(r)
	}
	m.parked.Close()
	for r, ok := m.parked.TryPop(); ok; r, ok = m.parked.TryPop() {
		m.giveUp(r, errShutdown)
	}
}

func (m *memory) give(r *Request) {
	if r.wantsReserve {
		if err := m.left.Acquire(m.x.ctx, r.wants); err != nil {
			m.giveUp(r, err)
			return
		}
		r.reserved = r.wants
	} else {
		b, err := m.wait(r.wants)
		if err != nil {
			m.giveUp(r, err)
			return
		}
		r.mem = b
	}
	m.push(r)
}

// giveUp lets a thread abort r.
func (m *memory) giveUp(r *Request, err error) {
	r.conn.becomeClosing(err)
	m.push(r)
}

func (m *memory) push(r *Request) {
	if !m.x.pool.Push(r) {
		c := r.conn
		r.Abort()
		c.unhold()
	}
}
