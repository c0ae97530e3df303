package nfsclient

import (
	"context"

	"example.org/nfsrdma/internal/xprt/clnt"
	"example.org/nfsrdma/internal/xprt/xprtrdma"
	"example.org/nfsrdma/verbs"
)

// rdmaXprt is xprtrdma as a clnt.Xprt.
type rdmaXprt struct{ *xprtrdma.Xprt }

func (x rdmaXprt) Get(ctx context.Context) (*clnt.Call, error) {
	q, err := x.Xprt.Get(ctx)
	if err != nil {
		return nil, err
	}
	return &q.Call, nil
}

func (x rdmaXprt) Put(c *clnt.Call) { x.Xprt.Put(c.Slot.(*xprtrdma.Req)) }

func (x rdmaXprt) Counters() []verbs.Counter { return x.Xprt.Counters() }
