package svctcp

import (
	"context"
	"errors"
	"sync/atomic"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/stream"
	"example.org/nfsrdma/internal/xprt/svc"
)

// Transport listens and holds the connections. Its owner calls Shutdown, and then ends the threads.
type Transport struct {
	cfg  Config
	s    *sched.Sched
	pool *svc.Pool
	lis  []stream.Listener

	data *memory // for data items and long replies
	long *memory // for long calls; who holds some may wait for data, never the other way round

	tasks  *sched.Group
	end    *sched.Waiter
	ctx    context.Context
	cancel context.CancelFunc

	conns    svc.Conns[*Conn, Stats]
	draining atomic.Bool
}

// New listens. Calls are queued until a thread of the pool runs.
func New(cfg Config) (*Transport, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	x := &Transport{cfg: cfg, s: cfg.Sched, pool: cfg.Pool}
	x.conns.Init(cfg.MaxConns, func(c *Conn, s *Stats) { c.n.addTo(s) })
	for _, a := range cfg.Addrs {
		l, err := cfg.Net.Listen(a)
		if err != nil {
			x.closeListeners()
			return nil, err
		}
		x.lis = append(x.lis, l)
	}
	most := cfg.MaxPayload + headRoom
	x.ctx, x.cancel = x.s.WithCancel(context.Background())
	x.tasks = x.s.NewGroup("the end of the TCP connections")
	x.end = x.s.NewWaiter("the end of the TCP listeners")
	x.long = newMemory(x, "memory for a long call", max(cfg.PayloadMemory/4, most))
	x.data = newMemory(x, "memory for data", max(cfg.PayloadMemory-cfg.PayloadMemory/4, most))
	x.tasks.Go("svctcp end", x.waitEnd)
	for _, l := range x.lis {
		x.tasks.Go("svctcp listener "+l.Addr(), func() { x.acceptAll(l) })
	}
	return x, nil
}

// waitEnd closes the listeners, also when the scheduler ends first: nobody else could reach who waits there.
func (x *Transport) waitEnd() {
	_ = x.end.Wait(context.Background())
	x.closeListeners()
}

func (x *Transport) closeListeners() {
	for _, l := range x.lis {
		_ = l.Close()
	}
}

// Addrs are those where it listens, in the order of the configuration.
func (x *Transport) Addrs() []string {
	var out []string
	for _, l := range x.lis {
		out = append(out, l.Addr())
	}
	return out
}

func (x *Transport) acceptAll(l stream.Listener) {
	for {
		sc, err := l.Accept()
		if err != nil {
			return
		}
		if c, ok := x.conns.Admit(func() *Conn { return x.newConn(sc) }); ok {
			x.tasks.Go("svctcp "+c.peer, c.run)
			continue
		}
		_ = sc.Close()
	}
}

func (x *Transport) newConn(sc stream.Conn) *Conn {
	c := newConn(x, sc)
	c.draining.Store(x.draining.Load()) // Drain tells those that are on the list already
	return c
}

// Conns lists the connections.
func (x *Transport) Conns() []*Conn { return x.conns.List() }

// Drain stops listening and begins no more calls: those that come are dropped.
func (x *Transport) Drain() {
	x.draining.Store(true)
	x.end.Wake()
	for _, c := range x.Conns() {
		c.draining.Store(true)
	}
}

// Outstanding is the number of calls that are served or whose replies are on their way.
func (x *Transport) Outstanding() int {
	n := 0
	for _, c := range x.Conns() {
		n += int(c.calls.Load())
	}
	return n
}

// EndConns stops listening and begins to end all connections: no further call is answered.
func (x *Transport) EndConns() {
	x.conns.Refuse()
	x.cancel()
	x.end.Wake()
	for _, c := range x.Conns() {
		c.becomeClosing(errShutdown)
	}
}

// Shutdown ends all connections and waits for that.
func (x *Transport) Shutdown() {
	x.EndConns()
	_ = x.tasks.Wait(sched.Cleanup)
}

var (
	errShutdown     = errors.New("server shut down")
	errClosedByUser = errors.New("closed by the server")
)
