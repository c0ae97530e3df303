package xprtrdma

import (
	"errors"
	"fmt"

	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/verbs"
)

// received handles a receive completion. Whatever has come, its buffer is posted again, at once or
// when the caller has read it.
func (e *ep) received(wc *verbs.WC) {
	x := e.x
	r := int32(wc.ID)
	if wc.Status != verbs.Success {
		// The buffer stays with the queue pair until its end.
		e.Disconnect(&verbs.WCError{Status: wc.Status, Op: verbs.OpRecv})
		return
	}
	x.recv.reps[r].posted = false
	x.stats.recvs.Add(1)
	x.stats.bytesRecv.Add(uint64(wc.ByteLen))
	if !e.reply(r, x.recv.buf(r)[:wc.ByteLen], wc) {
		x.recv.release(e, r)
	}
}

// reply matches a message with its call. It gives true if the caller keeps the buffer.
func (e *ep) reply(r int32, msg []byte, wc *verbs.WC) (kept bool) {
	x := e.x
	h := &e.hdr
	n, err := rpcrdma.ConsumeHeader(msg, h, 2*(x.reg.maxSegs()+2))
	var q *Req
	switch {
	case errors.Is(err, rpcrdma.ErrShort) || h.Proc == rpcrdma.RDMA_DONE:
		x.stats.badReply.Add(1) // RFC 8166 sections 4.5 and 4.6.2: dropped
	case err == nil && h.Proc == rpcrdma.RDMA_MSG && isCall(msg[n:]):
		x.stats.bcall.Add(1) // no backchannel here; its credits are of the other direction (RFC 8167)
	default:
		q = x.claim(e, h.XID)
	}
	if x.cfg.Trace != nil {
		x.traceReply(q, h, n, err, msg)
	}
	if q == nil {
		return false
	}
	if err == nil {
		err = q.check(e, h, msg, n)
	} else {
		err = fmt.Errorf("%w: %w", ErrBadReply, err)
	}
	if err != nil && errors.Is(err, ErrBadReply) {
		x.stats.badReply.Add(1)
		if x.cfg.BadReply == BadReplyDrop && wc.Flags&verbs.WCWithInv == 0 {
			q.unclaim(e)
			return false
		}
		e.credits.Release(1)
	} else {
		x.stats.replies.Add(1)
		e.grant(h.Credits)
	}
	q.err = err
	if err == nil && h.Proc == rpcrdma.RDMA_MSG {
		q.rep, q.repOff, q.repLen = r, n, len(msg)-n
		kept = true
	}
	e.finish(q, wc)
	return kept
}

// isCall says whether an RPC message is a call, which on this connection only the server would send.
func isCall(b []byte) bool {
	_, t, n := rpc.ConsumeMsgType(b)
	return n > 0 && t == rpc.CALL
}

// claim finds the slot of an XID and takes it over. A call that its caller has given up is settled here.
func (x *Xprt) claim(e *ep, xid uint32) *Req {
	i := xid & (1<<x.xidBits - 1)
	if int(i) >= len(x.reqs) {
		x.stats.badXIDs.Add(1)
		return nil
	}
	q := &x.reqs[i]
	for {
		w := q.word.Load()
		if !sameCall(w, makeWord(xid, e.gen, 0)) {
			x.stats.badXIDs.Add(1)
			return nil
		}
		switch stateOf(w) {
		case waiting:
			if q.become(w, claimed) {
				return q
			}
		case cancelling:
			if q.become(w, departed) {
				e.credits.Release(1)
				return nil
			}
		case abandoned:
			if q.become(w, idle) {
				e.credits.Release(1)
				x.slots.Give(q.slot)
				return nil
			}
		default:
			x.stats.badXIDs.Add(1) // answered already
			return nil
		}
	}
}

// unclaim drops a reply: the call goes on waiting.
func (q *Req) unclaim(e *ep) {
	q.word.Store(makeWord(q.xid, e.gen, waiting))
	q.w.Wake() // its caller may have given up meanwhile
	if e.dead.Load() {
		q.connectionLost(e)
	}
}

// grant takes the credits of a valid reply: one call less is outstanding, and the window may
// have changed (RFC 8166 section 3.3.1). No grant stops the mount, none exceeds the slots.
func (e *ep) grant(credits uint32) {
	if !e.valid.Load() {
		e.valid.Store(true)
	}
	old := e.granted.Load()
	now := int32(min(max(credits, 1), uint32(len(e.x.reqs))))
	if now != old {
		e.granted.Store(now)
	}
	e.credits.Release(1 + int(now-old))
}

// check compares a reply with what was sent (RFC 8166 sections 4.3 and 4.5).
func (q *Req) check(e *ep, h *rpcrdma.Header, msg []byte, n int) error {
	q.sinkLen, q.inLen = -1, 0
	switch h.Proc {
	case rpcrdma.RDMA_ERROR:
		return &RDMAError{Code: h.Err, Low: h.Low, High: h.High}
	case rpcrdma.RDMA_MSG, rpcrdma.RDMA_NOMSG:
	default:
		return badReply("%v", h.Proc)
	}
	if len(h.Reads) > 0 {
		return badReply("Read list of %d segments", len(h.Reads))
	}
	if h.Writes.Len() != q.hdr.Writes.Len() {
		return badReply("Write list of %d chunks, %d offered", h.Writes.Len(), q.hdr.Writes.Len())
	}
	if h.Writes.Len() == 1 {
		written, ok := returned(q.hdr.Writes.Chunk(0), h.Writes.Chunk(0))
		if !ok {
			return badReply("Write chunk is not the one offered")
		}
		q.sinkLen = written
	}
	inReply := 0
	if h.HasReply {
		var ok bool
		if inReply, ok = returned(q.hdr.Reply, h.Reply); !ok || !q.hdr.HasReply {
			return badReply("Reply chunk is not the one offered")
		}
	}
	rpcMsg := msg[n:]
	if h.Proc == rpcrdma.RDMA_NOMSG {
		if len(rpcMsg) > 0 || !h.HasReply {
			return badReply("RDMA_NOMSG with %d bytes behind the header, Reply chunk %t", len(rpcMsg), h.HasReply)
		}
		q.inLen = inReply
		return nil // the message itself is looked at when its memory is fenced
	}
	if inReply > 0 {
		return badReply("RDMA_MSG with %d bytes in the Reply chunk", inReply)
	}
	return q.checkMessage(rpcMsg)
}

// checkMessage looks at the head of an RPC reply (RFC 8166 section 4.2.1).
func (q *Req) checkMessage(b []byte) error {
	xid, t, n := rpc.ConsumeMsgType(b)
	switch {
	case n < 0:
		return badReply("RPC message of %d bytes", len(b))
	case xid != q.xid:
		return badReply("RPC XID 0x%08x under RDMA XID 0x%08x", xid, q.xid)
	case t != rpc.REPLY:
		return badReply("RPC message type %d", t)
	}
	return nil
}

// returned compares a chunk with the one offered, and gives the bytes written to it: the same
// segments, none longer, and nothing behind one that was not filled.
func returned(offered, got []rpcrdma.Segment) (n int, ok bool) {
	if len(got) != len(offered) {
		return 0, false
	}
	full := true
	for i := range got {
		o, g := &offered[i], &got[i]
		if g.Handle != o.Handle || g.Offset != o.Offset || g.Length > o.Length || g.Length > 0 && !full {
			return 0, false
		}
		n += int(g.Length)
		full = g.Length == o.Length
	}
	return n, true
}

// finish fences the memory of an answered call and wakes its caller.
func (e *ep) finish(q *Req, wc *verbs.WC) {
	reg := e.x.reg
	after := q.plan.after
	if wc.Flags&verbs.WCWithInv != 0 {
		e.x.stats.remoteInv.Add(1)
	}
	if wc.Flags&verbs.WCWithInv != 0 && !reg.invalidated(q, wc.InvKey) {
		// RFC 8797 section 4.1: the key must be one of this call. Whose it was is not known.
		q.err = badReply("Send With Invalidate of key 0x%08x, which is not of this call", wc.InvKey)
		e.x.stats.badReply.Add(1)
		e.Disconnect(q.err)
		q.fence.Store(fenceBroken)
		q.setState(e, replied)
		q.w.Wake()
		return
	}
	if after > 0 {
		q.inv = q.inv[:0]
		reg.fenceWRs(q)
		if n := len(q.inv); n > 0 {
			e.x.stats.localInv.Add(1)
			e.sq.Release(after - n)
			if e.x.async {
				e.postLoose(q)
				q.setState(e, replied)
				q.w.Wake()
				return
			}
			q.fence.Store(fencePending)
			q.setState(e, fencing)
			e.postFence(q)
			return
		}
		e.sq.Release(after)
	}
	q.setState(e, replied)
	q.w.Wake()
}

func (q *Req) setState(e *ep, state uint8) { q.word.Store(makeWord(q.xid, e.gen, state)) }
