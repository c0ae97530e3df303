package xprtrdma

import (
	"context"
	"errors"

	"example.org/nfsrdma/verbs"
)

// A work request's ID on the send queue: what it is, the queue entries that its
// completion gives back, and the slot.
const (
	kindSend uint64 = iota
	kindFence
)

func sendID(kind uint64, entries int32, slot uint32) uint64 {
	return kind<<56 | uint64(entries)<<32 | uint64(slot)
}

// sqDepth is the depth of the send queue: what all slots need at once, though no less than the
// largest call, and the unsignalled entries that wait for the next completion.
func (x *Xprt) sqDepth() int {
	if x.cfg.SQDepth > 0 {
		return min(x.cfg.SQDepth, x.attr.MaxQPWR)
	}
	before, after := x.reg.wrsPerRegion()
	segs := x.reg.maxSegs()
	usual := 2 // regions of a call
	if x.reg.segPages() == 1 {
		usual = segs // one a page
	}
	n := max(len(x.reqs)*(1+(before+after)*min(segs, usual)), 1+(before+after)*(2*segs+1))
	return min(n+n/3+8, x.attr.MaxQPWR)
}

// transmit takes a credit, marshals the call and posts it.
func (q *Req) transmit(ctx context.Context, e *ep) error {
	if err := e.credits.Acquire(ctx, 1); err != nil {
		return err
	}
	if e.dead.Load() {
		return errLost
	}
	if err := q.marshal(ctx, e); err != nil {
		e.credits.Release(1)
		if ctx.Err() == nil && !errors.Is(err, errLost) {
			q.x.stats.failedMarshal.Add(1)
		}
		return err
	}
	need := q.plan.before + 1 + q.plan.after
	if err := q.takeSQ(ctx, e, need); err != nil {
		q.settle()
		e.credits.Release(1)
		return err
	}
	q.rep, q.err = noRep, nil
	q.tick.Store(q.x.timer.Start())
	q.SentAt = q.x.s.Now()
	q.Trans++
	q.word.Store(makeWord(q.xid, e.gen, waiting))
	if e.dead.Load() {
		q.connectionLost(e)
		return nil // await sees it
	}
	if q.x.bind != nil && q.nmaps > 0 {
		if err := q.x.bind(q, e); err != nil {
			e.Disconnect(err)
			return nil
		}
	}
	q.count()
	if q.x.cfg.Trace != nil {
		q.traceCall()
	}
	q.post(e)
	return nil
}

// takeSQ takes queue entries for the call and its fence.
func (q *Req) takeSQ(ctx context.Context, e *ep, n int) error {
	if e.sq.TryAcquire(n) {
		return nil
	}
	if depth := q.x.sqDepth(); n > depth-depth/4 {
		return &MarshalError{What: "call", Size: n, Limit: depth - depth/4, Unit: "work requests", Knob: "SQDepth"}
	}
	q.x.stats.emptySendctx.Add(1)
	return e.sq.Acquire(ctx, n)
}

// post sends the call: registrations and SEND in one list. A completion is asked for only
// once in a while; it stands for all entries before it.
func (q *Req) post(e *ep) {
	n := int32(q.plan.before + 1)
	wr := verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Solicited, SGEs: q.sge[:], ID: sendID(kindSend, 0, q.slot)}
	signal := e.sqLoose.Load()+n >= e.sqBatch
	if signal {
		wr.Flags |= verbs.Signaled
		wr.ID = sendID(kindSend, n+e.sqLoose.Swap(0), q.slot)
	}
	q.wrs = append(q.wrs, wr)
	if _, err := e.qp.PostSend(q.wrs); err != nil {
		e.Disconnect(err)
		return
	}
	if !signal {
		e.sqLoose.Add(n) // only now: a completion that covers them must be posted later
	}
}

// postFence posts q.inv, the LOCAL_INVs of a call whose fence is pending.
func (e *ep) postFence(q *Req) {
	n := len(q.inv)
	q.work.invs += n
	last := &q.inv[n-1]
	last.Flags |= verbs.Signaled
	last.ID = sendID(kindFence, int32(n)+e.sqLoose.Swap(0), q.slot)
	if err := e.postInv(q.inv); err != nil {
		e.Disconnect(err)
	}
	if e.dead.Load() {
		q.fenced(fenceBroken)
	}
}

// postInv posts invalidations: of work requests, or of type 1 windows by their verb.
func (e *ep) postInv(wrs []verbs.SendWR) error {
	if wrs[0].Op == verbs.OpLocalInv {
		_, err := e.qp.PostSend(wrs)
		return err
	}
	for i := range wrs {
		if err := e.qp.BindMW(wrs[i].MW, wrs[i].ID, wrs[i].Flags, wrs[i].Bind); err != nil {
			return err
		}
	}
	return nil
}

// postLoose posts q.inv, which nobody waits for.
func (e *ep) postLoose(q *Req) {
	n := int32(len(q.inv))
	q.work.invs += len(q.inv)
	signal := e.sqLoose.Load()+n >= e.sqBatch
	if signal {
		last := &q.inv[n-1]
		last.Flags |= verbs.Signaled
		last.ID = sendID(kindSend, n+e.sqLoose.Swap(0), q.slot)
	}
	for _, g := range q.regs {
		if g.valid {
			g.valid, g.loose = false, e.gen
		}
	}
	if err := e.postInv(q.inv); err != nil {
		e.Disconnect(err)
		return
	}
	if !signal {
		e.sqLoose.Add(n)
	}
}

// sent handles a completion of the send queue.
func (e *ep) sent(wc *verbs.WC) {
	op := verbs.OpSend
	if wc.ID>>56 == kindFence {
		op = verbs.OpLocalInv
	}
	if wc.Status != verbs.Success {
		e.Disconnect(&verbs.WCError{Status: wc.Status, Op: op})
		return
	}
	e.sq.Release(int(wc.ID >> 32 & 0xffffff))
	if op == verbs.OpLocalInv {
		e.x.reqs[uint32(wc.ID)].fenced(fenceDone)
	}
}
