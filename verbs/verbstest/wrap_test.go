package verbstest_test

import (
	"context"
	"slices"
	"sync"

	"example.org/nfsrdma/verbs"
)

// fault is a way in which a device is broken: hooks that change what goes into it or comes out.
// A nil hook changes nothing.
type fault struct {
	access     func(verbs.Access) verbs.Access                  // of regions
	region     func(p *pd, buf []byte) []byte                   // what is registered
	mr         func(p *pd, m verbs.MR, buf []byte) verbs.MR     // what the caller gets
	init       func(*verbs.QPInit)                              // of queue pairs
	send       func(*verbs.SendWR)                              // each work request
	recvs      func([]verbs.RecvWR)                             // each list
	wc         func(*verbs.WC)                                  // each completion
	poll       func(c *cq, wc []verbs.WC) (int, error)          // instead of Poll
	arm        func(solicited bool) bool                        // the flag of Arm
	handler    func(func(verbs.CQ)) func(verbs.CQ)              // of queues
	cmEvent    func(func(verbs.CMEventType), verbs.CMEventType) // delivers
	conn       func(*verbs.ConnParam)                           // into Connect and Accept
	negotiated func(i *id) (int, int)                           // instead of Negotiated
	query      func(*verbs.QPAttr)                              // out of Query
	resources  func(d *device, r *verbs.Resources)              // out of Resources
	unmap      func([]verbs.FMR) []verbs.FMR                    // what is unmapped
	missing    []string                                         // verbs that are ErrUnsupported
}

// lacks is the bare error of a missing verb: it does not say which.
func (f *fault) lacks(verb string) error {
	if slices.Contains(f.missing, verb) {
		return verbs.ErrUnsupported
	}
	return nil
}

// device decorates a device with a fault.
type device struct {
	verbs.Device
	f    *fault
	mu   sync.Mutex
	regs int
	cqs  map[verbs.CQ]*cq
	qps  map[verbs.QP]*qp
}

func wrap(d verbs.Device, f *fault) *device {
	return &device{Device: d, f: f, cqs: map[verbs.CQ]*cq{}, qps: map[verbs.QP]*qp{}}
}

func (d *device) Resources() verbs.Resources {
	r := d.Device.Resources()
	if d.f.resources != nil {
		d.f.resources(d, &r)
	}
	return r
}

func (d *device) OnEvent(f func(verbs.AsyncEvent)) {
	if f == nil {
		d.Device.OnEvent(nil)
		return
	}
	d.Device.OnEvent(func(e verbs.AsyncEvent) {
		d.mu.Lock()
		if c := d.cqs[e.CQ]; c != nil {
			e.CQ = c
		}
		if q := d.qps[e.QP]; q != nil {
			e.QP = q
		}
		d.mu.Unlock()
		f(e)
	})
}

func (d *device) AllocPD() (verbs.PD, error) {
	if err := d.f.lacks("AllocPD"); err != nil {
		return nil, err
	}
	p, err := d.Device.AllocPD()
	if err != nil {
		return nil, err
	}
	return &pd{PD: p, d: d}, nil
}

func (d *device) CreateCQ(init verbs.CQInit) (verbs.CQ, error) {
	if err := d.f.lacks("CreateCQ"); err != nil {
		return nil, err
	}
	c := &cq{d: d}
	if h := init.Handler; h != nil {
		if d.f.handler != nil {
			h = d.f.handler(h)
		}
		init.Handler = func(verbs.CQ) { h(c) }
	}
	inner, err := d.Device.CreateCQ(init)
	if err != nil {
		return nil, err
	}
	c.CQ = inner
	d.mu.Lock()
	d.cqs[inner] = c
	d.mu.Unlock()
	return c, nil
}

func (d *device) Listen(addr string, backlog int) (verbs.Listener, error) {
	if err := d.f.lacks("Listen"); err != nil {
		return nil, err
	}
	l, err := d.Device.Listen(addr, backlog)
	if err != nil {
		return nil, err
	}
	return &listener{l, d}, nil
}

func (d *device) Resolve(ctx context.Context, addr string) (verbs.ID, error) {
	if err := d.f.lacks("Resolve"); err != nil {
		return nil, err
	}
	i, err := d.Device.Resolve(ctx, addr)
	if err != nil {
		return nil, err
	}
	return &id{ID: i, d: d}, nil
}

type listener struct {
	verbs.Listener
	d *device
}

func (l *listener) Accept(ctx context.Context) (verbs.ID, error) {
	if err := l.d.f.lacks("Listener.Accept"); err != nil {
		return nil, err
	}
	i, err := l.Listener.Accept(ctx)
	if err != nil {
		return nil, err
	}
	return &id{ID: i, d: l.d}, nil
}

type id struct {
	verbs.ID
	d    *device
	wish verbs.ConnParam
}

func (i *id) CreateQP(p verbs.PD, init verbs.QPInit) (verbs.QP, error) {
	if err := i.d.f.lacks("ID.CreateQP"); err != nil {
		return nil, err
	}
	if w, ok := p.(*pd); ok {
		p = w.PD
	}
	return i.d.newQP(init, func(init verbs.QPInit) (verbs.QP, error) { return i.ID.CreateQP(p, init) })
}

func (i *id) OnEvent(f func(verbs.CMEventType)) {
	i.ID.OnEvent(func(e verbs.CMEventType) {
		if i.d.f.cmEvent != nil {
			i.d.f.cmEvent(f, e)
			return
		}
		f(e)
	})
}

func (i *id) change(p verbs.ConnParam) verbs.ConnParam {
	i.wish = p
	if i.d.f.conn != nil {
		i.d.f.conn(&p)
	}
	return p
}

func (i *id) Connect(ctx context.Context, p verbs.ConnParam) (verbs.ConnParam, error) {
	if err := i.d.f.lacks("Connect"); err != nil {
		return verbs.ConnParam{}, err
	}
	return i.ID.Connect(ctx, i.change(p))
}

func (i *id) Accept(ctx context.Context, p verbs.ConnParam) error {
	if err := i.d.f.lacks("ID.Accept"); err != nil {
		return err
	}
	return i.ID.Accept(ctx, i.change(p))
}

func (i *id) Negotiated() (ird, ord int) {
	if i.d.f.negotiated != nil {
		return i.d.f.negotiated(i)
	}
	return i.ID.Negotiated()
}

func (d *device) newQP(init verbs.QPInit, create func(verbs.QPInit) (verbs.QP, error)) (verbs.QP, error) {
	if c, ok := init.SendCQ.(*cq); ok {
		init.SendCQ = c.CQ
	}
	if c, ok := init.RecvCQ.(*cq); ok {
		init.RecvCQ = c.CQ
	}
	if d.f.init != nil {
		d.f.init(&init)
	}
	inner, err := create(init)
	if err != nil {
		return nil, err
	}
	q := &qp{inner, d}
	d.mu.Lock()
	d.qps[inner] = q
	d.mu.Unlock()
	return q, nil
}

type pd struct {
	verbs.PD
	d    *device
	late []verbs.MR // to close with the domain
}

func (p *pd) Device() verbs.Device { return p.d }

func (p *pd) CreateQP(init verbs.QPInit) (verbs.QP, error) { return p.d.newQP(init, p.PD.CreateQP) }

func (p *pd) rights(a verbs.Access) verbs.Access {
	if p.d.f.access != nil {
		return p.d.f.access(a)
	}
	return a
}

func (p *pd) RegMR(buf []byte, a verbs.Access) (verbs.MR, error) {
	if err := p.d.f.lacks("RegMR"); err != nil {
		return nil, err
	}
	reg := buf
	if p.d.f.region != nil {
		reg = p.d.f.region(p, buf)
	}
	m, err := p.PD.RegMR(reg, p.rights(a))
	if err != nil {
		return nil, err
	}
	p.d.mu.Lock()
	p.d.regs++
	p.d.mu.Unlock()
	if p.d.f.mr != nil {
		return p.d.f.mr(p, m, buf), nil
	}
	return m, nil
}

func (p *pd) AllocMR(n int, a verbs.Access) (verbs.MR, error) {
	if err := p.d.f.lacks("AllocMR"); err != nil {
		return nil, err
	}
	return p.PD.AllocMR(n, p.rights(a))
}

// AllocFMR and UnmapFMR are there whether or not the device has CapFMR.
func (p *pd) AllocFMR(n int, a verbs.Access) (verbs.FMR, error) {
	d, ok := p.PD.(verbs.FMRDomain)
	if !ok {
		return nil, verbs.ErrUnsupported
	}
	return d.AllocFMR(n, p.rights(a))
}

func (p *pd) UnmapFMR(list []verbs.FMR) error {
	if p.d.f.unmap != nil {
		list = p.d.f.unmap(list)
	}
	return p.PD.(verbs.FMRDomain).UnmapFMR(list)
}

func (p *pd) Close() error {
	for _, m := range p.late {
		if err := m.Close(); err != nil {
			return err
		}
	}
	p.late = nil
	return p.PD.Close()
}

// longMR is a region whose device believes it to be larger.
type longMR struct {
	verbs.MR
	buf []byte
}

func (m *longMR) Bytes() []byte { return m.buf }
func (m *longMR) Len() int      { return len(m.buf) }

// lastingMR stays registered when it is closed.
type lastingMR struct {
	verbs.MR
	p *pd
}

func (m *lastingMR) Close() error {
	m.p.late = append(m.p.late, m.MR)
	return nil
}

type cq struct {
	verbs.CQ
	d     *device
	stash []verbs.WC
}

func (c *cq) Poll(wc []verbs.WC) (int, error) {
	if err := c.d.f.lacks("Poll"); err != nil {
		return 0, err
	}
	if c.d.f.poll != nil {
		return c.d.f.poll(c, wc)
	}
	n, err := c.CQ.Poll(wc)
	for i := range wc[:n] {
		if c.d.f.wc != nil {
			c.d.f.wc(&wc[i])
		}
	}
	return n, err
}

func (c *cq) Arm(solicited bool) bool {
	if c.d.f.arm != nil {
		solicited = c.d.f.arm(solicited)
	}
	return c.CQ.Arm(solicited)
}

func (c *cq) Wait(ctx context.Context) error {
	if err := c.d.f.lacks("Wait"); err != nil {
		return err
	}
	return c.CQ.Wait(ctx)
}

type qp struct {
	verbs.QP
	d *device
}

func (q *qp) PostSend(wrs []verbs.SendWR) (int, error) {
	for _, wr := range wrs {
		if err := q.d.f.lacks(wr.Op.String()); err != nil {
			return 0, err
		}
	}
	wrs = append([]verbs.SendWR(nil), wrs...)
	for i := range wrs {
		if m, ok := wrs[i].Bind.MR.(*longMR); ok {
			wrs[i].Bind.MR = m.MR
		}
		wrs[i].SGEs = append([]verbs.SGE(nil), wrs[i].SGEs...)
		if q.d.f.send != nil {
			q.d.f.send(&wrs[i])
		}
	}
	return q.QP.PostSend(wrs)
}

func (q *qp) PostRecv(wrs []verbs.RecvWR) (int, error) {
	if err := q.d.f.lacks("PostRecv"); err != nil {
		return 0, err
	}
	wrs = append([]verbs.RecvWR(nil), wrs...)
	if q.d.f.recvs != nil {
		q.d.f.recvs(wrs)
	}
	return q.QP.PostRecv(wrs)
}

func (q *qp) Query() verbs.QPAttr {
	a := q.QP.Query()
	if q.d.f.query != nil {
		q.d.f.query(&a)
	}
	return a
}
