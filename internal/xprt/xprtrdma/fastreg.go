package xprtrdma

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// fastReg registers with REG_MR work requests that precede the SEND (FRWR). A segment covers as
// many pages as the device's page list has.
type fastReg struct {
	x     *Xprt
	depth int // pages of a region
	segs  int // segments of a chunk

	// A unit of sem is the right to a region that is free or still to be allocated.
	sem  *sched.Sem
	mu   sync.Mutex
	free []*region
	max  int // lowered when the device has no more
}

func newFastReg(x *Xprt) (*fastReg, error) {
	depth := x.attr.MaxFastRegPages
	if depth == 0 || x.attr.Caps&verbs.CapMemMgtExtensions == 0 {
		return nil, fmt.Errorf("registration mode fastreg on %s: %w", x.cfg.Device.Name(), verbs.ErrUnsupported)
	}
	depth = min(depth, x.cfg.MaxDataSegs+1)
	segs := min((x.cfg.MaxDataSegs+depth-1)/depth+1, maxHdrSegs)
	n := x.cfg.Credits * (segs + 1)
	return &fastReg{x: x, depth: depth, segs: segs, max: n, sem: x.s.NewSem("a memory region", n)}, nil
}

func (r *fastReg) chunks() bool                      { return true }
func (r *fastReg) maxSegs() int                      { return r.segs }
func (r *fastReg) segPages() int                     { return r.depth }
func (r *fastReg) regions(pages int) int             { return (pages + r.depth - 1) / r.depth }
func (r *fastReg) wrsPerRegion() (before, after int) { return 1, 1 }
func (r *fastReg) fences() bool                      { return true }

func (r *fastReg) reserve(ctx context.Context, q *Req, n int) error {
	for {
		if err := r.sem.Acquire(ctx, n); err != nil {
			return err
		}
		missing, err := r.take(q, n)
		if err == nil {
			return nil
		}
		// The device has fewer regions than was hoped for. Those that are missing are missing for good,
		// and the call waits until others have given back enough.
		r.drop(q)
		r.mu.Lock()
		r.max -= missing
		enough := r.max >= n && errors.Is(err, verbs.ErrNoResources)
		r.mu.Unlock()
		r.sem.Release(n - missing)
		if !enough {
			return err
		}
	}
}

// take moves n regions to q, allocating what is not there.
func (r *fastReg) take(q *Req, n int) (missing int, err error) {
	r.mu.Lock()
	k := min(n, len(r.free))
	q.regs = append(q.regs, r.free[len(r.free)-k:]...)
	r.free = r.free[:len(r.free)-k]
	r.mu.Unlock()
	for ; k < n; k++ {
		mr, err := r.x.pd.AllocFastRegMR(r.depth)
		if err != nil {
			return n - k, err
		}
		r.x.stats.mrsAllocated.Add(1)
		q.regs = append(q.regs, &region{mr: mr})
	}
	return 0, nil
}

// drop puts regions that were never registered back.
func (r *fastReg) drop(q *Req) {
	r.mu.Lock()
	r.free = append(r.free, q.regs...)
	r.mu.Unlock()
	q.regs = q.regs[:0]
}

func (r *fastReg) register(q *Req, pages []verbs.DMASeg, access verbs.Access) error {
	for len(pages) > 0 {
		g := q.nextRegion()
		n := g.mr.MapPages(pages)
		if n <= 0 {
			return fmt.Errorf("page list of %d pages: none mapped: %w", len(pages), verbs.ErrInvalid)
		}
		g.key = g.mr.NextKey()
		g.valid = true
		q.wrs = append(q.wrs, verbs.SendWR{Op: verbs.OpRegMR, Reg: g.mr, Key: g.key, Access: access})
		q.segs = append(q.segs, rpcrdma.Segment{Handle: g.key, Length: uint32(g.mr.Len()), Offset: g.mr.Addr()})
		pages = pages[n:]
	}
	return nil
}

// nextRegion is the first reserved region that is not in use.
func (q *Req) nextRegion() *region {
	for _, g := range q.regs {
		if !g.valid {
			return g
		}
	}
	panic("xprtrdma: fewer regions reserved than a chunk needs")
}

func (r *fastReg) invalidated(q *Req, key uint32) bool {
	for _, g := range q.regs {
		if g.valid && g.key == key {
			g.valid = false
			return true
		}
	}
	return false
}

func (r *fastReg) fenceWRs(q *Req) {
	for _, g := range q.regs {
		if g.valid {
			q.inv = append(q.inv, verbs.SendWR{Op: verbs.OpLocalInv, InvKey: g.key})
		}
	}
}

func (r *fastReg) release(q *Req, broken bool) {
	n := len(q.regs)
	if n == 0 {
		return
	}
	keep := q.regs[:0]
	for _, g := range q.regs {
		if broken && g.valid {
			// Nobody knows whether the key is registered. The region is not used again.
			g.mr.Close()
			r.x.stats.mrsRecycled.Add(1)
			continue
		}
		g.valid = false
		keep = append(keep, g)
	}
	r.mu.Lock()
	r.free = append(r.free, keep...)
	r.mu.Unlock()
	clear(q.regs)
	q.regs = q.regs[:0]
	r.sem.Release(n)
}

func (r *fastReg) Close() error {
	var errs []error
	for _, g := range r.free {
		errs = append(errs, g.mr.Close())
	}
	r.free = nil
	return errors.Join(errs...)
}
