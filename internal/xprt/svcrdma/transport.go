package svcrdma

import (
	"context"
	"errors"
	"sync/atomic"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/svc"
	"example.org/nfsrdma/verbs"
)

// Transport listens on a device and holds the connections. Its owner calls Shutdown, ends the threads, and
// then calls Close.
type Transport struct {
	cfg  Config
	s    *sched.Sched
	attr verbs.DeviceAttr
	pd   verbs.PD
	lis  verbs.Listener

	pool  *svc.Pool
	num   int   // in pool
	data  *pool // buffers for data items and long replies
	long  *pool // buffers for long calls; who holds one may wait for data, never the other way round
	slabs regions

	tasks  *sched.Group
	ctx    context.Context
	cancel context.CancelFunc

	conns    svc.Conns[*Conn, Stats]
	draining atomic.Bool
}

// New listens. Calls are queued until a thread of the pool runs.
func New(cfg Config) (_ *Transport, err error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	x := &Transport{cfg: cfg, s: cfg.Sched, attr: cfg.Device.Attr()}
	x.conns.Init(cfg.MaxConns, func(c *Conn, s *Stats) { c.n.addTo(s) })
	if x.pd, err = cfg.Device.AllocPD(); err != nil {
		return nil, err
	}
	x.pool = cfg.Pool
	x.num = x.pool.Join(x.newThread)
	most := cfg.MaxPayload + headRoom
	x.long = newPool(x, max(cfg.PayloadMemory/4, most))
	x.data = newPool(x, max(cfg.PayloadMemory-cfg.PayloadMemory/4, most))
	x.slabs.init(x)
	x.tasks = x.s.NewGroup("the end of the connections of " + cfg.Addr)
	x.ctx, x.cancel = x.s.WithCancel(context.Background())
	if x.lis, err = cfg.Device.Listen(cfg.Addr, 128); err != nil {
		x.cancel()
		return nil, errors.Join(err, x.pd.Close())
	}
	x.tasks.Go("svcrdma listener "+cfg.Addr, x.acceptAll)
	return x, nil
}

// Config is the configuration in force.
func (x *Transport) Config() Config { return x.cfg }

// Addr is where it listens.
func (x *Transport) Addr() string { return x.lis.Addr() }

func (x *Transport) acceptAll() {
	for {
		id, err := x.lis.Accept(x.ctx)
		if err != nil {
			return
		}
		if c, ok := x.conns.Admit(func() *Conn { return newConn(x, id) }); ok {
			x.tasks.Go("svcrdma "+c.peer, c.run)
			continue
		}
		_ = id.Reject(nil)
		_ = id.Close()
	}
}

// Conns lists the connections.
func (x *Transport) Conns() []*Conn { return x.conns.List() }

// Drain stops listening and begins no more calls: those that come are dropped.
func (x *Transport) Drain() {
	x.conns.Refuse()
	x.draining.Store(true)
	_ = x.lis.Close()
}

// Outstanding is the number of calls that have come and are not answered.
func (x *Transport) Outstanding() int {
	n := 0
	for _, c := range x.Conns() {
		n += c.outstanding()
	}
	return n
}

// EndConns stops listening and begins to end all connections: no further call is answered.
func (x *Transport) EndConns() {
	x.conns.Refuse()
	x.cancel()
	_ = x.lis.Close()
	for _, c := range x.Conns() {
		c.becomeClosing(errShutdown)
	}
}

// Shutdown ends all connections and waits for that.
func (x *Transport) Shutdown() {
	x.EndConns()
	if x.tasks.Wait(sched.Cleanup) != nil {
		// The scheduler was closed first, and its tasks with it.
		for _, c := range x.Conns() {
			c.becomeClosed()
		}
	}
}

var errShutdown = errors.New("server shut down")

// Close gives back memory and the protection domain. No thread may run any more.
func (x *Transport) Close() error {
	err := errors.Join(x.slabs.close(), x.data.close(), x.long.close())
	return errors.Join(err, x.pd.Close())
}
