//go:build rdmacore && cgo

package rdmacore

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"unsafe"

	"example.org/nfsrdma/verbs"
)

type idState uint8

const (
	idResolving  idState = iota
	idResolved           // active, before Connect
	idRequested          // passive, before Accept
	idConnecting         // Connect waits for the answer
	idAccepting          // Accept waits for the last message
	idConnected
	idEnded
)

// cmID is one end of a connection. Its queue pair is not the library's (rdma_create_qp), which would move and use it
// in the midst of reading events, whatever is closed meanwhile: this package takes it from state to state itself.
type cmID struct {
	dev *Device
	num uint64

	// lib is held for calls of the library. It may be held for as long as TCP takes to connect, with siw.
	lib  sync.Mutex
	c    *C.struct_rdma_cm_id
	gone bool

	answer chan struct{} // something of what follows has changed: for Resolve, Connect or Accept

	mu          sync.Mutex
	state       idState
	steps       []cmEvent // of Resolve
	qp          *qp
	req         verbs.ConnParam // passive: the peer's wishes
	rep         verbs.ConnParam // active: the answer
	answered    bool            // rep is there
	err         error           // why it did not come about
	own         verbs.ConnParam
	ird, ord    int
	local, peer string
	onEvent     func(verbs.CMEventType)
	calls       gate // of onEvent, until Close
	missed      []verbs.CMEventType
	ended       bool // CMDisconnected was delivered
	closed      bool
}

func (m *cmChannel) newID(c *C.struct_rdma_cm_id) *cmID {
	id := &cmID{dev: m.dev, c: c, answer: make(chan struct{}, 1)}
	m.addID(id)
	return id
}

func (id *cmID) tell() {
	select {
	case id.answer <- struct{}{}:
	default:
	}
}

// param is what an event says of the peer: its depths as seen from there.
func (e *cmEvent) param() verbs.ConnParam {
	return verbs.ConnParam{PrivateData: e.private, IRD: e.ird, ORD: e.ord, RetryCnt: e.retry, RNRRetry: e.rnr}
}

// readAddrs asks the library for the addresses.
func (id *cmID) readAddrs() {
	var l, p sockaddr
	C.rc_id_addr(id.c, 0, (*C.uint8_t)(&l[0]))
	C.rc_id_addr(id.c, 1, (*C.uint8_t)(&p[0]))
	id.local, id.peer = l.addrPort().String(), p.addrPort().String()
}

// resolveTimeout bounds each step of Resolve in the kernel, which tries again within, milliseconds; ctx ends it earlier.
const resolveTimeout = 5000

// Resolve implements verbs.Device.
func (d *Device) Resolve(ctx context.Context, addr string) (verbs.ID, error) {
	fail := func(err error) error { return fmt.Errorf("rdmacore: %s: resolve %q: %w", d.what, addr, err) }
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ap, err := parseAddr(ctx, addr, netip.Addr{})
	if err != nil {
		return nil, fail(err)
	}
	if err := d.count(&d.res.CMID); err != nil {
		return nil, err
	}
	id := d.cm.newID(nil)
	if rc := C.rc_create_id(d.cm.c, C.uint64_t(id.num), &id.c); rc != 0 {
		d.cm.remove(id.num)
		d.uncount(&d.res.CMID)
		return nil, fail(errnoError(int(rc), "rdma_create_id"))
	}
	if err := id.resolve(ctx, ap); err != nil {
		_ = id.Close()
		return nil, fail(err)
	}
	id.readAddrs()
	id.peer = ap.String()
	id.mu.Lock()
	id.state = idResolved
	id.mu.Unlock()
	return id, nil
}

// sourceFor is the device's address of the family of the destination; with it the kernel looks for a way out of this device.
func (d *Device) sourceFor(dst netip.Addr) netip.Addr {
	for _, a := range d.info.Addrs {
		if a.Is4() == dst.Is4() && a.IsLinkLocalUnicast() == dst.IsLinkLocalUnicast() {
			return a
		}
	}
	return netip.Addr{}
}

func (id *cmID) resolve(ctx context.Context, ap netip.AddrPort) error {
	dst := sockaddrOf(ap)
	var src unsafe.Pointer
	for try := 1; ; try++ {
		if a := id.dev.sourceFor(ap.Addr()); a.IsValid() {
			var port uint16
			if id.dev.attr.Transport == verbs.IWARP {
				port = freePort(a)
			}
			s := sockaddrOf(netip.AddrPortFrom(a, port))
			src = unsafe.Pointer(&s)
		}
		rc := C.rc_resolve_addr(id.c, src, unsafe.Pointer(&dst), resolveTimeout)
		if rc == 0 {
			break
		}
		if err := errnoError(int(rc), "rdma_resolve_addr"); try == 5 || !errors.Is(err, verbs.ErrAddrInUse) {
			return err
		}
	}
	if err := id.step(ctx, C.RDMA_CM_EVENT_ADDR_RESOLVED, "address"); err != nil {
		return err
	}
	if id.c.verbs != id.dev.hca.ctx {
		return fmt.Errorf("the way leads over another device: %w", verbs.ErrUnreachable)
	}
	if rc := C.rc_resolve_route(id.c, resolveTimeout); rc != 0 {
		return errnoError(int(rc), "rdma_resolve_route")
	}
	return id.step(ctx, C.RDMA_CM_EVENT_ROUTE_RESOLVED, "route")
}

// step waits for an event of Resolve.
func (id *cmID) step(ctx context.Context, want int, what string) error {
	for {
		id.mu.Lock()
		var e cmEvent
		ok := len(id.steps) > 0
		if ok {
			e = id.steps[0]
			id.steps = id.steps[1:]
		}
		id.mu.Unlock()
		switch {
		case ok && e.typ == want:
			return nil
		case ok:
			return unreachable(e.status, what)
		}
		select {
		case <-id.answer:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// CreateQP implements verbs.ID.
func (id *cmID) CreateQP(dom verbs.PD, init verbs.QPInit) (verbs.QP, error) {
	p, _ := dom.(*pd)
	if p == nil || p.dev != id.dev {
		return nil, fmt.Errorf("rdmacore: queue pair %s: protection domain of another device: %w", init.Name, verbs.ErrInvalid)
	}
	q, err := p.createQP(init)
	if err != nil {
		return nil, err
	}
	q.id = id
	id.mu.Lock()
	switch {
	case id.closed:
		err = closedError("connection")
	case id.qp != nil:
		err = fmt.Errorf("rdmacore: queue pair %s: the connection has one: %w", init.Name, verbs.ErrInvalid)
	default:
		id.qp = q
	}
	id.mu.Unlock()
	if err == nil {
		if err = id.move(q, verbs.Init, int(verbs.RemoteRead|verbs.RemoteWrite|verbs.LocalWrite), 0, 0); err == nil {
			return q, nil
		}
		id.mu.Lock()
		id.qp = nil
		id.mu.Unlock()
	}
	q.id = nil
	return nil, errors.Join(err, q.Close())
}

// move takes the queue pair into a state, with the attributes of the path.
func (id *cmID) move(q *qp, st verbs.QPState, access, rdAtomic int, retry uint8) error {
	id.lib.Lock()
	defer id.lib.Unlock()
	q.ctl.Lock()
	defer q.ctl.Unlock()
	if id.gone || q.closed {
		return closedError(q.what())
	}
	if rc := C.rc_id_modify(id.c, q.c, C.int(st), C.int(access), C.int(rdAtomic), C.int(retry)); rc != 0 {
		return errnoError(int(rc), "%s: to %v", q.what(), st)
	}
	q.state.Store(uint32(st))
	return nil
}

// toRTS takes the queue pair of an IB or RoCE connection to RTS.
func (id *cmID) toRTS(q *qp, own, peer verbs.ConnParam) error {
	ird, ord := own.IRD, min(own.ORD, peer.IRD)
	if err := id.move(q, verbs.RTR, 0, ird, 0); err != nil {
		return err
	}
	if err := id.move(q, verbs.RTS, 0, ord, own.RetryCnt); err != nil {
		return err
	}
	id.mu.Lock()
	id.ird, id.ord = ird, ord
	id.mu.Unlock()
	return nil
}

func (id *cmID) iwarp() bool { return id.dev.attr.Transport == verbs.IWARP }

func (id *cmID) checkParam(p *verbs.ConnParam, private int) error {
	a := &id.dev.attr
	for _, k := range []struct {
		knob  string
		v, hi int
	}{
		{"IRD (responder_resources)", p.IRD, a.MaxQPRdAtom},
		{"ORD (initiator_depth)", p.ORD, a.MaxQPInitRdAtom},
		{"RetryCnt", int(p.RetryCnt), 7}, {"RNRRetry", int(p.RNRRetry), 7},
		{"private data, bytes,", len(p.PrivateData), private},
	} {
		if err := bounded(id.dev.what, "connection", k.knob, k.v, 0, k.hi); err != nil {
			return err
		}
	}
	return nil
}

func paramOf(q *qp, p *verbs.ConnParam) C.rc_param {
	out := C.rc_param{
		qpn: C.uint32_t(q.num), responder_resources: C.uint8_t(p.IRD), initiator_depth: C.uint8_t(p.ORD),
		retry_count: C.uint8_t(p.RetryCnt), rnr_retry_count: C.uint8_t(p.RNRRetry), private_len: C.uint8_t(len(p.PrivateData)),
	}
	if q.srq != nil {
		out.srq = 1
	}
	for i, b := range p.PrivateData {
		out.private_data[i] = C.uint8_t(b)
	}
	return out
}

// Connect implements verbs.ID.
func (id *cmID) Connect(ctx context.Context, p verbs.ConnParam) (verbs.ConnParam, error) {
	none := verbs.ConnParam{}
	fail := func(err error) (verbs.ConnParam, error) {
		var rej *verbs.RejectError
		if errors.As(err, &rej) {
			return none, err
		}
		return none, fmt.Errorf("rdmacore: connect to %s: %w", id.peer, err)
	}
	if err := id.checkParam(&p, id.dev.attr.MaxConnPrivate); err != nil {
		return none, err
	}
	id.mu.Lock()
	q := id.qp
	switch {
	case id.closed:
		id.mu.Unlock()
		return fail(verbs.ErrClosed)
	case q == nil || id.state != idResolved:
		id.mu.Unlock()
		return fail(fmt.Errorf("needs a queue pair, and works once: %w", verbs.ErrInvalid))
	case ctx.Err() != nil:
		id.mu.Unlock()
		return fail(ctx.Err())
	}
	id.state = idConnecting
	id.own = p
	id.mu.Unlock()

	if err := id.dial(ctx, q, &p); err != nil {
		id.becomeEnded(q)
		return fail(err)
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.state != idConnecting {
		return none, fmt.Errorf("rdmacore: connect to %s: %w", id.peer, errors.Join(id.err, verbs.ErrDisconnected))
	}
	id.state = idConnected
	return id.rep, nil
}

// becomeEnded is the end of what did not become a connection.
func (id *cmID) becomeEnded(q *qp) {
	id.mu.Lock()
	id.state = idEnded
	id.mu.Unlock()
	q.fail()
}

// dial asks the peer and takes its answer.
func (id *cmID) dial(ctx context.Context, q *qp, p *verbs.ConnParam) error {
	sent := make(chan error, 1)
	ask := func() { sent <- id.ask(q, p) }
	if id.iwarp() {
		go ask() // siw waits for TCP to connect
	} else {
		ask()
	}
	for {
		id.mu.Lock()
		err, done, rep := id.err, id.answered, id.rep
		id.mu.Unlock()
		switch {
		case err != nil:
			return err
		case done && id.iwarp():
			return nil // the device has the queue pair in RTS
		case done:
			if err := id.toRTS(q, *p, rep); err != nil {
				return errors.Join(err, id.refuse(nil))
			}
			return id.call("rdma_establish", func() C.int { return C.rc_establish(id.c) })
		}
		select {
		case err := <-sent:
			if err != nil {
				return err
			}
			sent = nil
		case <-id.answer:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ask sends the request.
func (id *cmID) ask(q *qp, p *verbs.ConnParam) error {
	c := paramOf(q, p)
	err := id.call("rdma_connect", func() C.int { return C.rc_connect(id.c, &c) })
	if errors.Is(err, verbs.ErrRefused) {
		return &verbs.RejectError{Reason: "nobody listens"}
	}
	return err
}

// call calls the library with the ID alive.
func (id *cmID) call(what string, f func() C.int) error {
	id.lib.Lock()
	defer id.lib.Unlock()
	if id.gone {
		return closedError(what)
	}
	if rc := f(); rc != 0 {
		return errnoError(int(rc), "%s", what)
	}
	return nil
}

func (id *cmID) refuse(private []byte) error {
	return id.call("rdma_reject", func() C.int {
		return C.rc_reject(id.c, (*C.uint8_t)(unsafe.SliceData(private)), C.int(len(private)))
	})
}

// Request implements verbs.ID.
func (id *cmID) Request() verbs.ConnParam { return id.req }

// requested says whether the request still waits for its answer.
func (id *cmID) requested() bool {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.state == idRequested
}

// Accept implements verbs.ID.
func (id *cmID) Accept(ctx context.Context, p verbs.ConnParam) error {
	if err := id.checkParam(&p, id.dev.attr.MaxAcceptPrivate); err != nil {
		return err
	}
	fail := func(err error) error { return fmt.Errorf("rdmacore: accept from %s: %w", id.peer, err) }
	id.mu.Lock()
	q := id.qp
	switch {
	case id.closed:
		id.mu.Unlock()
		return fail(verbs.ErrClosed)
	case id.state == idEnded && id.err != nil:
		defer id.mu.Unlock()
		return fail(id.err)
	case q == nil || id.state != idRequested:
		id.mu.Unlock()
		return fail(fmt.Errorf("needs a request and a queue pair, and works once: %w", verbs.ErrInvalid))
	case ctx.Err() != nil:
		id.mu.Unlock()
		return fail(ctx.Err())
	}
	id.state = idAccepting
	id.own = p
	id.mu.Unlock()
	if err := id.answerRequest(ctx, q, &p); err != nil {
		id.becomeEnded(q)
		_ = id.call("rdma_disconnect", func() C.int { return C.rc_disconnect(id.c) })
		return fail(err)
	}
	return nil
}

func (id *cmID) answerRequest(ctx context.Context, q *qp, p *verbs.ConnParam) error {
	if !id.iwarp() {
		if err := id.toRTS(q, *p, id.req); err != nil {
			return errors.Join(err, id.refuse(nil))
		}
	}
	c := paramOf(q, p)
	if err := id.call("rdma_accept", func() C.int { return C.rc_accept(id.c, &c) }); err != nil {
		return err
	}
	for {
		id.mu.Lock()
		err, done := id.err, id.state == idConnected || id.ended
		id.mu.Unlock()
		switch {
		case err != nil:
			return err
		case done:
			return nil
		}
		select {
		case <-id.answer:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// maxReject is the private data of a rejection, bytes (IB specification 12.6.7).
const maxReject = 148

// Reject implements verbs.ID.
func (id *cmID) Reject(private []byte) error {
	if err := bounded(id.dev.what, "reject", "private data, bytes,", len(private), 0, maxReject); err != nil {
		return err
	}
	id.mu.Lock()
	ok := id.state == idRequested && !id.closed
	if ok {
		id.state = idEnded
	}
	id.mu.Unlock()
	if !ok {
		return fmt.Errorf("rdmacore: reject: no request to refuse: %w", verbs.ErrInvalid)
	}
	return id.refuse(slices.Clone(private))
}

// Negotiated implements verbs.ID.
func (id *cmID) Negotiated() (ird, ord int) {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.ird, id.ord
}

// Disconnect implements verbs.ID.
func (id *cmID) Disconnect() error {
	id.mu.Lock()
	state := id.state
	id.mu.Unlock()
	if state != idConnected {
		return nil
	}
	id.disconnected()
	return nil
}

// disconnected ends this side once: the queue pair fails, the peer is told or answered, and the event is delivered.
func (id *cmID) disconnected() {
	id.mu.Lock()
	if id.ended || id.closed {
		id.mu.Unlock()
		return
	}
	id.ended = true
	id.state = idEnded
	q := id.qp
	id.mu.Unlock()
	if q != nil {
		q.fail()
	}
	_ = id.call("rdma_disconnect", func() C.int { return C.rc_disconnect(id.c) })
	id.event(verbs.CMDisconnected)
}

// LocalAddr implements verbs.ID.
func (id *cmID) LocalAddr() string { return id.local }

// PeerAddr implements verbs.ID.
func (id *cmID) PeerAddr() string { return id.peer }

// Close implements verbs.ID.
func (id *cmID) Close() error {
	id.mu.Lock()
	if id.closed {
		id.mu.Unlock()
		return nil
	}
	if q := id.qp; q != nil && !q.isClosed() {
		id.mu.Unlock()
		return fmt.Errorf("rdmacore: connection %s has a queue pair: %w", id.peer, verbs.ErrBusy)
	}
	state := id.state
	id.closed = true
	id.state = idEnded
	id.onEvent = nil
	if id.err == nil {
		id.err = verbs.ErrClosed
	}
	id.mu.Unlock()
	id.tell()
	id.dev.cm.remove(id.num)
	id.lib.Lock()
	id.gone = true
	if state == idRequested {
		C.rc_reject(id.c, nil, 0)
	}
	rc := C.rc_destroy_id(id.c) // a connection ends with it
	id.lib.Unlock()
	id.calls.close()
	id.dev.uncount(&id.dev.res.CMID)
	if rc != 0 {
		return errnoError(int(rc), "closing the connection %s", id.peer)
	}
	return nil
}
