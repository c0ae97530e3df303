package faults

import (
	"context"
	"slices"
	"sync"

	"example.org/nfsrdma/verbs"
)

// device is a device whose calls may fail. Objects that other objects of the device take as arguments are its own; those
// that it wraps, it unwraps again.
type device struct {
	verbs.Device
	x    *Injector
	side Side

	mu       sync.Mutex
	qps      []*qp // that exist
	removals int   // that are in force
}

// removable is a device that can be taken away.
type removable struct {
	*device
	r interface{ Remove() }
}

func (d removable) Remove() { d.r.Remove() }

// Device decorates one side's device; it passes on Remove.
func (x *Injector) Device(side Side, dev verbs.Device) verbs.Device {
	d := &device{Device: dev, x: x, side: side}
	x.sides[side] = d
	if r, ok := dev.(interface{ Remove() }); ok {
		return removable{d, r}
	}
	return d
}

func (d *device) fail(pt point, op string) error {
	return d.x.fail(pt, event{op: op, side: d.side}, verbs.ErrNoResources)
}

// AllocPD implements verbs.Device.
func (d *device) AllocPD() (verbs.PD, error) {
	if err := d.fail(onAlloc, "AllocPD"); err != nil {
		return nil, err
	}
	p, err := d.Device.AllocPD()
	if err != nil {
		return nil, err
	}
	w := &pd{p, d}
	if f, ok := p.(verbs.FMRDomain); ok {
		return &fmrPD{w, f}, nil
	}
	return w, nil
}

// CreateCQ implements verbs.Device.
func (d *device) CreateCQ(init verbs.CQInit) (verbs.CQ, error) {
	if err := d.fail(onAlloc, "CreateCQ"); err != nil {
		return nil, err
	}
	return d.Device.CreateCQ(init)
}

// Listen implements verbs.Device.
func (d *device) Listen(addr string, backlog int) (verbs.Listener, error) {
	l, err := d.Device.Listen(addr, backlog)
	if err != nil {
		return nil, err
	}
	return &listener{l, d}, nil
}

// Resolve implements verbs.Device.
func (d *device) Resolve(ctx context.Context, addr string) (verbs.ID, error) {
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

// Accept implements verbs.Listener.
func (l *listener) Accept(ctx context.Context) (verbs.ID, error) {
	i, err := l.Listener.Accept(ctx)
	if err != nil {
		return nil, err
	}
	return &id{ID: i, d: l.d}, nil
}

// id is an ID that can be told of events that did not happen.
type id struct {
	verbs.ID
	d *device

	mu      sync.Mutex
	onEvent func(verbs.CMEventType)
}

// OnEvent implements verbs.ID.
func (i *id) OnEvent(f func(verbs.CMEventType)) {
	i.mu.Lock()
	i.onEvent = f
	i.mu.Unlock()
	i.ID.OnEvent(f)
}

func (i *id) tell(t verbs.CMEventType) bool {
	i.mu.Lock()
	f := i.onEvent
	i.mu.Unlock()
	if f == nil {
		return false
	}
	f(t)
	return true
}

// CreateQP implements verbs.ID.
func (i *id) CreateQP(p verbs.PD, init verbs.QPInit) (verbs.QP, error) {
	return i.d.createQP(i, init, func() (verbs.QP, error) { return i.ID.CreateQP(unwrap(p), init) })
}

func (d *device) createQP(i *id, init verbs.QPInit, create func() (verbs.QP, error)) (verbs.QP, error) {
	if err := d.fail(onAlloc, "CreateQP"); err != nil {
		return nil, err
	}
	q, err := create()
	if err != nil {
		return nil, err
	}
	w := &qp{QP: q, d: d, id: i, init: init}
	d.mu.Lock()
	d.qps = append(d.qps, w)
	d.mu.Unlock()
	return w, nil
}

// qp is a queue pair whose posts may fail.
type qp struct {
	verbs.QP
	d    *device
	id   *id // nil: without
	init verbs.QPInit
}

// PostSend implements verbs.QP. What stands before the work request that fails is posted.
func (q *qp) PostSend(wrs []verbs.SendWR) (int, error) {
	if len(q.d.x.by[onPost]) == 0 {
		return q.QP.PostSend(wrs)
	}
	for i := range wrs {
		if err := q.d.fail(onPost, wrs[i].Op.String()); err != nil {
			return q.some(i, func() (int, error) { return q.QP.PostSend(wrs[:i]) }, err)
		}
	}
	return q.QP.PostSend(wrs)
}

// PostRecv implements verbs.QP.
func (q *qp) PostRecv(wrs []verbs.RecvWR) (int, error) {
	if len(q.d.x.by[onPost]) == 0 {
		return q.QP.PostRecv(wrs)
	}
	for i := range wrs {
		if err := q.d.fail(onPost, "RECV"); err != nil {
			return q.some(i, func() (int, error) { return q.QP.PostRecv(wrs[:i]) }, err)
		}
	}
	return q.QP.PostRecv(wrs)
}

// some posts the first n, and fails with err unless the device does before.
func (q *qp) some(n int, post func() (int, error), err error) (int, error) {
	if n == 0 {
		return 0, err
	}
	if n, perr := post(); perr != nil {
		return n, perr
	}
	return n, err
}

// BindMW implements verbs.QP.
func (q *qp) BindMW(mw verbs.MW, id uint64, flags verbs.SendFlags, b verbs.Bind) error {
	if err := q.d.fail(onPost, "BIND_MW"); err != nil {
		return err
	}
	return q.QP.BindMW(mw, id, flags, b)
}

// Close implements verbs.QP.
func (q *qp) Close() error {
	q.d.mu.Lock()
	q.d.qps = slices.DeleteFunc(q.d.qps, func(o *qp) bool { return o == q })
	q.d.mu.Unlock()
	return q.QP.Close()
}

// pd is a domain whose calls may fail.
type pd struct {
	verbs.PD
	d *device
}

// fmrPD is a pd with fast memory regions.
type fmrPD struct {
	*pd
	fmr verbs.FMRDomain
}

func unwrap(p verbs.PD) verbs.PD {
	switch w := p.(type) {
	case *pd:
		return w.PD
	case *fmrPD:
		return w.PD
	}
	return p
}

// Device implements verbs.PD.
func (p *pd) Device() verbs.Device { return p.d }

// RegMR implements verbs.PD.
func (p *pd) RegMR(buf []byte, access verbs.Access) (verbs.MR, error) {
	if err := p.d.fail(onReg, "RegMR"); err != nil {
		return nil, err
	}
	return p.PD.RegMR(buf, access)
}

// AllocMR implements verbs.PD.
func (p *pd) AllocMR(n int, access verbs.Access) (verbs.MR, error) {
	if err := p.d.fail(onAlloc, "AllocMR"); err != nil {
		return nil, err
	}
	return p.PD.AllocMR(n, access)
}

// AllocFastRegMR implements verbs.PD.
func (p *pd) AllocFastRegMR(n int) (verbs.FastRegMR, error) {
	if err := p.d.fail(onReg, "AllocFastRegMR"); err != nil {
		return nil, err
	}
	return p.PD.AllocFastRegMR(n)
}

// AllocMW implements verbs.PD.
func (p *pd) AllocMW(t verbs.MWType) (verbs.MW, error) {
	if err := p.d.fail(onReg, "AllocMW"); err != nil {
		return nil, err
	}
	return p.PD.AllocMW(t)
}

// MapDMA implements verbs.PD.
func (p *pd) MapDMA(m *verbs.DMAMap, buf []byte) error {
	if err := p.d.fail(onReg, "MapDMA"); err != nil {
		return err
	}
	return p.PD.MapDMA(m, buf)
}

// CreateSRQ implements verbs.PD.
func (p *pd) CreateSRQ(init verbs.SRQInit) (verbs.SRQ, error) {
	if err := p.d.fail(onAlloc, "CreateSRQ"); err != nil {
		return nil, err
	}
	return p.PD.CreateSRQ(init)
}

// CreateQP implements verbs.PD.
func (p *pd) CreateQP(init verbs.QPInit) (verbs.QP, error) {
	return p.d.createQP(nil, init, func() (verbs.QP, error) { return p.PD.CreateQP(init) })
}

// AllocFMR implements verbs.FMRDomain.
func (p *fmrPD) AllocFMR(n int, access verbs.Access) (verbs.FMR, error) {
	if err := p.d.fail(onReg, "AllocFMR"); err != nil {
		return nil, err
	}
	return p.fmr.AllocFMR(n, access)
}

// UnmapFMR implements verbs.FMRDomain.
func (p *fmrPD) UnmapFMR(list []verbs.FMR) error { return p.fmr.UnmapFMR(list) }
