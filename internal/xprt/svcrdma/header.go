package svcrdma

import "example.org/nfsrdma/internal/rpcrdma"

// header decodes what was received. False: the request has ended, or waits for its long message.
func (t *Thread) header(r *Request) bool {
	c := r.conn
	b := r.recv[:r.n]
	n, err := rpcrdma.ConsumeHeader(b, &r.h, 0)
	if err != nil {
		if f := c.x.cfg.TraceMsg; f != nil {
			f(r, false, nil, b)
		}
		t.badHeader(r, err)
		return false
	}
	if f := c.x.cfg.TraceMsg; f != nil {
		f(r, false, &r.h, b[n:])
	}
	switch r.h.Proc {
	case rpcrdma.RDMA_MSG:
		r.msg = b[n:]
	case rpcrdma.RDMA_NOMSG:
		c.n.nomsgCall.Add(1)
	case rpcrdma.RDMA_MSGP: // RFC 8166 section 4.6.1
		c.n.msgp.Add(1)
		r.fail(t)
		return false
	case rpcrdma.RDMA_DONE: // RFC 8166 section 4.6.2
		c.n.done.Add(1)
		r.Drop()
		return false
	default: // RDMA_ERROR, RFC 8166 section 4.2.4
		c.n.rdmaError.Add(1)
		r.Drop()
		return false
	}
	if !r.checkChunks() {
		c.n.badChunk.Add(1)
		r.fail(t)
		return false
	}
	r.findInvKey()
	if r.h.Proc == rpcrdma.RDMA_NOMSG {
		return r.longStart(t)
	}
	return r.checkXID(t)
}

func (t *Thread) badHeader(r *Request, err error) {
	n := &r.conn.n
	code, ok := rpcrdma.ErrorReply(&r.h, err)
	switch {
	case ok && code == rpcrdma.ERR_VERS:
		n.badVers.Add(1)
	case ok || r.h.Proc == rpcrdma.RDMA_ERROR && r.n >= 16:
		n.badHeader.Add(1)
	default:
		n.short.Add(1)
	}
	if !ok {
		r.Drop()
		return
	}
	r.sendError(t, code)
}

// checkXID compares the two XIDs of a call (RFC 8166 section 4.2.1), and drops what is no call.
func (r *Request) checkXID(t *Thread) bool {
	n := &r.conn.n
	if len(r.msg) < 8 {
		return true // the upper layer answers, or drops it
	}
	if be32(r.msg) != r.h.XID {
		n.badXID.Add(1)
		r.fail(t)
		return false
	}
	if be32(r.msg[4:]) == 1 { // a REPLY: reverse-direction operation was not agreed on (RFC 8167)
		n.reverse.Add(1)
		r.Drop()
		return false
	}
	return true
}

// longLen is the length of the position-zero Read chunk.
func (r *Request) longLen() uint64 {
	var n uint64
	for i := range r.h.Reads {
		if r.h.Reads[i].Position == 0 {
			n += uint64(r.h.Reads[i].Length)
		}
	}
	return n
}

// longStart takes an RDMA_NOMSG call on: memory, READs, message. True when the message is there.
func (r *Request) longStart(t *Thread) bool {
	n := int(r.longLen())
	if r.longMsg == nil {
		r.phase = longRead
		b, err := r.conn.x.long.get(n, r, &r.longMsg)
		if err != nil {
			r.fail(t)
			return false
		}
		if b == nil {
			return false
		}
		r.longMsg = b
	}
	if r.msg == nil {
		b := r.longMsg
		r.msg = b.Bytes[:n:n]
		t.chain.mem = append(t.chain.mem[:0], b.Slice(0, n))
		r.pull(t, 0, t.chain.mem, uint64(n))
		return false
	}
	if f := r.conn.x.cfg.TraceMsg; f != nil {
		f(r, false, nil, r.msg)
	}
	if r.hasData && uint64(r.dataPos) > uint64(len(r.msg)) {
		r.conn.n.badChunk.Add(1)
		r.fail(t)
		return false
	}
	return r.checkXID(t)
}

// checkChunks checks a call's chunk lists, before anything is allocated or multiplied, as far as the lists
// tell: an RDMA_NOMSG has its message in a position-zero Read chunk and RDMA_MSG has none (RFC 8166 sections 3.5.3,
// 4.2.4); at most one chunk holds a data item (RFC 8267 section 6.4.2), within the message; no chunk is longer than what is served.
func (r *Request) checkChunks() bool {
	c := r.conn
	var long uint64
	var nlong, ndata int
	for i := range r.h.Reads {
		s := &r.h.Reads[i]
		switch {
		case s.Position == 0:
			nlong++
			long += uint64(s.Length)
		case ndata > 0 && s.Position != r.dataPos && !isPlanted(BugOverlap):
			return false
		default:
			ndata++
			r.dataPos = s.Position
			r.dataLen += uint64(s.Length)
		}
	}
	r.hasData = ndata > 0
	most := uint64(c.x.cfg.MaxPayload)
	isLong := r.h.Proc == rpcrdma.RDMA_NOMSG
	switch {
	case isLong != (nlong > 0), isLong && long == 0 && !isPlanted(BugUnderflow), long > most+headRoom:
		return false
	case r.dataLen > most+3: // with its pad
		return false
	case r.hasData && !isLong && uint64(r.dataPos) > uint64(len(r.msg)):
		return false
	case len(r.h.Reads) > 0 && c.ord == 0: // a READ would never be sent
		return false
	}
	if c.x.cfg.RejectEmptyWriteChunk {
		for i := range r.h.Writes.Len() {
			if len(r.h.Writes.Chunk(i)) == 0 {
				return false
			}
		}
	}
	return true
}

// findInvKey finds the key that all chunks have in common, which the reply may invalidate (RFC 8797 section 4.1).
func (r *Request) findInvKey() {
	if !r.conn.inv {
		return
	}
	var key uint32
	n, same := 0, true
	see := func(k uint32) {
		same = same && (n == 0 || k == key)
		key = k
		n++
	}
	for i := range r.h.Reads {
		see(r.h.Reads[i].Handle)
	}
	for i := range r.h.Writes.Len() {
		for _, s := range r.h.Writes.Chunk(i) {
			see(s.Handle)
		}
	}
	for i := range r.h.Reply {
		see(r.h.Reply[i].Handle)
	}
	r.inv, r.canInv = key, n > 0 && same
}
