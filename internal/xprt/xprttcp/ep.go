package xprttcp

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/stream"
)

// ep is one connection.
type ep struct {
	x  *Xprt
	c  stream.Conn
	rd *stream.Reader

	first [8]byte     // the reader's
	dead  atomic.Bool // no more calls
	valid atomic.Bool // a valid reply has come
	once  atomic.Bool
	tasks *sched.Group

	wake sched.Waiter // the writer

	mu    sync.Mutex
	owner owner
	queue []*Req // to be written by the owner

	// Of the owner.
	batch []*Req
	iov   net.Buffers
	bufs  net.Buffers // what is left of iov
}

// owner says who writes.
type owner uint8

const (
	nobody owner = iota
	caller       // its own call
	writer       // what is queued
)

// newEP takes a connection over.
func newEP(x *Xprt, c stream.Conn) *ep {
	e := &ep{x: x, c: c, rd: stream.NewReader(x.received(c), readBuffer, maxRecord, 0)}
	e.wake.Init(x.s, "a call to write")
	e.tasks = x.s.NewGroup("the tasks of the connection to " + x.cfg.Addr)
	return e
}

// Start starts its tasks.
func (e *ep) Start() {
	e.tasks.Go("xprttcp reader "+e.c.LocalAddr(), e.read)
	e.tasks.Go("xprttcp writer "+e.c.LocalAddr(), e.write)
}

// send writes q, or sees to it that it is written. A caller that may give up does not write itself.
func (e *ep) send(ctx context.Context, q *Req) {
	e.mu.Lock()
	if e.owner == nobody && ctx.Done() == nil {
		e.owner = caller
		e.mu.Unlock()
		e.batch = append(e.batch[:0], q)
		e.writeBatch()
		e.handOver()
	} else {
		e.queue = append(e.queue, q)
		if e.owner == nobody {
			e.owner = writer
			e.wake.Wake()
		} else {
			e.x.stats.sendingU.Add(1)
		}
		e.mu.Unlock()
	}
	if e.dead.Load() {
		q.connectionLost(e)
	}
}

// handOver ends the caller's turn.
func (e *ep) handOver() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.owner = nobody
	if len(e.queue) > 0 {
		e.owner = writer
		e.wake.Wake()
	}
}

// forget takes q, which is given up, off the queue.
func (e *ep) forget(q *Req) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if i := slices.Index(e.queue, q); i >= 0 {
		e.queue = slices.Delete(e.queue, i, i+1)
	}
}

// write is the writer's task.
func (e *ep) write() {
	for !e.dead.Load() {
		if e.take() {
			e.writeBatch()
		} else if err := e.wake.Wait(context.Background()); err != nil {
			e.Disconnect(err)
		}
	}
}

// take moves what is queued to batch, up to so many bytes but at least one call; false: it is not the writer's turn.
func (e *ep) take() bool {
	const most = 1 << 20
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.owner != writer {
		return false
	}
	n, size := 0, 0
	for n < len(e.queue) && size < most {
		size += e.queue[n].size()
		n++
	}
	if n == 0 {
		e.owner = nobody
		return false
	}
	e.batch = append(e.batch[:0], e.queue[:n]...)
	e.queue = slices.Delete(e.queue, 0, n)
	return true
}

// writeBatch writes those of a batch that are still wanted.
func (e *ep) writeBatch() {
	e.iov = e.iov[:0]
	n, size := 0, 0
	for _, q := range e.batch {
		if q.start(e) {
			e.iov = q.appendTo(e.iov)
			size += rpc.RecordMarkLen + q.size()
			e.batch[n] = q
			n++
		}
	}
	e.batch = e.batch[:n]
	if n == 0 {
		return
	}
	e.bufs = e.iov
	if err := e.c.Write(&e.bufs); err != nil {
		e.Disconnect(err)
	} else {
		e.x.stats.bytesSent.Add(uint64(size))
	}
	clear(e.iov)
	for i, q := range e.batch {
		e.batch[i] = nil
		q.written(e)
	}
}

// Dead says that no more calls can be sent.
func (e *ep) Dead() bool { return e.dead.Load() }

// Proven says that a valid reply has come.
func (e *ep) Proven() bool { return e.valid.Load() }

// Disconnect ends the connection once: no more calls start, and those in flight are told. It never waits.
func (e *ep) Disconnect(cause error) {
	if e.once.Swap(true) {
		return
	}
	if errors.Is(cause, io.EOF) {
		cause = errors.New("the server has closed the connection")
	}
	e.x.traceEvent("disconnected: %v", cause)
	e.dead.Store(true)
	_ = e.c.Close()
	for i := range e.x.reqs {
		e.x.reqs[i].connectionLost(e)
	}
	e.wake.Wake()
}

// Teardown ends the connection and its tasks.
func (e *ep) Teardown() error {
	e.Disconnect(errDisconnected)
	return e.tasks.Wait(sched.Cleanup)
}
