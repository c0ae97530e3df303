//go:build rdmacore && cgo

package rdmacore

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"unsafe"

	"example.org/nfsrdma/verbs"
)

// listener receives connection requests.
type listener struct {
	dev  *Device
	num  uint64
	addr string
	c    *C.struct_rdma_cm_id
	end  chan struct{}

	queue chan *cmID

	mu     sync.Mutex // of closed, and of what is put into queue
	closed bool
}

// Listen implements verbs.Device. A host of all zeros listens at every address of the device.
func (d *Device) Listen(addr string, backlog int) (verbs.Listener, error) {
	fail := func(err error) error { return fmt.Errorf("rdmacore: %s: listen on %q: %w", d.what, addr, err) }
	var own netip.Addr
	if len(d.info.Addrs) > 0 {
		own = d.info.Addrs[0]
	}
	ap, err := parseAddr(context.Background(), addr, own)
	if err != nil {
		return nil, fail(err)
	}
	if backlog <= 0 {
		backlog = 128
	}
	if err := d.count(&d.res.CMID); err != nil {
		return nil, err
	}
	l := &listener{dev: d, addr: addr, end: make(chan struct{}), queue: make(chan *cmID, backlog)}
	d.cm.addListener(l)
	if err := l.open(ap, backlog); err != nil {
		d.cm.remove(l.num)
		d.uncount(&d.res.CMID)
		return nil, fail(err)
	}
	return l, nil
}

func (l *listener) open(ap netip.AddrPort, backlog int) error {
	if rc := C.rc_create_id(l.dev.cm.c, C.uint64_t(l.num), &l.c); rc != 0 {
		return errnoError(int(rc), "rdma_create_id")
	}
	sa := sockaddrOf(ap)
	rc := C.rc_bind_addr(l.c, unsafe.Pointer(&sa))
	var err error
	switch {
	case rc != 0:
		err = errnoError(int(rc), "rdma_bind_addr")
	case !ap.Addr().IsUnspecified() && l.c.verbs != l.dev.hca.ctx:
		err = fmt.Errorf("the address is not one of the device, which has %v: %w", l.dev.info.Addrs, verbs.ErrInvalid)
	default:
		if rc = C.rc_listen(l.c, C.int(backlog)); rc != 0 {
			err = errnoError(int(rc), "rdma_listen")
		}
	}
	if err != nil {
		C.rc_destroy_id(l.c)
		return err
	}
	if ap.Port() == 0 {
		C.rc_id_addr(l.c, 0, (*C.uint8_t)(&sa[0]))
		l.addr = netip.AddrPortFrom(ap.Addr(), sa.addrPort().Port()).String()
	}
	return nil
}

func (l *listener) Addr() string { return l.addr }

// push queues a request; false if it must be refused.
func (l *listener) push(id *cmID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	select {
	case l.queue <- id:
		return true
	default:
		return false
	}
}

// Accept implements verbs.Listener.
func (l *listener) Accept(ctx context.Context) (verbs.ID, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		select {
		case <-l.end:
			return nil, closedError("listener " + l.addr)
		default:
		}
		select {
		case id := <-l.queue:
			if id.requested() {
				return id, nil
			}
			_ = id.Close() // the initiator gave up
		case <-l.end:
		case <-ctx.Done():
		}
	}
}

// Close implements verbs.Listener.
func (l *listener) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	l.mu.Unlock()
	close(l.end)
	rc := C.rc_destroy_id(l.c)
	l.dev.cm.remove(l.num)
	for {
		select {
		case id := <-l.queue:
			_ = id.Close()
			continue
		default:
		}
		break
	}
	l.dev.uncount(&l.dev.res.CMID)
	if rc != 0 {
		return errnoError(int(rc), "closing the listener %s", l.addr)
	}
	return nil
}
