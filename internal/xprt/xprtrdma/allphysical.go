package xprtrdma

import (
	"context"

	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/verbs"
)

// allPhysical gives the peer one key for every address, and a segment for each page. The peer keeps its
// access for as long as the connection lasts.
type allPhysical struct {
	dmaMapped
	byCaller
	key  uint32
	segs int
}

func newAllPhysical(x *Xprt) (registrar, error) {
	key, err := x.pd.GlobalKey(verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead)
	if err != nil {
		return nil, err
	}
	// A buffer that does not begin on a page has one page more.
	return &allPhysical{dmaMapped: dmaMapped{x.pd}, key: key, segs: x.cfg.MaxDataSegs + 1}, nil
}

func (r *allPhysical) chunks() bool                             { return true }
func (r *allPhysical) maxSegs() int                             { return r.segs }
func (r *allPhysical) segPages() int                            { return 1 }
func (r *allPhysical) regions(int) int                          { return 0 }
func (r *allPhysical) reserve(context.Context, *Req, int) error { return nil }
func (r *allPhysical) fences() bool                             { return false }
func (r *allPhysical) release(*Req, bool)                       {}
func (r *allPhysical) detach(*ep)                               {}
func (r *allPhysical) Close() error                             { return nil }

func (r *allPhysical) register(q *Req, m *mapping) error {
	for _, p := range m.dma.Segs {
		q.segs = append(q.segs, rpcrdma.Segment{Handle: r.key, Length: p.Len, Offset: p.Addr})
	}
	return nil
}
