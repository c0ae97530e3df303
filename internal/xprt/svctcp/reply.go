package svctcp

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"

	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xdr"
	"example.org/nfsrdma/internal/xprt/svc"
)

// Reply is the answer of a slot.
type Reply struct {
	up   svc.Reply
	r    *Request
	head []byte  // the record's mark, and room for a short message
	buf  *Buffer // holds Msg, or data
	long bool    // buf holds Msg
	data []svc.Mem
	n    int // bytes of data
	size int // of the record
}

func (p *Reply) init(r *Request) {
	p.r = r
	p.head = make([]byte, rpc.RecordMarkLen+r.conn.x.cfg.Inline)
	p.up = svc.Reply{State: r.conn.x.cfg.NewReplyState(), Sender: p}
}

func (p *Reply) reset() *svc.Reply {
	p.data, p.n, p.long = p.data[:0], 0, false
	p.up.Msg = p.head[rpc.RecordMarkLen:rpc.RecordMarkLen]
	return &p.up
}

// UseBuffer lets Msg be as long as the memory that Need gave.
func (p *Reply) UseBuffer(svc.Request) {
	p.buf, p.r.mem, p.long = p.r.mem, nil, true
	p.up.Msg = p.buf.Bytes[:0]
}

// Room is how long Msg may become.
func (p *Reply) Room() int { return cap(p.up.Msg) }

// EndWithItem does nothing: the item follows the message.
func (p *Reply) EndWithItem() {}

// AddData lends a piece of the data item.
func (p *Reply) AddData(m svc.Mem) {
	if m.Len > 0 {
		p.data = append(p.data, m)
		p.n += int(m.Len)
	}
}

// AddBuffer adds the first n bytes of the memory that Need gave.
func (p *Reply) AddBuffer(_ svc.Request, n int) {
	p.buf, p.r.mem = p.r.mem, nil
	p.AddData(svc.Mem{Bytes: p.buf.Bytes[:n:n], Len: uint32(n)})
}

// Discard gives up a reply that will not be sent.
func (p *Reply) Discard() {
	p.up.State.Release()
	p.buf.put()
	p.buf = nil
	clear(p.data)
	p.data, p.up.Msg = p.data[:0], nil
}

// Send queues the reply for the writer.
func (p *Reply) Send(_ *svc.Thread, req svc.Request) {
	r := req.(*Request)
	c := r.conn
	p.size = len(p.up.Msg) + xdr.Roundup(p.n)
	if f := c.x.cfg.TraceMsg; f != nil {
		f(r, true, p.up.Msg)
	}
	if r.hasData && !r.pulled {
		c.skip()
		r.pulled = true
	}
	// The call's own memory is not needed any more, however long its reply takes.
	r.release()
	if !c.out.push(p) {
		p.done()
	}
}

// done takes the reply back when it is sent, or cannot be.
func (p *Reply) done() {
	p.Discard()
	p.r.end()
}

var zeros [4]byte

// appendTo adds the record to what is to be written.
func (p *Reply) appendTo(v net.Buffers) net.Buffers {
	mark := p.head[:rpc.RecordMarkLen]
	rpc.PutRecordMark(mark, p.size, true)
	msg := p.up.Msg
	if !p.long && len(msg) <= len(p.head)-rpc.RecordMarkLen && len(msg) > 0 && &msg[0] == &p.head[rpc.RecordMarkLen] {
		v = append(v, p.head[:rpc.RecordMarkLen+len(msg)])
	} else {
		v = append(v, mark, msg)
	}
	for i := range p.data {
		v = append(v, p.data[i].Bytes[:p.data[i].Len])
	}
	if pad := xdr.Pad(p.n); pad > 0 {
		v = append(v, zeros[:pad])
	}
	return v
}

// outQueue has the replies of a connection that are to be sent.
type outQueue struct {
	wake sched.Waiter

	mu     sync.Mutex
	list   []*Reply
	closed bool

	// Of the writer.
	batch []*Reply
	iov   net.Buffers
	bufs  net.Buffers // what is left of iov
}

// push queues p; false if nothing is sent any more.
func (q *outQueue) push(p *Reply) bool {
	q.mu.Lock()
	closed := q.closed
	if !closed {
		q.list = append(q.list, p)
	}
	first := len(q.list) == 1
	q.mu.Unlock()
	if first && !closed {
		q.wake.Wake()
	}
	return !closed
}

// take moves what is queued to batch, up to so many bytes but at least one.
func (q *outQueue) take() {
	const most = 1 << 20
	q.mu.Lock()
	defer q.mu.Unlock()
	size, n := 0, 0
	for n < len(q.list) && (n == 0 || size+q.list[n].size <= most) {
		size += q.list[n].size
		n++
	}
	q.batch = append(q.batch[:0], q.list[:n]...)
	m := copy(q.list, q.list[n:])
	clear(q.list[m:])
	q.list = q.list[:m]
}

// close gives what is left.
func (q *outQueue) close() []*Reply {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	return q.list
}

// write is the writer's task.
func (c *Conn) write() {
	err := c.writeAll()
	if errors.Is(err, os.ErrDeadlineExceeded) && !c.closing.Load() {
		c.n.stalled.Add(1)
	}
	c.becomeClosing(err)
	for _, p := range c.out.close() {
		p.done()
	}
}

func (c *Conn) writeAll() error {
	q := &c.out
	for !c.closing.Load() {
		q.take()
		if len(q.batch) == 0 {
			if err := q.wake.Wait(context.Background()); err != nil {
				return err
			}
			continue
		}
		if err := c.writeBatch(); err != nil {
			return err
		}
	}
	return c.Why()
}

// writeBatch writes a batch, which ends it, whether it succeeds or not.
func (c *Conn) writeBatch() error {
	q := &c.out
	q.iov = q.iov[:0]
	size := 0
	for _, p := range q.batch {
		q.iov = p.appendTo(q.iov)
		size += rpc.RecordMarkLen + p.size
	}
	q.bufs = q.iov
	if c.x.cfg.Stall > 0 {
		c.sc.WriteTimeout(c.x.cfg.Stall)
	}
	err := c.sc.Write(&q.bufs)
	if err == nil {
		c.n.writes.Add(1)
		c.n.sent.Add(uint64(len(q.batch)))
		c.n.sentBytes.Add(uint64(size))
	}
	clear(q.iov)
	for i, p := range q.batch {
		q.batch[i] = nil
		p.done()
	}
	return err
}
