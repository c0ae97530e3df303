package conformance

import (
	"context"
	"sync"

	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/verbs"
)

// side is an end of a tapped connection.
type side uint8

const (
	client side = iota
	server
)

// sent is a SEND that one side posted, or an RDMA operation of the server.
type sent struct {
	from  side
	conn  int // counts the connections, from 1
	op    verbs.Opcode
	bytes []byte // of a SEND
	inv   uint32
	recvs int // receives that the client has posted on this connection until now

	h    rpcrdma.Header // if it parses
	body []byte         // behind the header
	ok   bool           // it parses
}

// outgoing is a SEND of the server before it is posted. A hook may change it.
type outgoing struct {
	sent
	wr      verbs.SendWR
	before  []verbs.SendWR // to be posted first
	first   [][]byte       // messages to be sent first
	replace []byte         // what is sent instead, if not nil
	swallow bool           // nothing is sent
}

// wiretap notes what passes between a client and a server whose devices it wraps, and lets a hook alter what the server sends.
type wiretap struct {
	mu     sync.Mutex
	log    []sent
	regs   []region
	recvs  int // posted by the client on the present connection
	conns  []verbs.ConnParam
	onSend func(*outgoing)                                   // of the server
	accept func(conn int, p verbs.ConnParam) verbs.ConnParam // what the server tells

	failSend  func(m *sent) error                           // a post that fails
	failRecv  func(conn int) error                          // likewise, of the client's receives
	onConnect func(conn int, event func(verbs.CMEventType)) // before the client's request goes out

	receives bool              // the client has no tap
	qps      map[uint32]*tapQP // of the server, by number, if so
}

type region struct {
	addr  uint64
	bytes []byte
}

// device wraps one side's device.
func (t *wiretap) device(d verbs.Device, s side) verbs.Device { return &tapDevice{d, t, s} }

// sentBy gives what one side has sent.
func (t *wiretap) sentBy(s side) []sent {
	t.mu.Lock()
	defer t.mu.Unlock()
	var l []sent
	for _, m := range t.log {
		if m.from == s && m.bytes != nil {
			l = append(l, m)
		}
	}
	return l
}

// all gives what both sides have sent, in order.
func (t *wiretap) all() []sent {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]sent(nil), t.log...)
}

// set changes what the tap does.
func (t *wiretap) set(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f()
}

// count is the number of connections until now.
func (t *wiretap) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.conns)
}

// forget empties the log.
func (t *wiretap) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.log = nil
}

// hook sets what alters the server's messages; nil nothing.
func (t *wiretap) hook(f func(*outgoing)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.onSend = f
}

func (t *wiretap) registered(m verbs.MR) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.regs = append(t.regs, region{m.Addr(), m.Bytes()})
}

type tapDevice struct {
	verbs.Device
	t *wiretap
	s side
}

func (d *tapDevice) AllocPD() (verbs.PD, error) {
	p, err := d.Device.AllocPD()
	if err != nil {
		return nil, err
	}
	return &tapPD{PD: p, t: d.t}, nil
}

func (d *tapDevice) Resolve(ctx context.Context, addr string) (verbs.ID, error) {
	id, err := d.Device.Resolve(ctx, addr)
	if err != nil {
		return nil, err
	}
	return &tapID{ID: id, d: d}, nil
}

func (d *tapDevice) Listen(addr string, backlog int) (verbs.Listener, error) {
	l, err := d.Device.Listen(addr, backlog)
	if err != nil {
		return nil, err
	}
	return &tapListener{l, d}, nil
}

type tapListener struct {
	verbs.Listener
	d *tapDevice
}

func (l *tapListener) Accept(ctx context.Context) (verbs.ID, error) {
	id, err := l.Listener.Accept(ctx)
	if err != nil {
		return nil, err
	}
	return &tapID{ID: id, d: l.d}, nil
}

// spareLen is the memory for messages that a hook makes. It is used in turns, one after another.
const spareLen = 1 << 20

type tapPD struct {
	verbs.PD
	t     *wiretap
	spare verbs.MR
	used  int
}

func (p *tapPD) RegMR(buf []byte, access verbs.Access) (verbs.MR, error) {
	m, err := p.PD.RegMR(buf, access)
	if err == nil {
		p.t.registered(m)
	}
	return m, err
}

func (p *tapPD) AllocMR(n int, access verbs.Access) (verbs.MR, error) {
	m, err := p.PD.AllocMR(n, access)
	if err == nil {
		p.t.registered(m)
	}
	return m, err
}

func (p *tapPD) Close() error {
	if p.spare != nil {
		_ = p.spare.Close()
		p.spare = nil
	}
	return p.PD.Close()
}

// put places b where the device can send it from.
func (p *tapPD) put(b []byte) verbs.SGE {
	if p.spare == nil {
		m, err := p.PD.AllocMR(spareLen, 0)
		if err != nil {
			return verbs.SGE{}
		}
		p.spare = m
	}
	if p.used+len(b) > spareLen {
		p.used = 0
	}
	at := p.used
	p.used += copy(p.spare.Bytes()[at:], b)
	return verbs.SGE{Addr: p.spare.Addr() + uint64(at), Length: uint32(len(b)), LKey: p.spare.LKey()}
}

type tapID struct {
	verbs.ID
	d     *tapDevice
	n     int
	event func(verbs.CMEventType)
}

func (i *tapID) OnEvent(f func(verbs.CMEventType)) {
	i.event = f
	i.ID.OnEvent(f)
}

func (i *tapID) CreateQP(pd verbs.PD, init verbs.QPInit) (verbs.QP, error) {
	if i.d.s == server {
		init.MaxSendWR += 512 // for what a hook adds
	}
	init.SendCQ, init.RecvCQ = untapped(init.SendCQ), untapped(init.RecvCQ)
	q, err := i.ID.CreateQP(pd.(*tapPD).PD, init)
	if err != nil {
		return nil, err
	}
	t := i.d.t
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case i.d.s == client:
		t.conns = append(t.conns, verbs.ConnParam{})
		t.recvs = 0
	case t.receives:
		t.conns = append(t.conns, i.ID.Request())
	}
	i.n = len(t.conns)
	tq := &tapQP{QP: q, t: t, s: i.d.s, pd: pd.(*tapPD), n: i.n}
	if t.receives {
		tq.bufs = map[uint64]verbs.SGE{}
		if t.qps == nil {
			t.qps = map[uint32]*tapQP{}
		}
		t.qps[q.Num()] = tq
	}
	return tq, nil
}

func (i *tapID) Connect(ctx context.Context, p verbs.ConnParam) (verbs.ConnParam, error) {
	i.d.t.mu.Lock()
	i.d.t.conns[i.n-1] = p
	f := i.d.t.onConnect
	i.d.t.mu.Unlock()
	if f != nil && i.event != nil {
		f(i.n, i.event)
	}
	return i.ID.Connect(ctx, p)
}

func (i *tapID) Accept(ctx context.Context, p verbs.ConnParam) error {
	i.d.t.mu.Lock()
	if f := i.d.t.accept; f != nil {
		p = f(i.n, p)
	}
	i.d.t.mu.Unlock()
	return i.ID.Accept(ctx, p)
}

type tapQP struct {
	verbs.QP
	t  *wiretap
	s  side
	pd *tapPD
	n  int

	bufs map[uint64]verbs.SGE // of receives, by their IDs, if the client has no tap
}

func (q *tapQP) PostRecv(wrs []verbs.RecvWR) (int, error) {
	if q.bufs != nil {
		q.t.posts(q, wrs)
	}
	if q.s == client {
		q.t.mu.Lock()
		var err error
		if f := q.t.failRecv; f != nil {
			err = f(q.n)
		}
		if err == nil {
			q.t.recvs += len(wrs)
		}
		q.t.mu.Unlock()
		if err != nil {
			return 0, err
		}
	}
	return q.QP.PostRecv(wrs)
}

func (q *tapQP) PostSend(wrs []verbs.SendWR) (int, error) {
	n := len(wrs)
	wrs, err := q.t.posted(q, wrs)
	if err == nil {
		_, err = q.QP.PostSend(wrs)
	}
	if err != nil {
		return 0, err
	}
	return n, nil
}

// posted notes work requests, and gives what shall be posted instead.
func (t *wiretap) posted(q *tapQP, wrs []verbs.SendWR) ([]verbs.SendWR, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []verbs.SendWR
	for i := range wrs {
		w := wrs[i]
		m := sent{from: q.s, conn: q.n, op: w.Op, recvs: t.recvs}
		switch w.Op {
		case verbs.OpSend, verbs.OpSendWithInv:
			m.bytes = t.gather(&w)
			if w.Op == verbs.OpSendWithInv {
				m.inv = w.InvKey
			}
			m.decode()
		case verbs.OpRDMARead, verbs.OpRDMAWrite:
		default:
			out = append(out, w)
			continue
		}
		if f := t.failSend; f != nil && m.bytes != nil {
			if err := f(&m); err != nil {
				return nil, err
			}
		}
		if q.s == server && m.bytes != nil && t.onSend != nil {
			o := &outgoing{sent: m, wr: w}
			t.onSend(o)
			out = append(out, o.before...)
			for _, b := range o.first {
				out = append(out, verbs.SendWR{Op: verbs.OpSend, SGEs: []verbs.SGE{q.pd.put(b)}})
			}
			w = o.wr
			switch {
			case o.swallow: // an operation of no bytes keeps the completion
				w = verbs.SendWR{ID: w.ID, Flags: w.Flags, Op: verbs.OpRDMAWrite}
				m.bytes, m.op = nil, verbs.OpRDMAWrite
			case o.replace != nil:
				w.SGEs = []verbs.SGE{q.pd.put(o.replace)}
				m.bytes = o.replace
				m.decode()
			}
		}
		t.log = append(t.log, m)
		out = append(out, w)
	}
	return out, nil
}

func (m *sent) decode() {
	n, err := rpcrdma.ConsumeHeader(m.bytes, &m.h, 0)
	if m.ok = err == nil; m.ok {
		m.body = m.bytes[n:]
	}
	// The lists of m.h are its own: ConsumeHeader was given an empty header.
}

// gather copies what a work request sends.
func (t *wiretap) gather(w *verbs.SendWR) []byte {
	out := append([]byte{}, w.Data...)
	for _, s := range w.SGEs {
		out = t.copyOf(out, s)
	}
	return out
}

// copyOf appends what is where s says.
func (t *wiretap) copyOf(out []byte, s verbs.SGE) []byte {
	for i := len(t.regs) - 1; i >= 0; i-- {
		r := &t.regs[i]
		if s.Addr >= r.addr && s.Addr+uint64(s.Length) <= r.addr+uint64(len(r.bytes)) {
			return append(out, r.bytes[s.Addr-r.addr:][:s.Length]...)
		}
	}
	return out
}
