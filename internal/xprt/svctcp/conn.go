package svctcp

import (
	"context"
	"net"
	"sync"
	"sync/atomic"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/stream"
)

// Conn is a connection.
type Conn struct {
	x    *Transport
	sc   stream.Conn
	peer string
	host string // peer without its port

	rd   *stream.Reader // reader's
	idle *sched.Queue[*Request]
	made int // requests, by the reader

	item item
	out  outQueue
	gate *gate // nil: the send buffer is not known

	closing  atomic.Bool
	draining atomic.Bool
	calls    atomic.Int64  // requests that are not idle
	busy     atomic.Int64  // of them, those that are queued, served or parked
	drained  *sched.Waiter // busy is 0 and the connection ends
	end      *sched.Waiter
	tasks    *sched.Group // reader and writer
	n        counters

	mu  sync.Mutex
	why error // why it ends
}

func newConn(x *Transport, sc stream.Conn) *Conn {
	c := &Conn{x: x, sc: sc, peer: sc.PeerAddr()}
	c.host = c.peer
	if h, _, err := net.SplitHostPort(c.peer); err == nil {
		c.host = h
	}
	c.rd = stream.NewReader(sc, readBuffer, x.cfg.MaxPayload+headRoom, x.cfg.Stall)
	c.idle = sched.NewQueue[*Request](x.s, "a slot for a call of "+c.peer)
	c.drained = x.s.NewWaiter("the calls of " + c.peer)
	c.end = x.s.NewWaiter("the end of the connection of " + c.peer)
	c.tasks = x.s.NewGroup("the reader and writer of " + c.peer)
	c.item.decided.Init(x.s, "a thread to say where data of "+c.peer+" belongs")
	c.out.wake.Init(x.s, "a reply for "+c.peer)
	c.gate = newGate(c)
	return c
}

// Peer is the peer's address.
func (c *Conn) Peer() string { return c.peer }

// run is the connection's task.
func (c *Conn) run() {
	if f := c.x.cfg.TraceConn; f != nil {
		f(c, "accepted")
	}
	c.tasks.Go("svctcp reader "+c.peer, c.read)
	c.tasks.Go("svctcp writer "+c.peer, c.write)
	if c.gate != nil && c.x.cfg.Gate.Policy == Deferred {
		c.tasks.Go("svctcp deferred calls of "+c.peer, c.gate.retry)
	}
	if err := c.end.Wait(context.Background()); err != nil {
		c.becomeClosing(err)
	}
	_ = c.sc.Close()
	_ = c.tasks.Wait(sched.Cleanup)
	for c.busy.Load() > 0 && c.drained.Wait(sched.Cleanup) == nil {
		continue
	}
	if f := c.x.cfg.TraceConn; f != nil {
		f(c, "closed: "+c.Why().Error())
	}
	c.x.conns.Forget(c)
}

// becomeClosing ends the connection, for the first reason given; the rest is up to its task.
func (c *Conn) becomeClosing(why error) {
	c.mu.Lock()
	if c.closing.Load() {
		c.mu.Unlock()
		return
	}
	c.why = why
	c.closing.Store(true)
	c.mu.Unlock()
	c.idle.Close()
	c.item.decided.Wake()
	c.out.wake.Wake()
	if c.gate != nil {
		c.gate.wake.Wake()
	}
	c.end.Wake()
}

// Why is the reason for the end of the connection, nil while it is open.
func (c *Conn) Why() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why
}

// Close ends the connection as a failure would.
func (c *Conn) Close() { c.becomeClosing(errClosedByUser) }

// enqueue hands r to the threads.
func (c *Conn) enqueue(r *Request) {
	c.busy.Add(1)
	if c.closing.Load() || !c.x.pool.Push(r) {
		r.Abort()
		c.unhold()
	}
}

// unhold says that the threads have let a request go.
func (c *Conn) unhold() {
	if c.busy.Add(-1) == 0 && c.closing.Load() {
		c.drained.Wake()
	}
}
