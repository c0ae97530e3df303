package svcrdma

import (
	"sync"
	"sync/atomic"

	"example.org/nfsrdma/verbs"
)

// poller empties a completion queue whenever the device calls. One caller at a time polls; who comes meanwhile, from
// another goroutine or from within, makes it look again.
type poller struct {
	cq     verbs.CQ
	handle func(*verbs.WC) // must not post: that may come back here
	fail   func(error)
	calls  atomic.Int64

	mu   sync.Mutex // held while polling, so that stop can wait for it
	dead bool
	wc   [16]verbs.WC
}

func (p *poller) event(verbs.CQ) { p.run() }

func (p *poller) run() {
	if p.calls.Add(1) != 1 {
		return
	}
	for {
		n := p.calls.Load()
		if p.drain() && p.cq.Arm(false) {
			continue
		}
		if p.calls.CompareAndSwap(n, 0) {
			return
		}
	}
}

// drain handles what is there; false if it is the last time.
func (p *poller) drain() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.dead {
		n, err := p.cq.Poll(p.wc[:])
		for i := range n {
			p.handle(&p.wc[i])
		}
		if err != nil {
			p.dead = true
			p.fail(err)
			return false
		}
		if n < len(p.wc) {
			return true
		}
	}
	return false
}

// stop returns when no completion is being handled, and none will be.
func (p *poller) stop() {
	p.mu.Lock()
	p.dead = true
	p.mu.Unlock()
}
