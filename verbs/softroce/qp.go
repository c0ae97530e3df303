package softroce

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"example.org/nfsrdma/internal/link"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// qp is a reliable-connected queue pair: a requester and a responder.
type qp struct {
	dev  *Device
	pd   *PD
	init verbs.QPInit
	num  uint32
	scq  *cq
	rcq  *cq
	srq  *srq
	rq   *recvQueue // own or the SRQ's
	// Whose keys receives name.
	recvPD *PD

	// What the peer may still copy: flight the messages of the send queue, until it is
	// flushed; served those of READs answered, until the end of the queue pair.
	flight, served guard

	// Who runs the engine: pending counts calls of kick that are not served.
	pending  atomic.Int64
	timerDue atomic.Bool

	postMu sync.Mutex    // the mailbox, and writing tail
	tail   atomic.Uint64 // next free send queue entry
	mail   []packet
	mailed atomic.Bool   // mail may not be empty
	head   atomic.Uint64 // oldest send queue entry, written under mu

	// On a direct wire an acknowledgement is no packet: the peer stores the PSN, marked as
	// valid, and wakes the engine only if somebody waits for it.
	ackIn   atomic.Uint64
	needAck atomic.Bool

	// Of the runner alone, between two runs.
	inbox []packet
	out   output

	mu     sync.Mutex // all that follows
	state  verbs.QPState
	attr   verbs.QPAttr
	closed bool
	peer   *qp
	pipe   *link.Pipe // nil: direct
	mtu    uint32
	outbox output
	lost   packet // where packets to no peer are made
	st     stats
	requester
	responder
	timer *sched.Timer
}

// output is what a run leaves to be done without locks.
type output struct {
	packets  []packet
	pipe     *link.Pipe // of packets; nil: direct
	ack      uint64     // for the peer's ackIn; 0 none
	ackTo    *qp
	notify   []*cq
	overflow []*cq
	events   []asyncEvent
}

type asyncEvent struct {
	qp  *qp
	srq *srq
	typ uint8
}

// CreateQP implements verbs.PD.
func (p *PD) CreateQP(init verbs.QPInit) (verbs.QP, error) { return p.createQP(init) }

func (p *PD) createQP(init verbs.QPInit) (*qp, error) {
	d := p.dev
	if init.MaxSendSGE == 0 {
		init.MaxSendSGE = 1
	}
	if init.MaxRecvSGE == 0 {
		init.MaxRecvSGE = 1
	}
	for _, k := range []struct {
		name      string
		v, lo, hi int
	}{
		{"MaxSendWR (max_qp_wr)", init.MaxSendWR, 0, d.attr.MaxQPWR},
		{"MaxRecvWR (max_qp_wr)", init.MaxRecvWR, 0, d.attr.MaxQPWR},
		{"MaxSendSGE (max_sge)", init.MaxSendSGE, 0, d.attr.MaxSGE},
		{"MaxRecvSGE (max_sge)", init.MaxRecvSGE, 0, d.attr.MaxSGE},
		{"MaxInline", init.MaxInline, 0, d.attr.MaxInline},
	} {
		if k.v < k.lo || k.v > k.hi {
			return nil, fmt.Errorf("softroce: %s: queue pair %s: %s is %d, must be %d to %d: %w", d.name, init.Name, k.name, k.v, k.lo, k.hi, verbs.ErrInvalid)
		}
	}
	scq, _ := init.SendCQ.(*cq)
	rcq, _ := init.RecvCQ.(*cq)
	if scq == nil || rcq == nil || scq.dev != d || rcq.dev != d {
		return nil, fmt.Errorf("softroce: queue pair %s needs completion queues of device %s: %w", init.Name, d.name, verbs.ErrInvalid)
	}
	q := &qp{dev: d, pd: p, init: init, scq: scq, rcq: rcq, recvPD: p}
	q.sq = make([]sendWQE, pow2(max(init.MaxSendWR, 1)))
	q.timer = d.net.s.NewTimer(func() { q.timerDue.Store(true); q.kick() })
	if init.SRQ != nil {
		s, _ := init.SRQ.(*srq)
		if s == nil || s.pd.dev != d {
			return nil, fmt.Errorf("softroce: queue pair %s: SRQ of another device: %w", init.Name, verbs.ErrInvalid)
		}
		q.srq, q.rq, q.recvPD = s, s.q, s.pd
	} else {
		q.rq = newRecvQueue(init.MaxRecvWR, init.MaxRecvSGE)
	}
	if err := q.useAll(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	err := d.usable()
	if err == nil && p.closed {
		err = fmt.Errorf("softroce: protection domain: %w", verbs.ErrClosed)
	}
	if err == nil {
		err = d.limit(&d.res.QP, d.attr.MaxQP, "max_qp")
	}
	if err != nil {
		d.mu.Unlock()
		q.unuseAll()
		return nil, err
	}
	d.net.addQP(q)
	d.qps = append(d.qps, q)
	p.users.Add(1)
	d.mu.Unlock()
	return q, nil
}

// useAll keeps what the queue pair needs from being closed.
func (q *qp) useAll() error {
	if err := q.scq.use(q); err != nil {
		return err
	}
	if err := q.rcq.use(q); err != nil {
		q.scq.unuse(q)
		return err
	}
	if q.srq == nil {
		return nil
	}
	err := q.srq.use()
	if err != nil {
		q.scq.unuse(q)
		q.rcq.unuse(q)
	}
	return err
}

func (q *qp) unuseAll() {
	q.scq.unuse(q)
	q.rcq.unuse(q)
	if q.srq != nil {
		q.srq.unuse()
	}
}

// Num implements verbs.QP.
func (q *qp) Num() uint32 { return q.num }

// Query implements verbs.QP.
func (q *qp) Query() verbs.QPAttr {
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.attr
	a.State = q.state
	return a
}

// Close implements verbs.QP.
func (q *qp) Close() error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return nil
	}
	q.closed = true
	q.becomeReset(postClosed)
	st := q.st
	q.mu.Unlock()
	d := q.dev
	d.net.removeQP(q)
	d.dropWindows(q)
	q.unuseAll()
	q.pd.users.Add(-1)
	d.mu.Lock()
	d.res.QP--
	d.qps = slices.DeleteFunc(d.qps, func(x *qp) bool { return x == q })
	d.past.add(&st)
	d.mu.Unlock()
	return nil
}

// kick runs the engine unless somebody does so already.
func (q *qp) kick() {
	if q.pending.Add(1) == 1 {
		q.loop(nil)
	}
}

// offer hands packets to the engine: at once if it is idle, else by its mailbox. The caller
// has the slice that is returned, for its next packets.
func (q *qp) offer(ps []packet) []packet {
	if q.pending.CompareAndSwap(0, 1) {
		q.loop(ps)
		return ps
	}
	q.postMu.Lock()
	if len(q.mail) == 0 {
		q.mail, ps = ps, q.mail
	} else {
		q.mail = append(q.mail, ps...)
	}
	q.mailed.Store(true)
	q.postMu.Unlock()
	q.kick()
	return ps
}

// loop runs the engine until nobody has kicked it meanwhile.
func (q *qp) loop(ps []packet) {
	for {
		n := q.pending.Load()
		q.run(ps)
		if q.pending.Add(-n) == 0 {
			return
		}
		ps = nil
	}
}

// mailOne leaves a packet for the engine.
func (q *qp) mailOne(p *packet) {
	q.postMu.Lock()
	q.mail = append(q.mail, *p)
	q.mailed.Store(true)
	q.postMu.Unlock()
}

// run is one turn of the engine: packets in, packets out.
func (q *qp) run(ps []packet) {
	ack := q.ackIn.Load() // first: what the peer sent before it is then in the mailbox
	if q.mailed.Load() {
		q.postMu.Lock()
		q.inbox, q.mail = q.mail, q.inbox
		q.mailed.Store(false)
		q.postMu.Unlock()
	}
	q.mu.Lock()
	q.arrived = 0
	for i := range ps {
		q.receive(&ps[i])
	}
	for i := range q.inbox {
		q.receive(&q.inbox[i])
	}
	q.takeAck(ack)
	if q.timerDue.Load() && q.timerDue.Swap(false) {
		q.timeout()
	}
	q.respond()
	q.send(q.tail.Load())
	q.outbox, q.out = q.out, q.outbox
	q.mu.Unlock()
	clear(q.inbox)
	q.inbox = q.inbox[:0]
	q.deliver(&q.out)
}

// takeAck looks at what the peer of a direct wire has acknowledged.
func (q *qp) takeAck(a uint64) {
	if a == q.ackSeen || !q.sends() {
		return
	}
	q.ackSeen = a
	q.acked(uint32(a) & psnMask)
}

// deliver does what a run left, without locks.
func (q *qp) deliver(o *output) {
	if len(o.packets) > 0 {
		ps := q.transmit(o)
		clear(ps)
		o.packets = ps[:0]
	}
	if o.ack != 0 {
		// After the packets: READ data goes before the acknowledgement of what follows it.
		to := o.ackTo
		to.ackIn.Store(o.ack)
		o.ack, o.ackTo = 0, nil
		if to.needAck.Load() {
			to.kick()
		}
	}
	for i, c := range o.notify {
		o.notify[i] = nil
		c.notify()
	}
	o.notify = o.notify[:0]
	for i := range o.overflow {
		o.overflow[i].overflowed()
	}
	o.overflow = o.overflow[:0]
	for _, e := range o.events {
		ev := verbs.AsyncEvent{Type: verbs.AsyncEventType(e.typ), QP: e.qp}
		if e.srq != nil {
			ev.SRQ, ev.QP = e.srq, nil
		}
		q.dev.event(ev)
	}
	o.events = o.events[:0]
}

// transmit hands packets to the wire. All go to the same peer. It returns the slice
// for the next packets.
func (q *qp) transmit(o *output) []packet {
	net, ps := q.dev.net, o.packets
	if t := net.cfg.Trace; t != nil {
		for i := range ps {
			t(fmt.Sprintf("%v %v", net.s.Now(), &ps[i]))
		}
	}
	pipe := o.pipe
	if pipe == nil {
		if net.tap != nil {
			ps = slices.DeleteFunc(ps, func(p packet) bool { return !net.tap(&p) })
		}
		if len(ps) == 0 {
			return ps
		}
		return ps[0].dst.offer(ps)
	}
	for i := range ps {
		p := &ps[i]
		if net.tap == nil || net.tap(p) {
			pipe.Send(p.size(), fly(p))
		}
		if len(q.leaving) > 0 && p.src == &q.leaving[0].msg && p.flags&pfLast != 0 {
			q.leaving[0].left = pipe.FreeAt()
			q.leaving = slices.Delete(q.leaving, 0, 1)
		}
	}
	return ps
}

// packet makes a packet to the peer, to be filled in at once.
func (q *qp) packet(k kind) *packet {
	p := &q.lost
	if q.peer != nil {
		q.outbox.pipe = q.pipe
		q.outbox.packets = append(q.outbox.packets, packet{})
		p = &q.outbox.packets[len(q.outbox.packets)-1]
		q.st.sentPkts++
	}
	*p = packet{dst: q.peer, from: q, kind: k}
	return p
}

// complete puts a completion into c.
func (q *qp) complete(c *cq, wc *verbs.WC, solicited bool) {
	wc.QPN = q.num
	notify, full := c.push(wc, solicited)
	if notify {
		for _, x := range q.outbox.notify {
			if x == c {
				notify = false
			}
		}
		if notify {
			q.outbox.notify = append(q.outbox.notify, c)
		}
	}
	if full {
		q.outbox.overflow = append(q.outbox.overflow, c)
	}
}

func (q *qp) asyncEvent(t verbs.AsyncEventType) {
	q.outbox.events = append(q.outbox.events, asyncEvent{qp: q, typ: uint8(t)})
}
