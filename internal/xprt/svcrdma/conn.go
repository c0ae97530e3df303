package svcrdma

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

type connState uint8

const (
	connecting connState = iota
	ready
	closing
	closed
)

// Work request IDs of the send queue: what a completion ends, how many send queue slots it frees, and of
// which request or reply.
const (
	kindMore  = iota // unsignaled; completes only with an error
	kindBatch        // part of a chain
	kindReply        // a reply's last
	kindPull         // the last of a request's READs

	kindBits = 2
	slotBits = 16
	maxSlots = 1<<slotBits - 1
)

func wrID(kind, slots int, idx uint32) uint64 {
	return uint64(idx)<<(kindBits+slotBits) | uint64(slots)<<kindBits | uint64(kind)
}

// spareReplies is how many more reply buffers than credits a connection has: a client sends its next call when
// it has the reply, which may be before we have its completion.
const spareReplies = 8

// padLen is a registered piece of zeros behind the reply buffers, for XDR pads.
const padLen = 4

// Conn is a connection.
type Conn struct {
	x    *Transport
	id   verbs.ID
	peer string
	host string // peer without its port

	qp       verbs.QP
	scq, rcq poller
	recvMR   verbs.MR
	sendMR   verbs.MR
	reqs     []Request
	replies  []Reply
	idle     replyStack
	sq       *sched.Sem
	pad      Mem

	// Set by accept, before any message is looked at.
	sendMax  int // largest inline reply, bytes
	recvMax  int
	inv      bool
	ird, ord int
	maxReads int // SGEs of a READ
	maxSGE   int // SGEs of other work

	state   atomic.Uint32 // connState
	busy    atomic.Int64  // requests that are queued or served
	drained *sched.Waiter // busy is 0 and the connection ends
	end     *sched.Waiter
	n       counters

	mu  sync.Mutex
	why error // why it ends
}

func newConn(x *Transport, id verbs.ID) *Conn {
	c := &Conn{x: x, id: id, peer: id.PeerAddr()}
	c.host = c.peer
	if i := strings.LastIndexByte(c.peer, ':'); i >= 0 {
		c.host = c.peer[:i]
	}
	c.drained = x.s.NewWaiter("the calls of " + c.peer)
	c.end = x.s.NewWaiter("the end of the connection of " + c.peer)
	c.idle.handed = sched.NewQueue[*Reply](x.s, "a reply buffer for "+c.peer)
	c.sq = x.s.NewSem("a send queue slot for "+c.peer, x.cfg.SQDepth).Measure(sched.Usage{
		Name: "the server's send queue", Knob: "SQDepth (RPCRDMA_SQ_DEPTH_MULT x max_requests)", Level: sched.LevelServerSQ})
	c.maxSGE = min(x.attr.MaxSGE, maxSendSGE)
	c.maxReads = min(max(x.attr.MaxSGERd, 1), c.maxSGE)
	return c
}

// Peer is the peer's address, Host the same without a port.
func (c *Conn) Peer() string { return c.peer }

// Host is the peer's address without its port.
func (c *Conn) Host() string { return c.host }

// Inline gives the largest inline messages in bytes.
func (c *Conn) Inline() (send, recv int) { return c.sendMax, c.recvMax }

// RemoteInvalidation says whether both sides agreed on it.
func (c *Conn) RemoteInvalidation() bool { return c.inv }

// Negotiated gives IRD and ORD.
func (c *Conn) Negotiated() (ird, ord int) { return c.ird, c.ord }

// FreeSlots is the number of send queue slots that are free.
func (c *Conn) FreeSlots() int { return c.sq.Free() }

// Ready says whether calls are served.
func (c *Conn) Ready() bool { return connState(c.state.Load()) == ready }

func (c *Conn) isClosing() bool { return connState(c.state.Load()) >= closing }

// run is the connection's task: it accepts, waits for the end and cleans up.
func (c *Conn) run() {
	err := c.setup()
	if err == nil {
		err = c.accept()
	} else {
		_ = c.id.Reject(nil)
	}
	if err != nil {
		c.becomeClosing(err)
	}
	if err := c.end.Wait(context.Background()); err != nil {
		c.becomeClosing(err)
	}
	_ = c.id.Disconnect()
	for c.busy.Load() > 0 && c.drained.Wait(sched.Cleanup) == nil {
		continue
	}
	c.becomeClosed()
}

func (c *Conn) setup() (err error) {
	cfg := &c.x.cfg
	c.rcq.handle, c.rcq.fail = c.received, c.becomeClosing
	c.scq.handle, c.scq.fail = c.sent, c.becomeClosing
	receives := cfg.Credits + 1
	if c.rcq.cq, err = cfg.Device.CreateCQ(verbs.CQInit{Depth: receives + 1, Handler: c.rcq.event, Name: "svcrdma recv " + c.peer}); err != nil {
		return err
	}
	if c.scq.cq, err = cfg.Device.CreateCQ(verbs.CQInit{Depth: cfg.SQDepth + 1, Handler: c.scq.event, Name: "svcrdma send " + c.peer}); err != nil {
		return err
	}
	if c.recvMR, err = c.x.pd.AllocMR(receives*cfg.InlineRecv, verbs.LocalWrite); err != nil {
		return err
	}
	nreplies := cfg.Credits + spareReplies
	if c.sendMR, err = c.x.pd.AllocMR(nreplies*2*cfg.InlineSend+padLen, 0); err != nil {
		return err
	}
	padAt := nreplies * 2 * cfg.InlineSend
	c.pad = Mem{Bytes: c.sendMR.Bytes()[padAt:], Addr: c.sendMR.Addr() + uint64(padAt), Len: padLen, LKey: c.sendMR.LKey()}
	c.qp, err = c.id.CreateQP(c.x.pd, verbs.QPInit{
		SendCQ: c.scq.cq, RecvCQ: c.rcq.cq,
		MaxSendWR: cfg.SQDepth, MaxRecvWR: receives, MaxSendSGE: c.maxSGE, MaxRecvSGE: 1,
		Name: "svcrdma " + c.peer,
	})
	if err != nil {
		return err
	}
	c.replies = make([]Reply, nreplies)
	for i := range c.replies {
		c.replies[i].init(c, uint32(i))
		c.idle.put(&c.replies[i])
	}
	c.reqs = make([]Request, receives)
	for i := range c.reqs {
		r := &c.reqs[i]
		r.conn, r.idx, r.state = c, uint32(i), cfg.NewState()
		off := i * cfg.InlineRecv
		r.recv = c.recvMR.Bytes()[off : off+cfg.InlineRecv : off+cfg.InlineRecv]
		r.sges[0] = verbs.SGE{Addr: c.recvMR.Addr() + uint64(off), Length: uint32(cfg.InlineRecv), LKey: c.recvMR.LKey()}
		r.rwr[0] = verbs.RecvWR{ID: uint64(i), SGEs: r.sges[:]}
		if _, err := c.qp.PostRecv(r.rwr[:]); err != nil {
			return err
		}
	}
	return nil
}

// accept answers the request with what both sides can do. Receives are posted already (RFC 8166 section 3.3.1).
func (c *Conn) accept() error {
	cfg := &c.x.cfg
	c.id.OnEvent(func(ev verbs.CMEventType) { c.becomeClosing(&EventError{ev}) })
	peer, _ := rpcrdma.ConsumePrivateData(c.id.Request().PrivateData)
	c.sendMax = min(cfg.InlineSend, peer.RecvSize)
	c.recvMax = min(cfg.InlineRecv, peer.SendSize)
	canInv := !cfg.NoRemoteInvalidation && c.x.attr.Caps&verbs.CapSendWithInv != 0
	c.inv = canInv && peer.RemoteInvalidate
	own := rpcrdma.PrivateData{RemoteInvalidate: canInv, SendSize: cfg.InlineSend, RecvSize: cfg.InlineRecv}
	err := c.id.Accept(c.x.ctx, verbs.ConnParam{
		PrivateData: rpcrdma.AppendPrivateData(nil, own),
		IRD:         cfg.IRD, ORD: cfg.ORD,
		RetryCnt: 7, RNRRetry: 6,
	})
	if err != nil {
		return err
	}
	c.ird, c.ord = c.id.Negotiated()
	c.becomeReady()
	return nil
}

// EventError is the end of a connection by an event of the connection manager.
type EventError struct{ Event verbs.CMEventType }

func (e *EventError) Error() string { return "svcrdma: " + e.Event.String() }

func (c *Conn) becomeReady() {
	if !c.state.CompareAndSwap(uint32(connecting), uint32(ready)) {
		return
	}
	if f := c.x.cfg.TraceConn; f != nil {
		f(c, "accepted")
	}
	c.scq.run()
	c.rcq.run()
}

// becomeClosing ends the connection, for the first reason given; the rest is up to its task. It may be
// called in handlers.
func (c *Conn) becomeClosing(why error) {
	c.mu.Lock()
	if c.isClosing() {
		c.mu.Unlock()
		return
	}
	c.why = why
	c.state.Store(uint32(closing))
	c.mu.Unlock()
	c.sq.Unmeasure()
	c.sq.Release(1 << 30) // nobody waits any more for what may not come
	c.idle.handed.Close()
	c.end.Wake()
}

// becomeClosed destroys the connection and takes back what the device held. No thread serves a call of it.
func (c *Conn) becomeClosed() {
	if connState(c.state.Swap(uint32(closed))) == closed {
		return
	}
	c.rcq.stop()
	c.scq.stop()
	if c.qp != nil {
		_ = c.qp.Close()
	}
	for _, p := range []*poller{&c.scq, &c.rcq} {
		if p.cq != nil {
			_ = p.cq.Close()
		}
	}
	_ = c.id.Close()
	c.x.long.forget(c)
	c.x.data.forget(c)
	for i := range c.reqs {
		switch r := &c.reqs[i]; r.where {
		case pulling, parked:
			r.Abort()
		}
	}
	for i := range c.replies {
		if p := &c.replies[i]; p.inFlight.Load() {
			p.done()
		}
	}
	for i := range c.reqs {
		c.reqs[i].closeSinks()
	}
	if c.recvMR != nil {
		_ = c.recvMR.Close()
	}
	if c.sendMR != nil {
		_ = c.sendMR.Close()
	}
	if f := c.x.cfg.TraceConn; f != nil {
		f(c, "closed: "+c.whyString())
	}
	c.x.conns.Forget(c)
}

// Why is the reason for the end of the connection, nil while it is open.
func (c *Conn) Why() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why
}

func (c *Conn) whyString() string {
	if err := c.Why(); err != nil {
		return err.Error()
	}
	return "server ended"
}

// Close ends the connection as a failure would.
func (c *Conn) Close() { c.becomeClosing(errClosedByUser) }

var errClosedByUser = errors.New("closed by the server")

// outstanding is the number of calls that have come and whose replies have not been posted. Those of which the
// device still sends the reply count as long as any do.
func (c *Conn) outstanding() int {
	if !c.Ready() {
		return 0
	}
	sending := 0
	for i := range c.replies {
		if c.replies[i].inFlight.Load() {
			sending = 1
		}
	}
	return max(int(c.n.recv.Load())-int(c.n.send.Load())-int(c.n.dropped.Load()), 0) + sending
}

// hold counts r as being with the threads; false if the connection ends.
func (c *Conn) hold() bool {
	c.busy.Add(1)
	if !c.Ready() {
		c.unhold()
		return false
	}
	return true
}

// unhold says that the threads have let a request go.
func (c *Conn) unhold() {
	if c.busy.Add(-1) == 0 && c.isClosing() {
		c.drained.Wake()
	}
}

// enqueue hands r to the threads.
func (c *Conn) enqueue(r *Request) {
	if !c.hold() {
		// r stays with its owner, which gives it up when the connection is closed.
		return
	}
	r.where = queued
	if !c.x.pool.Push(r) {
		c.unhold()
	}
}

// received handles a receive completion.
func (c *Conn) received(wc *verbs.WC) {
	if wc.ID >= uint64(len(c.reqs)) {
		return
	}
	r := &c.reqs[wc.ID]
	if wc.Status != verbs.Success {
		r.where = lost
		c.becomeClosing(&verbs.WCError{Status: wc.Status, Op: verbs.OpRecv})
		return
	}
	c.n.recv.Add(1)
	r.reset(int(wc.ByteLen))
	if c.x.draining.Load() {
		r.Drop()
		return
	}
	c.enqueue(r)
}

// sent handles a send queue completion.
func (c *Conn) sent(wc *verbs.WC) {
	kind := wc.ID & (1<<kindBits - 1)
	slots := int(wc.ID >> kindBits & maxSlots)
	idx := wc.ID >> (kindBits + slotBits)
	ok := wc.Status == verbs.Success
	if !ok {
		c.becomeClosing(&verbs.WCError{Status: wc.Status, Op: wc.Op})
	}
	switch kind {
	case kindReply:
		c.replies[idx].done()
	case kindPull:
		if ok {
			c.reqs[idx].pullDone()
		} // else it stays with the device until the connection is closed
	}
	if slots > 0 {
		c.sq.Release(slots)
	}
}
