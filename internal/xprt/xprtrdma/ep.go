package xprtrdma

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// ep is one connection (rpcrdma_ep).
type ep struct {
	x   *Xprt
	gen uint32
	id  verbs.ID
	qp  verbs.QP

	inlineSend, inlineRecv int  // thresholds in force, bytes
	peerData               bool // the peer sent valid private data
	remoteInv              bool
	ird, ord               int

	credits *sched.Sem
	granted atomic.Int32 // written by the receive handler
	sq      *sched.Sem   // send queue entries
	sqLoose atomic.Int32 // posted, and not covered by a completion yet
	sqBatch int32        // a completion is asked for when so many are loose
	users   atomic.Int32 // calls with windows that belong to the queue pair

	dead  atomic.Bool // no more calls
	valid atomic.Bool // a valid reply has come
	gone  atomic.Bool // handlers keep away
	cause error       // why it is dead; set before dead
	once  atomic.Bool

	send, recv cqHandler
	hdr        rpcrdma.Header // receive handler's
	idle       sched.Waiter   // a handler or user has left after gone
}

// cqHandler runs the completions of one queue, one at a time however often it is called.
type cqHandler struct {
	e    *ep
	cq   verbs.CQ
	f    func(*verbs.WC)
	busy atomic.Int32
	wc   [16]verbs.WC
	work *workQueue // nil: completions are handled at once
}

func (h *cqHandler) run(verbs.CQ) {
	n := h.busy.Add(1)
	if n != 1 {
		return
	}
	for {
		if !h.e.gone.Load() {
			h.drain()
		}
		left := h.busy.Add(-n)
		if left == 0 {
			break
		}
		n = left
	}
	if h.e.gone.Load() {
		h.e.idle.Wake()
	}
}

func (h *cqHandler) drain() {
	for {
		n, err := h.cq.Poll(h.wc[:])
		if err != nil {
			h.e.disconnect(err)
			return
		}
		for i := range n {
			if h.work != nil {
				h.work.push(&h.wc[i])
				continue
			}
			h.f(&h.wc[i])
		}
		if n < len(h.wc) && !h.cq.Arm(false) {
			break
		}
	}
	if h.work != nil {
		h.work.step()
	}
}

// connect makes a connection, with its receives posted before the peer hears of it.
func (x *Xprt) connect(ctx context.Context) (_ *ep, err error) {
	x.stats.bindCount.Add(1)
	id, err := x.cfg.Device.Resolve(ctx, x.cfg.Addr)
	if err != nil {
		return nil, err
	}
	x.epGen++
	e := &ep{x: x, gen: x.epGen, id: id}
	e.idle.Init(x.s, "completion handlers and calls to leave")
	defer func() {
		if err != nil {
			err = errors.Join(err, e.teardown())
		}
	}()
	depth := x.sqDepth()
	nrecv := len(x.recv.reps)
	e.send = cqHandler{e: e, f: e.sent}
	e.recv = cqHandler{e: e, f: e.received}
	if x.cfg.Work != (WorkCost{}) {
		e.recv.work = newWorkQueue(&e.recv)
	}
	if err = e.send.create(x, depth, "send"); err != nil {
		return nil, err
	}
	if err = e.recv.create(x, nrecv, "recv"); err != nil {
		return nil, err
	}
	e.qp, err = id.CreateQP(x.pd, verbs.QPInit{SendCQ: e.send.cq, RecvCQ: e.recv.cq, MaxSendWR: depth,
		MaxRecvWR: nrecv, MaxSendSGE: 1, MaxRecvSGE: 1, Name: "nfsclient"})
	if err != nil {
		return nil, err
	}
	if !x.seeded {
		x.seedXIDs(e.qp.Num())
	}
	e.sq = x.s.NewSem("a send queue entry", depth).Measure(sched.Usage{Name: "the client's send queue", Knob: "ClientSQDepth (max_send_wr)", Level: sched.LevelClientSQ})
	e.sqBatch = int32(max(depth/4, 1))
	e.credits = x.s.NewSem("a credit", 1).Measure(sched.Usage{Name: "the credits of the server", Knob: "ServerCredits (max_requests)", Level: sched.LevelCredit})
	e.granted.Store(1)
	id.OnEvent(func(t verbs.CMEventType) {
		e.disconnect(fmt.Errorf("%w: %v", verbs.ErrDisconnected, t))
	})
	e.send.run(nil)
	e.recv.run(nil)
	if err = x.recv.postAll(e); err != nil {
		return nil, err
	}
	if err = e.dial(ctx); err != nil {
		return nil, err
	}
	if e.dead.Load() {
		return nil, e.cause
	}
	return e, nil
}

func (h *cqHandler) create(x *Xprt, depth int, name string) (err error) {
	h.cq, err = x.cfg.Device.CreateCQ(verbs.CQInit{Depth: depth, Handler: h.run, Name: "nfsclient " + name})
	return err
}

// dial exchanges private data (RFC 8797) and IRD and ORD. What was agreed on an earlier connection is forgotten.
func (e *ep) dial(ctx context.Context) error {
	cfg := &e.x.cfg
	p := verbs.ConnParam{IRD: cfg.IRD, ORD: cfg.ORD, RetryCnt: cfg.RetryCnt, RNRRetry: cfg.RNRRetry}
	if p.IRD == 0 {
		p.IRD = e.x.attr.MaxQPRdAtom
	}
	mine := rpcrdma.DefaultPrivateData
	if !cfg.NoPrivateData {
		mine = rpcrdma.PrivateData{
			RemoteInvalidate: !cfg.NoRemoteInvalidation && e.x.reg.remoteInv(),
			SendSize:         cfg.InlineSend &^ 1023, RecvSize: cfg.InlineRecv &^ 1023, // in units of 1024
		}
		p.PrivateData = rpcrdma.AppendPrivateData(nil, mine)
	}
	peer, err := e.id.Connect(ctx, p)
	if err != nil {
		return err
	}
	theirs, ok := rpcrdma.ConsumePrivateData(peer.PrivateData)
	e.peerData = ok
	e.remoteInv = mine.RemoteInvalidate && theirs.RemoteInvalidate
	e.inlineSend = min(mine.SendSize, theirs.RecvSize)
	e.inlineRecv = min(mine.RecvSize, theirs.SendSize)
	e.ird, e.ord = e.id.Negotiated()
	return nil
}

func (e *ep) sendKnob() string { return e.knob("InlineSend", e.x.cfg.InlineSend, e.inlineSend) }
func (e *ep) recvKnob() string { return e.knob("InlineRecv", e.x.cfg.InlineRecv, e.inlineRecv) }

func (e *ep) knob(name string, own, inForce int) string {
	switch {
	case inForce >= own:
		return name
	case !e.peerData || e.x.cfg.NoPrivateData:
		return name + " without private data"
	}
	return name + " of the server"
}

// disconnect ends the connection once: no more calls start, and those in flight are told.
// It never waits, and may be called from handlers.
func (e *ep) disconnect(cause error) {
	if e.once.Swap(true) {
		return
	}
	x := e.x
	x.traceEvent("disconnected: %v", cause)
	e.cause = cause
	e.dead.Store(true)
	e.id.Disconnect()
	for i := range x.reqs {
		x.reqs[i].connectionLost(e)
	}
	// Those who wait for a credit or a queue entry find the connection dead.
	e.credits.Unmeasure()
	e.sq.Unmeasure()
	e.credits.Release(2 * len(x.reqs))
	e.sq.Release(1 << 24)
}

// connectionLost moves a slot that uses e on.
func (q *Req) connectionLost(e *ep) {
	for {
		w := q.word.Load()
		if uint32(w>>8)&0xffffff != e.gen&0xffffff {
			return
		}
		ok := true
		switch stateOf(w) {
		case waiting:
			if ok = q.become(w, lost); ok {
				q.w.Wake()
			}
		case fencing:
			q.fenced(fenceBroken)
		case cancelling:
			if ok = q.become(w, departed); ok {
				q.fenced(fenceBroken)
			}
		case departed:
			q.fenced(fenceBroken)
		case abandoned:
			if ok = q.become(w, idle); ok {
				q.x.freeSlot(q)
			}
		}
		if ok {
			return
		}
	}
}

// teardown frees the connection, when no handler runs any more. The receives that were
// posted belong to the transport again. Called with connLock.
func (e *ep) teardown() error {
	if e.gone.Load() {
		return nil
	}
	var errs []error
	if e.qp != nil && e.credits != nil {
		e.disconnect(ErrClosed)
	}
	e.gone.Store(true)
	e.recv.work.close()
	for e.send.busy.Load()+e.recv.busy.Load()+e.users.Load() != 0 {
		if err := e.idle.Wait(sched.Cleanup); err != nil {
			errs = append(errs, err)
			break
		}
	}
	if e.qp != nil {
		e.x.reg.detach(e)
		errs = append(errs, e.qp.Close())
	}
	errs = append(errs, e.id.Close())
	if e.send.cq != nil {
		errs = append(errs, e.send.cq.Close())
	}
	if e.recv.cq != nil {
		errs = append(errs, e.recv.cq.Close())
	}
	e.x.recv.reclaim()
	return errors.Join(errs...)
}
