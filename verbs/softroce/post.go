package softroce

import (
	"fmt"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// sendWQE is an entry of the send queue.
type sendWQE struct {
	wr   verbs.SendWR
	sges []verbs.SGE // copies of wr.SGEs and, inline, of the data
	msg  message
	bad  verbs.Status // local fault found when it was started

	psn   uint32 // of its first packet
	npkt  uint32 // PSNs that it uses
	got   uint32 // READ: response packets received
	from  uint32 // READ: response packet that the latest request began with
	begun bool
	done  bool // acknowledged

	posted sched.Time // of a READ, where it is accounted for
	held   bool       // by the ORD window
}

func (e *sendWQE) usesWire() bool {
	switch e.wr.Op {
	case verbs.OpLocalInv, verbs.OpBindMW, verbs.OpRegMR:
		return false
	}
	return true
}

func (e *sendWQE) signaled(q *qp) bool {
	return e.wr.Flags&verbs.Signaled != 0 || q.init.SignalAll
}

// forget drops what a completed entry refers to.
func (e *sendWQE) forget() {
	if e.wr.Op >= verbs.OpBindMW {
		e.wr.MW, e.wr.Reg, e.wr.Bind.MR = nil, nil, nil
	}
}

// PostSend implements verbs.QP.
func (q *qp) PostSend(wrs []verbs.SendWR) (int, error) {
	q.postMu.Lock()
	n := 0
	var err error
	for ; n < len(wrs); n++ {
		if err = q.postOne(&wrs[n], false); err != nil {
			break
		}
	}
	q.postMu.Unlock()
	if n > 0 {
		q.kick()
	}
	return n, err
}

// BindMW implements verbs.QP.
func (q *qp) BindMW(w verbs.MW, id uint64, flags verbs.SendFlags, b verbs.Bind) error {
	m, _ := w.(*mw)
	if m == nil || m.typ != verbs.MWType1 {
		return fmt.Errorf("softroce: queue pair %s: BindMW needs a window of type 1: %w", q.init.Name, verbs.ErrInvalid)
	}
	wr := verbs.SendWR{ID: id, Op: verbs.OpBindMW, Flags: flags, MW: w, Bind: b}
	if b.Length > 0 {
		wr.Key = m.r.nextKey() // the caller sends it on before the bind is done
	}
	q.postMu.Lock()
	err := q.postOne(&wr, true)
	if err == nil && b.Length > 0 {
		m.posted.Store(wr.Key)
	}
	q.postMu.Unlock()
	if err == nil {
		q.kick()
	}
	return err
}

// postOne copies a work request to the tail. postMu is held.
func (q *qp) postOne(wr *verbs.SendWR, type1 bool) error {
	if err := q.checkPost(wr, type1); err != nil {
		return err
	}
	tail := q.tail.Load()
	if tail-q.head.Load() >= uint64(q.init.MaxSendWR) {
		return fmt.Errorf("softroce: send queue of %s, %d work requests: %w", q.init.Name, q.init.MaxSendWR, verbs.ErrQueueFull)
	}
	e := &q.sq[tail&uint64(len(q.sq)-1)]
	e.wr = *wr
	e.sges = append(e.sges[:0], wr.SGEs...)
	e.wr.SGEs, e.wr.Data = e.sges, nil
	e.begun, e.done, e.got, e.bad = false, false, 0, verbs.Success
	if wr.Flags&verbs.Inline != 0 {
		e.msg.buf = append(e.msg.buf[:0], wr.Data...)
	}
	if wr.Op == verbs.OpRDMARead && q.dev.net.s.Virtual() {
		e.posted, e.held = q.dev.net.s.Now(), false
	}
	q.tail.Store(tail + 1)
	return nil
}

func (q *qp) checkPost(wr *verbs.SendWR, type1 bool) error {
	fail := func(err error, format string, args ...any) error {
		return fmt.Errorf("softroce: queue pair %s: %v %d: %s: %w", q.init.Name, wr.Op, wr.ID, fmt.Sprintf(format, args...), err)
	}
	switch s := q.postState.Load(); {
	case s == postClosed:
		return fail(verbs.ErrClosed, "the queue pair is closed")
	case s == postRefuse:
		return fail(verbs.ErrState, "the queue pair is not ready to send")
	}
	a := &q.dev.attr
	switch wr.Op {
	case verbs.OpSend, verbs.OpSendWithImm, verbs.OpRDMAWrite, verbs.OpRDMAWriteWithImm, verbs.OpRDMARead:
	case verbs.OpSendWithInv:
		if a.Caps&verbs.CapSendWithInv == 0 {
			return fail(verbs.ErrUnsupported, "sends with invalidation")
		}
	case verbs.OpLocalInv, verbs.OpRegMR:
		if a.Caps&verbs.CapMemMgtExtensions == 0 && (wr.Op == verbs.OpRegMR || a.Caps&verbs.CapMemWindow2B == 0) {
			return fail(verbs.ErrUnsupported, "memory management extensions")
		}
		if m, ok := wr.Reg.(*fastMR); wr.Op == verbs.OpRegMR && (!ok || m.r.dev != q.dev) {
			return fail(verbs.ErrInvalid, "Reg is not a fast-registration region of device %s", q.dev.name)
		}
	case verbs.OpBindMW:
		m, ok := wr.MW.(*mw)
		if !ok || m.r.dev != q.dev || (m.typ == verbs.MWType1) != type1 {
			return fail(verbs.ErrInvalid, "MW is not a type 2 window of device %s", q.dev.name)
		}
	default:
		return fail(verbs.ErrUnsupported, "this opcode")
	}
	if wr.Flags&verbs.Inline != 0 {
		switch {
		case wr.Op > verbs.OpRDMAWriteWithImm:
			return fail(verbs.ErrInvalid, "inline")
		case len(wr.Data) > q.init.MaxInline:
			return fail(verbs.ErrInvalid, "%d bytes inline, the limit is %d", len(wr.Data), q.init.MaxInline)
		case len(wr.SGEs) > 0:
			return fail(verbs.ErrInvalid, "SGEs beside inline data")
		}
	}
	limit := q.init.MaxSendSGE
	if wr.Op == verbs.OpRDMARead {
		limit = min(limit, a.MaxSGERd)
	}
	if len(wr.SGEs) > limit {
		return fail(verbs.ErrInvalid, "%d SGEs, the limit is %d", len(wr.SGEs), limit)
	}
	var n uint64
	for i := range wr.SGEs {
		n += uint64(wr.SGEs[i].Length)
	}
	if n > uint64(a.MaxMsgSize) {
		return fail(verbs.ErrInvalid, "message of %d bytes, max_msg_sz is %d", n, a.MaxMsgSize)
	}
	return nil
}

// PostRecv implements verbs.QP.
func (q *qp) PostRecv(wrs []verbs.RecvWR) (int, error) {
	if q.srq != nil {
		return 0, fmt.Errorf("softroce: queue pair %s receives through its SRQ: %w", q.init.Name, verbs.ErrInvalid)
	}
	s := q.recvState.Load()
	switch s {
	case postClosed:
		return 0, fmt.Errorf("softroce: queue pair %s: %w", q.init.Name, verbs.ErrClosed)
	case postRefuse:
		return 0, fmt.Errorf("softroce: queue pair %s: receive in state RESET: %w", q.init.Name, verbs.ErrState)
	}
	n, err := q.rq.post(wrs)
	if n > 0 && q.recvState.Load() == postFlush {
		q.kick()
	}
	return n, err
}

// What becomes of work that is posted.
const (
	postRefuse uint32 = iota
	postTake
	postFlush
	postClosed
)
