//go:build rdmacore && cgo

package rdmacore

/*
#cgo nocallback rc_create_qp
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"example.org/nfsrdma/verbs"
)

// qp is a queue pair.
type qp struct {
	dev      *Device
	pd       *pd
	init     verbs.QPInit
	num      uint32
	scq, rcq *cq
	srq      *srq
	id       *cmID // nil: moved by Modify

	// state is the state as far as this side knows. The device may have gone to ERR; that shows in
	// completions and events.
	state atomic.Uint32

	// c lives, and closed is false, while one of these is held.
	ctl, send, recv sync.Mutex
	c               *C.struct_ibv_qp
	closed          bool
	asked           verbs.QPAttr // what Modify has set; under ctl

	sends sendList // under send
	recvs recvList // under recv
	track *track   // nil unless the device needs it
}

// CreateQP implements verbs.PD.
func (p *pd) CreateQP(init verbs.QPInit) (verbs.QP, error) {
	if p.dev.attr.Transport == verbs.IWARP {
		return nil, p.unsupported("queue pair "+init.Name, "iWARP queue pairs are connected by the connection manager alone")
	}
	q, err := p.createQP(init)
	if err != nil {
		return nil, err
	}
	return q, nil
}

func (p *pd) createQP(init verbs.QPInit) (*qp, error) {
	d := p.dev
	what := "queue pair " + init.Name
	for _, k := range []struct {
		knob string
		v    int
		hi   int
	}{
		{"MaxSendWR (max_qp_wr)", init.MaxSendWR, d.attr.MaxQPWR},
		{"MaxRecvWR (max_qp_wr)", init.MaxRecvWR, d.attr.MaxQPWR},
		{"MaxSendSGE (max_sge)", init.MaxSendSGE, d.attr.MaxSGE},
		{"MaxRecvSGE (max_sge)", init.MaxRecvSGE, d.attr.MaxSGE},
		{"MaxInline", init.MaxInline, d.attr.MaxInline},
	} {
		if err := bounded(d.what, what, k.knob, k.v, 0, k.hi); err != nil {
			return nil, err
		}
	}
	init.MaxSendSGE, init.MaxRecvSGE = max(init.MaxSendSGE, 1), max(init.MaxRecvSGE, 1)
	q := &qp{dev: d, pd: p, init: init}
	if d.tracks {
		q.track = new(track)
	}
	q.scq, _ = init.SendCQ.(*cq)
	q.rcq, _ = init.RecvCQ.(*cq)
	if q.scq == nil || q.rcq == nil || q.scq.dev != d || q.rcq.dev != d {
		return nil, fmt.Errorf("rdmacore: %s: %s needs completion queues of the device: %w", d.what, what, verbs.ErrInvalid)
	}
	if init.SRQ != nil {
		if q.srq, _ = init.SRQ.(*srq); q.srq == nil || q.srq.pd.dev != d {
			return nil, fmt.Errorf("rdmacore: %s: %s has a shared receive queue of another device: %w", d.what, what, verbs.ErrInvalid)
		}
	}
	if err := q.useAll(); err != nil {
		return nil, err
	}
	if err := q.create(); err != nil {
		q.unuseAll()
		return nil, err
	}
	return q, nil
}

func (q *qp) what() string { return "queue pair " + q.init.Name }

func (q *qp) create() error {
	a := C.struct_ibv_qp_init_attr{}
	a.cap.max_send_wr, a.cap.max_recv_wr = C.uint32_t(max(q.init.MaxSendWR, 1)), C.uint32_t(max(q.init.MaxRecvWR, 1))
	a.cap.max_send_sge, a.cap.max_recv_sge = C.uint32_t(q.init.MaxSendSGE), C.uint32_t(q.init.MaxRecvSGE)
	a.cap.max_inline_data = C.uint32_t(q.init.MaxInline)
	if q.init.SignalAll {
		a.sq_sig_all = 1
	}
	var s *C.struct_ibv_srq
	if q.srq != nil {
		s = q.srq.c
		a.cap.max_recv_wr, a.cap.max_recv_sge = 0, 0
	}
	if rc := C.rc_create_qp(q.pd.c, &a, q.scq.c, q.rcq.c, s, &q.c); rc != 0 {
		return errnoError(int(rc), "%s: %s with %d sends, %d receives, %d and %d SGEs, %d bytes inline; max_qp is %d", q.dev.what, q.what(),
			q.init.MaxSendWR, q.init.MaxRecvWR, q.init.MaxSendSGE, q.init.MaxRecvSGE, q.init.MaxInline, q.dev.attr.MaxQP)
	}
	q.num = uint32(q.c.qp_num)
	h := q.dev.hca
	h.mu.Lock()
	h.qps[q.key()] = q
	h.mu.Unlock()
	return nil
}

func (q *qp) key() uint64 { return uint64(uintptr(unsafe.Pointer(q.c))) }

// useAll keeps what the queue pair needs from being closed.
func (q *qp) useAll() (err error) {
	var undo []func()
	defer func() {
		if err != nil {
			for _, f := range undo {
				f()
			}
		}
	}()
	if err = q.dev.count(&q.dev.res.QP); err != nil {
		return err
	}
	undo = append(undo, func() { q.dev.uncount(&q.dev.res.QP) })
	if err = q.pd.use(); err != nil {
		return err
	}
	undo = append(undo, q.pd.unuse)
	if err = q.scq.attach(q); err != nil {
		return err
	}
	undo = append(undo, func() { q.scq.detach(q) })
	if err = q.rcq.attach(q); err != nil {
		return err
	}
	undo = append(undo, func() { q.rcq.detach(q) })
	if q.srq != nil {
		err = q.srq.use()
	}
	return err
}

func (q *qp) unuseAll() {
	q.scq.detach(q)
	q.rcq.detach(q)
	if q.srq != nil {
		q.srq.unuse()
	}
	q.pd.unuse()
	q.dev.uncount(&q.dev.res.QP)
}

// Num implements verbs.QP.
func (q *qp) Num() uint32 { return q.num }

func (q *qp) now() verbs.QPState { return verbs.QPState(q.state.Load()) }

// sawError notes that the device has the queue pair in ERR; true if that is new.
func (q *qp) sawError() bool {
	s := q.now()
	return s != verbs.Reset && s != verbs.Error && q.state.CompareAndSwap(uint32(s), uint32(verbs.Error))
}

// asyncEvent handles an event of the library.
func (q *qp) asyncEvent(typ int) {
	e := verbs.AsyncEvent{QP: q}
	switch typ {
	case C.IBV_EVENT_QP_FATAL:
		e.Type = verbs.EventQPFatal
	case C.IBV_EVENT_QP_REQ_ERR:
		e.Type = verbs.EventQPReqErr
	case C.IBV_EVENT_QP_ACCESS_ERR:
		e.Type = verbs.EventQPAccessErr
	case C.IBV_EVENT_COMM_EST:
		e.Type = verbs.EventCommEst
		if q.id != nil {
			q.id.communicates()
		}
	case C.IBV_EVENT_SQ_DRAINED:
		e.Type = verbs.EventSQDrained
	case C.IBV_EVENT_QP_LAST_WQE_REACHED:
		e.Type = verbs.EventQPLastWQEReached
	default:
		return
	}
	switch typ {
	case C.IBV_EVENT_QP_FATAL, C.IBV_EVENT_QP_REQ_ERR, C.IBV_EVENT_QP_ACCESS_ERR:
		q.sawError()
	}
	q.dev.event(e)
}

// Close implements verbs.QP.
func (q *qp) Close() error {
	q.ctl.Lock()
	q.send.Lock()
	q.recv.Lock()
	done := q.closed
	q.closed = true
	q.recv.Unlock()
	q.send.Unlock()
	q.ctl.Unlock()
	if done {
		return nil
	}
	h := q.dev.hca
	h.mu.Lock()
	delete(h.qps, q.key())
	h.mu.Unlock()
	rc := C.ibv_destroy_qp(q.c)
	q.unuseAll()
	if rc != 0 {
		return errnoError(int(rc), "closing %s", q.what())
	}
	return nil
}
