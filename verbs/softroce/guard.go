package softroce

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// guard says whether some memory may be used: gen is odd while it may, and changes with
// each right that begins or ends. A copy looks at it within a section.
type guard struct{ gen atomic.Uint32 }

// allow begins a new generation. Its owner sees to it that none is there.
func (g *guard) allow() uint32 { return g.gen.Add(1) }

func (g *guard) current() (gen uint32, ok bool) {
	gen = g.gen.Load()
	return gen, gen&1 == 1
}

// end ends generation gen. False: it had ended, so that of two who end it one does.
// Copies may still run: sections.wait.
func (g *guard) end(gen uint32) bool { return gen&1 == 1 && g.gen.CompareAndSwap(gen, gen+1) }

// revoke ends the present generation, if there is one, and waits for the copies that run.
func (g *guard) revoke(s *sections) bool {
	ok := g.end(g.gen.Load())
	s.wait()
	return ok
}

// sections are the copies that run in a network, one section for each engine. Who ends a right to
// memory first lets its guard say so, and then waits until no section is open that may not have heard
// of it. So a copy needs no lock on its memory. In virtual time nothing happens at the same time.
//
// Who waits must be in no section, nor hold a lock that is taken in one.
type sections struct {
	live bool
	mu   sync.Mutex
	all  atomic.Pointer[[]*section] // replaced when it changes
}

// section is open while its count is odd. Its engine alone changes it.
type section struct {
	_ [64]byte // a cache line of its own
	n atomic.Uint32
	_ [60]byte
}

func (s *sections) add(x *section) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := append(slices.Clip(s.list()), x)
	s.all.Store(&all)
}

func (s *sections) remove(x *section) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(s.list()), func(y *section) bool { return y == x })
	s.all.Store(&all)
}

func (s *sections) list() []*section {
	if p := s.all.Load(); p != nil {
		return *p
	}
	return nil
}

// wait waits for the sections that are open: the copies of some packets.
func (s *sections) wait() {
	if !s.live {
		return
	}
	for _, x := range s.list() {
		x.wait()
	}
}

// wait waits for the end of the section if it is open. It is short, and as a rule another processor is in it.
func (x *section) wait() {
	n := x.n.Load()
	if n&1 == 0 {
		return
	}
	for spins := 0; x.n.Load() == n; spins++ {
		if spins > 256 {
			runtime.Gosched()
		}
	}
}

// enter begins a section of the engine, unless it is in one.
func (q *qp) enter() {
	if !q.inside {
		q.inside = true
		if q.sec.live {
			q.section.n.Add(1)
		}
	}
}

func (q *qp) leave() {
	if q.inside {
		q.inside = false
		if q.sec.live {
			q.section.n.Add(1)
		}
	}
}

// gate counts the calls of a handler, and ends them.
type gate struct {
	calls  atomic.Int32
	closed atomic.Bool
}

// enter is false once the gate is closed; otherwise leave follows.
func (g *gate) enter() bool {
	g.calls.Add(1)
	if g.closed.Load() {
		g.calls.Add(-1)
		return false
	}
	return true
}

func (g *gate) leave() { g.calls.Add(-1) }

// close lets no call begin, and waits for those that run.
func (g *gate) close() {
	g.closed.Store(true)
	for g.calls.Load() != 0 {
		runtime.Gosched()
	}
}
