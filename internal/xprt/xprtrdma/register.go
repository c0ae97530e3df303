package xprtrdma

import (
	"context"
	"fmt"

	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/verbs"
)

// registerEach registers each buffer by verb for its call, and deregisters it afterwards (RPCRDMA_REGISTER). A
// buffer is one segment: what breaks into pages for the kernel is contiguous in user space.
type registerEach struct {
	byCaller
	x    *Xprt
	line line // for regions, once the device has no more
}

func newRegister(x *Xprt) (registrar, error) {
	if err := x.canRegister(verbs.LocalWrite | verbs.RemoteWrite); err != nil {
		return nil, err
	}
	r := &registerEach{x: x}
	r.line.try = r.registerAll
	return r, nil
}

func (r *registerEach) chunks() bool          { return true }
func (r *registerEach) maxSegs() int          { return 1 }
func (r *registerEach) segPages() int         { return r.x.cfg.MaxDataSegs + 1 }
func (r *registerEach) regions(int) int       { return 1 }
func (r *registerEach) mapBuf(*mapping) error { return nil }
func (r *registerEach) unmapBuf(m *mapping)   { m.mr = nil }
func (r *registerEach) fences() bool          { return true }
func (r *registerEach) detach(*ep)            {}
func (r *registerEach) Close() error          { return nil }

func (r *registerEach) reserve(ctx context.Context, q *Req, _ int) error { return r.line.get(ctx, q) }

// registerAll registers all buffers of a call, or none.
func (r *registerEach) registerAll(q *Req) error {
	defer q.timed(r.x.s.Now())
	for i := range q.nmaps {
		m := &q.maps[i]
		mr, err := r.x.pd.RegMR(m.buf, m.access)
		if err != nil {
			return fmt.Errorf("register %d bytes: %w", len(m.buf), r.deregister(q, err))
		}
		m.mr = mr
		q.work.regs++
		q.work.pages += pagesOf(len(m.buf))
	}
	return nil
}

func (r *registerEach) register(q *Req, m *mapping) error {
	q.segs = append(q.segs, rpcrdma.Segment{Handle: m.mr.RKey(), Length: uint32(len(m.buf)), Offset: m.mr.Addr()})
	return nil
}

// deregister is the fence: when it returns, no key of the call works. Otherwise the connection ends.
func (r *registerEach) deregister(q *Req, err error) error {
	for i := range q.nmaps {
		m := &q.maps[i]
		if m.mr == nil {
			continue
		}
		if cerr := m.mr.Close(); cerr != nil {
			q.ep.Disconnect(fmt.Errorf("deregister: %w", cerr))
		}
		m.mr = nil
		q.work.invs++
	}
	return err
}

func (r *registerEach) release(q *Req, _ bool) {
	if !q.inLine {
		return // nothing was registered
	}
	t0 := r.x.s.Now()
	r.deregister(q, nil)
	q.timed(t0)
	r.line.put(q)
}
