//go:build rdmacore && cgo

package rdmacore

/*
#include "shim.h"
*/
import "C"

import (
	"fmt"

	"example.org/nfsrdma/verbs"
)

// handle takes an event of the library, in the goroutine of the channel.
func (id *cmID) handle(e cmEvent) {
	id.mu.Lock()
	state := id.state
	switch e.typ {
	case C.RDMA_CM_EVENT_ADDR_RESOLVED, C.RDMA_CM_EVENT_ADDR_ERROR, C.RDMA_CM_EVENT_ROUTE_RESOLVED, C.RDMA_CM_EVENT_ROUTE_ERROR:
		id.steps = append(id.steps, e)
	case C.RDMA_CM_EVENT_CONNECT_RESPONSE:
		if state == idConnecting {
			id.rep, id.answered = e.param(), true
		}
	case C.RDMA_CM_EVENT_ESTABLISHED:
		id.established(&e)
	case C.RDMA_CM_EVENT_REJECTED:
		id.failed(rejected(e.status, e.private))
	case C.RDMA_CM_EVENT_UNREACHABLE, C.RDMA_CM_EVENT_CONNECT_ERROR:
		id.failed(unreachable(e.status, "connection"))
	}
	id.mu.Unlock()
	switch e.typ {
	case C.RDMA_CM_EVENT_CONNECT_RESPONSE, C.RDMA_CM_EVENT_ESTABLISHED:
		if state == idEnded { // Connect or Accept was given up
			_ = id.call("rdma_disconnect", func() C.int { return C.rc_disconnect(id.c) })
			if e.typ == C.RDMA_CM_EVENT_CONNECT_RESPONSE {
				_ = id.refuse(nil)
			}
		}
	case C.RDMA_CM_EVENT_DISCONNECTED:
		id.left(state)
	case C.RDMA_CM_EVENT_DEVICE_REMOVAL:
		id.dev.becomeRemoved()
		id.event(verbs.CMDeviceRemoval)
		id.left(state)
	case C.RDMA_CM_EVENT_ADDR_CHANGE:
		id.event(verbs.CMAddrChange)
	}
	id.tell()
}

// established: the last message of the set-up has come. With iWARP it has the peer's answer and what was negotiated. mu is held.
func (id *cmID) established(e *cmEvent) {
	if id.iwarp() && (id.state == idConnecting || id.state == idAccepting) {
		id.ird, id.ord = e.ird, e.ord
		if id.qp != nil {
			id.qp.becomeRTS()
		}
	}
	switch id.state {
	case idConnecting:
		if id.iwarp() {
			id.rep, id.answered = e.param(), true
			id.rep.IRD, id.rep.ORD = e.ord, e.ird
		}
	case idAccepting:
		id.state = idConnected
	}
}

// failed notes why a connection does not come about. mu is held.
func (id *cmID) failed(err error) {
	switch id.state {
	case idConnecting:
		id.err = err
	case idRequested, idAccepting:
		id.err = fmt.Errorf("the initiator gave up: %w", verbs.ErrDisconnected)
		id.state = idEnded
	}
}

// left: the peer, or the device, ended the connection.
func (id *cmID) left(state idState) {
	switch state {
	case idConnected:
		id.disconnected()
	case idConnecting, idAccepting, idRequested:
		id.mu.Lock()
		id.err = fmt.Errorf("while connecting: %w", verbs.ErrDisconnected)
		if state != idConnecting {
			id.state = idEnded
		}
		id.mu.Unlock()
	}
}

// communicates: the first message has come before the initiator's last one of the set-up.
func (id *cmID) communicates() {
	_ = id.call("rdma_notify", func() C.int { return C.rc_notify_established(id.c) })
}

// OnEvent implements verbs.ID.
func (id *cmID) OnEvent(f func(verbs.CMEventType)) {
	id.mu.Lock()
	id.onEvent = f
	var missed []verbs.CMEventType
	if f != nil {
		missed, id.missed = id.missed, nil
	}
	id.mu.Unlock()
	for _, e := range missed {
		id.deliver(f, e)
	}
}

func (id *cmID) event(e verbs.CMEventType) {
	id.mu.Lock()
	f := id.onEvent
	if f == nil {
		id.missed = append(id.missed, e)
	}
	id.mu.Unlock()
	if f != nil {
		id.deliver(f, e)
	}
}

func (id *cmID) deliver(f func(verbs.CMEventType), e verbs.CMEventType) {
	if id.calls.enter() {
		f(e)
		id.calls.leave()
	}
}
