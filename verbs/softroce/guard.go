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

// allow begins a new generation.
func (g *guard) allow() uint32 { return g.gen.Add(1) }

// revoke forbids new uses and waits for those that run; a copy is a few KiB.
func (g *guard) revoke() {
	g.gen.Add(1)
	for g.users.Load() != 0 {
		runtime.Gosched()
	}
}

func (g *guard) current() (gen uint32, ok bool) {
	gen = g.gen.Load()
	return gen, gen&1 == 1
}
