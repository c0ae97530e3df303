package softroce

import (
	"fmt"
	"slices"

	"example.org/nfsrdma/internal/link"
	"example.org/nfsrdma/verbs"
)

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

// kick runs the engine unless somebody does so already.
func (q *qp) kick() {
	if q.pending.Add(1) == 1 {
		q.loop(nil, nil)
	}
}

// offer hands packets from another engine to this one: at once if it is idle, into its inbox if it
// waits for that other one to return, else by its mailbox. What is returned has room for more packets.
func (q *qp) offer(ps []packet, from *qp) []packet {
	if q.pending.CompareAndSwap(0, 1) {
		q.loop(ps, from)
		return ps
	}
	if from.caller == q && !q.mailed.Load() {
		if len(q.inbox) == 0 {
			q.inbox, ps = ps, q.inbox
		} else {
			q.inbox = append(q.inbox, ps...)
		}
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

// loop runs the engine until nobody has kicked it meanwhile, and no acknowledgement is left that
// somebody waits for: the peer does not kick an engine that runs.
func (q *qp) loop(ps []packet, caller *qp) {
	q.caller = caller
	for {
		n := q.pending.Load()
		ack := q.run(ps)
		ps = nil
		if len(q.inbox) > 0 || q.ackAfter(ack) || q.pending.Add(-n) != 0 {
			continue
		}
		if !q.ackAfter(ack) || !q.pending.CompareAndSwap(0, 1) {
			return
		}
	}
}

// ackAfter says whether a later acknowledgement than ack is there and waited for.
func (q *qp) ackAfter(ack uint64) bool { return q.ackIn.Load() != ack && q.needAck.Load() }

// run is one turn of the engine: packets in, packets out. It returns the acknowledgement it saw.
func (q *qp) run(ps []packet) (ack uint64) {
	ack = q.ackIn.Load() // first: what the peer sent before it is then in the mailbox
	q.mu.Lock()
	q.arrived = 0
	q.receiveAll(ps)
	q.empty()
	if q.mailed.Load() { // what is in the inbox came before
		q.postMu.Lock()
		q.inbox, q.mail = q.mail, q.inbox
		q.mailed.Store(false)
		q.postMu.Unlock()
		q.empty()
	}
	q.takeAck(ack)
	if q.timerDue.Load() && q.timerDue.Swap(false) {
		q.timeout()
	}
	q.respond()
	q.send(q.tail.Load())
	q.leave()
	out := q.outbox
	q.outbox = &q.outs[0]
	if out == q.outbox {
		q.outbox = &q.outs[1]
	}
	q.mu.Unlock()
	q.deliver(out)
	return ack
}

// empty takes the packets of the inbox.
func (q *qp) empty() {
	if len(q.inbox) > 0 {
		q.receiveAll(q.inbox)
		clear(q.inbox)
		q.inbox = q.inbox[:0]
	}
}

// receiveAll takes packets, so few in one section that others need not wait long for its end.
func (q *qp) receiveAll(ps []packet) {
	for i := range ps {
		if i%64 == 63 {
			q.leave()
		}
		q.receive(&ps[i])
	}
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
		if to.needAck.Load() && to.pending.Load() == 0 {
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
		if net.tapped() {
			if ps = net.divert(ps, nil); len(ps) == 0 {
				return ps
			}
		}
		return ps[0].dst.offer(ps, q)
	}
	for i := range ps {
		p := &ps[i]
		if !net.tapped() {
			pipe.Send(p.size(), net.fly(p))
		} else {
			sent := net.divert(ps[i:i+1], pipe)
			for k := range sent {
				pipe.Send(sent[k].size(), net.fly(&sent[k]))
			}
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
