package clnt

import (
	"sync/atomic"

	"example.org/nfsrdma/internal/sched"
)

// ticksPerTimeout is how finely timeouts are told: one is noticed between 1 and 1 + 1/ticksPerTimeout times its
// length. So a call need not read the clock.
const ticksPerTimeout = 16

// Timer finds calls that had no reply for the timeout of a mount: the reply, or the receive for it, may have been
// lost with no other sign. It runs only while there are calls. Init it before use.
type Timer struct {
	check func(now uint32) bool
	t     *sched.Timer // nil without timeouts
	per   sched.Duration
	tick  atomic.Uint32
	runs  atomic.Bool
}

// Init sets the timeout, 0 for none. With every tick check looks at the calls and says whether there are any; it must
// not wait.
func (c *Timer) Init(s *sched.Sched, timeout sched.Duration, check func(now uint32) (busy bool)) {
	c.check = check
	if timeout > 0 {
		c.per = max(timeout/ticksPerTimeout, 1)
		c.t = s.NewTimer(c.fire)
	}
}

// Start gives the tick of a call that is sent now, and sees to it that the timer runs.
func (c *Timer) Start() uint32 {
	if c.t != nil && !c.runs.Load() && !c.runs.Swap(true) {
		c.t.Reset(c.per)
	}
	return c.tick.Load()
}

// Late says whether a call that was sent at a tick is overdue. Its first tick may have been nearly over then.
func Late(now, sent uint32) bool { return int32(now-sent) > ticksPerTimeout }

// Stop ends it.
func (c *Timer) Stop() {
	if c.t != nil {
		c.t.Stop()
	}
}

func (c *Timer) fire() {
	now := c.tick.Add(1)
	c.runs.Store(false)
	if c.check(now) {
		c.Start()
	}
}
