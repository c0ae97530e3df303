//go:build rdmacore && cgo

package rdmacore

/*
#cgo nocallback rc_get_event
#include "shim.h"
*/
import "C"

import (
	"sync"
	"unsafe"
)

// cmChannel is the event channel of a device: all its IDs and listeners have it.
type cmChannel struct {
	dev *Device
	c   *C.struct_rdma_event_channel
	w   *watcher

	// IDs and listeners by a number that is their context in the library, so that an event of what is closed
	// meets nobody.
	mu   sync.Mutex
	last uint64
	ids  map[uint64]*cmID
	lis  map[uint64]*listener
}

func (m *cmChannel) open(d *Device) error {
	m.dev = d
	m.ids, m.lis = map[uint64]*cmID{}, map[uint64]*listener{}
	c, err := C.rdma_create_event_channel()
	if c == nil {
		return errnoError(errnoOf(err), "%s: event channel: is the module rdma_ucm loaded?", d.what)
	}
	m.c = c
	if m.w, err = watch(int(c.fd), d.info.Name+" connection events", m.drain); err != nil {
		C.rdma_destroy_event_channel(c)
	}
	return err
}

func (m *cmChannel) close() {
	m.w.Close()
	C.rdma_destroy_event_channel(m.c)
}

func (m *cmChannel) addID(id *cmID) {
	m.mu.Lock()
	m.last++
	id.num = m.last
	m.ids[id.num] = id
	m.mu.Unlock()
}

func (m *cmChannel) addListener(l *listener) {
	m.mu.Lock()
	m.last++
	l.num = m.last
	m.lis[l.num] = l
	m.mu.Unlock()
}

func (m *cmChannel) remove(num uint64) {
	m.mu.Lock()
	delete(m.ids, num)
	delete(m.lis, num)
	m.mu.Unlock()
}

// drain handles all events. They are copied and acknowledged at once, as rdma_destroy_id waits for that.
func (m *cmChannel) drain() {
	var e C.rc_event
	for C.rc_get_event(m.c, &e) == 0 {
		if e._type == C.RDMA_CM_EVENT_CONNECT_REQUEST {
			m.request(&e)
			continue
		}
		m.mu.Lock()
		id, l := m.ids[uint64(e.ctx)], m.lis[uint64(e.ctx)]
		m.mu.Unlock()
		switch {
		case id != nil:
			id.handle(eventOf(&e))
		case l != nil && e._type == C.RDMA_CM_EVENT_DEVICE_REMOVAL:
			m.dev.becomeRemoved()
			_ = l.Close()
		}
	}
}

// cmEvent is an event in Go's terms.
type cmEvent struct {
	typ, status int
	ird, ord    int // initiator_depth, responder_resources
	retry, rnr  uint8
	private     []byte
}

func eventOf(e *C.rc_event) cmEvent {
	out := cmEvent{
		typ: int(e._type), status: int(e.status), ird: int(e.initiator_depth), ord: int(e.responder_resources),
		retry: uint8(e.retry_count), rnr: uint8(e.rnr_retry_count),
	}
	if n := min(int(e.private_len), len(e.private_data)); n > 0 {
		out.private = C.GoBytes(unsafe.Pointer(&e.private_data[0]), C.int(n))
	}
	return out
}

// request makes an ID of a connection request and hands it to its listener.
func (m *cmChannel) request(e *C.rc_event) {
	c := e.id
	m.mu.Lock()
	l := m.lis[uint64(e.listen_ctx)]
	m.mu.Unlock()
	if l == nil || c.verbs != m.dev.hca.ctx {
		C.rc_reject(c, nil, 0)
		C.rc_destroy_id(c)
		return
	}
	if err := m.dev.count(&m.dev.res.CMID); err != nil {
		C.rc_reject(c, nil, 0)
		C.rc_destroy_id(c)
		return
	}
	id := m.newID(c)
	id.state = idRequested
	ev := eventOf(e)
	id.req = ev.param()
	id.readAddrs()
	C.rc_set_ctx(c, C.uint64_t(id.num))
	if !l.push(id) {
		_ = id.Close()
	}
}
