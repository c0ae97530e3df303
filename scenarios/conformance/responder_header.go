package conformance

import (
	"encoding/binary"
	"fmt"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/rpcrdma"
)

func xidsMustAgree(r *responderRun) {
	h := r.header(rpcrdma.RDMA_MSG)
	h.XID += 0x100
	msg := append(rpcrdma.AppendHeader(nil, h), r.rpcCall(h.XID+1, nfs3.NULL, nil)...)
	r.send(msg)
	a := r.answer()
	r.want(a.h.XID == h.XID && a.h.Proc == rpcrdma.RDMA_ERROR, "a call whose XIDs differ is answered with %v", a)
	a = r.null()
	r.want(a.h.Vers == 1, "version %d", a.h.Vers)
}

func nomsgNeedsPayload(r *responderRun) {
	noMessage := func(what string, proc rpcrdma.Proc, add func(*rpcrdma.Header)) {
		r.each(what, func() {
			r.conn()
			h := r.header(proc)
			add(h)
			r.wantErrChunk(r.exchange(h, r.rpcCall(h.XID, nfs3.NULL, nil)))
		})
	}
	noMessage("RDMA_NOMSG without a chunk", rpcrdma.RDMA_NOMSG, func(*rpcrdma.Header) {})
	noMessage("RDMA_NOMSG with a Reply chunk alone", rpcrdma.RDMA_NOMSG, func(h *rpcrdma.Header) {
		h.HasReply, h.Reply = true, []rpcrdma.Segment{seg(r.mem(4096, sink), 0, 4096)}
	})
	reads := func(pos uint32, n int) func(*rpcrdma.Header) {
		return func(h *rpcrdma.Header) {
			h.Reads = []rpcrdma.ReadSegment{{Position: pos, Segment: seg(r.mem(4096, source), 0, n)}}
		}
	}
	noMessage("RDMA_NOMSG with a Read chunk that is not at zero", rpcrdma.RDMA_NOMSG, reads(4, 4096))
	noMessage("a position-zero chunk without bytes", rpcrdma.RDMA_NOMSG, reads(0, 0))
	noMessage("RDMA_MSG with a position-zero chunk", rpcrdma.RDMA_MSG, reads(0, 100))
}

func dropsRDMAError(r *responderRun) {
	for range 2 {
		h := r.header(rpcrdma.RDMA_ERROR)
		h.Err = rpcrdma.ERR_CHUNK
		r.wantSilence(append(rpcrdma.AppendHeader(nil, h), make([]byte, 16)...), "RDMA_ERROR")
	}
}

// shortLengths are lengths of messages that are shorter than a header, bytes.
var shortLengths = []int{0, 3, 4, 12, 15, 16, 20, 24, 27}

func dropsShort(r *responderRun) {
	full := rpcrdma.AppendHeader(nil, r.header(rpcrdma.RDMA_MSG))
	for _, n := range shortLengths {
		r.wantSilence(full[:n], fmt.Sprintf("%d bytes", n))
	}
}

// shortFlood sends more messages that are to be dropped than any server posts receives.
func shortFlood(r *responderRun) {
	const flood = 300
	h := r.header(rpcrdma.RDMA_MSG)
	full := rpcrdma.AppendHeader(nil, h)
	old := r.header(rpcrdma.RDMA_ERROR)
	old.Err = rpcrdma.ERR_VERS
	for i := range flood {
		switch i % 3 {
		case 0:
			r.send(full[:i%21]) // shorter than any header
		case 1:
			r.send(rpcrdma.AppendHeader(nil, old))
		default:
			r.send(nil)
		}
	}
	n, last := r.strays()
	r.want(n == 0, "%d of %d messages are answered, with %s", n, flood, last)
}

func errorsCarryXIDAndVersion(r *responderRun) {
	for _, vers := range []uint32{0, 2, 1 << 31} {
		h := r.header(rpcrdma.RDMA_MSG)
		h.Vers = vers
		b := r.errVers(h)
		r.must(len(b) >= 8, "the answer to version %d has %d bytes", vers, len(b))
		r.want(binary.BigEndian.Uint32(b) == h.XID, "the answer to version %d has XID %x, not %x", vers, b[:4], h.XID)
		r.want(binary.BigEndian.Uint32(b[4:]) == vers, "the answer to version %d has version %d", vers, binary.BigEndian.Uint32(b[4:]))
	}
	h := r.header(9)
	a := r.exchange(h, make([]byte, 40))
	r.wantErr(a, rpcrdma.ERR_CHUNK, "an unknown rdma_proc")
}

// errVers sends a header of another version, and gives the answer's bytes.
func (r *responderRun) errVers(h *rpcrdma.Header) []byte {
	r.conn()
	r.send(append(rpcrdma.AppendHeader(nil, h), r.rpcCall(h.XID, nfs3.NULL, nil)...))
	return r.recv().Bytes
}

func errVersRange(r *responderRun) {
	h := r.header(rpcrdma.RDMA_MSG)
	h.Vers = 2
	b := r.errVers(h)
	r.must(len(b) == 28, "ERR_VERS of %d bytes", len(b))
	w := make([]uint32, 7)
	for i := range w {
		w[i] = binary.BigEndian.Uint32(b[4*i:])
	}
	r.want(w[2] > 0, "C02: no credit")
	r.want(w[3] == uint32(rpcrdma.RDMA_ERROR) && w[4] == uint32(rpcrdma.ERR_VERS), "proc %d, error %d", w[3], w[4])
	r.want(w[5] == 1 && w[6] == 1, "versions %d to %d", w[5], w[6])
	r.null()
}

func headerErrors(r *responderRun) {
	bad := func(what string, spoil func(b []byte) []byte) {
		r.each(what, func() {
			r.conn()
			h := r.header(rpcrdma.RDMA_MSG)
			r.send(spoil(append(rpcrdma.AppendHeader(nil, h), r.rpcCall(h.XID, nfs3.NULL, nil)...)))
			r.wantErrChunk(r.answer())
		})
	}
	bad("a flag of 2", func(b []byte) []byte {
		binary.BigEndian.PutUint32(b[16:], 2) // a list's, which is no bool
		return b
	})
	bad("a Write list that ends early", func(b []byte) []byte {
		binary.BigEndian.PutUint32(b[20:], 1) // the chunk is not there
		return b[:rpcrdma.MinHeaderLen]
	})
}

func garbageArgs(r *responderRun) {
	h := r.header(rpcrdma.RDMA_MSG)
	a := r.exchange(h, r.rpcCall(h.XID, nfs3.GETATTR, []byte{0, 0, 0, 99}))
	r.want(a.h.Proc == rpcrdma.RDMA_MSG && a.rpc.Accept == rpc.GARBAGE_ARGS, "a file handle of 99 bytes: %v", a)
	r.null()
}

func msgpRefused(r *responderRun) {
	h := r.header(rpcrdma.RDMA_MSGP)
	h.Align, h.Thresh = 4096, 100
	r.wantErrChunk(r.exchange(h, r.rpcCall(h.XID, nfs3.NULL, nil)))
}

func dropsDone(r *responderRun) {
	for _, pad := range []int{0, 12, 100} {
		h := r.header(rpcrdma.RDMA_DONE)
		r.wantSilence(append(rpcrdma.AppendHeader(nil, h), make([]byte, pad)...), "RDMA_DONE")
	}
}

// dropsReplies sends replies: to no call, and to the call before, whose XID is known.
func dropsReplies(r *responderRun) {
	xid := r.null().h.XID
	for _, x := range []uint32{xid, xid + 0x1000} {
		h := r.header(rpcrdma.RDMA_MSG)
		h.XID, h.Credits = x, 0
		r.wantSilence(append(rpcrdma.AppendHeader(nil, h), rpc.AppendReplySuccess(nil, x)...), "an RPC reply of the requester")
	}
}
