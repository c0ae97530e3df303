package xprtrdma

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// Xprt is a transport: its slots, and at most one connection (rpcrdma_xprt).
type Xprt struct {
	cfg   Config
	s     *sched.Sched
	attr  verbs.DeviceAttr
	pd    verbs.PD
	reg   registrar
	async bool                  // nobody waits for invalidations
	bind  func(*Req, *ep) error // of keys that are known only when the call is sent; else nil

	// Slots. A caller that holds a unit of slotSem finds a slot on free.
	reqs    []Req
	xidBits uint // low bits of an XID that are the slot
	slotSem *sched.Sem
	freeMu  sync.Mutex
	free    []uint32
	sendMR  verbs.MR

	recv recvPool

	// Connection.
	ep       atomic.Pointer[ep] // nil until the first; stays when it is dead
	connLock *sched.Mutex       // held by whoever connects or tears down
	epGen    uint32             // under connLock
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

// New makes a transport that is not connected. Its memory is registered already.
func New(cfg Config) (*Xprt, error) {
	if n := 1 << 14; cfg.Credits < 1 || cfg.Credits > n {
		return nil, fmt.Errorf("xprtrdma: Credits %d: want 1 to %d", cfg.Credits, n)
	}
	x := &Xprt{cfg: cfg, s: cfg.Sched, attr: cfg.Device.Attr()}
	if err := x.init(); err != nil {
		return nil, errors.Join(err, x.release())
	}
	return x, nil
}

func (x *Xprt) init() (err error) {
	if x.pd, err = x.cfg.Device.AllocPD(); err != nil {
		return err
	}
	if x.reg, x.cfg.Mode, err = newRegistrar(x); err != nil {
		return err
	}
	if w, ok := x.reg.(*windows); ok {
		x.async = w.async
		if w.typ == verbs.MWType1 {
			x.bind = w.bind
		}
	}
	x.connLock = x.s.NewMutex("the connection to " + x.cfg.Addr)
	x.timer = newCallTimer(x)
	if err = x.initSlots(); err != nil {
		return err
	}
	return x.recv.init(x)
}

func (x *Xprt) initSlots() error {
	n := x.cfg.Credits
	room := x.headerRoom()
	per := room + x.cfg.InlineSend
	var err error
	if x.sendMR, err = x.pd.AllocMR(n*per, 0); err != nil {
		return fmt.Errorf("send buffers of %d slots: %w", n, err)
	}
	x.xidBits = uint(max(bits.Len(uint(n-1)), 1))
	x.slotSem = x.s.NewSem("a slot of the mount", n).Measure(sched.Usage{Name: "the client's slots", Knob: "Credits (rdma_slot_table_entries)", Level: sched.LevelSlot})
	x.reqs = make([]Req, n)
	x.free = make([]uint32, n)
	buf := x.sendMR.Bytes()
	pads := make([]byte, 4*n) // apart from Req: a device gets memory without pointers
	for i := range x.reqs {
		q := &x.reqs[i]
		q.x, q.slot = x, uint32(i)
		q.Slot = q
		q.send = buf[i*per : (i+1)*per : (i+1)*per]
		q.sendAddr = x.sendMR.Addr() + uint64(i*per)
		q.room = room
		q.pad = pads[4*i : 4*i+4 : 4*i+4]
		q.w.Init(x.s, "a reply")
		q.w.SetWhat("a reply", q.describe)
		q.sge[0].LKey = x.sendMR.LKey()
		q.rep = noRep
		x.free[i] = uint32(n - 1 - i)
	}
	return nil
}

// headerRoom is the space before a message for the longest header, bytes.
func (x *Xprt) headerRoom() int {
	n := rpcrdma.MinHeaderLen + 8 + 4 + 24*2*(x.reg.maxSegs()+2)
	return (min(n, x.cfg.InlineSend) + 63) &^ 63
}

// seedXIDs gives every slot a random generation to start with. A server knows retransmissions by
// XID and host, so two mounts of a host, or one after the other, must not begin with the same. In
// virtual time the start follows from the seed, and from the number of the first queue pair.
func (x *Xprt) seedXIDs(qpn uint32) {
	rng := x.s.Rand(fmt.Sprintf("xprtrdma xid %s %d", x.cfg.Device.Name(), qpn))
	if !x.s.Virtual() {
		rng = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	for i := range x.reqs {
		x.reqs[i].xid = rng.Uint32()<<x.xidBits | uint32(i)
	}
	x.seeded = true
}

// Mode is the registration mode in use, never Auto.
func (x *Xprt) Mode() RegMode { return x.cfg.Mode }

// Get takes a slot, waiting for one in order of arrival.
func (x *Xprt) Get(ctx context.Context) (*Req, error) {
	if !x.slotSem.TryAcquire(1) {
		x.stats.bklogU.Add(1)
		if err := x.slotSem.Acquire(ctx, 1); err != nil {
			return nil, x.closedErr(err)
		}
	}
	if x.closed.Load() {
		x.slotSem.Release(1)
		return nil, ErrClosed
	}
	x.freeMu.Lock()
	i := x.free[len(x.free)-1]
	x.free = x.free[:len(x.free)-1]
	x.freeMu.Unlock()
	q := &x.reqs[i]
	q.begin()
	return q, nil
}

// Put gives a slot back. Reply is not valid any more.
func (x *Xprt) Put(q *Req) {
	if q.rep != noRep {
		r := q.rep
		q.rep = noRep
		x.recv.release(x.ep.Load(), r)
	}
	q.End()
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

// closedErr prefers ErrClosed to what a wait says when Close has ended it.
func (x *Xprt) closedErr(err error) error {
	if x.closed.Load() {
		return ErrClosed
	}
	return err
}

// Close ends every call with ErrClosed, waits until the callers have left, and frees everything.
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
		e.disconnect(ErrClosed)
	}
	ctx := sched.Cleanup
	err := x.slotSem.Acquire(ctx, len(x.reqs))
	if lerr := x.connLock.Lock(ctx); lerr != nil {
		err = errors.Join(err, lerr)
	}
	x.timer.stop()
	if e := x.ep.Load(); e != nil {
		err = errors.Join(err, e.teardown())
	}
	x.slotSem.Unmeasure()
	err = errors.Join(err, x.release())
	x.slotSem.Release(len(x.reqs)) // callers that came late find the transport closed
	return err
}

// release frees what init made.
func (x *Xprt) release() error {
	var errs []error
	if x.reg != nil {
		errs = append(errs, x.reg.Close())
	}
	if x.sendMR != nil {
		errs = append(errs, x.sendMR.Close())
	}
	if x.recv.mr != nil {
		errs = append(errs, x.recv.mr.Close())
	}
	if x.pd != nil {
		errs = append(errs, x.pd.Close())
	}
	return errors.Join(errs...)
}
