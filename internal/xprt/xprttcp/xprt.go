package xprttcp

import (
	"context"
	"errors"
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/clnt"
)

// Xprt is a transport: its slots, and at most one connection.
type Xprt struct {
	cfg Config
	s   *sched.Sched

	reqs    []Req
	xidBits uint // low bits of an XID that are the slot
	slotSem *sched.Sem
	freeMu  sync.Mutex
	free    []uint32

	ep       atomic.Pointer[ep] // nil until the first; stays when it is dead
	connLock *sched.Mutex       // held by whoever connects or tears down
	seeded   bool               // under connLock: XIDs have their random start
	fails    atomic.Uint32      // attempts to connect that have failed
	lastErr  error              // under connLock
	backoff  sched.Duration     // under connLock
	mu       sync.Mutex         // stop
	stop     context.CancelFunc // ends the attempt to connect that runs
	closed   atomic.Bool

	timer *callTimer
	stats counters
}

var _ clnt.Xprt = (*Xprt)(nil)

// New makes a transport that is not connected.
func New(cfg Config) (*Xprt, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	x := &Xprt{cfg: cfg, s: cfg.Sched}
	n := cfg.Slots
	x.connLock = x.s.NewMutex("the connection to " + cfg.Addr)
	x.timer = newCallTimer(x)
	x.xidBits = uint(max(bits.Len(uint(n-1)), 1))
	x.slotSem = x.s.NewSem("a slot of the mount", n).Measure(sched.Usage{
		Name: "the slots of the client", Knob: "Credits (tcp_slot_table_entries)", Level: sched.LevelSlot})
	x.reqs = make([]Req, n)
	x.free = make([]uint32, n)
	for i := range x.reqs {
		x.reqs[i].init(x, uint32(i))
		x.free[i] = uint32(n - 1 - i)
	}
	return x, nil
}

// seedXIDs gives every slot a random generation to start with. A server knows retransmissions by XID and host,
// so two mounts of a host, or one after the other, must not begin with the same.
func (x *Xprt) seedXIDs(local string) {
	if x.seeded {
		return
	}
	x.seeded = true
	rng := x.s.Rand("xprttcp xid " + local)
	if !x.s.Virtual() {
		rng = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	for i := range x.reqs {
		x.reqs[i].xid += rng.Uint32() << x.xidBits
	}
}

// Get takes a slot, waiting for one in order of arrival.
func (x *Xprt) Get(ctx context.Context) (*clnt.Call, error) {
	if !x.slotSem.TryAcquire(1) {
		x.stats.bklogU.Add(1)
		if err := x.slotSem.Acquire(ctx, 1); err != nil {
			return nil, x.closedErr(err)
		}
	}
	if x.closed.Load() {
		x.slotSem.Release(1)
		return nil, clnt.ErrClosed
	}
	x.freeMu.Lock()
	i := x.free[len(x.free)-1]
	x.free = x.free[:len(x.free)-1]
	x.freeMu.Unlock()
	q := &x.reqs[i]
	q.begin()
	return &q.Call, nil
}

// Put gives a slot back.
func (x *Xprt) Put(c *clnt.Call) {
	q := c.Slot.(*Req)
	c.End()
	if q.depart() {
		x.freeSlot(q)
	} // otherwise freed by its late reply, or with the connection
}

func (x *Xprt) freeSlot(q *Req) {
	x.freeMu.Lock()
	x.free = append(x.free, q.slot)
	x.freeMu.Unlock()
	x.slotSem.Release(1)
}

// MaxSink is the longest result.
func (x *Xprt) MaxSink(int, int) (n int, knob string) { return maxData, "NFS_MAX_FILE_IO_SIZE" }

// MaxData is the longest argument.
func (x *Xprt) MaxData(int) (n int, knob string) { return maxData, "NFS_MAX_FILE_IO_SIZE" }

// LocalAddr is that of the present connection.
func (x *Xprt) LocalAddr() string {
	if e := x.ep.Load(); e != nil {
		return e.c.LocalAddr()
	}
	return ""
}

// Disconnect ends the present connection.
func (x *Xprt) Disconnect() {
	if e := x.ep.Load(); e != nil {
		e.disconnect(errDisconnected)
	}
}

// closedErr prefers ErrClosed to what a wait says when Close has ended it.
func (x *Xprt) closedErr(err error) error {
	if x.closed.Load() {
		return clnt.ErrClosed
	}
	return err
}

// Close ends every call, waits until the callers have left, and ends the connection.
func (x *Xprt) Close() error {
	if x.closed.Swap(true) {
		return nil
	}
	x.mu.Lock()
	if x.stop != nil {
		x.stop()
	}
	x.mu.Unlock()
	if e := x.ep.Load(); e != nil {
		e.disconnect(clnt.ErrClosed)
	}
	err := x.slotSem.Acquire(sched.Cleanup, len(x.reqs))
	err = errors.Join(err, x.connLock.Lock(sched.Cleanup))
	x.timer.stop()
	if e := x.ep.Load(); e != nil {
		err = errors.Join(err, e.teardown())
	}
	x.slotSem.Unmeasure()
	x.slotSem.Release(len(x.reqs)) // callers that came late find the transport closed
	return err
}
