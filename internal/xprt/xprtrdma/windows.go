package xprtrdma

import (
	"context"
	"errors"

	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// windows binds memory windows for each call over buffers that stay registered, without remote rights,
// in a cache (RPCRDMA_MEMWINDOWS, RPCRDMA_MEMWINDOWS_ASYNC).
//
// Type 2B windows are bound by work requests that precede the SEND. They belong to the connection's queue
// pair, and are invalidated as fast registrations are, by the peer too. Type 1 windows are the kernel's
// of old: BindMW gives the key, and a bind of no length takes it back. No key of theirs can be invalidated.
type windows struct {
	byKey
	x     *Xprt
	typ   verbs.MWType
	async bool // nobody waits for the invalidation: the peer keeps its access for as long as it takes
	per   int  // pages of a window
	segs  int

	pool regionPool
	pins pinCache
}

func newWindows(x *Xprt, async bool) (registrar, error) {
	r := &windows{x: x, async: async, per: x.cfg.MWPages}
	switch caps := x.attr.Caps; {
	case caps&verbs.CapMemWindow2B != 0:
		r.typ = verbs.MWType2B
		if r.per == 0 {
			r.per = x.cfg.MaxDataSegs + 1 // a buffer is contiguous in user space
		}
	case caps&verbs.CapMemWindow1 != 0:
		r.typ = verbs.MWType1
		if r.per == 0 {
			r.per = 1
		}
	default:
		return nil, verbs.ErrUnsupported
	}
	if err := x.canRegister(verbs.LocalWrite | verbs.MWBind); err != nil {
		return nil, err
	}
	r.per = min(r.per, x.cfg.MaxDataSegs+1)
	r.segs = (x.cfg.MaxDataSegs + r.per) / r.per
	r.pool.init(x, (x.cfg.Credits+1)*(r.segs+1), func() (*region, error) {
		mw, err := x.pd.AllocMW(r.typ)
		return &region{mw: mw}, err
	})
	r.pins.init(x)
	return r, nil
}

func (r *windows) chunks() bool                      { return true }
func (r *windows) maxSegs() int                      { return r.segs }
func (r *windows) segPages() int                     { return r.per }
func (r *windows) regions(pages int) int             { return (pages + r.per - 1) / r.per }
func (r *windows) wrsPerRegion() (before, after int) { return 1, 1 }
func (r *windows) remoteInv() bool                   { return r.typ == verbs.MWType2B }
func (r *windows) mapBuf(*mapping) error             { return nil }
func (r *windows) unmapBuf(*mapping)                 {}
func (r *windows) fences() bool                      { return true }

// reserve also keeps the connection's queue pair, which type 2 windows belong to, until release.
func (r *windows) reserve(ctx context.Context, q *Req, n int) error {
	if err := r.pool.get(ctx, q, n); err != nil {
		return err
	}
	e := q.ep
	e.users.Add(1)
	q.usesQP = true
	for !e.dead.Load() {
		err := r.pins.line.get(ctx, q)
		if !r.async || !errors.Is(err, verbs.ErrNoResources) || !r.pins.anyIdle() {
			return err
		}
		// Unused registrations have windows bound still: their unbinding, which nobody waits for, is
		// in the send queue.
		if err := r.x.s.Sleep(ctx, 20*sched.Microsecond); err != nil {
			return err
		}
	}
	return errLost
}

// register leaves the keys of type 1 to bind.
func (r *windows) register(q *Req, m *mapping) error {
	step := r.per * verbs.PageSize
	addr := m.pin.addr(m.buf)
	for off := 0; off < len(m.buf); off += step {
		g := q.nextRegion()
		g.under = m.pin.mr
		n := min(step, len(m.buf)-off)
		at := addr + uint64(off)
		if r.typ == verbs.MWType2B {
			g.key = g.mw.NextKey()
			g.valid = true
		}
		q.wrs = append(q.wrs, verbs.SendWR{Op: verbs.OpBindMW, MW: g.mw, Key: g.key,
			Bind: verbs.Bind{MR: m.pin.mr, Addr: at, Length: uint64(n), Access: m.access &^ verbs.LocalWrite}})
		q.segs = append(q.segs, rpcrdma.Segment{Handle: g.key, Length: uint32(n), Offset: at})
		q.work.binds++
	}
	return nil
}

// bind binds the windows of type 1, and puts their keys into the header. The SEND follows on the same queue.
func (r *windows) bind(q *Req, e *ep) error {
	for i := range q.wrs {
		g, w := q.regs[i], &q.wrs[i]
		if err := e.qp.BindMW(w.MW, 0, 0, w.Bind); err != nil {
			return err
		}
		g.key, g.valid = g.mw.RKey(), true
	}
	q.wrs = q.wrs[:0]
	next := 0
	key := func(s *rpcrdma.Segment) {
		s.Handle = q.regs[next].key
		next++
	}
	h := &q.hdr
	for i := range h.Reads {
		key(&h.Reads[i].Segment)
	}
	for i := range h.Writes.Len() {
		c := h.Writes.Chunk(i)
		for k := range c {
			key(&c[k])
		}
	}
	for i := range h.Reply {
		key(&h.Reply[i])
	}
	start := q.room - rpcrdma.HeaderLen(h)
	rpcrdma.AppendHeader(q.send[start:start:q.room], h)
	return nil
}

func (r *windows) fenceWRs(q *Req) {
	if r.typ == verbs.MWType2B {
		r.byKey.fenceWRs(q)
		return
	}
	for _, g := range q.regs {
		if g.valid {
			q.inv = append(q.inv, verbs.SendWR{Op: verbs.OpBindMW, MW: g.mw, Bind: verbs.Bind{MR: g.under}}) // unbinds
		}
	}
}

func (r *windows) release(q *Req, broken bool) {
	// What refers to regions, and so to the caller's memory, must not outlive the call.
	clear(q.wrs)
	clear(q.inv)
	q.wrs, q.inv = q.wrs[:0], q.inv[:0]
	for _, g := range q.regs {
		g.under = nil
	}
	r.pool.put(q, broken)
	if q.inLine {
		r.pins.release(q)
	}
	if q.usesQP {
		q.usesQP = false
		if e := q.ep; e.users.Add(-1) == 0 && e.gone.Load() {
			e.idle.Wake()
		}
	}
}

// detach closes the windows whose unbinding e did not live to confirm: those of type 1 would
// work on the next connection.
func (r *windows) detach(e *ep) {
	r.pool.reap(e.gen)
	r.pins.dropIdle()
}

func (r *windows) Close() error {
	err := r.pool.close() // first: a region is in use while a window is bound to it
	if perr := r.pins.close(); err == nil {
		err = perr
	}
	return err
}
