package xprttcp

import (
	"errors"
	"io"

	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/xdr"
)

// read is the reader's task.
func (e *ep) read() {
	for {
		if err := e.next(); err != nil {
			e.Disconnect(err)
			return
		}
	}
}

// next reads a record and matches it with its call. An error ends the connection.
func (e *ep) next() error {
	if err := e.rd.Next(); err != nil {
		return err
	}
	x := e.x
	x.stats.recvs.Add(1)
	first := e.first[:]
	if err := e.rd.Full(first); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			x.stats.badReply.Add(1)
			return badReply("record of less than %d bytes", len(first))
		}
		return err
	}
	x.stats.bytesRecv.Add(uint64(rpc.RecordMarkLen + len(first)))
	xid, t, _ := rpc.ConsumeMsgType(first)
	if t != rpc.REPLY {
		x.stats.bcall.Add(1) // no backchannel here
		return nil
	}
	i := xid & (1<<x.xidBits - 1)
	if int(i) >= len(x.reqs) || !x.reqs[i].claim(e, xid) {
		x.stats.badXIDs.Add(1)
		return nil
	}
	q := &x.reqs[i]
	if err := e.reply(q, first); err != nil {
		q.answered(false)
		return err
	}
	if q.err == nil && !e.valid.Load() {
		e.valid.Store(true)
	}
	if x.cfg.Trace != nil {
		q.traceReply()
	}
	q.answered(true)
	return nil
}

// reply reads a reply whose first bytes have been read. What is wrong with it alone is q.err.
func (e *ep) reply(q *Req, first []byte) error {
	limit := q.MaxReply + rpc.MaxAuthLen + xdr.Roundup(len(q.Sink))
	left, whole := e.rd.Len()
	n := len(first) + left
	q.n = 0
	switch {
	case n > limit:
		return e.tooLong(q, n, limit)
	case !whole:
		return e.fragments(q, first, limit)
	case len(q.Sink) > 0 && q.SinkHead != nil && n > q.MaxReply:
		return e.withSink(q, first, n)
	}
	b := q.room(n)
	if err := e.rd.Full(b[copy(b, first):]); err != nil {
		return err
	}
	q.n = n
	e.x.stats.bytesRecv.Add(uint64(left))
	return nil
}

func (e *ep) tooLong(q *Req, n, limit int) error {
	e.x.stats.badReply.Add(1)
	q.err = badReply("reply of %d bytes, at most %d", n, limit)
	return e.rd.Skip()
}

// withSink reads a reply of n bytes, the result at its end into Sink.
func (e *ep) withSink(q *Req, first []byte, n int) error {
	b := q.room(q.MaxReply)
	if err := e.rd.Full(b[copy(b, first):]); err != nil {
		return err
	}
	pos, count, ok := q.SinkHead(b)
	if !ok || pos > len(b) || uint64(count) > uint64(len(q.Sink)) || pos+xdr.Roundup(int(count)) != n {
		// An error, or a longer verifier than usual: all of it goes to memory, and is sorted out there.
		b = q.room(n)
		if err := e.rd.Full(b[q.MaxReply:]); err != nil {
			return err
		}
		q.n = n
		return nil
	}
	data := q.Sink[:count]
	if err := e.rd.Full(data[copy(data, b[pos:]):]); err != nil {
		return err
	}
	q.n, q.sunk = pos, int(count)
	e.x.stats.bytesRecv.Add(uint64(n - len(first)))
	return e.rd.Skip()
}

// fragments reads a reply of unknown length.
func (e *ep) fragments(q *Req, first []byte, limit int) error {
	b := q.room(limit)
	n := copy(b, first)
	for n < limit {
		m, err := e.rd.Read(b[n:])
		n += m
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	var one [1]byte
	if m, err := e.rd.Read(one[:]); m > 0 {
		return e.tooLong(q, n+m, limit)
	} else if err != io.EOF {
		return err
	}
	q.n = n
	e.x.stats.bytesRecv.Add(uint64(n - len(first)))
	return nil
}

// room gives the slot's reply memory, n bytes of it; what is in it stays.
func (q *Req) room(n int) []byte {
	if n > len(q.reply) {
		b := make([]byte, max(n, 512))
		copy(b, q.reply)
		q.reply = b
	}
	return q.reply[:n:n]
}
