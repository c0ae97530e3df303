package svc

import "example.org/nfsrdma/internal/sched"

// Handler is the RPC layer over the transports.
type Handler interface {
	// Serve executes r; the package comment says how it ends. It may wait.
	Serve(t *Thread, r Request)
}

// Work is a request of a transport that waits for a thread.
type Work interface {
	// Serve takes it as far as it gets without waiting for the transport.
	Serve(t *Thread, h Handler)
	// Abort ends it when there are no threads any more.
	Abort()
}

// Pool is the queue of a server's threads. Its owner ends the transports, calls Close, waits for the threads, and
// calls Abort.
type Pool struct {
	s      *sched.Sched
	queue  *sched.Queue[item]
	nfsd   *sched.Meter // of the threads
	locals []func() any
}

type item struct {
	w     Work       // nil ends a thread
	since sched.Time // in virtual time
}

// NewPool makes a pool without transports.
func NewPool(s *sched.Sched) *Pool {
	return &Pool{
		s: s, queue: sched.NewQueue[item](s, "a call to serve"),
		nfsd: s.NewMeter(sched.Usage{Name: "the nfsd threads", Knob: "Threads (nfsd)", Level: sched.LevelThread}),
	}
}

// Thread is what one nfsd thread needs. The zero value is not usable; see Pool.NewThread.
type Thread struct{ local []any }

// Local is the thread's storage of the transport that Join gave the number i.
func (t *Thread) Local(i int) any { return t.local[i] }

// Join adds a transport, before there are threads: local makes what it keeps in each.
func (p *Pool) Join(local func() any) int {
	p.locals = append(p.locals, local)
	return len(p.locals) - 1
}

// NewThread makes a thread's storage.
func (p *Pool) NewThread() *Thread {
	t := &Thread{}
	for _, f := range p.locals {
		t.local = append(t.local, f())
	}
	return t
}

// Run serves what is queued until Close, or until Stop ends this or another thread. What is queued is served, and so
// let go, also when a test was stopped.
func (p *Pool) Run(t *Thread, h Handler) {
	p.nfsd.AddUnits(1)
	defer p.nfsd.AddUnits(-1)
	for {
		i, err := p.queue.Pop(sched.Cleanup)
		if err != nil || i.w == nil {
			return
		}
		if p.nfsd == nil {
			i.w.Serve(t, h)
		} else {
			p.metered(i, t, h)
		}
	}
}

// metered is Serve in virtual time. The file system may stop the test meanwhile, which ends this goroutine.
func (p *Pool) metered(i item, t *Thread, h Handler) {
	if d := p.s.Now().Sub(i.since); d > 0 {
		p.nfsd.Waited(d)
	}
	p.nfsd.Take(1)
	defer p.nfsd.Give(1)
	i.w.Serve(t, h)
}

// Push queues a request; false after Close.
func (p *Pool) Push(w Work) bool {
	i := item{w: w}
	if p.nfsd != nil {
		i.since = p.s.Now()
	}
	return p.queue.Push(i)
}

// Stop makes one Run return.
func (p *Pool) Stop() { p.queue.Push(item{}) }

// Close makes every Run return once the queue is empty.
func (p *Pool) Close() { p.queue.Close() }

// Abort ends what no thread has taken.
func (p *Pool) Abort() {
	for {
		i, ok := p.queue.TryPop()
		if !ok {
			return
		}
		if i.w != nil {
			i.w.Abort()
		}
	}
}
