package conformance

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"time"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/verbs"
)

// once hooks the next reply of the server. Another client is only sure to send a READ: it is the next reply to that.
func (r *requesterRun) once(f func(*outgoing)) {
	if r.client != nil {
		r.onceOf(nfs3.READ, f)
		return
	}
	done := false
	r.tap.hook(func(o *outgoing) {
		if !done {
			done = true
			f(o)
		}
	})
}

// message encodes a header with what follows it.
func message(h *rpcrdma.Header, body []byte) []byte {
	return append(rpcrdma.AppendHeader(nil, h), body...)
}

// copyHeader gives a header whose lists are its own.
func copyHeader(h *rpcrdma.Header) *rpcrdma.Header {
	c := &rpcrdma.Header{}
	if _, err := rpcrdma.ConsumeHeader(rpcrdma.AppendHeader(nil, h), c, 0); err != nil {
		panic(err) // h was decoded
	}
	return c
}

// badReply is a reply that breaks the rules of headers.
type badReply struct {
	what  string
	alter func(h *rpcrdma.Header, body []byte) []byte // gives what is sent instead
}

var badReplies = []badReply{
	{"a Read list (C21)", func(h *rpcrdma.Header, body []byte) []byte {
		h.Reads = []rpcrdma.ReadSegment{{Position: 4, Segment: rpcrdma.Segment{Handle: 1, Length: 4}}}
		return message(h, body)
	}},
	{"no Write list", func(h *rpcrdma.Header, body []byte) []byte {
		h.Writes.Reset()
		return message(h, body)
	}},
	{"a second Write chunk", func(h *rpcrdma.Header, body []byte) []byte {
		h.Writes.Add([]rpcrdma.Segment{{Handle: 1, Length: 4}})
		return message(h, body)
	}},
	{"another handle", func(h *rpcrdma.Header, body []byte) []byte {
		h.Writes.Chunk(0)[0].Handle++
		return message(h, body)
	}},
	{"another offset", func(h *rpcrdma.Header, body []byte) []byte {
		h.Writes.Chunk(0)[0].Offset += 8
		return message(h, body)
	}},
	{"a longer segment", func(h *rpcrdma.Header, body []byte) []byte {
		h.Writes.Chunk(0)[0].Length += 1 << 20
		return message(h, body)
	}},
	{"a Reply chunk", func(h *rpcrdma.Header, body []byte) []byte {
		h.HasReply, h.Reply = true, []rpcrdma.Segment{{Handle: 1, Length: 4}}
		return message(h, body)
	}},
	{"RDMA_NOMSG without Reply chunk", func(h *rpcrdma.Header, _ []byte) []byte {
		h.Proc = rpcrdma.RDMA_NOMSG
		return message(h, nil)
	}},
	{"RDMA_MSGP", func(h *rpcrdma.Header, body []byte) []byte {
		h.Proc = rpcrdma.RDMA_MSGP
		return message(h, body)
	}},
	{"another version", func(h *rpcrdma.Header, body []byte) []byte {
		h.Vers = 2
		return message(h, body)
	}},
	{"an unknown rdma_proc", func(h *rpcrdma.Header, body []byte) []byte {
		b := message(h, body)
		binary.BigEndian.PutUint32(b[12:], 77)
		return b
	}},
	{"another XID in the RPC reply (C18)", func(h *rpcrdma.Header, body []byte) []byte {
		b := append([]byte(nil), body...)
		b[0] ^= 0x80
		return message(h, b)
	}},
	{"a count of 2^28 segments", func(h *rpcrdma.Header, body []byte) []byte {
		b := message(h, body)
		binary.BigEndian.PutUint32(b[24:], 1<<28)
		return b
	}},
}

// noInv keeps the server from invalidating, so that a reply can be altered.
var noInv = nfsclient.Config{NoRemoteInvalidation: true, Timeout: 10 * time.Second}

func (b *badReply) apply(o *outgoing) { o.replace = b.alter(copyHeader(&o.h), o.body) }

// badReplyEndsCall wants EIO for each kind of bad reply, and the mount to work on.
func badReplyEndsCall(r *requesterRun) {
	r.start(fabricConfig{client: noInv})
	want := pattern(9000, 1)
	fh := r.file("f", want)
	for i := range badReplies {
		b := &badReplies[i]
		r.once(b.apply)
		n, err := r.readFile(fh, make([]byte, 9000))
		var re *nfsclient.RDMAError
		r.want(errors.Is(err, nfsclient.ErrBadReply) || errors.As(err, &re), "a reply with %s ends READ with %d bytes, %v", b.what, n, err)
		r.read(fh, 9000, want)
	}
}

// badReplyDropped wants the call to be sent again after its timeout.
func badReplyDropped(r *requesterRun) {
	c := noInv
	c.BadReply = nfsclient.BadReplyDrop
	r.start(fabricConfig{client: c})
	want := pattern(9000, 1)
	fh := r.file("f", want)
	for i := range badReplies {
		b := &badReplies[i]
		before := r.s.Now()
		r.once(b.apply)
		r.read(fh, 9000, want)
		r.want(r.s.Now().Sub(before).Std() >= c.Timeout, "a reply with %s: the call ends before it could be sent again", b.what)
	}
}

func badErrorDropped(r *requesterRun) {
	c := noInv
	c.BadReply = nfsclient.BadReplyDrop
	r.start(fabricConfig{client: c})
	want := pattern(9000, 1)
	fh := r.file("f", want)
	for _, n := range []int{16, 18, 20, 28} {
		before := r.s.Now()
		r.once(func(o *outgoing) {
			h := rpcrdma.Header{XID: o.h.XID, Vers: 1, Credits: 8, Proc: rpcrdma.RDMA_ERROR, Err: 99}
			o.replace = append(rpcrdma.AppendHeader(nil, &h), make([]byte, 12)...)[:n]
		})
		r.read(fh, 9000, want)
		r.want(r.s.Now().Sub(before).Std() >= c.Timeout, "an RDMA_ERROR of %d bytes with code 99 ends the call", n)
	}
}

// noRetransmission answers once with ERR_CHUNK and once with GARBAGE_ARGS.
func noRetransmission(r *requesterRun) {
	r.start(fabricConfig{client: noInv})
	fh := r.file("f", pattern(9000, 1))
	for _, garbage := range []bool{false, true} {
		r.tap.forget()
		r.once(func(o *outgoing) {
			h := copyHeader(&o.h)
			if garbage {
				o.replace = message(h, rpc.AppendReply(nil, &rpc.Reply{XID: h.XID, Accept: rpc.GARBAGE_ARGS}))
				return
			}
			h.SetError(rpcrdma.ERR_CHUNK)
			o.replace = rpcrdma.AppendHeader(nil, h)
		})
		n, err := r.readFile(fh, make([]byte, 9000))
		r.want(err != nil && n == 0, "garbage %t: READ gives %d bytes, %v", garbage, n, err)
		r.noErr(r.s.Sleep(r.ctx, 2*10*1e12), "sleep")
		r.want(len(r.calls()) == 1, "garbage %t: %d calls were sent", garbage, len(r.calls()))
	}
	r.read(fh, 9000, pattern(9000, 1))
}

// before has each reply of a while preceded by messages that are to be dropped, and wants calls to go on as if there were none.
func (r *requesterRun) before(calls int, msgs func(xid uint32) [][]byte) {
	want := pattern(9000, 1)
	fh := r.file("f", want)
	r.tap.forget()
	r.tap.hook(func(o *outgoing) { o.first = msgs(o.h.XID) })
	for range calls {
		r.read(fh, 9000, want)
	}
	r.tap.hook(nil)
	for _, m := range r.tap.sentBy(client) {
		r.want(m.conn == 1, "the connection was lost")
	}
	n := len(r.callsOf(nfs3.READ))
	r.want(n == calls, "%d calls of %d were sent", n, calls)
}

func requesterDropsShort(r *requesterRun) {
	r.start(fabricConfig{client: nfsclient.Config{Credits: 8}})
	r.before(200, func(xid uint32) [][]byte {
		full := rpcrdma.AppendHeader(nil, &rpcrdma.Header{XID: xid, Vers: 1, Credits: 1000})
		return [][]byte{full[:0], full[:12], full[:27]}
	})
}

func requesterDropsDone(r *requesterRun) {
	r.start(fabricConfig{client: nfsclient.Config{Credits: 8}})
	r.before(50, func(xid uint32) [][]byte {
		done := rpcrdma.AppendHeader(nil, &rpcrdma.Header{XID: xid, Vers: 1, Credits: 1000, Proc: rpcrdma.RDMA_DONE})
		return [][]byte{done, append(done, make([]byte, 12)...)}
	})
}

// uselessFlood is more messages that are dropped than receives are posted.
func uselessFlood(r *requesterRun) {
	r.start(fabricConfig{client: nfsclient.Config{Credits: 8}})
	bad := rpcrdma.AppendHeader(nil, &rpcrdma.Header{XID: 0xdead0000, Vers: 9, Credits: 1})
	unknown := append(rpcrdma.AppendHeader(nil, &rpcrdma.Header{XID: 0xdead0001, Vers: 1, Credits: 1}), rpc.AppendReplySuccess(nil, 0xdead0001)...)
	r.before(200, func(uint32) [][]byte { return [][]byte{nil, bad, unknown, bad[:20]} })
}

// callFromServer has the server make a call, which is of the other direction, under the XID of the client's own.
func callFromServer(r *requesterRun) {
	r.start(fabricConfig{client: nfsclient.Config{Credits: 8}})
	want := pattern(9000, 1)
	fh := r.file("f", want)
	credits := r.m.Negotiated().Credits
	r.tap.forget()
	r.tap.hook(func(o *outgoing) {
		call := rpc.AppendCall(nil, &rpc.Call{XID: o.h.XID, Prog: 0x40000000, Vers: 1})
		o.first = [][]byte{message(&rpcrdma.Header{XID: o.h.XID, Vers: 1, Credits: 1}, call)}
	})
	for range 20 {
		r.read(fh, 9000, want)
	}
	r.tap.hook(nil)
	r.want(r.m.Negotiated().Credits == credits, "%d credits, %d before", r.m.Negotiated().Credits, credits)
	r.want(len(r.calls()) == 20, "%d calls were sent", len(r.calls()))
	r.want(len(r.tap.conns) == 1, "the connection was lost")
}

// unusedMemory has the server write to all of a chunk, behind the result too.
func unusedMemory(r *requesterRun) {
	r.start(fabricConfig{client: nfsclient.Config{RegMode: nfsclient.FastReg}})
	want := pattern(5001, 1)
	fh := r.file("f", want)
	r.tap.forget()
	r.once(func(o *outgoing) {
		used := o.h.Writes.Chunk(0)[0]
		o.before = []verbs.SendWR{{Op: verbs.OpRDMAWrite, RKey: used.Handle, RemoteAddr: used.Offset + uint64(used.Length),
			SGEs: o.wr.SGEs[:1]}} // any bytes
	})
	r.read(fh, 16384, want)
	r.read(fh, 16384, want)
	r.want(len(r.tap.conns) == 1, "the connection was lost")
}

// lateWrite has the server write to a segment before its next reply.
func (r *requesterRun) lateWrite(s rpcrdma.Segment) {
	r.once(func(o *outgoing) {
		o.before = []verbs.SendWR{{Op: verbs.OpRDMAWrite, RKey: s.Handle, RemoteAddr: s.Offset, SGEs: o.wr.SGEs[:1]}}
	})
	r.null()
	r.want(len(r.tap.conns) == 2, "a write to memory that was taken back does not end the connection")
}

// chunkModes are the registration modes in which memory can be taken back.
var chunkModes = []nfsclient.RegMode{nfsclient.FastReg, nfsclient.Register}

func fencedAfterReply(r *requesterRun) {
	for _, mode := range chunkModes {
		for _, noInv := range []bool{false, true} {
			r.start(fabricConfig{client: nfsclient.Config{RegMode: mode, NoRemoteInvalidation: noInv}})
			want := pattern(9000, 1)
			fh := r.file("f", want)
			r.tap.forget()
			buf := make([]byte, 9000)
			_, err := r.readFile(fh, buf)
			r.noErr(err, "READ")
			segs := segments(&r.calls()[0].h)
			r.must(len(segs) > 0, "a READ of 9000 bytes has no chunk")
			r.lateWrite(segs[0])
			r.want(bytes.Equal(want, buf), "%v: memory changed after its call had ended", mode)
		}
	}
}

// cancelledRead makes a READ whose reply does not come, and gives it up.
func (r *requesterRun) cancelledRead(fh checked, buf []byte) {
	r.tap.forget()
	r.once(func(o *outgoing) { o.swallow = true })
	r.withContext(time.Second, func(ctx context.Context) {
		_, _, err := r.m.Read(ctx, fh.fh, 0, buf)
		r.want(errors.Is(err, context.DeadlineExceeded), "a READ that is given up: %v", err)
	})
	r.tap.hook(nil)
}

func fencedAfterCancel(r *requesterRun) {
	for _, mode := range chunkModes {
		r.start(fabricConfig{client: nfsclient.Config{RegMode: mode}})
		fh := r.file("f", pattern(9000, 1))
		buf := make([]byte, 9000)
		r.cancelledRead(fh, buf)
		segs := segments(&r.calls()[0].h)
		r.must(len(segs) > 0, "a READ of 9000 bytes has no chunk")
		want := pattern(9000, 7)
		copy(buf, want) // it is the caller's again
		r.lateWrite(segs[0])
		r.want(bytes.Equal(want, buf), "%v: memory changed after its call had been given up", mode)
	}
}
