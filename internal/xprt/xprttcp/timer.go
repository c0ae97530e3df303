package xprttcp

import (
	"sync/atomic"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/clnt"
)

// ticksPerTimeout is how finely timeouts are told: one is noticed between 1 and 1 + 1/ticksPerTimeout times its
// length. So a call need not read the clock.
const ticksPerTimeout = 16

// callTimer ends the connection when a call had no reply for Config.Timeout.
type callTimer struct {
	x    *Xprt
	t    *sched.Timer // nil without timeouts
	per  sched.Duration
	tick atomic.Uint32
	runs atomic.Bool
}

func newCallTimer(x *Xprt) *callTimer {
	c := &callTimer{x: x}
	if x.cfg.Timeout > 0 {
		c.per = max(x.cfg.Timeout/ticksPerTimeout, 1)
		c.t = x.s.NewTimer(c.fire)
	}
	return c
}

// start gives the tick of a call that is sent now, and sees to it that the timer runs.
func (c *callTimer) start() uint32 {
	if c.t != nil && !c.runs.Load() && !c.runs.Swap(true) {
		c.t.Reset(c.per)
	}
	return c.tick.Load()
}

func (c *callTimer) stop() {
	if c.t != nil {
		c.t.Stop()
	}
}

func (c *callTimer) fire() {
	now := c.tick.Add(1)
	c.runs.Store(false)
	busy := false
	var late *ep
	for i := range c.x.reqs {
		q := &c.x.reqs[i]
		q.mu.Lock()
		waits := q.state != idle && q.state != lost && !q.got
		e := q.ep
		q.mu.Unlock()
		if !waits {
			continue
		}
		busy = true
		// The first tick may have been nearly over when the call was sent.
		if int32(now-q.tick.Load()) > ticksPerTimeout && e == c.x.ep.Load() {
			q.timedOut.Store(true)
			c.x.stats.timeouts.Add(1)
			late = e
		}
	}
	if late != nil {
		late.disconnect(clnt.ErrTimedOut)
	}
	if busy && !c.x.closed.Load() {
		c.start()
	}
}
