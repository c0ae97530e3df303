package svcrdma

import (
	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/xprt/svc"
	"example.org/nfsrdma/verbs"
)

// where says who owns a request; it changes hands with it.
type where uint8

const (
	posted  where = iota // the device: a receive
	queued               // the queue of the threads
	serving              // a thread
	pulling              // the device: RDMA READs
	parked               // a pool
	lost                 // nobody: the connection has no receive queue any more
)

// phase says what a thread does next with a request.
type phase uint8

const (
	received phase = iota
	longRead       // a long call is in memory
	resumed        // the handler had it: a pulled data item or memory is there
)

// Request is a received call, a svc.Request.
type Request struct {
	conn  *Conn
	state State // of the upper layer
	idx   uint32
	where where
	phase phase

	recv    []byte // receive buffer
	n       int    // bytes received
	h       rpcrdma.Header
	msg     []byte // the RPC message without what is in the data chunk
	longMsg *Buffer
	mem     *Buffer // of Need

	dataPos  uint32 // of the data chunk
	dataLen  uint64
	hasData  bool
	pulled   bool
	inv      uint32 // the one rkey of all chunks
	canInv   bool
	sges     [1]verbs.SGE
	rwr      [1]verbs.RecvWR
	fr       []sinkReg      // fast registrations of RegisterSink
	nfr      int            // of them in use
	dma      []verbs.DMAMap // of the sink's pieces
	ndma     int
	reserved int
	wait     poolWait
}

var _ svc.Request = (*Request)(nil)

// State is the upper layer's.
func (r *Request) State() State { return r.state }

// Peer is the client's address, Host the same without a port.
func (r *Request) Peer() string { return r.conn.peer }

// Host is the client's address without its port.
func (r *Request) Host() string { return r.conn.host }

// MaxInline is the length of a reply buffer.
func (r *Request) MaxInline() int { return r.conn.x.cfg.InlineSend }

// Region is that of the transport.
func (r *Request) Region(id uint32, mem []byte, off, n uint32) (Mem, error) {
	return r.conn.x.Region(id, mem, off, n)
}

// XID is that of the header; Msg begins with the same.
func (r *Request) XID() uint32 { return r.h.XID }

// Msg is the RPC message; a data item that is in a Read chunk is not in it.
func (r *Request) Msg() []byte { return r.msg }

// ReadChunk tells of the data item that is in a Read chunk: its position in Msg and the length of the chunk.
func (r *Request) ReadChunk() (pos int, n uint64, ok bool) {
	return int(r.dataPos), r.dataLen, r.hasData
}

// Pulled says that Pull has been done.
func (r *Request) Pulled() bool { return r.pulled }

// Need gives registered memory of n bytes.
func (r *Request) Need(n int) (*Mem, error) {
	if r.mem == nil || len(r.mem.Bytes) < n {
		r.phase = resumed
		b, err := r.conn.x.data.get(n, r, &r.mem)
		if b == nil {
			return nil, err
		}
		r.mem = b
	}
	return &r.mem.Mem, nil
}

// Reserve counts n bytes of memory that somebody else lends.
func (r *Request) Reserve(n int) bool {
	if r.reserved >= n {
		return true
	}
	r.phase = resumed
	return r.conn.x.data.reserve(n, r)
}

// Unreserve ends a reservation before the request ends.
func (r *Request) Unreserve() {
	if n := r.reserved; n > 0 {
		r.reserved = 0
		r.conn.x.data.unreserve(n)
	}
}

// HasMem says that Need has given memory.
func (r *Request) HasMem() bool { return r.mem != nil }

// Drop ends the request without an answer.
func (r *Request) Drop() {
	r.conn.n.dropped.Add(1)
	r.repost()
}

// release gives back what a request holds besides its receive buffer.
func (r *Request) release() {
	if r.longMsg != nil {
		r.longMsg.put()
		r.longMsg = nil
	}
	if r.mem != nil {
		r.mem.put()
		r.mem = nil
	}
	r.Unreserve()
}

// repost gives the receive buffer back to the device.
func (r *Request) repost() {
	r.release()
	r.where = posted
	if _, err := r.conn.qp.PostRecv(r.rwr[:]); err != nil {
		r.where = lost
		r.conn.becomeClosing(err)
	}
}

// Abort ends a request whose connection has ended.
func (r *Request) Abort() {
	r.where = lost
	r.unmapSinks()
	r.state.Release()
	r.release()
}

// reset prepares for a newly received message.
func (r *Request) reset(n int) {
	r.n = n
	r.phase = received
	r.msg = nil
	r.hasData, r.pulled, r.canInv = false, false, false
	r.dataPos, r.dataLen = 0, 0
}
