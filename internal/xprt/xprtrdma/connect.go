package xprtrdma

import (
	"context"
	"errors"
	"fmt"

	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/clnt"
	"example.org/nfsrdma/verbs"
)

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
			err = errors.Join(err, e.Teardown())
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
	x.seedXIDs(e.qp.Num())
	e.sq = x.s.NewSem("a send queue entry", depth).Measure(sched.Usage{Name: "the client's send queue", Knob: "ClientSQDepth (max_send_wr)", Level: sched.LevelClientSQ})
	e.sqBatch = int32(max(depth/4, 1))
	e.credits = x.s.NewSem("a credit", 1).Measure(sched.Usage{Name: "the credits of the server", Knob: "ServerCredits (max_requests)", Level: sched.LevelCredit})
	e.granted.Store(1)
	id.OnEvent(func(t verbs.CMEventType) {
		e.Disconnect(fmt.Errorf("%w: %v", verbs.ErrDisconnected, t))
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
	x.traceEvent("connected to %s: inline %d/%d, remote invalidation %t, IRD %d, ORD %d",
		x.cfg.Addr, e.inlineSend, e.inlineRecv, e.remoteInv, e.ird, e.ord)
	return e, nil
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

// seedXIDs gives every slot a random generation to start with, once. In virtual time it follows from the seed and the
// number of the first queue pair.
func (x *Xprt) seedXIDs(qpn uint32) {
	if x.seeded {
		return
	}
	x.seeded = true
	rng := clnt.XIDs(x.s, fmt.Sprintf("xprtrdma xid %s %d", x.cfg.Device.Name(), qpn))
	for i := range x.reqs {
		x.reqs[i].xid = rng.Uint32()<<x.xidBits | uint32(i)
	}
}
