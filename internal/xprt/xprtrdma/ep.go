package xprtrdma

import (
	"errors"
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
			h.e.Disconnect(err)
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

func (h *cqHandler) create(x *Xprt, depth int, name string) (err error) {
	h.cq, err = x.cfg.Device.CreateCQ(verbs.CQInit{Depth: depth, Handler: h.run, Name: "nfsclient " + name})
	return err
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

// Start posts the receives that callers gave back while they could not find the connection.
func (e *ep) Start() { e.x.recv.flush(e) }

// Dead says that no more calls can be sent.
func (e *ep) Dead() bool { return e.dead.Load() }

// Proven says that a valid reply has come.
func (e *ep) Proven() bool { return e.valid.Load() }

// Disconnect ends the connection once: no more calls start, and those in flight are told.
// It never waits, and may be called from handlers.
func (e *ep) Disconnect(cause error) {
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
				q.x.slots.Give(q.slot)
			}
		}
		if ok {
			return
		}
	}
}

// Teardown frees the connection, when no handler runs any more. The receives that were
// posted belong to the transport again.
func (e *ep) Teardown() error {
	if e.gone.Load() {
		return nil
	}
	var errs []error
	if e.qp != nil && e.credits != nil {
		e.Disconnect(ErrClosed)
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
