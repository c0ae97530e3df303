package xprtrdma

import (
	"context"
	"fmt"

	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/verbs"
)

// maxFMRPages is RPCRDMA_MAX_FMR_SGES: pages of a fast memory region.
const maxFMRPages = 64

// fastMemory maps fast memory regions by verb (RPCRDMA_MTHCAFMR). All of a call are unmapped by one verb before
// its memory is the caller's again, as xprtrdma did, rather than in the batches of an FMR pool: those leave old
// keys valid.
type fastMemory struct {
	dmaMapped
	byCaller
	dom   verbs.FMRDomain
	depth int
	segs  int
	pool  regionPool
}

func newFMR(x *Xprt) (registrar, error) {
	dom, ok := x.pd.(verbs.FMRDomain)
	if !ok || x.attr.Caps&verbs.CapFMR == 0 {
		return nil, verbs.ErrUnsupported
	}
	depth := min(maxFMRPages, x.cfg.MaxDataSegs+1)
	segs := min((x.cfg.MaxDataSegs+depth-1)/depth+1, maxHdrSegs)
	r := &fastMemory{dmaMapped: dmaMapped{x.pd}, dom: dom, depth: depth, segs: segs}
	r.pool.init(x, (x.cfg.Credits+1)*(segs+1), func() (*region, error) {
		f, err := dom.AllocFMR(depth, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
		return &region{fmr: f}, err
	})
	return r, nil
}

func (r *fastMemory) chunks() bool          { return true }
func (r *fastMemory) maxSegs() int          { return r.segs }
func (r *fastMemory) segPages() int         { return r.depth }
func (r *fastMemory) regions(pages int) int { return (pages + r.depth - 1) / r.depth }
func (r *fastMemory) fences() bool          { return true }
func (r *fastMemory) detach(*ep)            {}
func (r *fastMemory) Close() error          { return r.pool.close() }

func (r *fastMemory) reserve(ctx context.Context, q *Req, n int) error { return r.pool.get(ctx, q, n) }

func (r *fastMemory) register(q *Req, m *mapping) error {
	defer q.timed(q.x.s.Now())
	pages := m.dma.Segs
	q.work.pages += len(pages)
	for len(pages) > 0 {
		g := q.nextRegion()
		n, err := g.fmr.Map(pages)
		if err != nil {
			return fmt.Errorf("map a fast memory region: %w", err)
		}
		g.key, g.valid = g.fmr.RKey(), true
		q.segs = append(q.segs, rpcrdma.Segment{Handle: g.key, Length: uint32(g.fmr.Len()), Offset: g.fmr.Addr()})
		q.work.regs++
		pages = pages[n:]
	}
	return nil
}

// release unmaps. That is no matter of the connection.
func (r *fastMemory) release(q *Req, _ bool) {
	q.fmrs = q.fmrs[:0]
	for _, g := range q.regs {
		if g.valid {
			q.fmrs = append(q.fmrs, g.fmr)
		}
	}
	if len(q.fmrs) > 0 {
		t0 := q.x.s.Now()
		if err := r.dom.UnmapFMR(q.fmrs); err != nil {
			r.pool.put(q, true) // which closes those that are mapped
			return
		}
		q.work.invs += len(q.fmrs)
		q.timed(t0)
		for _, g := range q.regs {
			g.valid = false
		}
	}
	r.pool.put(q, false)
}
