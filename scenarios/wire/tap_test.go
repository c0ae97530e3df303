package wire

import (
	"context"
	"sync"

	"example.org/nfsrdma/verbs"
)

// connect is how a connection was made.
type connect struct{ req, rep verbs.ConnParam }

// recorder notes what passes the taps of both sides.
type recorder struct {
	mu       sync.Mutex
	events   []event
	connects []connect
	mem      []memory
}

// memory is a registered region.
type memory struct {
	addr  uint64
	bytes []byte
}

// tap is a device that tells what is posted to it.
type tap struct {
	verbs.Device
	r      *recorder
	client bool
}

func (t *tap) AllocPD() (verbs.PD, error) {
	p, err := t.Device.AllocPD()
	if err != nil {
		return nil, err
	}
	return &tapPD{p, t.r}, nil
}

func (t *tap) Resolve(ctx context.Context, addr string) (verbs.ID, error) {
	id, err := t.Device.Resolve(ctx, addr)
	if err != nil {
		return nil, err
	}
	return &tapID{id, t}, nil
}

func (t *tap) Listen(addr string, backlog int) (verbs.Listener, error) {
	l, err := t.Device.Listen(addr, backlog)
	if err != nil {
		return nil, err
	}
	return &tapListener{l, t}, nil
}

type tapListener struct {
	verbs.Listener
	t *tap
}

func (l *tapListener) Accept(ctx context.Context) (verbs.ID, error) {
	id, err := l.Listener.Accept(ctx)
	if err != nil {
		return nil, err
	}
	return &tapID{id, l.t}, nil
}

type tapPD struct {
	verbs.PD
	r *recorder
}

func (p *tapPD) RegMR(buf []byte, access verbs.Access) (verbs.MR, error) {
	m, err := p.PD.RegMR(buf, access)
	if err == nil {
		p.r.registered(m)
	}
	return m, err
}

func (p *tapPD) AllocMR(n int, access verbs.Access) (verbs.MR, error) {
	m, err := p.PD.AllocMR(n, access)
	if err == nil {
		p.r.registered(m)
	}
	return m, err
}

func (r *recorder) registered(m verbs.MR) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mem = append(r.mem, memory{m.Addr(), m.Bytes()})
}

type tapID struct {
	verbs.ID
	t *tap
}

func (i *tapID) CreateQP(pd verbs.PD, init verbs.QPInit) (verbs.QP, error) {
	q, err := i.ID.CreateQP(pd.(*tapPD).PD, init)
	if err != nil {
		return nil, err
	}
	return &tapQP{q, i.t}, nil
}

func (i *tapID) Connect(ctx context.Context, p verbs.ConnParam) (verbs.ConnParam, error) {
	i.t.r.mu.Lock()
	i.t.r.connects = append(i.t.r.connects, connect{req: p})
	i.t.r.mu.Unlock()
	return i.ID.Connect(ctx, p)
}

func (i *tapID) Accept(ctx context.Context, p verbs.ConnParam) error {
	i.t.r.mu.Lock()
	i.t.r.connects[len(i.t.r.connects)-1].rep = p
	i.t.r.mu.Unlock()
	return i.ID.Accept(ctx, p)
}

type tapQP struct {
	verbs.QP
	t *tap
}

func (q *tapQP) PostSend(wrs []verbs.SendWR) (int, error) {
	q.t.r.posted(q.t.client, wrs)
	return q.QP.PostSend(wrs)
}

func (r *recorder) posted(client bool, wrs []verbs.SendWR) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range wrs {
		w := &wrs[i]
		e := event{client: client, op: w.Op}
		switch w.Op {
		case verbs.OpSend:
			e.data = r.gather(w)
		case verbs.OpSendWithInv:
			e.data, e.key = r.gather(w), w.InvKey
		case verbs.OpRDMAWrite:
			e.data, e.key, e.addr = r.gather(w), w.RKey, w.RemoteAddr
		case verbs.OpRDMARead:
			e.key, e.addr = w.RKey, w.RemoteAddr
			for _, s := range w.SGEs {
				e.n += int(s.Length)
			}
		default:
			continue
		}
		if e.data != nil {
			e.n = len(e.data)
		}
		r.events = append(r.events, e)
	}
}

// gather copies what a work request sends.
func (r *recorder) gather(w *verbs.SendWR) []byte {
	out := append([]byte{}, w.Data...)
	for _, s := range w.SGEs {
		for i := len(r.mem) - 1; i >= 0; i-- {
			m := &r.mem[i]
			if s.Addr >= m.addr && s.Addr+uint64(s.Length) <= m.addr+uint64(len(m.bytes)) {
				out = append(out, m.bytes[s.Addr-m.addr:][:s.Length]...)
				break
			}
		}
	}
	return out
}
