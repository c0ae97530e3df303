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
	dmaMapped
	byKey
	depth int // pages of a region
	segs  int // segments of a chunk

	pool regionPool
}

func newFastReg(x *Xprt) (registrar, error) {
	depth := x.attr.MaxFastRegPages
	if depth == 0 || x.attr.Caps&verbs.CapMemMgtExtensions == 0 {
		return nil, verbs.ErrUnsupported
	}
	depth = min(depth, x.cfg.MaxDataSegs+1)
	segs := min((x.cfg.MaxDataSegs+depth-1)/depth+1, maxHdrSegs)
	r := &fastReg{dmaMapped: dmaMapped{x.pd}, depth: depth, segs: segs}
	r.pool.init(x, (x.cfg.Credits+1)*(segs+1), func() (*region, error) {
		mr, err := x.pd.AllocFastRegMR(depth)
		return &region{mr: mr}, err
	})
	return r, nil
}

func (r *fastReg) chunks() bool                      { return true }
func (r *fastReg) maxSegs() int                      { return r.segs }
func (r *fastReg) segPages() int                     { return r.depth }
func (r *fastReg) regions(pages int) int             { return (pages + r.depth - 1) / r.depth }
func (r *fastReg) wrsPerRegion() (before, after int) { return 1, 1 }
func (r *fastReg) remoteInv() bool                   { return true }
func (r *fastReg) fences() bool                      { return true }

func (r *fastReg) reserve(ctx context.Context, q *Req, n int) error { return r.pool.get(ctx, q, n) }
func (r *fastReg) release(q *Req, broken bool)                      { r.pool.put(q, broken) }
func (r *fastReg) detach(*ep)                                       {}
func (r *fastReg) Close() error                                     { return r.pool.close() }

func (r *fastReg) register(q *Req, m *mapping) error {
	pages := m.dma.Segs
	q.work.pages += len(pages)
	for len(pages) > 0 {
		g := q.nextRegion()
		n := g.mr.MapPages(pages)
		if n <= 0 {
			return fmt.Errorf("page list of %d pages: none mapped: %w", len(pages), verbs.ErrInvalid)
		}
		g.key = g.mr.NextKey()
		g.valid = true
		q.wrs = append(q.wrs, verbs.SendWR{Op: verbs.OpRegMR, Reg: g.mr, Key: g.key, Access: m.access})
		q.segs = append(q.segs, rpcrdma.Segment{Handle: g.key, Length: uint32(g.mr.Len()), Offset: g.mr.Addr()})
		q.work.regs++
		pages = pages[n:]
	}
	return nil
}
