//go:build rdmacore && cgo

package rdmacore

/*
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"net/netip"

	"example.org/nfsrdma/verbs"
)

const psnMask = 1<<24 - 1

// Modify implements verbs.QP.
func (q *qp) Modify(a verbs.QPAttr) error {
	err := q.modify(a)
	if err == nil && a.State == verbs.Error {
		q.flush()
	}
	return err
}

func (q *qp) modify(a verbs.QPAttr) error {
	q.ctl.Lock()
	defer q.ctl.Unlock()
	if q.closed {
		return closedError(q.what())
	}
	from := q.now()
	if a.State > verbs.Error {
		return fmt.Errorf("rdmacore: %s: modify to %d: no state: %w", q.what(), a.State, verbs.ErrInvalid)
	}
	var c C.struct_ibv_qp_attr
	c.qp_state = uint32(a.State)
	mask := C.int(C.IBV_QP_STATE)
	var err error
	switch {
	case a.State == verbs.Init:
		c.port_num = 1
		c.qp_access_flags = C.uint(a.Access)
		mask |= C.IBV_QP_PKEY_INDEX | C.IBV_QP_PORT | C.IBV_QP_ACCESS_FLAGS
	case a.State == verbs.RTR:
		mask |= C.IBV_QP_AV | C.IBV_QP_PATH_MTU | C.IBV_QP_DEST_QPN | C.IBV_QP_RQ_PSN | C.IBV_QP_MAX_DEST_RD_ATOMIC | C.IBV_QP_MIN_RNR_TIMER
		err = q.toRTR(&c, &a)
	case a.State == verbs.RTS && from == verbs.RTR:
		mask |= C.IBV_QP_TIMEOUT | C.IBV_QP_RETRY_CNT | C.IBV_QP_RNR_RETRY | C.IBV_QP_SQ_PSN | C.IBV_QP_MAX_QP_RD_ATOMIC
		err = q.toRTS(&c, &a)
	}
	if err != nil {
		return err
	}
	if rc := C.ibv_modify_qp(q.c, &c, mask); rc != 0 {
		return errnoError(int(rc), "%s: modify %v to %v", q.what(), from, a.State)
	}
	q.note(from, &a)
	return nil
}

// note keeps what the device may not give back. ctl is held.
func (q *qp) note(from verbs.QPState, a *verbs.QPAttr) {
	q.state.Store(uint32(a.State))
	n := &q.asked
	switch {
	case a.State == verbs.Reset:
		*n = verbs.QPAttr{}
	case a.State == verbs.Init:
		n.Access = a.Access
	case a.State == verbs.RTR:
		n.DestAddr, n.DestQPN, n.RQPSN, n.PathMTU, n.IRD, n.MinRNR = a.DestAddr, a.DestQPN, a.RQPSN, a.PathMTU, a.IRD, a.MinRNR
	case a.State == verbs.RTS && from == verbs.RTR:
		n.SQPSN, n.ORD, n.Timeout, n.RetryCnt, n.RNRRetry = a.SQPSN, a.ORD, a.Timeout, a.RetryCnt, a.RNRRetry
	}
}

func (q *qp) invalid(knob string, v, hi int) error {
	return bounded(q.dev.what, q.what()+": modify", knob, v, 0, hi)
}

func (q *qp) toRTR(c *C.struct_ibv_qp_attr, a *verbs.QPAttr) error {
	d := q.dev
	for _, k := range []struct {
		knob  string
		v, hi int
	}{
		{"IRD (max_qp_rd_atom)", a.IRD, d.attr.MaxQPRdAtom}, {"RQPSN", int(a.RQPSN), psnMask},
		{"DestQPN", int(a.DestQPN), psnMask}, {"MinRNR", int(a.MinRNR), 31},
	} {
		if err := q.invalid(k.knob, k.v, k.hi); err != nil {
			return err
		}
	}
	mtu := a.PathMTU
	if mtu == 0 {
		mtu = d.attr.ActiveMTU
	}
	code := mtuCode(mtu)
	if code == 0 || mtu > d.attr.ActiveMTU {
		return fmt.Errorf("rdmacore: %s: path MTU %d, must be 256, 512 ... to %d: %w", q.what(), mtu, d.attr.ActiveMTU, verbs.ErrInvalid)
	}
	c.path_mtu = code
	c.dest_qp_num, c.rq_psn = C.uint32_t(a.DestQPN), C.uint32_t(a.RQPSN)
	c.max_dest_rd_atomic, c.min_rnr_timer = C.uint8_t(a.IRD), C.uint8_t(a.MinRNR)
	return q.path(c, a.DestAddr)
}

// mtuCode is enum ibv_mtu, 0 if there is none.
func mtuCode(mtu int) uint32 {
	for code := uint32(1); code <= 5; code++ {
		if mtu == 128<<code {
			return code
		}
	}
	return 0
}

// path finds the GIDs of a RoCE path from the IP addresses of its ends.
func (q *qp) path(c *C.struct_ibv_qp_attr, dest string) error {
	d := q.dev
	if d.attr.Transport != verbs.RoCE {
		return fmt.Errorf("rdmacore: %s: path to %q: only RoCE has IP addresses for GIDs: %w", q.what(), dest, verbs.ErrUnsupported)
	}
	dst, err := netip.ParseAddr(dest)
	if err != nil {
		return fmt.Errorf("rdmacore: %s: DestAddr %q is no IP address: %w", q.what(), dest, verbs.ErrInvalid)
	}
	src := d.sourceFor(dst)
	if !src.IsValid() {
		return fmt.Errorf("rdmacore: %s: no address of the device to reach %s from: %w", q.what(), dest, verbs.ErrUnreachable)
	}
	var index C.int
	own := src.As16()
	if rc := C.rc_gid(d.hca.ctx, (*C.uint8_t)(&own[0]), &index); rc != 0 {
		return errnoError(int(rc), "%s: GID of %s", q.what(), src)
	}
	ah := &c.ah_attr
	ah.is_global, ah.port_num = 1, 1
	gid := dst.As16()
	copy(ah.grh.dgid[:], gid[:])
	ah.grh.sgid_index, ah.grh.hop_limit = C.uint8_t(index), 64
	return nil
}

func (q *qp) toRTS(c *C.struct_ibv_qp_attr, a *verbs.QPAttr) error {
	for _, k := range []struct {
		knob  string
		v, hi int
	}{
		{"ORD (max_qp_init_rd_atom)", a.ORD, q.dev.attr.MaxQPInitRdAtom}, {"SQPSN", int(a.SQPSN), psnMask},
		{"Timeout", int(a.Timeout), 31}, {"RetryCnt", int(a.RetryCnt), 7}, {"RNRRetry", int(a.RNRRetry), 7},
	} {
		if err := q.invalid(k.knob, k.v, k.hi); err != nil {
			return err
		}
	}
	c.sq_psn, c.max_rd_atomic = C.uint32_t(a.SQPSN), C.uint8_t(a.ORD)
	c.timeout, c.retry_cnt, c.rnr_retry = C.uint8_t(a.Timeout), C.uint8_t(a.RetryCnt), C.uint8_t(a.RNRRetry)
	return nil
}

// Query implements verbs.QP. iWARP has a state alone, as far as this side has seen.
func (q *qp) Query() verbs.QPAttr {
	q.ctl.Lock()
	defer q.ctl.Unlock()
	a := q.asked
	a.State = q.now()
	if q.closed || q.dev.attr.Transport == verbs.IWARP {
		return a
	}
	var c C.struct_ibv_qp_attr
	var init C.struct_ibv_qp_init_attr
	const mask = C.IBV_QP_STATE | C.IBV_QP_ACCESS_FLAGS | C.IBV_QP_PATH_MTU | C.IBV_QP_DEST_QPN | C.IBV_QP_RQ_PSN | C.IBV_QP_SQ_PSN |
		C.IBV_QP_MAX_DEST_RD_ATOMIC | C.IBV_QP_MAX_QP_RD_ATOMIC | C.IBV_QP_MIN_RNR_TIMER | C.IBV_QP_TIMEOUT | C.IBV_QP_RETRY_CNT | C.IBV_QP_RNR_RETRY
	if C.ibv_query_qp(q.c, &c, mask, &init) != 0 {
		return a
	}
	if st := verbs.QPState(c.qp_state); st <= verbs.Error {
		if st == verbs.Error {
			q.sawError()
		}
		a.State = q.now()
		if q.id == nil {
			a.State = st
		}
	}
	a.Access = verbs.Access(c.qp_access_flags)
	a.DestQPN, a.RQPSN, a.SQPSN = uint32(c.dest_qp_num), uint32(c.rq_psn), uint32(c.sq_psn)
	a.IRD, a.ORD = int(c.max_dest_rd_atomic), int(c.max_rd_atomic)
	a.MinRNR, a.Timeout, a.RetryCnt, a.RNRRetry = uint8(c.min_rnr_timer), uint8(c.timeout), uint8(c.retry_cnt), uint8(c.rnr_retry)
	if a.State >= verbs.RTR && c.path_mtu > 0 {
		a.PathMTU = 128 << c.path_mtu
	}
	return a
}

// fail moves the queue pair to ERR, if it has left RESET; also again, as rxe flushes the receives that were
// posted since only then.
func (q *qp) fail() {
	q.becomeError()
	q.flush()
}

func (q *qp) becomeError() {
	q.ctl.Lock()
	defer q.ctl.Unlock()
	if q.closed || q.now() == verbs.Reset {
		return
	}
	var c C.struct_ibv_qp_attr
	c.qp_state = C.IBV_QPS_ERR
	_ = C.ibv_modify_qp(q.c, &c, C.IBV_QP_STATE) // the device may have done it
	q.state.Store(uint32(verbs.Error))
}

// flush completes what the device has forgotten. No lock is held: it may call handlers.
func (q *qp) flush() {
	if q.track != nil {
		q.scq.flush(q, q.track.flushSends)
		q.rcq.flush(q, q.track.flushRecvs)
	}
}

// becomeRTS notes that the device has connected the queue pair.
func (q *qp) becomeRTS() { q.state.CompareAndSwap(uint32(verbs.Init), uint32(verbs.RTS)) }

func (q *qp) isClosed() bool {
	q.ctl.Lock()
	defer q.ctl.Unlock()
	return q.closed
}
