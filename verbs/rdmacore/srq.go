//go:build rdmacore && cgo

package rdmacore

/*
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"sync"
	"syscall"
	"unsafe"

	"example.org/nfsrdma/verbs"
)

// srq is a shared receive queue.
type srq struct {
	object
	pd   *pd
	c    *C.struct_ibv_srq
	init verbs.SRQInit

	post  sync.Mutex // what follows, and that c lives
	gone  bool
	recvs recvList
	idMu  sync.Mutex
	ids   map[uint64]uint64 // of a device with tracks: by number
	num   uint64
}

// CreateSRQ implements verbs.PD.
func (p *pd) CreateSRQ(init verbs.SRQInit) (verbs.SRQ, error) {
	d := p.dev
	if d.attr.MaxSRQ == 0 {
		return nil, fmt.Errorf("rdmacore: %s: shared receive queue: %w", d.what, verbs.ErrUnsupported)
	}
	init.MaxSGE = max(init.MaxSGE, 1)
	for _, k := range []struct {
		knob      string
		v, lo, hi int
	}{
		{"MaxWR (max_srq_wr)", init.MaxWR, 1, d.attr.MaxSRQWR},
		{"MaxSGE (max_sge)", init.MaxSGE, 1, d.attr.MaxSGE},
		{"Limit", init.Limit, 0, init.MaxWR},
	} {
		if err := bounded(d.what, "shared receive queue", k.knob, k.v, k.lo, k.hi); err != nil {
			return nil, err
		}
	}
	if err := p.use(); err != nil {
		return nil, err
	}
	if err := d.count(&d.res.SRQ); err != nil {
		p.unuse()
		return nil, err
	}
	var a C.struct_ibv_srq_init_attr
	a.attr.max_wr, a.attr.max_sge = C.uint32_t(init.MaxWR), C.uint32_t(init.MaxSGE)
	c, err := C.ibv_create_srq(p.c, &a)
	if c == nil {
		d.uncount(&d.res.SRQ)
		p.unuse()
		return nil, errnoError(errnoOf(err), "%s: shared receive queue of %d", d.what, init.MaxWR)
	}
	s := &srq{object: object{what: "shared receive queue"}, pd: p, c: c, init: init}
	d.hca.mu.Lock()
	d.hca.srqs[uint64(uintptr(unsafe.Pointer(c)))] = s
	d.hca.mu.Unlock()
	if init.Limit > 0 {
		if err := s.SetLimit(init.Limit); err != nil {
			_ = s.Close()
			return nil, err
		}
	}
	return s, nil
}

// PostRecv implements verbs.SRQ.
func (s *srq) PostRecv(wrs []verbs.RecvWR) (int, error) {
	s.post.Lock()
	defer s.post.Unlock()
	if s.gone {
		return 0, closedError(s.what)
	}
	n, bad := s.recvs.pack(wrs, s.init.MaxSGE, s.pd.dev.attr.Transport == verbs.IWARP)
	if s.pd.dev.tracks {
		s.number(n)
	}
	taken, rc := s.recvs.postSRQ(s.c, n)
	if rc != 0 {
		if syscall.Errno(rc) == syscall.ENOMEM {
			return taken, fmt.Errorf("rdmacore: %s of %d receives: %w", s.what, s.init.MaxWR, verbs.ErrQueueFull)
		}
		return taken, errnoError(rc, "%s: receive", s.what)
	}
	return taken, bad
}

// number replaces the IDs. post is held.
func (s *srq) number(n int) {
	s.idMu.Lock()
	defer s.idMu.Unlock()
	if s.ids == nil {
		s.ids = map[uint64]uint64{}
	}
	for i := range s.recvs.wrs[:n] {
		num := recvBit | sharedBit | s.num
		s.num = (s.num + 1) &^ (recvBit | sharedBit)
		s.ids[num] = uint64(s.recvs.wrs[i].id)
		s.recvs.wrs[i].id = C.uint64_t(num)
	}
}

// idOf takes back the ID of a number.
func (s *srq) idOf(num uint64) uint64 {
	s.idMu.Lock()
	defer s.idMu.Unlock()
	id := s.ids[num]
	delete(s.ids, num)
	return id
}

// SetLimit implements verbs.SRQ.
func (s *srq) SetLimit(n int) error {
	s.post.Lock()
	defer s.post.Unlock()
	if s.gone {
		return closedError(s.what)
	}
	if err := bounded(s.pd.dev.what, s.what, "Limit", n, 0, s.init.MaxWR); err != nil {
		return err
	}
	var a C.struct_ibv_srq_attr
	a.srq_limit = C.uint32_t(n)
	if rc := C.ibv_modify_srq(s.c, &a, C.IBV_SRQ_LIMIT); rc != 0 {
		return errnoError(int(rc), "%s: limit %d", s.what, n)
	}
	return nil
}

// Close implements verbs.SRQ.
func (s *srq) Close() error {
	done, err := s.shut()
	if done || err != nil {
		return err
	}
	d := s.pd.dev
	s.post.Lock()
	s.gone = true
	s.post.Unlock()
	d.hca.mu.Lock()
	delete(d.hca.srqs, uint64(uintptr(unsafe.Pointer(s.c))))
	d.hca.mu.Unlock()
	if rc := C.ibv_destroy_srq(s.c); rc != 0 {
		s.post.Lock()
		s.gone = false
		s.post.Unlock()
		s.reopen()
		return errnoError(int(rc), "closing the %s", s.what)
	}
	d.uncount(&d.res.SRQ)
	s.pd.unuse()
	return nil
}
