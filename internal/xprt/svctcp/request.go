package svctcp

import (
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/xprt/svc"
)

// Request is a slot of a connection and the call in it, a svc.Request.
type Request struct {
	conn  *Conn
	state svc.State // of the upper layer
	reply Reply

	buf  []byte // grows to shortRecord
	msg  []byte
	xid  uint32
	long *Buffer // holds msg
	mem  *Buffer // of Need

	reserved     int
	wants        int // while it is parked
	wantsReserve bool

	pos, n  int // of the data item
	hasData bool
	pulled  bool
	counted bool // in Conn.calls
	room    int  // reserved at the gate
	active  bool // likewise: a thread has it, or its reply is on its way to the send buffer
}

var (
	_ svc.Request = (*Request)(nil)
	_ svc.Work    = (*Request)(nil)
)

func newRequest(c *Conn) *Request {
	r := &Request{conn: c, state: c.x.cfg.NewState()}
	r.reply.init(r)
	return r
}

// reset prepares for a newly received message.
func (r *Request) reset() {
	r.msg, r.hasData, r.pulled = nil, false, false
	r.pos, r.n = 0, 0
}

// short gives n bytes of the slot's own memory, n at most shortRecord.
func (r *Request) short(n int) []byte {
	if len(r.buf) < n {
		size := 2 * headLen
		for size < n {
			size *= 4
		}
		r.buf = make([]byte, min(size, shortRecord))
	}
	return r.buf[:n:n]
}

// Serve serves r. The file system may stop the test meanwhile, which ends this goroutine.
func (r *Request) Serve(t *svc.Thread, h svc.Handler) {
	c := r.conn
	defer c.unhold()
	if c.gate != nil {
		c.gate.take(r)
	}
	switch {
	case c.closing.Load():
		r.Abort()
	case isReply(r.msg):
		c.n.reverse.Add(1)
		r.Drop()
	default:
		h.Serve(t, r)
	}
}

// Abort ends a request whose connection has ended.
func (r *Request) Abort() {
	r.state.Release()
	r.end()
}

// end lets the slot take another call.
func (r *Request) end() {
	if r.hasData && !r.pulled {
		r.conn.skip()
	}
	r.release()
	if r.conn.gate != nil {
		r.conn.gate.give(r)
	}
	if r.counted {
		r.counted = false
		r.conn.calls.Add(-1)
	}
	r.conn.idle.Push(r)
}

// release gives back the memory that a request holds.
func (r *Request) release() {
	r.long.put()
	r.mem.put()
	r.long, r.mem, r.msg = nil, nil, nil
	r.Unreserve()
}

// State is the upper layer's.
func (r *Request) State() svc.State { return r.state }

// Peer is the client's address.
func (r *Request) Peer() string { return r.conn.peer }

// Host is the client's address without its port.
func (r *Request) Host() string { return r.conn.host }

// XID is that of the message.
func (r *Request) XID() uint32 { return r.xid }

// Msg is the message without a data item that is still in the socket.
func (r *Request) Msg() []byte { return r.msg }

// ReadChunk tells of the data item that is in the socket.
func (r *Request) ReadChunk() (pos int, n uint64, ok bool) { return r.pos, uint64(r.n), r.hasData }

// Pulled says that Pull has been done.
func (r *Request) Pulled() bool { return r.pulled }

// Pull lets the reader read the data item into sink.
func (r *Request) Pull(_ *svc.Thread, sink []svc.Mem, n int) (done bool) {
	if n == 0 {
		r.conn.skip()
		r.pulled = true
		return true
	}
	r.pulled = true
	r.conn.pull(r, sink)
	return false
}

// Need gives memory of n bytes.
func (r *Request) Need(n int) (*svc.Mem, error) {
	if r.mem == nil || len(r.mem.Bytes) < n {
		r.mem.put()
		if r.mem = r.conn.x.data.get(n); r.mem == nil {
			r.conn.x.data.park(r, n, false)
			return nil, nil
		}
	}
	return &r.mem.Mem, nil
}

// HasMem says that Need has given memory.
func (r *Request) HasMem() bool { return r.mem != nil }

// Reserve counts n bytes of memory that somebody else lends.
func (r *Request) Reserve(n int) bool {
	if r.reserved >= n {
		return true
	}
	if !r.conn.x.data.left.TryAcquire(n) {
		r.conn.x.data.park(r, n, true)
		return false
	}
	r.reserved = n
	return true
}

// Unreserve ends a reservation before the request ends.
func (r *Request) Unreserve() {
	if n := r.reserved; n > 0 {
		r.reserved = 0
		r.conn.x.data.left.Release(n)
	}
}

// Region gives the piece [off, off+n) of mem.
func (r *Request) Region(_ uint32, mem []byte, off, n uint32) (svc.Mem, error) {
	return svc.Mem{Bytes: mem[off : off+n : off+n], Len: n}, nil
}

// MaxInline is the length of a reply buffer.
func (r *Request) MaxInline() int { return r.conn.x.cfg.Inline }

// Reply gives the slot's reply, empty.
func (r *Request) Reply(*svc.Thread) *svc.Reply { return r.reply.reset() }

// Fail answers GARBAGE_ARGS (RFC 5531 section 9).
func (r *Request) Fail(t *svc.Thread) {
	r.conn.n.badItem.Add(1)
	p := r.reply.reset()
	p.Msg = rpc.AppendReply(p.Msg, &rpc.Reply{XID: r.xid, Accept: rpc.GARBAGE_ARGS})
	p.Send(t, r)
}

// Drop ends the request without an answer.
func (r *Request) Drop() {
	r.conn.n.dropped.Add(1)
	r.end()
}
