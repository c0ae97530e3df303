package softroce

import (
	"fmt"
	"slices"
	"sync/atomic"

	"example.org/nfsrdma/internal/link"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// qp is a reliable-connected queue pair: a requester and a responder.
type qp struct {
	dev    *Device
	pd     *PD
	init   verbs.QPInit
	num    uint32
	scq    *cq
	rcq    *cq
	srq    *srq
	rq     *recvQueue // own or the SRQ's
	recvPD *PD        // whose keys receives name

	// What the peer may still copy: flight the messages of the send queue, until it is
	// flushed; served those of READs answered, until the end of the queue pair.
	flight, served guard

	// Who runs the engine: pending counts calls of kick that are not served.
	pending  atomic.Int64
	timerDue atomic.Bool

	postMu lock          // the mailbox, and writing tail
	tail   atomic.Uint64 // next free send queue entry
	mail   []packet
	mailed atomic.Bool   // mail may not be empty
	head   atomic.Uint64 // oldest send queue entry, written under mu

	// On a direct wire an acknowledgement is no packet: the peer stores the PSN, marked as
	// valid, and wakes the engine only if it is idle and somebody waits for it.
	ackIn   atomic.Uint64
	needAck atomic.Bool

	sec     *sections
	section section

	// Of the runner alone.
	inbox  []packet
	caller *qp       // whose packets it runs for, while that one waits
	outs   [2]output // one of them is the outbox

	mu     lock // all that follows
	state  verbs.QPState
	attr   verbs.QPAttr
	closed bool
	peer   *qp
	pipe   *link.Pipe // nil: direct
	mtu    uint32
	outbox *output
	inside bool   // in its section
	lost   packet // where packets to no peer are made
	st     stats
	requester
	responder
	timer *sched.Timer
	raw   *Raw // of a raw peer: takes what comes in INIT
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
	q := &qp{dev: d, pd: p, init: init, scq: scq, rcq: rcq, recvPD: p, sec: &d.net.sec, mu: d.net.lock(), postMu: d.net.lock()}
	q.outbox = &q.outs[0]
	q.sq = make([]sendWQE, pow2(max(init.MaxSendWR, 1)))
	q.timer = d.net.s.NewTimer(func() { q.timerDue.Store(true); q.kick() })
	if init.SRQ != nil {
		s, _ := init.SRQ.(*srq)
		if s == nil || s.pd.dev != d {
			return nil, fmt.Errorf("softroce: queue pair %s: SRQ of another device: %w", init.Name, verbs.ErrInvalid)
		}
		q.srq, q.rq, q.recvPD = s, s.q, s.pd
	} else {
		q.rq = d.net.newRecvQueue(init.MaxRecvWR, init.MaxRecvSGE)
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
