//go:build rdmacore && cgo

package rdmacore

/*
#cgo noescape rc_post_send
#cgo nocallback rc_post_send
#cgo noescape rc_post_recv
#cgo nocallback rc_post_recv
#cgo noescape rc_post_srq
#cgo nocallback rc_post_srq
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"syscall"
	"unsafe"

	"example.org/nfsrdma/verbs"
)

// verbs.SGE is struct ibv_sge.
var (
	_ [unsafe.Sizeof(verbs.SGE{}) - C.sizeof_struct_ibv_sge]struct{}
	_ [C.sizeof_struct_ibv_sge - unsafe.Sizeof(verbs.SGE{})]struct{}
	_ [unsafe.Offsetof(verbs.SGE{}.LKey) - 12]struct{}
)

// sendList is a list of send work requests in C's layout; its memory is used again. It has no
// pointers: those of windows and regions are numbers.
type sendList struct {
	wrs  []C.rc_send
	sges []verbs.SGE
	data []byte // inline, one after the other
	wins []binding
}

// binding keeps a window and its region from being closed while the bind is posted.
type binding struct {
	mw  *mw
	mr  *mr
	key uint32
}

// recvList is the same for receives.
type recvList struct {
	wrs  []C.rc_recv
	sges []verbs.SGE
}

// pack takes work requests up to the first that is bad, and says why that is.
func (l *recvList) pack(wrs []verbs.RecvWR, limit int, iwarp bool) (n int, err error) {
	l.wrs, l.sges = l.wrs[:0], l.sges[:0]
	for i := range wrs {
		sges := wrs[i].SGEs
		if len(sges) > limit {
			return i, fmt.Errorf("rdmacore: receive %d has %d SGEs, the limit is %d: %w", wrs[i].ID, len(sges), limit, verbs.ErrInvalid)
		}
		k := len(sges)
		l.sges = append(l.sges, sges...)
		if k == 0 && iwarp { // siw takes no receive without an SGE
			l.sges = append(l.sges, verbs.SGE{})
			k = 1
		}
		l.wrs = append(l.wrs, C.rc_recv{id: C.uint64_t(wrs[i].ID), nsge: C.uint32_t(k)})
	}
	return len(wrs), nil
}

func (l *recvList) post(q *C.struct_ibv_qp, n int) (taken, rc int) {
	if n == 0 {
		return 0, 0
	}
	var k C.int
	r := C.rc_post_recv(q, &l.wrs[0], C.int(n), (*C.struct_ibv_sge)(unsafe.Pointer(unsafe.SliceData(l.sges))), &k)
	return int(k), int(r)
}

func (l *recvList) postSRQ(q *C.struct_ibv_srq, n int) (taken, rc int) {
	if n == 0 {
		return 0, 0
	}
	var k C.int
	r := C.rc_post_srq(q, &l.wrs[0], C.int(n), (*C.struct_ibv_sge)(unsafe.Pointer(unsafe.SliceData(l.sges))), &k)
	return int(k), int(r)
}

// PostRecv implements verbs.QP.
func (q *qp) PostRecv(wrs []verbs.RecvWR) (int, error) {
	if q.srq != nil {
		return 0, fmt.Errorf("rdmacore: %s receives through its shared receive queue: %w", q.what(), verbs.ErrInvalid)
	}
	n, err := q.postRecv(wrs)
	if n > 0 && q.now() == verbs.Error {
		q.fail() // flushes them
	}
	return n, err
}

func (q *qp) postRecv(wrs []verbs.RecvWR) (int, error) {
	q.recv.Lock()
	defer q.recv.Unlock()
	if q.closed {
		return 0, closedError(q.what())
	}
	st := q.now()
	if st == verbs.Reset {
		return 0, wrongState(q.what()+": receive", st)
	}
	n, bad := q.recvs.pack(wrs, q.init.MaxRecvSGE, q.dev.attr.Transport == verbs.IWARP)
	if q.track != nil {
		for i := range q.recvs.wrs[:n] {
			q.recvs.wrs[i].id = C.uint64_t(q.track.postRecv(wrs[i].ID))
		}
		if st == verbs.Error {
			return n, bad
		}
	}
	taken, rc := q.recvs.post(q.c, n)
	if rc != 0 {
		if q.track != nil {
			q.track.unpostRecvs(n - taken)
		}
		return taken, q.postError("receive queue", q.init.MaxRecvWR, rc)
	}
	return taken, bad
}

// PostSend implements verbs.QP.
func (q *qp) PostSend(wrs []verbs.SendWR) (int, error) {
	n, err := q.postSend(wrs)
	if n > 0 && q.track != nil && q.now() == verbs.Error {
		q.fail() // flushes them
	}
	return n, err
}

func (q *qp) postSend(wrs []verbs.SendWR) (int, error) {
	q.send.Lock()
	defer q.send.Unlock()
	if err := q.maySend(); err != nil {
		return 0, err
	}
	n, bad := q.pack(wrs)
	defer q.unpack()
	if n == 0 {
		return 0, bad
	}
	if q.track != nil {
		return q.postTracked(wrs[:n], bad)
	}
	k, rc := q.sends.post(q.c)
	for _, w := range q.sends.wins[:min(k, len(q.sends.wins))] {
		w.mw.bound(w.key)
	}
	if rc != 0 {
		return k, q.postError("send queue", q.init.MaxSendWR, rc)
	}
	return n, bad
}

// post posts all that is packed.
func (l *sendList) post(q *C.struct_ibv_qp) (taken, rc int) {
	var k C.int
	r := C.rc_post_send(q, &l.wrs[0], C.int(len(l.wrs)), (*C.struct_ibv_sge)(unsafe.Pointer(unsafe.SliceData(l.sges))),
		(*C.uint8_t)(unsafe.SliceData(l.data)), &k)
	return int(k), int(r)
}

// postTracked posts with numbers, or in ERR not at all: what the device does not know is flushed.
func (q *qp) postTracked(wrs []verbs.SendWR, bad error) (int, error) {
	for i := range wrs {
		wr, w := &wrs[i], &q.sends.wrs[i]
		w.id = C.uint64_t(q.track.postSend(wr.ID, wr.Op, wr.Flags&verbs.Signaled != 0 || q.init.SignalAll))
		if wr.Op == verbs.OpRDMARead {
			w.flags |= C.IBV_SEND_SIGNALED
		}
	}
	if q.now() == verbs.Error {
		return len(wrs), bad
	}
	k, rc := q.sends.post(q.c)
	if syscall.Errno(rc) == syscall.ENOTCONN { // the connection has ended
		q.sawError()
		return len(wrs), bad
	}
	if rc != 0 {
		q.track.unpostSends(len(wrs) - k)
		return k, q.postError("send queue", q.init.MaxSendWR, rc)
	}
	return len(wrs), bad
}

// maySend is called with send.
func (q *qp) maySend() error {
	if q.closed {
		return closedError(q.what())
	}
	if st := q.now(); st < verbs.RTS {
		return wrongState(q.what()+": send", st)
	}
	return nil
}

func (q *qp) postError(queue string, depth, rc int) error {
	if syscall.Errno(rc) == syscall.ENOMEM {
		return fmt.Errorf("rdmacore: %s of %s, %d work requests: %w", queue, q.init.Name, depth, verbs.ErrQueueFull)
	}
	return errnoError(rc, "%s of %s", queue, q.init.Name)
}

// pack takes work requests up to the first that is bad, and says why that is.
func (q *qp) pack(wrs []verbs.SendWR) (n int, err error) {
	l := &q.sends
	l.wrs, l.sges, l.data = l.wrs[:0], l.sges[:0], l.data[:0]
	for i := range wrs {
		wr := &wrs[i]
		if err := q.check(wr); err != nil {
			return i, err
		}
		s := C.rc_send{
			id: C.uint64_t(wr.ID), raddr: C.uint64_t(wr.RemoteAddr), rkey: C.uint32_t(wr.RKey),
			op: C.uint32_t(wr.Op), flags: C.uint32_t(sendFlags(wr.Flags)),
		}
		switch wr.Op {
		case verbs.OpSendWithImm, verbs.OpRDMAWriteWithImm:
			s.imm = C.uint32_t(wr.Imm)
		case verbs.OpSendWithInv, verbs.OpLocalInv:
			s.imm = C.uint32_t(wr.InvKey)
		case verbs.OpBindMW:
			w, r := wr.MW.(*mw), wr.Bind.MR.(*mr)
			if err := w.use(); err != nil {
				return i, err
			}
			if err := r.use(); err != nil {
				w.unuse()
				return i, err
			}
			l.wins = append(l.wins, binding{w, r, wr.Key})
			s.mw, s.mr = C.uint64_t(uintptr(unsafe.Pointer(w.c))), C.uint64_t(uintptr(unsafe.Pointer(r.c)))
			s.baddr, s.blen = C.uint64_t(wr.Bind.Addr), C.uint64_t(wr.Bind.Length)
			s.baccess, s.bkey = C.uint32_t(wr.Bind.Access), C.uint32_t(wr.Key)
		}
		if wr.Flags&verbs.Inline != 0 {
			s.nsge = 1
			l.sges = append(l.sges, verbs.SGE{Addr: uint64(len(l.data)), Length: uint32(len(wr.Data))})
			l.data = append(l.data, wr.Data...)
		} else {
			s.nsge = C.uint32_t(len(wr.SGEs))
			l.sges = append(l.sges, wr.SGEs...)
		}
		l.wrs = append(l.wrs, s)
	}
	return len(wrs), nil
}

// unpack lets go what pack holds.
func (q *qp) unpack() {
	l := &q.sends
	for i, w := range l.wins {
		w.mw.unuse()
		w.mr.unuse()
		l.wins[i] = binding{}
	}
	l.wins = l.wins[:0]
}

// check is for what the library would not look at, or would look at too late.
func (q *qp) check(wr *verbs.SendWR) error {
	a := &q.dev.attr
	fail := func(err error, format string, args ...any) error {
		return fmt.Errorf("rdmacore: %s: %v %d: %s: %w", q.what(), wr.Op, wr.ID, fmt.Sprintf(format, args...), err)
	}
	switch wr.Op {
	case verbs.OpSend, verbs.OpRDMAWrite, verbs.OpRDMARead:
	case verbs.OpSendWithImm, verbs.OpRDMAWriteWithImm:
		if a.Transport == verbs.IWARP {
			return fail(verbs.ErrUnsupported, "iWARP has no immediate data")
		}
	case verbs.OpSendWithInv:
		if a.Caps&verbs.CapSendWithInv == 0 {
			return fail(verbs.ErrUnsupported, "the device cannot")
		}
	case verbs.OpLocalInv:
		if a.Caps&verbs.CapMemWindow2B == 0 {
			return fail(verbs.ErrUnsupported, "there is nothing to invalidate without type 2B windows")
		}
	case verbs.OpBindMW:
		if w, ok := wr.MW.(*mw); !ok || w.typ != verbs.MWType2B {
			return fail(verbs.ErrInvalid, "MW is not a type 2 window of the device")
		}
		if why := q.badBind(wr.MW.(*mw), &wr.Bind); why != "" {
			return fail(verbs.ErrInvalid, "%s", why)
		}
	case verbs.OpRegMR:
		return fail(verbs.ErrUnsupported, "libibverbs has no fast registration")
	default:
		return fail(verbs.ErrInvalid, "this opcode")
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

// BindMW implements verbs.QP.
func (q *qp) BindMW(win verbs.MW, id uint64, flags verbs.SendFlags, b verbs.Bind) error {
	w, _ := win.(*mw)
	if w == nil || w.typ != verbs.MWType1 {
		return fmt.Errorf("rdmacore: %s: BindMW needs a window of type 1 of the device: %w", q.what(), verbs.ErrInvalid)
	}
	if why := q.badBind(w, &b); why != "" {
		return fmt.Errorf("rdmacore: %s: BindMW: %s: %w", q.what(), why, verbs.ErrInvalid)
	}
	r := b.MR.(*mr)
	q.send.Lock()
	defer q.send.Unlock()
	if err := q.maySend(); err != nil {
		return err
	}
	if err := w.use(); err != nil {
		return err
	}
	defer w.unuse()
	if err := r.use(); err != nil {
		return err
	}
	defer r.unuse()
	rc := C.rc_bind_mw(q.c, w.c, C.uint64_t(id), C.uint(sendFlags(flags)), r.c, C.uint64_t(b.Addr), C.uint64_t(b.Length), C.uint(b.Access))
	if rc != 0 {
		return q.postError("send queue", q.init.MaxSendWR, int(rc))
	}
	w.bound(uint32(w.c.rkey))
	return nil
}

// badBind says what is wrong with a bind, "" if nothing is: rxe checks neither all the bounds nor the domain of the region.
func (q *qp) badBind(w *mw, b *verbs.Bind) string {
	r, ok := b.MR.(*mr)
	switch {
	case !ok:
		return "MR is not a region of the device"
	case w.pd != q.pd || r.pd != q.pd:
		return "the window or the region is of another protection domain"
	case b.Length == 0 && w.typ == verbs.MWType1:
		return "" // unbinds
	case b.Length == 0:
		return "a window of no bytes"
	case r.access&verbs.MWBind == 0:
		return "the region has no right to be bound (MWBind)"
	case b.Access&^(verbs.RemoteRead|verbs.RemoteWrite|verbs.RemoteAtomic|verbs.ZeroBased) != 0 || w.typ == verbs.MWType1 && b.Access&verbs.ZeroBased != 0:
		return fmt.Sprintf("access %#x is none of a window", uint32(b.Access))
	case b.Access&(verbs.RemoteWrite|verbs.RemoteAtomic) != 0 && r.access&verbs.LocalWrite == 0:
		return "a window for writing on a region without local write"
	case b.Addr < r.addr || b.Addr-r.addr > uint64(len(r.buf)) || b.Length > uint64(len(r.buf))-(b.Addr-r.addr):
		return fmt.Sprintf("%d bytes at %#x are not within the region, %d bytes at %#x", b.Length, b.Addr, len(r.buf), r.addr)
	}
	return ""
}
