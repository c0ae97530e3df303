package xprtrdma

import (
	"context"
	"fmt"

	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/verbs"
)

// fastReg registers with REG_MR work requests that precede the SEND (FRWR). A segment covers as
// many pages as the device's page list has.
type fastReg struct {
	depth int // pages of a region
	segs  int // segments of a chunk

	pool regionPool
}

func newFastReg(x *Xprt) (registrar, error) {
	depth := x.attr.MaxFastRegPages
	if depth == 0 || x.attr.Caps&verbs.CapMemMgtExtensions == 0 {
		return nil, fmt.Errorf("registration mode fastreg on %s: %w", x.cfg.Device.Name(), verbs.ErrUnsupported)
	}
	depth = min(depth, x.cfg.MaxDataSegs+1)
	segs := min((x.cfg.MaxDataSegs+depth-1)/depth+1, maxHdrSegs)
	return &fastReg{depth: depth, segs: segs, pool: regionPool{x: x,
		alloc: allocFastReg(x.pd, depth), stats: &x.stats, most: (x.cfg.Credits + 1) * (segs + 1)}}, nil
}

func (r *fastReg) chunks() bool                      { return true }
func (r *fastReg) maxSegs() int                      { return r.segs }
func (r *fastReg) segPages() int                     { return r.depth }
func (r *fastReg) regions(pages int) int             { return (pages + r.depth - 1) / r.depth }
func (r *fastReg) wrsPerRegion() (before, after int) { return 1, 1 }
func (r *fastReg) fences() bool                      { return true }

func (r *fastReg) reserve(ctx context.Context, q *Req, n int) error { return r.pool.get(ctx, q, n) }
func (r *fastReg) release(q *Req, broken bool)                      { r.pool.put(q, broken) }
func (r *fastReg) Close() error                                     { return r.pool.close() }

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
