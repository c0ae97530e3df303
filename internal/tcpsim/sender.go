package tcpsim

import (
	"context"
	"sync"

	"example.org/nfsrdma/internal/sched"
)

// Stats counts what a connection did.
type Stats struct {
	Segments    uint64 // that left the sender
	Bytes       uint64 // in them
	Pushes      uint64 // calls of tcp_push
	Acks        uint64
	DelayedAcks uint64         // of these, by the timer
	Blocked     sched.Duration // that the sender waited for room in its buffer
}

// Conn is one direction of a connection.
type Conn struct {
	s    *sched.Sched
	cfg  Config
	mss  int
	goal int

	mu sync.Mutex
	st Stats

	// The sender: sequence numbers start at 0.
	una, next, end uint64 // acknowledged, sent and queued up to
	pushed         uint64 // marked to be pushed up to
	due            uint64 // handed to the wire up to: what is not sent of it waits for the window
	edge           uint64 // of the window
	segs           []int  // not sent yet; the last one may grow
	cpu            sched.Time
	room           *sched.Waiter
	waits          bool // SOCK_NOSPACE

	out, back Wire // nil: Config.Delay
	space     func()
	err       error // what Send gives
	fin, sent bool  // the end of the stream was asked for, and is on its way
	roomMeter *sched.Meter
	winMeter  *sched.Meter
	winSince  sched.Time // since when the window holds data back, plus 1; 0: it does not

	recv receiver
}

// New makes a connection that is established.
func New(s *sched.Sched, cfg Config) (*Conn, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	c := &Conn{s: s, cfg: cfg, mss: cfg.mss(), goal: cfg.goal(), edge: uint64(cfg.Window), room: s.NewWaiter("room in the send buffer")}
	c.recv.init(c)
	return c, nil
}

// Stats is what was counted so far.
func (c *Conn) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.st
}

// Unsent is how many bytes are queued and have not left.
func (c *Conn) Unsent() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int(c.end - c.next)
}

// Unpushed is how many bytes are queued that nobody has handed to the wire: they leave with the next push or
// acknowledgement, if there is one.
func (c *Conn) Unpushed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int(c.end - max(c.next, c.due))
}

// MSS is the payload of a packet, Goal that of a segment, bytes.
func (c *Conn) MSS() int  { return c.mss }
func (c *Conn) Goal() int { return c.goal }

// nagle says what may leave of a segment that is not a multiple of the MSS.
type nagle uint8

const (
	asSet nagle = iota // by the socket's option
	force              // TCP_NAGLE_PUSH
	cork               // TCP_NAGLE_CORK
)

// Flags of sendpage.
type Flags struct {
	More    bool // MSG_MORE
	NotLast bool // MSG_SENDPAGE_NOTLAST
}

// SendPage queues n bytes, at most a page, and waits for room (do_tcp_sendpages).
func (c *Conn) SendPage(ctx context.Context, n int, f Flags) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queue(ctx, n, f)
}

// queue is SendPage of any number of bytes. mu is held, but not while it waits.
func (c *Conn) queue(ctx context.Context, n int, f Flags) error {
	c.work((n + PageSize - 1) / PageSize * c.cfg.PagePS)
	for n > 0 {
		if c.err != nil {
			return c.err
		}
		last := len(c.segs) - 1
		if last < 0 || c.segs[last] >= c.goal {
			if int(c.end-c.una) >= c.cfg.SndBuf {
				c.push(false, force)
				if err := c.waitRoom(ctx); err != nil {
					return err
				}
				continue
			}
			c.segs = append(c.segs, 0)
			last++
		}
		k := min(n, c.goal-c.segs[last])
		c.segs[last] += k
		c.end += uint64(k)
		if n -= k; n == 0 {
			break
		}
		// The segment is full in the middle of the page.
		if c.forced() {
			c.pushed = c.end
			c.xmit(force)
		} else if last == 0 {
			c.xmit(force)
		}
	}
	quiet := c.cfg.Push != PerPage && f.NotLast || c.cfg.Push == MsgMore && f.More
	if !quiet {
		c.push(f.More, asSet)
	}
	return c.spend(ctx)
}

// forced says that more than half the window was queued without a push (forced_push).
func (c *Conn) forced() bool { return c.end > c.pushed+uint64(c.cfg.Window/2) }

// push is tcp_push.
func (c *Conn) push(more bool, n nagle) {
	if len(c.segs) == 0 {
		return
	}
	c.st.Pushes++
	c.work(c.cfg.PushPS)
	if !more || c.forced() {
		c.pushed = c.end
	}
	if more {
		n = cork
	}
	c.xmit(n)
}

// xmit sends what window and Nagle allow (tcp_write_xmit), and the end of the stream after it.
func (c *Conn) xmit(n nagle) {
	c.xmitData(n)
	c.meterWindow()
	if c.fin && !c.sent && len(c.segs) == 0 {
		c.sent = true
		c.carry(c.out, 0, &finish{c})
	}
}

func (c *Conn) xmitData(n nagle) {
	if len(c.segs) == 0 {
		return
	}
	c.due = c.end
	if part := c.segs[len(c.segs)-1] % c.mss; part > 0 && !c.mayPart(n) {
		c.due -= uint64(part)
	}
	for len(c.segs) > 0 {
		size := c.segs[0]
		send := size
		if part := size % c.mss; part > 0 && len(c.segs) == 1 && !c.mayPart(n) {
			send -= part
		}
		if room := int(c.edge - c.next); send > room {
			send = room / c.mss * c.mss
		}
		if send <= 0 {
			return
		}
		c.transmit(send)
		if send < size {
			c.segs[0] -= send
			continue
		}
		c.segs = c.segs[:copy(c.segs, c.segs[1:])]
	}
}

// mayPart says whether the last segment may leave although it is no multiple of the MSS.
func (c *Conn) mayPart(n nagle) bool {
	switch n {
	case force:
		return true
	case cork:
		return false
	}
	return !c.cfg.Nagle || c.next == c.una
}

// transmit sends n bytes as one segment.
func (c *Conn) transmit(n int) {
	c.work(c.cfg.SegmentPS)
	c.next += uint64(n)
	c.st.Segments++
	c.st.Bytes += uint64(n)
	c.carry(c.out, n, &arrival{c, n})
}

// carry sends e, with n bytes, once the sender's CPU has got to it.
func (c *Conn) carry(w Wire, n int, e sched.Event) {
	at := max(c.cpu, c.s.Now())
	switch {
	case w == nil:
		c.s.At(at.Add(sched.FromStd(c.cfg.Delay)), e)
	case at > c.s.Now():
		c.s.At(at, &onWire{w, n, c.packets(n), e})
	default:
		w.Send(n, c.packets(n), e)
	}
}

// packets is how many of them n bytes take.
func (c *Conn) packets(n int) int { return max((n+c.mss-1)/c.mss, 1) }

// onWire waits for the CPU.
type onWire struct {
	w          Wire
	n, packets int
	e          sched.Event
}

// Fire sends it.
func (o *onWire) Fire() { o.w.Send(o.n, o.packets, o.e) }

// work charges the sender's CPU.
func (c *Conn) work(ps int) {
	c.cpu = max(c.cpu, c.s.Now()).Add(sched.Duration(ps))
}

// spend lets the time pass that was charged. mu is held, but not while it waits.
func (c *Conn) spend(ctx context.Context) error {
	d := c.cpu.Sub(c.s.Now())
	if d <= 0 {
		return ctx.Err()
	}
	c.mu.Unlock()
	defer c.mu.Lock()
	return c.s.Sleep(ctx, d)
}

func (c *Conn) waitRoom(ctx context.Context) error {
	if err := c.spend(ctx); err != nil {
		return err
	}
	from := c.s.Now()
	c.roomMeter.Take(1)
	defer func() {
		c.roomMeter.Give(1)
		c.roomMeter.Waited(c.s.Now().Sub(from))
	}()
	for int(c.end-c.una) >= c.cfg.SndBuf {
		if c.err != nil {
			return c.err
		}
		c.waits = true
		c.mu.Unlock()
		err := c.room.Wait(ctx)
		c.mu.Lock()
		if err != nil {
			return err
		}
	}
	c.st.Blocked += c.s.Now().Sub(from)
	return nil
}

// ack is an acknowledgement on its way.
type ack struct {
	c        *Conn
	to, edge uint64
}

// Fire is its arrival (tcp_ack, tcp_data_snd_check): what is queued may go, whether it was pushed or not.
func (a *ack) Fire() {
	c := a.c
	c.mu.Lock()
	c.una = max(c.una, a.to)
	c.edge = max(c.edge, a.edge)
	c.xmit(asSet)
	c.newSpace()
	space := c.space
	c.mu.Unlock()
	if space != nil {
		space()
	}
}

// newSpace wakes the sender if there is enough room (sk_stream_write_space).
func (c *Conn) newSpace() {
	queued := int(c.end - c.una)
	if c.waits && c.cfg.SndBuf-queued >= queued/2 { // sk_stream_is_writeable
		c.waits = false
		c.room.Wake()
	}
}

// Splice sends the buffers of a pipe, of at most a page each and n bytes together, as a call of splice with
// the length total does. more is SPLICE_F_MORE.
func (c *Conn) Splice(ctx context.Context, n, total int, more bool) error {
	for n > 0 && total > 0 {
		k := min(n, total, PageSize)
		last := k == total
		f := Flags{More: more}
		switch c.cfg.Push {
		case MsgMore:
			f.More = more || !last
		case NotLast:
			f.NotLast = !last
		case Fixed:
			f.NotLast = !last && n > PageSize // pipe->nrbufs > 1
		}
		if err := c.SendPage(ctx, k, f); err != nil {
			return err
		}
		n -= k
		total -= k
	}
	return nil
}
