package svcrdma

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"example.org/nfsrdma/internal/xprt/svc"
	"example.org/nfsrdma/verbs"
)

// Mem is a piece of registered local memory.
type Mem = svc.Mem

// regions are the registrations of memory that others own, by a small number that its owner gave it.
type regions struct {
	x     *Transport
	table atomic.Pointer[[]region] // copied when it changes
	mu    sync.Mutex
	mrs   []verbs.MR
}

type region struct {
	base uint64
	lkey uint32
	ok   bool
}

// maxRegionID bounds the table.
const maxRegionID = 1 << 20

func (g *regions) init(x *Transport) {
	g.x = x
	g.table.Store(new([]region))
}

// Region gives the piece [off, off+n) of mem, registered as a whole under id on first use and kept until
// Close. mem must be the same for the same id.
func (x *Transport) Region(id uint32, mem []byte, off, n uint32) (Mem, error) {
	t := *x.slabs.table.Load()
	if uint64(id) >= uint64(len(t)) || !t[id].ok {
		if err := x.slabs.register(id, mem); err != nil {
			return Mem{}, err
		}
		t = *x.slabs.table.Load()
	}
	g := &t[id]
	return Mem{Bytes: mem[off : off+n : off+n], Addr: g.base + uint64(off), Len: n, LKey: g.lkey}, nil
}

func (g *regions) register(id uint32, mem []byte) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	old := *g.table.Load()
	switch {
	case id >= maxRegionID:
		return fmt.Errorf("svcrdma: region number %d: %w", id, verbs.ErrInvalid)
	case int(id) < len(old) && old[id].ok:
		return nil
	}
	mr, err := g.x.pd.RegMR(mem, g.x.sinkAccess())
	if err != nil {
		return err
	}
	t := make([]region, max(len(old), int(id)+1))
	copy(t, old)
	t[id] = region{base: mr.Addr(), lkey: mr.LKey(), ok: true}
	g.mrs = append(g.mrs, mr)
	g.table.Store(&t)
	return nil
}

func (g *regions) close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	var err error
	for _, mr := range g.mrs {
		err = errors.Join(err, mr.Close())
	}
	g.mrs = nil
	g.table.Store(new([]region))
	return err
}

// sinkAccess is what memory needs into which RDMA READ puts data: on iWARP the sink is written by the peer.
func (x *Transport) sinkAccess() verbs.Access {
	if x.attr.Transport == verbs.IWARP && !x.cfg.RegisterSink {
		return verbs.LocalWrite | verbs.RemoteWrite
	}
	return verbs.LocalWrite
}
