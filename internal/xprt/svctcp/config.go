package svctcp

import (
	"errors"
	"fmt"
	"math"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/stream"
	"example.org/nfsrdma/internal/xprt/svc"
)

// Config is what New needs. A zero field has the default that it names.
type Config struct {
	Sched *sched.Sched
	Pool  *svc.Pool      // of the threads
	Net   stream.Network // default the machine's sockets
	Addrs []string       // "host:port", at least one

	Slots         int            // calls of a connection that are served at once; default 64
	Inline        int            // bytes of a reply without buffer; default 4096
	MaxPayload    int            // bytes of a data item
	MaxConns      int            // default 1024
	PayloadMemory int            // bytes of data of all connections that are on their way; default 256 MiB
	Gate          Gate           // when the send buffer lets a call be taken
	Stall         sched.Duration // how long a record may take once it has begun, either way; default a minute, negative for ever

	// DataAt finds the data item at the end of a long call in its first bytes: where it begins, and its length.
	DataAt func(msg []byte) (pos int, n uint32, ok bool)
	// ReplySize is the longest reply of a call, bytes. Nil: unknown.
	ReplySize func(msg []byte) int
	// NewState makes what the upper layer keeps in a Request, NewReplyState what it keeps in a Reply, once for each slot.
	NewState, NewReplyState func() svc.State
	// TraceMsg, if not nil, gets each RPC message, in or out, without its data item.
	TraceMsg func(r *Request, out bool, msg []byte)
	// TraceConn, if not nil, gets a connection's begin and end.
	TraceConn func(c *Conn, what string)
}

const (
	// shortRecord is how long a call may be that is read whole into the memory of its slot, bytes: a WRITE of four pages.
	shortRecord = 16<<10 + 1024
	// headLen is how much of a longer one is read at first; a WRITE call has no more before its data.
	headLen = 1024
	// headRoom is how much longer than its data item a call or reply may be, bytes.
	headRoom = 4096
	// readBuffer is the size of a connection's, bytes. Longer pieces are read to where they belong.
	readBuffer = 32 << 10
)

func (c *Config) setDefaults() error {
	if c.Net == nil {
		c.Net = stream.Sockets{}
	}
	c.Slots = orDefault(c.Slots, 64)
	c.Inline = orDefault(c.Inline, 4096)
	c.MaxPayload = orDefault(c.MaxPayload, 1<<20)
	c.MaxConns = orDefault(c.MaxConns, 1024)
	c.PayloadMemory = orDefault(c.PayloadMemory, 256<<20)
	if c.Stall == 0 {
		c.Stall = 60 * sched.Second
	}
	c.Stall = max(c.Stall, 0)
	if c.ReplySize == nil {
		c.ReplySize = func([]byte) int { return math.MaxInt }
	}
	gate := c.Gate
	if err := c.Gate.setDefaults(); err != nil {
		return err
	}
	switch {
	case len(c.Addrs) == 0:
		return errors.New("svctcp: no address")
	case c.Slots < 1 || c.Slots > 1<<14:
		return fmt.Errorf("svctcp: %d slots are not within 1 and %d", c.Slots, 1<<14)
	case c.MaxPayload < 1024 || c.MaxPayload > 1<<30:
		return fmt.Errorf("svctcp: MaxPayload %d is not within 1 KiB and 1 GiB", c.MaxPayload)
	case c.Pool == nil || c.NewState == nil || c.NewReplyState == nil || c.DataAt == nil:
		return errors.New("svctcp: no pool, or no upper layer")
	}
	if _, ok := c.Net.(stream.Sockets); ok {
		if c.Sched.Virtual() {
			return errors.New("svctcp: sockets have no virtual time")
		}
		if gate.Policy != NoSpace || gate.SndBuf != 0 || gate.WMem != 0 {
			return fmt.Errorf("svctcp: send-buffer policy %v, SndBuf %d, WMem %d: the kernel decides for sockets", gate.Policy, gate.SndBuf, gate.WMem)
		}
	}
	return nil
}

func orDefault(v, def int) int {
	if v == 0 {
		return def
	}
	return v
}
