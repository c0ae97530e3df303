package svctcp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xdr"
	"example.org/nfsrdma/internal/xprt/stream"
	"example.org/nfsrdma/internal/xprt/svc"
)

// item is the data of a call that is still in the socket. The thread that serves the call decides on it; the reader
// waits for that.
type item struct {
	state   atomic.Uint32
	decided sched.Waiter

	// Set by the reader before the call is queued.
	early []byte // what of it has been read; in the memory of the request
	n     int    // bytes

	// Set by the thread before it decides to pull.
	r    *Request
	sink []svc.Mem
}

const (
	itemNone = iota
	itemOpen // not decided
	itemPull // into item.sink
	itemSkip // the call has ended without it
)

// errRecord is a record after which the connection cannot go on.
var errRecord = errors.New("bad record")

// read is the reader's task.
func (c *Conn) read() {
	err := c.readAll()
	if c.item.state.Swap(itemNone) == itemPull {
		c.item.r.Abort()
	}
	c.countEnd(err)
	c.becomeClosing(err)
}

// countEnd counts bad input.
func (c *Conn) countEnd(err error) {
	switch {
	case c.closing.Load():
	case errors.Is(err, stream.ErrTooLong):
		c.n.tooLong.Add(1)
	case errors.Is(err, stream.ErrFragments):
		c.n.fragments.Add(1)
	case errors.Is(err, stream.ErrTruncated):
		c.n.truncated.Add(1)
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.n.stalled.Add(1)
	case errors.Is(err, errRecord):
		c.n.short.Add(1)
	}
}

func (c *Conn) readAll() error {
	for {
		if err := c.rd.Next(); err != nil {
			return err
		}
		r, err := c.slot()
		if err != nil {
			return err
		}
		if err = c.record(r); err != nil {
			r.release()
			return err
		}
		if c.draining.Load() {
			c.n.dropped.Add(1)
			r.end()
			continue
		}
		open := r.hasData
		if open {
			c.item.r = r
			c.item.state.Store(itemOpen)
		}
		r.counted = true
		c.calls.Add(1)
		if err := c.admit(r); err != nil {
			return err
		}
		if open {
			if err = c.data(); err != nil {
				return err
			}
		}
	}
}

// admit hands r to the threads once the gate lets it pass.
func (c *Conn) admit(r *Request) error {
	ok := true
	if c.gate != nil {
		var err error
		if ok, err = c.gate.admit(r); err != nil {
			if r.hasData {
				c.item.state.Store(itemNone)
			}
			r.Abort()
			return err
		}
	}
	if ok {
		c.enqueue(r)
	}
	return nil
}

// slot gives a free request; when all are in use the connection is not read until one is free.
func (c *Conn) slot() (*Request, error) {
	if r, ok := c.idle.TryPop(); ok {
		return r, nil
	}
	if c.made < c.x.cfg.Slots {
		c.made++
		return newRequest(c), nil
	}
	c.n.slotWait.Add(1)
	return c.idle.Pop(context.Background())
}

// record reads a record into r, but for a data item that the upper layer may place.
func (c *Conn) record(r *Request) error {
	r.reset()
	n, whole := c.rd.Len()
	switch {
	case whole && n <= shortRecord:
		r.msg = r.short(n)
		if err := c.rd.Full(r.msg); err != nil {
			return err
		}
	case whole:
		if err := c.longRecord(r, n); err != nil {
			return err
		}
	default:
		if err := c.fragments(r); err != nil {
			return err
		}
	}
	c.n.recv.Add(1)
	c.n.recvBytes.Add(uint64(max(n, len(r.msg))))
	if len(r.msg) < 8 {
		return fmt.Errorf("%w: %d bytes", errRecord, len(r.msg))
	}
	r.xid = binary.BigEndian.Uint32(r.msg)
	if f := c.x.cfg.TraceMsg; f != nil {
		f(r, false, r.msg)
	}
	return nil
}

// longRecord reads the head of a record of n bytes, and the rest unless that is a data item.
func (c *Conn) longRecord(r *Request, n int) error {
	head := r.short(headLen)
	if err := c.rd.Full(head); err != nil {
		return err
	}
	pos, count, ok := c.x.cfg.DataAt(head)
	if ok && pos <= len(head) && count <= uint32(c.x.cfg.MaxPayload) && pos+xdr.Roundup(int(count)) == n {
		r.msg, r.pos, r.n, r.hasData = head[:pos:pos], pos, int(count), true
		c.item.early, c.item.n = head[pos:], int(count)
		return nil
	}
	b, err := c.x.long.wait(n)
	if err != nil {
		return err
	}
	c.rd.Restart()
	r.long = b
	r.msg = b.Bytes[:n:n]
	return c.rd.Full(r.msg[copy(r.msg, head):])
}

// fragments reads a record whose length is not known yet: into the slot's memory, or into the largest there is.
func (c *Conn) fragments(r *Request) error {
	b := r.short(shortRecord)
	n := 0
	for {
		m, err := c.rd.Read(b[n:])
		n += m
		switch {
		case err == io.EOF:
			r.msg = b[:n:n]
			return nil
		case err != nil:
			return err
		case n < len(b):
			continue
		case r.long != nil:
			r.msg = b
			return c.atEnd()
		}
		if r.long, err = c.x.long.wait(c.x.cfg.MaxPayload + headRoom); err != nil {
			return err
		}
		c.rd.Restart()
		copy(r.long.Bytes, b)
		b = r.long.Bytes[:c.x.cfg.MaxPayload+headRoom]
	}
}

// atEnd says whether the record, which has filled all there may be, ends here.
func (c *Conn) atEnd() error {
	var one [1]byte
	n, err := c.rd.Read(one[:])
	switch {
	case n > 0:
		return stream.ErrTooLong
	case err == io.EOF:
		return nil
	}
	return err
}

// data waits for the decision on a data item, and reads it.
func (c *Conn) data() error {
	it := &c.item
	for it.state.Load() == itemOpen {
		if err := it.decided.Wait(context.Background()); err != nil {
			return err
		}
		if c.closing.Load() {
			return c.Why()
		}
	}
	if it.state.Load() == itemSkip {
		it.state.Store(itemNone)
		return c.rd.Skip()
	}
	c.rd.Restart()
	early := it.early[:min(len(it.early), it.n)]
	for i := range it.sink {
		b := it.sink[i].Bytes[:it.sink[i].Len]
		n := copy(b, early)
		early = early[n:]
		if err := c.rd.Full(b[n:]); err != nil {
			return err
		}
	}
	if err := c.rd.Skip(); err != nil { // the pad
		return err
	}
	c.n.pulls.Add(1)
	it.state.Store(itemNone)
	c.enqueue(it.r)
	return nil
}

// pull is a thread's decision.
func (c *Conn) pull(r *Request, sink []svc.Mem) {
	it := &c.item
	it.sink = append(it.sink[:0], sink...)
	if !it.state.CompareAndSwap(itemOpen, itemPull) { // the reader has gone
		r.Abort()
		return
	}
	it.decided.Wake()
}

// skip is what is decided if the call ends first.
func (c *Conn) skip() {
	if c.item.state.CompareAndSwap(itemOpen, itemSkip) {
		c.item.decided.Wake()
	}
}

// isReply says whether msg is an RPC reply; reverse-direction operation was not agreed on (RFC 8167).
func isReply(msg []byte) bool {
	_, t, n := rpc.ConsumeMsgType(msg)
	return n > 0 && t == rpc.REPLY
}
