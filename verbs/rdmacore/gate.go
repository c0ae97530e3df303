//go:build rdmacore && cgo

package rdmacore

import (
	"runtime"
	"sync/atomic"
)

// gate lets calls of a handler begin until it is closed.
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
