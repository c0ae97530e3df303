package xprttcp

import (
	"context"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/clnt"
)

// Xprt is a transport: its slots, and at most one connection.
type Xprt struct {
	cfg Config
	s   *sched.Sched

	reqs    []Req
	slots   clnt.Slots
	xidBits uint // low bits of an XID that are the slot
	seeded  bool // XIDs have their random start; the connecting task's

	link  clnt.Link[ep, *ep]
	timer clnt.Timer
	stats counters
}

var _ clnt.Xprt = (*Xprt)(nil)

// New makes a transport that is not connected.
func New(cfg Config) (*Xprt, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	x := &Xprt{cfg: cfg, s: cfg.Sched}
	x.link.Init(x.s, cfg.Addr, clnt.Reconnect{Min: cfg.ReconnectMin, Max: cfg.ReconnectMax, Soft: cfg.Soft, Retrans: cfg.Retrans},
		x.connect, func(err error) { x.traceEvent("connect failed: %v", err) })
	x.timer.Init(x.s, cfg.Timeout, x.checkCalls)
	x.slots.Init(x.s, cfg.Slots, sched.Usage{
		Name: "the slots of the client", Knob: "Credits (tcp_slot_table_entries)", Level: sched.LevelSlot})
	x.xidBits = x.slots.XIDBits()
	x.reqs = make([]Req, cfg.Slots)
	for i := range x.reqs {
		x.reqs[i].init(x, uint32(i))
	}
	return x, nil
}

// Connect makes the first connection. It tries once.
func (x *Xprt) Connect(ctx context.Context) error { return x.link.Connect(ctx) }

// Get takes a slot, waiting for one in order of arrival.
func (x *Xprt) Get(ctx context.Context) (*clnt.Call, error) {
	i, waited, err := x.slots.Take(ctx)
	if waited {
		x.stats.bklogU.Add(1)
	}
	if err != nil {
		return nil, x.link.Err(err)
	}
	q := &x.reqs[i]
	q.begin()
	return &q.Call, nil
}

// Put gives a slot back.
func (x *Xprt) Put(c *clnt.Call) {
	q := c.Slot.(*Req)
	c.End()
	if q.depart() {
		x.slots.Give(q.slot)
	} // otherwise freed by its late reply, or with the connection
}

// MaxSink is the longest result.
func (x *Xprt) MaxSink(int, int) (n int, knob string) { return maxData, "NFS_MAX_FILE_IO_SIZE" }

// MaxData is the longest argument.
func (x *Xprt) MaxData(int) (n int, knob string) { return maxData, "NFS_MAX_FILE_IO_SIZE" }

// LocalAddr is that of the present connection.
func (x *Xprt) LocalAddr() string {
	if e := x.link.Load(); e != nil {
		return e.c.LocalAddr()
	}
	return ""
}

// Disconnect ends the present connection.
func (x *Xprt) Disconnect() { x.link.Disconnect(errDisconnected) }

// Close ends every call, waits until the callers have left, and ends the connection.
func (x *Xprt) Close() error {
	x.slots.Shut()
	first, err := x.link.Close(x.slots.Drain)
	if first {
		x.timer.Stop()
		x.slots.Close()
	}
	return err
}
