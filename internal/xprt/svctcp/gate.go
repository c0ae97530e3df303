package svctcp

import (
	"fmt"
	"sync"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/stream"
)

// Policy says when the send buffer of a connection lets the next call be taken (svc_tcp_has_wspace). In it M is
// the room that a call may ask for (sv_max_mesg: the largest payload and a page), Q what is queued in the buffer, free
// the rest of it, and R the sum over the calls being served: M each, after decoding no more than the call's longest
// reply.
type Policy uint8

// The policies.
const (
	NoSpace  Policy = iota // unless a sender waits for room (SOCK_NOSPACE); today's Linux
	Locked                 // free >= Q/2 and free >= 2(R+M), in a buffer of 2(threads+3)M; Linux to 2.6.29
	Auto                   // likewise, in one of 8M that TCP tunes; Linux 2.6.30-rc1
	No23                   // as Auto, without free >= Q/2
	R2M                    // free >= R+2M, in 8M
	RM                     // free >= R+M, in 8M
	Deferred               // as Auto, but a call that waits is counted in R already and asks for M once more. It hangs
	Clamp                  // as Auto, when TCP has cut the buffer to tcp_wmem[2] (tcp_new_space)
)

var policyNames = [...]string{"nospace", "locked", "auto", "no-2/3", "R+2M", "R+M", "deferred-naive", "clamp"}

// Policies lists the policies.
func Policies() []Policy {
	var out []Policy
	for i := range policyNames {
		out = append(out, Policy(i))
	}
	return out
}

func (p Policy) String() string {
	if int(p) < len(policyNames) {
		return policyNames[p]
	}
	return fmt.Sprintf("Policy(%d)", uint8(p))
}

// MarshalText gives the name of the policy.
func (p Policy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText takes the name of a policy.
func (p *Policy) UnmarshalText(b []byte) error {
	for i, n := range policyNames {
		if n == string(b) {
			*p = Policy(i)
			return nil
		}
	}
	return fmt.Errorf("send-buffer policy %q: want one of %q", b, policyNames)
}

// Gate configures the send-buffer gate. Any other than the zero value needs a Network whose connections know their
// send buffer.
type Gate struct {
	Policy  Policy
	SndBuf  int // bytes; 0: what the policy says, for NoSpace WMem
	WMem    int // tcp_wmem[2], bytes; 0: 4 MiB
	Threads int // for Locked; 0: 8
}

func (g *Gate) setDefaults() error {
	g.WMem = orDefault(g.WMem, 4<<20)
	g.Threads = orDefault(g.Threads, 8)
	switch {
	case int(g.Policy) >= len(policyNames):
		return fmt.Errorf("svctcp: the send-buffer policy is %v, must be one of %q", g.Policy, policyNames)
	case g.SndBuf < 0 || g.SndBuf > 1<<30:
		return fmt.Errorf("svctcp: SndBuf is %d, must be at most 1 GiB", g.SndBuf)
	case g.WMem < 4096 || g.WMem > 1<<30:
		return fmt.Errorf("svctcp: WMem (tcp_wmem) is %d, must be 4 KiB to 1 GiB", g.WMem)
	}
	return nil
}

// size is the send buffer of a policy.
func (g *Gate) size(m int) int {
	switch {
	case g.SndBuf > 0:
		return g.SndBuf
	case g.Policy == NoSpace:
		return g.WMem
	case g.Policy == Locked:
		return 2 * (g.Threads + 3) * m
	}
	return 2 * 4 * m
}

// gate decides when the next call of a connection is taken. One at a time is on its way to a thread, as the kernel's
// XPT_BUSY has it: it passes the gate when it has come, and is counted in R when a thread takes it.
type gate struct {
	c   *Conn
	sb  stream.SendBuffer
	cfg Gate
	m   int // sv_max_mesg

	wake  sched.Waiter // the reader, or the task of deferred calls
	meter *sched.Meter // of the refusals
	since sched.Time   // of the present one, plus 1

	mu       sync.Mutex
	reserved int // R
	active   int // calls in R that a thread has taken
	onWay    bool
	clamped  bool
	deferred []*Request
}

// newGate is nil for a connection that does not know its send buffer.
func newGate(c *Conn) *gate {
	sb, ok := c.sc.(stream.SendBuffer)
	if !ok {
		return nil
	}
	g := &gate{c: c, sb: sb, cfg: c.x.cfg.Gate, m: c.x.cfg.MaxPayload + 4096, meter: sb.Meter()}
	sb.SetSendBuffer(g.cfg.size(g.m))
	sb.OnSpace(g.space)
	g.wake.Init(c.x.s, "the send buffer of the server")
	g.wake.SetWhat("the send buffer of the server, for "+c.peer, g.describe)
	return g
}

// describe says why nothing is taken.
func (g *gate) describe() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	size, q := g.sb.SendBuffer()
	s := fmt.Sprintf("policy %v: free %d of %d bytes, %d reserved by %d calls, %d more asked for", g.cfg.Policy, size-q, size, g.reserved,
		g.active+len(g.deferred), g.m)
	if n := len(g.deferred); n > 0 {
		s += fmt.Sprintf("; %d of the calls are deferred: they hold what they wait for", n)
	}
	return s
}

// space is sk_write_space.
func (g *gate) space() {
	g.mu.Lock()
	clamp := g.cfg.Policy == Clamp && !g.clamped
	g.clamped = g.clamped || clamp
	g.mu.Unlock()
	if clamp {
		size, _ := g.sb.SendBuffer()
		g.sb.SetSendBuffer(min(size, g.cfg.WMem))
	}
	g.wake.Wake()
}

// open is svc_tcp_has_wspace. mu is held.
func (g *gate) open() bool {
	if g.cfg.Policy == NoSpace {
		return !g.sb.Full()
	}
	size, q := g.sb.SendBuffer()
	free, r := size-q, g.reserved
	switch g.cfg.Policy {
	case No23:
		return 2*(r+g.m) <= free
	case R2M:
		return r+2*g.m <= free
	case RM:
		return r+g.m <= free
	}
	return free >= q/2 && 2*(r+g.m) <= free
}

// admit waits until r may be taken; false: it is kept, and taken later.
func (g *gate) admit(r *Request) (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cfg.Policy == Deferred {
		return g.admitNaive(r), nil
	}
	for g.onWay || !g.open() {
		if !g.onWay {
			g.refuse()
		}
		if err := g.wait(); err != nil {
			return false, err
		}
	}
	g.pass()
	g.onWay = g.cfg.Policy != NoSpace
	return true, nil
}

// wait waits for a change. mu is held, but not while it waits.
func (g *gate) wait() error {
	g.mu.Unlock()
	defer g.mu.Lock()
	if g.c.closing.Load() {
		return g.c.Why()
	}
	if err := g.wake.Wait(sched.Cleanup); err != nil {
		return err
	}
	return nil
}

// refuse begins a time in which nothing is taken.
func (g *gate) refuse() {
	if g.since == 0 {
		g.c.n.gateWait.Add(1)
		g.since = g.c.x.s.Now() + 1
		if g.cfg.Policy != NoSpace { // else the sender that waits has taken it
			g.meter.Take(1)
		}
	}
}

// pass ends it.
func (g *gate) pass() {
	if g.since > 0 {
		if g.cfg.Policy != NoSpace {
			g.meter.Give(1)
		}
		g.meter.Waited(g.c.x.s.Now().Sub(g.since - 1))
		g.since = 0
	}
}

// admitNaive reserves first, and asks again for a call that is in R itself.
func (g *gate) admitNaive(r *Request) bool {
	ok := len(g.deferred) == 0 && g.open()
	g.reserve(r)
	if !ok {
		g.refuse()
		g.deferred = append(g.deferred, r)
	}
	return ok
}

func (g *gate) reserve(r *Request) {
	r.room = g.m
	g.reserved += g.m
	g.c.n.reservedMax.Store(max(g.c.n.reservedMax.Load(), uint64(g.reserved)))
}

// retry takes deferred calls, until the connection ends.
func (g *gate) retry() {
	for g.wake.Wait(sched.Cleanup) == nil {
		g.mu.Lock()
		for len(g.deferred) > 0 && (g.c.closing.Load() || g.open()) {
			r := g.deferred[0]
			g.deferred = g.deferred[1:]
			g.mu.Unlock()
			g.c.enqueue(r)
			g.mu.Lock()
		}
		if len(g.deferred) == 0 {
			g.pass()
		}
		done := g.c.closing.Load()
		g.mu.Unlock()
		if done {
			return
		}
	}
}

// take counts r, which a thread begins to serve: M, and after decoding its longest reply (svc_reserve).
func (g *gate) take(r *Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.active {
		return
	}
	g.onWay = false
	r.active = true
	g.active++
	g.c.n.activeMax.Store(max(g.c.n.activeMax.Load(), uint64(g.active)))
	if r.room == 0 {
		g.reserve(r)
	}
	if n := g.c.x.cfg.ReplySize(r.msg); n < r.room {
		g.reserved -= r.room - n
		r.room = n
	}
	g.wake.Wake()
}

// give ends what take began: the reply is in the send buffer, or there is none.
func (g *gate) give(r *Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reserved -= r.room
	if r.active {
		g.active--
	} else if r.room == 0 {
		g.onWay = false // it was aborted on its way
	}
	r.room, r.active = 0, false
	g.wake.Wake()
}
