//go:build rdmacore && cgo

package rdmacore

/*
#cgo CFLAGS: -O2 -Wall
#cgo LDFLAGS: -lrdmacm -libverbs
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"example.org/nfsrdma/verbs"
)

// hca is a device of the library, which librdmacm opens once in a process, whatever Open does.
type hca struct {
	name    string
	list    **C.struct_ibv_context // of rdma_get_devices: keeps ctx open
	ctx     *C.struct_ibv_context
	w       *watcher
	refs    int              // under hcas.mu
	spacer  *C.struct_ibv_cq // siw
	removed atomic.Bool

	// mu is held while an asynchronous event is read and its object looked up, so that the
	// event cannot be that of a later object at the same address.
	mu      sync.Mutex
	cqs     map[uint64]*cq
	qps     map[uint64]*qp
	srqs    map[uint64]*srq
	devices map[*Device]bool
}

var hcas = struct {
	mu   sync.Mutex
	open map[string]*hca
	dead map[*C.struct_ibv_context]bool // of devices that were removed
}{open: map[string]*hca{}, dead: map[*C.struct_ibv_context]bool{}}

// openHCA gives the device of that name, opened or in use already.
func openHCA(name string) (*hca, error) {
	hcas.mu.Lock()
	defer hcas.mu.Unlock()
	if h := hcas.open[name]; h != nil {
		h.refs++
		return h, nil
	}
	var n C.int
	list, err := C.rdma_get_devices(&n)
	if list == nil {
		e, _ := err.(syscall.Errno)
		return nil, fmt.Errorf("rdmacore: device %s: librdmacm: %w; the modules ib_uverbs and rdma_ucm must be loaded, "+
			"and /dev/infiniband readable and writable", name, e)
	}
	h := &hca{name: name, list: list, refs: 1, cqs: map[uint64]*cq{}, qps: map[uint64]*qp{}, srqs: map[uint64]*srq{}, devices: map[*Device]bool{}}
	for _, ctx := range unsafe.Slice(list, int(n)) {
		if C.GoString(C.ibv_get_device_name(ctx.device)) == name && !hcas.dead[ctx] {
			h.ctx = ctx
		}
	}
	if h.ctx == nil {
		C.rdma_free_devices(list)
		return nil, fmt.Errorf("rdmacore: device %s is not known to librdmacm: no provider library for it in /etc/libibverbs.d? %w", name, verbs.ErrInvalid)
	}
	if h.w, err = watch(int(h.ctx.async_fd), name+" asynchronous events", h.drain); err != nil {
		C.rdma_free_devices(list)
		return nil, err
	}
	h.avoidKey()
	hcas.open[name] = h
	return h, nil
}

func (h *hca) release() {
	hcas.mu.Lock()
	h.refs--
	last := h.refs == 0
	if last {
		delete(hcas.open, h.name)
	}
	hcas.mu.Unlock()
	if last {
		h.w.Close()
		if h.spacer != nil {
			C.ibv_destroy_cq(h.spacer)
		}
		C.rdma_free_devices(h.list)
		if h.removed.Load() || !h.listed() {
			h.abandon()
		}
	}
}

// listed says whether the kernel still shows the device to user space.
func (h *hca) listed() bool {
	_, err := os.Stat("/sys/class/infiniband_verbs/" + C.GoString(&h.ctx.device.dev_name[0]))
	return err == nil
}

// abandon gives up a device that was removed. librdmacm keeps it open, at least until it next compares its list, and the
// kernel waits for that (rdma link del): so its files become other files. The library closes those.
func (h *hca) abandon() {
	null, err := syscall.Open("/dev/null", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer func() { _ = syscall.Close(null) }()
	hcas.mu.Lock()
	defer hcas.mu.Unlock()
	hcas.dead[h.ctx] = true
	for _, fd := range []C.int{h.ctx.cmd_fd, h.ctx.async_fd} {
		_ = syscall.Dup3(null, int(fd), syscall.O_CLOEXEC)
	}
}

// drain reads all asynchronous events.
func (h *hca) drain() {
	for h.next() {
		continue
	}
}

func (h *hca) next() bool {
	var typ C.int
	var elem C.uint64_t
	h.mu.Lock()
	if C.rc_get_async_event(h.ctx, &typ, &elem) != 0 {
		h.mu.Unlock()
		return false
	}
	key := uint64(elem)
	c, q, s := h.cqs[key], h.qps[key], h.srqs[key]
	var all []*Device
	if typ == C.IBV_EVENT_DEVICE_FATAL {
		for d := range h.devices {
			all = append(all, d)
		}
	}
	h.mu.Unlock()
	switch typ {
	case C.IBV_EVENT_CQ_ERR:
		if c != nil {
			c.overflowed()
		}
	case C.IBV_EVENT_SRQ_LIMIT_REACHED:
		if s != nil {
			s.pd.dev.event(verbs.AsyncEvent{Type: verbs.EventSRQLimitReached, SRQ: s})
		}
	case C.IBV_EVENT_DEVICE_FATAL:
		for _, d := range all {
			d.becomeRemoved()
		}
	default:
		if q != nil {
			q.asyncEvent(int(typ))
		}
	}
	return true
}
