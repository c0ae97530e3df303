package softroce

import (
	"runtime"
	"sync/atomic"
)

// guard counts the copies that use some memory, and ends the right to use it.
// gen is odd while the memory may be used.
type guard struct {
	users atomic.Int32
	gen   atomic.Uint32
}

// acquire begins a use that was allowed in generation gen; false: no more.
func (g *guard) acquire(gen uint32) bool {
	g.users.Add(1)
	if g.gen.Load() != gen {
		g.users.Add(-1)
		return false
	}
	return true
}

func (g *guard) release() { g.users.Add(-1) }

// allow begins a new generation. Its owner sees to it that none is there.
func (g *guard) allow() uint32 { return g.gen.Add(1) }

// end forbids new uses in generation gen and waits for those that run. False: it had
// ended, so that of two who end it one does.
func (g *guard) end(gen uint32) bool {
	ok := gen&1 == 1 && g.gen.CompareAndSwap(gen, gen+1)
	g.wait()
	return ok
}

// revoke ends the present generation, if there is one.
func (g *guard) revoke() bool { return g.end(g.gen.Load()) }

// wait waits for the copies that run, a few KiB each.
func (g *guard) wait() {
	for g.users.Load() != 0 {
		runtime.Gosched()
	}
}

func (g *guard) current() (gen uint32, ok bool) {
	gen = g.gen.Load()
	return gen, gen&1 == 1
}
