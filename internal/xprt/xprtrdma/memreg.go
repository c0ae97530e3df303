package xprtrdma

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// registrar lets the peer reach memory in one mode (rpcrdma_memreg_strategy). Each has a file of
// its own. A method that takes a Req is called by its caller, except invalidated and
// fenceWRs, which the receive handler calls while it holds the slot.
type registrar interface {
	// chunks is false where data can only go inline.
	chunks() bool
	// maxSegs is the number of segments that a chunk may have.
	maxSegs() int
	// segPages is the number of pages that a segment covers.
	segPages() int
	// regions is how many regions a buffer of these pages takes.
	regions(pages int) int
	// wrsPerRegion are the work requests that a region needs before and after the call.
	wrsPerRegion() (before, after int)
	// remoteInv says whether the peer may invalidate keys.
	remoteInv() bool
	// mapBuf readies m.buf for registration, unmapBuf undoes it once the peer cannot reach it any more.
	mapBuf(m *mapping) error
	unmapBuf(m *mapping)
	// reserve takes n regions for q, and what its mappings need, waiting for them in order of arrival.
	reserve(ctx context.Context, q *Req, n int) error
	// register appends segments for a mapping to q.segs, and the work requests that make them valid to q.wrs.
	register(q *Req, m *mapping) error
	// invalidated notes that the peer has invalidated key; false if it is none of q's.
	invalidated(q *Req, key uint32) bool
	// fenceWRs appends to q.inv what must complete before the peer cannot reach q's memory any more.
	fenceWRs(q *Req)
	// fences is false if nothing but the end of the connection keeps the peer away.
	fences() bool
	// release gives up q's regions. What no work request fences, it does. broken: the connection ended
	// first, so their state is unknown.
	release(q *Req, broken bool)
	// detach sees to it that nothing of a dead connection stays valid. No call uses it any more.
	detach(e *ep)
	Close() error
}

// mapping is a buffer of a call that the peer shall reach.
type mapping struct {
	buf    []byte
	access verbs.Access // of the peer, and what that needs

	dma verbs.DMAMap // of modes that register pages
	mr  verbs.MR     // of Register
	pin *pin         // of memory windows
}

func pagesOf(n int) int { return (n + verbs.PageSize - 1) / verbs.PageSize }

// region is what one segment is registered with.
type region struct {
	mr    verbs.FastRegMR // fastreg
	mw    verbs.MW        // memory windows
	fmr   verbs.FMR       // FMR
	under verbs.MR        // memory windows: what it is bound to
	key   uint32
	valid bool // registered, as far as this side knows
	// loose is the connection whose send queue has an invalidation that nobody waits for; 0: none.
	loose uint32
}

func (g *region) close() error {
	switch {
	case g.mr != nil:
		return g.mr.Close()
	case g.mw != nil:
		return g.mw.Close()
	case g.fmr != nil:
		return g.fmr.Close()
	}
	return nil
}

// nextRegion is the first reserved region that is not in use.
func (q *Req) nextRegion() *region {
	if q.used == len(q.regs) {
		panic("xprtrdma: fewer regions reserved than a chunk needs")
	}
	q.used++
	return q.regs[q.used-1]
}

// byKey are the ways of modes whose regions are invalidated by key.
type byKey struct{}

func (byKey) invalidated(q *Req, key uint32) bool {
	for _, g := range q.regs {
		if g.valid && g.key == key {
			g.valid = false
			return true
		}
	}
	return false
}

func (byKey) fenceWRs(q *Req) {
	for _, g := range q.regs {
		if g.valid {
			q.inv = append(q.inv, verbs.SendWR{Op: verbs.OpLocalInv, InvKey: g.key})
		}
	}
}

// dmaMapped are the ways of modes that register DMA addresses of pages.
type dmaMapped struct{ pd verbs.PD }

func (d dmaMapped) mapBuf(m *mapping) error { return d.pd.MapDMA(&m.dma, m.buf) }
func (d dmaMapped) unmapBuf(m *mapping)     { d.pd.UnmapDMA(&m.dma) }

// byCaller are the ways of modes without work requests: the caller registers, and fences, by verbs.
type byCaller struct{}

func (byCaller) wrsPerRegion() (before, after int) { return 0, 0 }
func (byCaller) invalidated(*Req, uint32) bool     { return false }
func (byCaller) fenceWRs(*Req)                     {}
func (byCaller) remoteInv() bool                   { return false }

// newRegistrar makes that of a mode, and says which mode that is: Auto takes what the device can.
func newRegistrar(x *Xprt) (registrar, RegMode, error) {
	list := []RegMode{x.cfg.Mode}
	switch {
	case x.cfg.Mode == Auto:
		list = []RegMode{FastReg, MemWindow, Register, AllPhysical, Bounce}
	case x.cfg.ModeFallback:
		list = fallbacks(x.cfg.Mode)
	}
	var errs []error
	for _, m := range list {
		if x.cfg.Mode == Auto && m == MemWindow && x.attr.Caps&verbs.CapMemWindow2B == 0 {
			continue // a window a page is slower than a registration
		}
		r, err := x.newRegistrarOf(m)
		if err == nil {
			return r, m, nil
		}
		errs = append(errs, fmt.Errorf("registration mode %v on %s: %w", m, x.cfg.Device.Name(), err))
		if !errors.Is(err, verbs.ErrUnsupported) {
			break
		}
	}
	return nil, x.cfg.Mode, errors.Join(errs...)
}

func (x *Xprt) newRegistrarOf(m RegMode) (registrar, error) {
	switch m {
	case FastReg:
		return newFastReg(x)
	case AllPhysical:
		return newAllPhysical(x)
	case Bounce:
		return bounce{}, nil
	case Register:
		return newRegister(x)
	case MemWindow, MemWindowAsync:
		return newWindows(x, m == MemWindowAsync)
	case FMR:
		return newFMR(x)
	}
	return nil, verbs.ErrInvalid
}

// canRegister says whether the device registers memory of the caller, by doing it.
func (x *Xprt) canRegister(access verbs.Access) error {
	mr, err := x.pd.RegMR(make([]byte, verbs.PageSize), access)
	if err != nil {
		return err
	}
	return mr.Close()
}

// RegCost is what registration costs in a model: the caller waits for so long. Zero is nothing, and what a live
// device costs is in its figures anyway.
type RegCost struct {
	Op         sched.Duration // a registration or bind
	Page       sched.Duration // each page of a registration
	Invalidate sched.Duration // a deregistration or invalidation by this side
}

// regWork is what a call has had registered and invalidated.
type regWork struct{ regs, binds, pages, invs int }

// pay waits for the modelled cost of what was registered since the last payment.
func (q *Req) pay(ctx context.Context) error {
	c := &q.x.cfg.RegCost
	w := &q.work
	d := c.Op*sched.Duration(w.regs+w.binds) + c.Page*sched.Duration(w.pages) + c.Invalidate*sched.Duration(w.invs)
	q.countWork()
	if d == 0 {
		return nil
	}
	q.stats.regTime.Add(uint64(d))
	return q.x.s.Sleep(ctx, d)
}

// settleCost is pay for what was undone, which nothing ends.
func (q *Req) settleCost() {
	if q.work != (regWork{}) {
		if err := q.pay(sched.Cleanup); err != nil && q.ep != nil {
			q.ep.Disconnect(err) // the scheduler has ended
		}
	}
}

func (q *Req) countWork() {
	w, c := &q.work, &q.stats
	for _, x := range [...]struct {
		n int
		c *atomic.Uint64
	}{{w.regs, &c.regs}, {w.binds, &c.binds}, {w.pages, &c.regPages}, {w.invs, &c.invs}} {
		if x.n > 0 {
			x.c.Add(uint64(x.n))
		}
	}
	*w = regWork{}
}

// timed counts the time of verbs that the caller waited for, where time is real.
func (q *Req) timed(since sched.Time) {
	if d := q.x.s.Now().Sub(since); d > 0 {
		q.stats.regTime.Add(uint64(d))
	}
}
