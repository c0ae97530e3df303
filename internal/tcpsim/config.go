package tcpsim

import (
	"fmt"
	"time"
)

// Push says when sendpage hands what it has queued to the wire, apart from a segment that fills in the middle of
// a page and a full send buffer, which always do.
type Push uint8

// The states of the kernel; splice is told in Conn.Splice.
const (
	PerPage Push = iota // after each page; Linux before 3.4, and a revert of what came then
	MsgMore             // not with MSG_MORE, which splice sets but for the end of its length
	NotLast             // not with MSG_SENDPAGE_NOTLAST, likewise; Linux 3.4 to 3.7
	Fixed               // as NotLast, but always for the last buffer of the pipe; Linux 3.8
)

func (p Push) String() string {
	names := [...]string{"perpage", "msgmore", "notlast", "fixed"}
	if int(p) < len(names) {
		return names[p]
	}
	return fmt.Sprintf("Push(%d)", uint8(p))
}

// PageSize is what one call of sendpage carries at most, bytes.
const PageSize = 4096

// Headers is what IPv4, TCP and time stamps take of an MTU, bytes.
const Headers = 20 + 20 + 12

// Config holds the knobs. Zero fields have the default said.
type Config struct {
	MTU        int           // default 16436, of loopback before Linux 3.7
	SndBuf     int           // SO_SNDBUF, bytes of payload; default 1 MiB
	Window     int           // the receiver's, bytes; default 4 MiB
	GSO        int           // gso_max_size: a segment is a multiple of the MSS below it; default 65536
	Nagle      bool          // without TCP_NODELAY
	Push       Push          // default PerPage
	DelayedAck time.Duration // TCP_DELACK_MIN; default 40 ms
	QuickAcks  int           // TCP_MAX_QUICKACKS, segments that are acknowledged at once at first; default 16, negative none
	Delay      time.Duration // one way; default 1 us

	PagePS, PushPS, SegmentPS int // the sender's time for a page, a push, a segment: picoseconds
	ReadSegmentPS, ReadBytePS int // the receiver's for a segment, a byte: picoseconds
}

func (c *Config) setDefaults() error {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&c.MTU, 16436)
	def(&c.SndBuf, 1<<20)
	def(&c.Window, 4<<20)
	def(&c.GSO, 65536)
	def(&c.QuickAcks, 16)
	if c.DelayedAck == 0 {
		c.DelayedAck = 40 * time.Millisecond
	}
	if c.Delay == 0 {
		c.Delay = time.Microsecond
	}
	if c.Push > Fixed {
		return fmt.Errorf("tcpsim: Push is %v, must be PerPage, MsgMore, NotLast or Fixed", c.Push)
	}
	for _, k := range []struct {
		name      string
		v, lo, hi int64
	}{
		{"MTU", int64(c.MTU), 576, 65536},
		{"SndBuf (SO_SNDBUF)", int64(c.SndBuf), 4096, 1 << 30},
		{"Window", int64(c.Window), 4096, 1 << 30},
		{"GSO (gso_max_size)", int64(c.GSO), 576, 1 << 20},
		{"DelayedAck in ns", int64(c.DelayedAck), 1, int64(time.Minute)},
		{"Delay in ns", int64(c.Delay), 0, int64(time.Minute)},
		{"PagePS", int64(c.PagePS), 0, 1e12},
		{"PushPS", int64(c.PushPS), 0, 1e12},
		{"SegmentPS", int64(c.SegmentPS), 0, 1e12},
		{"ReadSegmentPS", int64(c.ReadSegmentPS), 0, 1e12},
		{"ReadBytePS", int64(c.ReadBytePS), 0, 1e9},
	} {
		if k.v < k.lo || k.v > k.hi {
			return fmt.Errorf("tcpsim: %s is %d, must be %d to %d", k.name, k.v, k.lo, k.hi)
		}
	}
	return nil
}

// mss is the payload of a packet.
func (c *Config) mss() int { return c.MTU - Headers }

// goal is the payload that a segment is filled up to (tcp_xmit_size_goal): as many packets as fit
// gso_max_size, at most half the window.
func (c *Config) goal() int {
	mss := c.mss()
	g := max((min(c.GSO, 65536)-1-Headers)/mss*mss, mss)
	return min(g, max(c.Window/2, 1))
}
