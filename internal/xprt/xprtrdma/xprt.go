package xprtrdma

import (
	"context"
	"errors"
	"fmt"

	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/clnt"
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

	reqs    []Req
	slots   clnt.Slots
	xidBits uint // low bits of an XID that are the slot
	seeded  bool // XIDs have their random start; the connecting task's
	sendMR  verbs.MR

	recv recvPool

	link  clnt.Link[ep, *ep]
	epGen uint32 // the connecting task's
	timer clnt.Timer
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
	x.link.Init(x.s, x.cfg.Addr, clnt.Reconnect{Min: x.cfg.ReconnectMin, Max: x.cfg.ReconnectMax, Soft: x.cfg.Soft, Retrans: x.cfg.Retrans},
		x.connect, func(err error) { x.traceEvent("connect failed: %v", err) })
	x.timer.Init(x.s, x.cfg.Timeout, x.checkCalls)
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
	x.slots.Init(x.s, n, sched.Usage{Name: "the client's slots", Knob: "Credits (rdma_slot_table_entries)", Level: sched.LevelSlot})
	x.xidBits = x.slots.XIDBits()
	x.reqs = make([]Req, n)
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
	}
	return nil
}

// headerRoom is the space before a message for the longest header, bytes.
func (x *Xprt) headerRoom() int {
	n := rpcrdma.MinHeaderLen + 8 + 4 + 24*2*(x.reg.maxSegs()+2)
	return (min(n, x.cfg.InlineSend) + 63) &^ 63
}

// Mode is the registration mode in use, never Auto.
func (x *Xprt) Mode() RegMode { return x.cfg.Mode }

// Connect makes the first connection. It tries once.
func (x *Xprt) Connect(ctx context.Context) error { return x.link.Connect(ctx) }

// Get takes a slot, waiting for one in order of arrival.
func (x *Xprt) Get(ctx context.Context) (*Req, error) {
	i, waited, err := x.slots.Take(ctx)
	if waited {
		x.stats.bklogU.Add(1)
	}
	if err != nil {
		return nil, x.link.Err(err)
	}
	q := &x.reqs[i]
	q.begin()
	return q, nil
}

// Put gives a slot back. Reply is not valid any more.
func (x *Xprt) Put(q *Req) {
	if q.rep != noRep {
		r := q.rep
		q.rep = noRep
		x.recv.release(x.link.Load(), r)
	}
	q.End()
	if q.depart() {
		x.slots.Give(q.slot)
	} // otherwise freed by its late reply, or with the connection
}

// Close ends every call with ErrClosed, waits until the callers have left, and frees everything.
func (x *Xprt) Close() error {
	x.slots.Shut()
	first, err := x.link.Close(x.slots.Drain)
	if !first {
		return nil
	}
	x.timer.Stop()
	err = errors.Join(err, x.release())
	x.slots.Close()
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
