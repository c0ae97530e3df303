package softroce

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// cmTable is the connection management of a network. All IDs of it share one
// lock; it is never held while a handler is called or a task waits.
//
// The messages of a connection, as in the IB communication management protocol:
//
//	active            passive
//	Connect  -- REQ -->  Listener.Accept
//	         <-- REP --  ID.Accept, or REJ from ID.Reject
//	         -- RTU -->  established
//	DREQ either way; a REJ also tells that the active side gave up
type cmTable struct {
	mu        sync.Mutex
	listeners map[string]*listener
	ids       []*cmID
}

type idState uint8

const (
	idIdle      idState = iota
	idResolved          // active, before Connect
	idRequested         // passive, before Accept
	idConnecting
	idAccepting
	idConnected
	idEnded
)

// cmID is one end of a connection.
type cmID struct {
	dev     *Device
	remote  *Device
	local   string
	peerAdr string
	target  string // active: what to connect to
	waiter  *sched.Waiter

	// Under cmTable.mu.
	state    idState
	peer     *cmID
	qp       *qp
	req      verbs.ConnParam // passive: the peer's wishes
	rep      verbs.ConnParam // active: the answer
	err      error           // why it did not come about
	ird, ord int
	psn      uint32 // that this side will send first
	peerPSN  uint32
	peerQP   *qp
	onEvent  func(verbs.CMEventType)
	calls    gate                // of onEvent, until Close
	missed   []verbs.CMEventType // before OnEvent was called
	ended    bool                // CMDisconnected was delivered
	closed   bool
}

type listener struct {
	dev     *Device
	addr    string
	backlog int
	queue   *sched.Queue[*cmID]

	waiting int // under cmTable.mu
	closed  bool
}

// cmMessage is a message under way on a link.
type cmMessage struct{ f func() }

func (m *cmMessage) Fire() { m.f() }

// after lets f run when a message from one device, held up for so long before the wire, has reached another.
func (n *Network) after(from, to *Device, held time.Duration, f func()) {
	if n.cfg.Link != nil && from != to {
		held += n.cfg.Link.Delay
	} else if held <= 0 {
		f()
		return
	}
	n.s.At(n.s.Now().Add(sched.FromStd(held)), &cmMessage{f})
}

// newID makes an ID that gets the device's removal. The table's lock is held.
func (d *Device) newID() (*cmID, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.usable(); err != nil {
		return nil, err
	}
	d.res.CMID++
	id := &cmID{dev: d, psn: d.net.psn()}
	id.waiter = d.net.s.NewWaiter("an answer to a connection request of " + d.name)
	d.net.cm.ids = append(d.net.cm.ids, id)
	return id, nil
}

// Listen implements verbs.Device.
func (d *Device) Listen(addr string, backlog int) (verbs.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("softroce: listen on %q: %w: %w", addr, err, verbs.ErrInvalid)
	}
	if host == "" {
		host = d.name
	}
	if host != d.name {
		return nil, fmt.Errorf("softroce: listen on %q: the address of the device is %q: %w", addr, d.name, verbs.ErrInvalid)
	}
	if backlog <= 0 {
		backlog = 128
	}
	l := &listener{dev: d, addr: net.JoinHostPort(host, port), backlog: backlog}
	l.queue = sched.NewQueue[*cmID](d.net.s, "a connection request to "+l.addr)
	t := &d.net.cm
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.listeners[l.addr] != nil {
		return nil, fmt.Errorf("softroce: listen on %s: %w", l.addr, verbs.ErrAddrInUse)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.usable(); err != nil {
		return nil, err
	}
	t.listeners[l.addr] = l
	d.res.CMID++
	return l, nil
}

func (l *listener) Addr() string { return l.addr }

func (l *listener) Accept(ctx context.Context) (verbs.ID, error) {
	for {
		id, err := l.queue.Pop(ctx)
		if errors.Is(err, sched.ErrQueueClosed) {
			return nil, fmt.Errorf("softroce: listener %s: %w", l.addr, verbs.ErrClosed)
		}
		if err != nil {
			return nil, err
		}
		t := &l.dev.net.cm
		t.mu.Lock()
		l.waiting--
		gone := id.state != idRequested
		t.mu.Unlock()
		if !gone {
			return id, nil
		}
		_ = id.Close() // the initiator gave up
	}
}

func (l *listener) Close() error {
	t := &l.dev.net.cm
	t.mu.Lock()
	if l.closed {
		t.mu.Unlock()
		return nil
	}
	l.closed = true
	delete(t.listeners, l.addr)
	t.mu.Unlock()
	l.queue.Close()
	for {
		id, ok := l.queue.TryPop()
		if !ok {
			break
		}
		id.refuse(nil, "invalid service ID")
		_ = id.Close()
	}
	l.dev.mu.Lock()
	l.dev.res.CMID--
	l.dev.mu.Unlock()
	return nil
}

// Resolve implements verbs.Device.
func (d *Device) Resolve(ctx context.Context, addr string) (verbs.ID, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("softroce: resolve %q: %w: %w", addr, err, verbs.ErrInvalid)
	}
	d.net.mu.Lock()
	remote := d.net.devices[host]
	d.net.mu.Unlock()
	if remote == nil {
		return nil, fmt.Errorf("softroce: resolve %q: no device %q in the network: %w", addr, host, verbs.ErrUnreachable)
	}
	t := &d.net.cm
	t.mu.Lock()
	defer t.mu.Unlock()
	id, err := d.newID()
	if err != nil {
		return nil, err
	}
	id.remote = remote
	id.target = net.JoinHostPort(host, port)
	id.local, id.peerAdr = d.name+":0", id.target
	id.state = idResolved
	return id, nil
}

func (id *cmID) table() *cmTable { return &id.dev.net.cm }

// CreateQP implements verbs.ID.
func (id *cmID) CreateQP(pd verbs.PD, init verbs.QPInit) (verbs.QP, error) {
	p, _ := pd.(*PD)
	if p == nil || p.dev != id.dev {
		return nil, fmt.Errorf("softroce: queue pair %s: protection domain of another device: %w", init.Name, verbs.ErrInvalid)
	}
	q, err := p.createQP(init)
	if err != nil {
		return nil, err
	}
	t := id.table()
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case id.closed:
		err = fmt.Errorf("softroce: queue pair %s: connection: %w", init.Name, verbs.ErrClosed)
	case id.qp != nil:
		err = fmt.Errorf("softroce: queue pair %s: the connection has one: %w", init.Name, verbs.ErrInvalid)
	}
	if err != nil {
		return nil, errors.Join(err, q.Close())
	}
	q.mu.Lock()
	q.becomeInit(verbs.RemoteRead | verbs.RemoteWrite)
	q.mu.Unlock()
	id.qp = q
	return q, nil
}

// OnEvent implements verbs.ID.
func (id *cmID) OnEvent(f func(verbs.CMEventType)) {
	t := id.table()
	t.mu.Lock()
	id.onEvent = f
	missed := id.missed
	if f != nil {
		id.missed = nil
	}
	t.mu.Unlock()
	if f != nil {
		for _, e := range missed {
			id.call(f, e)
		}
	}
}

func (id *cmID) call(f func(verbs.CMEventType), e verbs.CMEventType) {
	if id.calls.enter() {
		f(e)
		id.calls.leave()
	}
}

func (id *cmID) event(e verbs.CMEventType) {
	t := id.table()
	t.mu.Lock()
	f := id.onEvent
	if f == nil {
		id.missed = append(id.missed, e)
	}
	t.mu.Unlock()
	if f != nil {
		id.call(f, e)
	}
}

func (id *cmID) checkParam(p *verbs.ConnParam, private int) error {
	a := &id.dev.attr
	for _, k := range []struct {
		name  string
		v, hi int
	}{
		{"IRD (responder_resources)", p.IRD, a.MaxQPRdAtom},
		{"ORD (initiator_depth)", p.ORD, a.MaxQPInitRdAtom},
		{"RetryCnt", int(p.RetryCnt), 7}, {"RNRRetry", int(p.RNRRetry), 7},
		{"private data, bytes", len(p.PrivateData), private},
	} {
		if k.v < 0 || k.v > k.hi {
			return fmt.Errorf("softroce: %s: connection: %s is %d, must be 0 to %d: %w", id.dev.name, k.name, k.v, k.hi, verbs.ErrInvalid)
		}
	}
	return nil
}

// Connect implements verbs.ID.
func (id *cmID) Connect(ctx context.Context, p verbs.ConnParam) (verbs.ConnParam, error) {
	if err := id.checkParam(&p, id.dev.attr.MaxConnPrivate); err != nil {
		return verbs.ConnParam{}, err
	}
	t := id.table()
	t.mu.Lock()
	switch {
	case id.closed:
		t.mu.Unlock()
		return verbs.ConnParam{}, fmt.Errorf("softroce: connect to %s: %w", id.target, verbs.ErrClosed)
	case id.qp == nil || id.state != idResolved:
		t.mu.Unlock()
		return verbs.ConnParam{}, fmt.Errorf("softroce: connect to %s: needs a queue pair, and works once: %w", id.target, verbs.ErrInvalid)
	}
	if err := id.usable(); err != nil {
		t.mu.Unlock()
		return verbs.ConnParam{}, fmt.Errorf("softroce: connect to %s: %w", id.target, err)
	}
	id.state = idConnecting
	id.ird, id.ord = p.IRD, p.ORD
	p.PrivateData = slices.Clone(p.PrivateData)
	t.mu.Unlock()
	n := id.dev.net
	n.cmSend(cmREQ, id.dev, id.remote, func() { n.request(id, p) }, func() {
		id.answered(nil, verbs.ConnParam{}, fmt.Errorf("no answer to %d requests: %w", cmRetries+1, verbs.ErrUnreachable))
	})
	err := id.waiter.Wait(ctx)
	t.mu.Lock()
	if err == nil {
		err = id.err
	}
	if err == nil {
		err = id.qp.connect(id.qpAttr(p, id.rep), id.peerQP)
	}
	rep, peer := id.rep, id.peer
	if err != nil {
		id.state = idEnded
		id.peer = nil
		t.mu.Unlock()
		if peer != nil {
			n.cmSend(cmREJ, id.dev, id.remote, peer.abandoned, nil)
		}
		var rej *verbs.RejectError
		if errors.As(err, &rej) {
			return verbs.ConnParam{}, err
		}
		return verbs.ConnParam{}, fmt.Errorf("softroce: connect to %s: %w", id.target, err)
	}
	id.state = idConnected
	q := id.qp
	t.mu.Unlock()
	q.kick()
	n.cmSend(cmRTU, id.dev, id.remote, peer.established, peer.abandoned)
	return rep, nil
}

// usable fails once the device was removed. The table's lock is held.
func (id *cmID) usable() error {
	id.dev.mu.Lock()
	defer id.dev.mu.Unlock()
	return id.dev.usable()
}

// qpAttr negotiates: own wishes against the peer's. The table's lock is held.
func (id *cmID) qpAttr(own, peer verbs.ConnParam) verbs.QPAttr {
	id.ord = min(own.ORD, peer.IRD)
	id.ird = own.IRD
	return verbs.QPAttr{
		DestAddr: id.remote.name, RQPSN: id.peerPSN, SQPSN: id.psn, IRD: id.ird, ORD: id.ord,
		PathMTU: min(id.dev.attr.ActiveMTU, id.remote.attr.ActiveMTU),
		Timeout: 14, RetryCnt: own.RetryCnt, RNRRetry: peer.RNRRetry,
	}
}

// connect takes a queue pair to RTS.
func (q *qp) connect(a verbs.QPAttr, peer *qp) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.state != verbs.Init {
		return fmt.Errorf("softroce: queue pair %s is in %v: %w", q.init.Name, q.state, verbs.ErrState)
	}
	a.DestQPN = peer.num
	q.becomeRTR(a, peer, a.PathMTU)
	q.becomeRTS(a)
	return nil
}

// request is the arrival of a REQ.
func (n *Network) request(from *cmID, p verbs.ConnParam) {
	t := &n.cm
	refuse := func(reason string) {
		n.cmSend(cmREJ, from.remote, from.dev, func() { from.answered(nil, verbs.ConnParam{}, &verbs.RejectError{Reason: reason}) }, nil)
	}
	t.mu.Lock()
	if from.state != idConnecting || from.peer != nil {
		t.mu.Unlock()
		return // it gave up, or this is a duplicate
	}
	l := t.listeners[from.target]
	if l == nil || l.waiting >= l.backlog {
		reason := "invalid service ID"
		if l != nil {
			reason = "backlog full"
		}
		t.mu.Unlock()
		refuse(reason)
		return
	}
	id, err := l.dev.newID()
	if err != nil {
		t.mu.Unlock()
		refuse("no resources")
		return
	}
	id.remote, id.peer, id.req, id.state = from.dev, from, p, idRequested
	id.local, id.peerAdr = l.addr, from.local
	id.peerPSN, id.peerQP = from.psn, from.qp
	from.peer, from.peerPSN = id, id.psn
	l.waiting++
	t.mu.Unlock()
	if !l.queue.Push(id) {
		id.refuse(nil, "invalid service ID")
		_ = id.Close()
	}
}

// answered is the arrival of a REP or REJ.
func (id *cmID) answered(peer *cmID, rep verbs.ConnParam, err error) {
	t := id.table()
	t.mu.Lock()
	if id.state != idConnecting || id.closed {
		t.mu.Unlock()
		return
	}
	id.err, id.rep = err, rep
	if err != nil {
		id.peer = nil
	} else {
		id.peerQP = peer.qp
	}
	t.mu.Unlock()
	id.waiter.Wake()
}

// abandoned is the arrival of a REJ that says that the initiator gave up.
func (id *cmID) abandoned() {
	t := id.table()
	t.mu.Lock()
	was := id.state
	if was == idRequested || was == idAccepting {
		id.state = idEnded
		id.err = fmt.Errorf("softroce: the initiator %s gave up: %w", id.peerAdr, verbs.ErrDisconnected)
	}
	id.peer = nil
	t.mu.Unlock()
	if was == idAccepting {
		id.waiter.Wake()
	} else if was == idConnected {
		id.disconnected()
	}
}

// Request implements verbs.ID.
func (id *cmID) Request() verbs.ConnParam { return id.req }

// Accept implements verbs.ID.
func (id *cmID) Accept(ctx context.Context, p verbs.ConnParam) error {
	if err := id.checkParam(&p, id.dev.attr.MaxAcceptPrivate); err != nil {
		return err
	}
	t := id.table()
	t.mu.Lock()
	switch {
	case id.closed:
		t.mu.Unlock()
		return fmt.Errorf("softroce: accept from %s: %w", id.peerAdr, verbs.ErrClosed)
	case id.state == idEnded && id.err != nil:
		t.mu.Unlock()
		return id.err
	case id.qp == nil || id.state != idRequested:
		t.mu.Unlock()
		return fmt.Errorf("softroce: accept from %s: needs a request and a queue pair, and works once: %w", id.peerAdr, verbs.ErrInvalid)
	}
	id.state = idAccepting
	q, peer := id.qp, id.peer
	rep := p
	rep.PrivateData = slices.Clone(p.PrivateData)
	err := id.usable()
	if err == nil {
		// RTS at once: a first message that comes before RTU establishes too.
		err = q.connect(id.qpAttr(p, id.req), id.peerQP)
	}
	t.mu.Unlock()
	if err != nil {
		id.refuse(nil, "no resources")
		return fmt.Errorf("softroce: accept from %s: %w", id.peerAdr, err)
	}
	q.kick()
	n := id.dev.net
	n.cmSend(cmREP, id.dev, id.remote, func() { peer.answered(id, rep, nil) }, id.abandoned)
	err = id.waiter.Wait(ctx)
	t.mu.Lock()
	if err == nil {
		err = id.err
	}
	if err != nil {
		id.state = idEnded
		t.mu.Unlock()
		q.fail()
		n.cmSend(cmREJ, id.dev, id.remote, func() {
			peer.answered(nil, verbs.ConnParam{}, &verbs.RejectError{Reason: "timeout"})
			peer.peerLeft()
		}, nil)
		return fmt.Errorf("softroce: accept from %s: %w", id.peerAdr, err)
	}
	t.mu.Unlock()
	return nil
}

// established is the arrival of the RTU.
func (id *cmID) established() {
	t := id.table()
	t.mu.Lock()
	ok := id.state == idAccepting && !id.closed
	if ok {
		id.state = idConnected
	}
	t.mu.Unlock()
	if ok {
		id.waiter.Wake()
	}
}

// Reject implements verbs.ID.
func (id *cmID) Reject(private []byte) error {
	const limit = 148
	if len(private) > limit {
		return fmt.Errorf("softroce: reject: %d bytes of private data, the limit is %d: %w", len(private), limit, verbs.ErrInvalid)
	}
	t := id.table()
	t.mu.Lock()
	ok := id.state == idRequested && !id.closed
	t.mu.Unlock()
	if !ok {
		return fmt.Errorf("softroce: reject: no request to refuse: %w", verbs.ErrInvalid)
	}
	id.refuse(slices.Clone(private), "consumer defined")
	return nil
}

func (id *cmID) refuse(private []byte, reason string) {
	t := id.table()
	t.mu.Lock()
	peer := id.peer
	id.peer = nil
	id.state = idEnded
	t.mu.Unlock()
	if peer == nil {
		return
	}
	id.dev.net.cmSend(cmREJ, id.dev, id.remote, func() {
		peer.answered(nil, verbs.ConnParam{}, &verbs.RejectError{Reason: reason, PrivateData: private})
	}, nil)
}

// Negotiated implements verbs.ID.
func (id *cmID) Negotiated() (ird, ord int) {
	t := id.table()
	t.mu.Lock()
	defer t.mu.Unlock()
	return id.ird, id.ord
}

// Disconnect implements verbs.ID.
func (id *cmID) Disconnect() error {
	t := id.table()
	t.mu.Lock()
	state, peer := id.state, id.peer
	t.mu.Unlock()
	if state != idConnected {
		return nil
	}
	id.disconnected()
	if peer != nil {
		id.dev.net.cmSend(cmDREQ, id.dev, id.remote, peer.peerLeft, nil)
	}
	return nil
}

// peerLeft is the arrival of a DREQ.
func (id *cmID) peerLeft() {
	t := id.table()
	t.mu.Lock()
	state := id.state
	t.mu.Unlock()
	switch state {
	case idConnected:
		id.disconnected()
	case idAccepting:
		id.abandoned()
	}
}

// disconnected ends this side once: the queue pair fails and the event is delivered.
func (id *cmID) disconnected() {
	t := id.table()
	t.mu.Lock()
	if id.ended || id.closed {
		t.mu.Unlock()
		return
	}
	id.ended = true
	id.state = idEnded
	q := id.qp
	t.mu.Unlock()
	if q != nil {
		q.fail()
	}
	id.event(verbs.CMDisconnected)
}

// deviceRemoved tells the connections of a device, and their peers.
func (t *cmTable) deviceRemoved(d *Device) {
	t.mu.Lock()
	var ids []*cmID
	for _, id := range t.ids {
		if id.dev == d && !id.closed {
			ids = append(ids, id)
		}
	}
	var ls []*listener
	for _, l := range t.listeners {
		if l.dev == d {
			ls = append(ls, l)
		}
	}
	t.mu.Unlock()
	for _, l := range ls {
		_ = l.Close()
	}
	for _, id := range ids {
		id.event(verbs.CMDeviceRemoval)
		t.mu.Lock()
		peer, state := id.peer, id.state
		if state != idConnected && id.err == nil {
			id.err = fmt.Errorf("device %s was removed: %w", d.name, verbs.ErrDisconnected)
		}
		t.mu.Unlock()
		switch state {
		case idRequested:
			id.refuse(nil, "device removed")
		case idConnecting, idAccepting:
			id.waiter.Wake()
		case idConnected:
			id.disconnected()
			if peer != nil {
				d.net.cmSend(cmDREQ, d, peer.dev, peer.peerLeft, nil)
			}
		}
	}
}

// LocalAddr implements verbs.ID.
func (id *cmID) LocalAddr() string { return id.local }

// PeerAddr implements verbs.ID.
func (id *cmID) PeerAddr() string { return id.peerAdr }

// Close implements verbs.ID.
func (id *cmID) Close() error {
	t := id.table()
	t.mu.Lock()
	if id.closed {
		t.mu.Unlock()
		return nil
	}
	if q := id.qp; q != nil {
		q.mu.Lock()
		open := !q.closed
		q.mu.Unlock()
		if open {
			t.mu.Unlock()
			return fmt.Errorf("softroce: connection %s has a queue pair: %w", id.peerAdr, verbs.ErrBusy)
		}
	}
	state, peer := id.state, id.peer
	id.closed = true
	id.state = idEnded
	id.peer = nil
	id.onEvent = nil
	if i := slices.Index(t.ids, id); i >= 0 {
		t.ids = slices.Delete(t.ids, i, i+1)
	}
	if state == idConnecting || state == idAccepting {
		id.err = verbs.ErrClosed
	}
	t.mu.Unlock()
	n := id.dev.net
	switch state {
	case idConnecting:
		id.waiter.Wake()
		if peer != nil {
			n.cmSend(cmREJ, id.dev, id.remote, peer.abandoned, nil)
		}
	case idAccepting:
		id.waiter.Wake() // Accept tells the peer
	case idRequested:
		if peer != nil {
			n.cmSend(cmREJ, id.dev, id.remote, func() {
				peer.answered(nil, verbs.ConnParam{}, &verbs.RejectError{Reason: "consumer defined"})
			}, nil)
		}
	case idConnected:
		if peer != nil {
			n.cmSend(cmDREQ, id.dev, id.remote, peer.peerLeft, nil)
		}
	}
	id.calls.close()
	id.dev.mu.Lock()
	id.dev.res.CMID--
	id.dev.mu.Unlock()
	return nil
}
