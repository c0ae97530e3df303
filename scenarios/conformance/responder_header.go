package conformance

import (
	"encoding/binary"

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
	r.want(a.h.XID == h.XID && a.h.Proc == rpcrdma.RDMA_ERROR, "a call whose XIDs differ is answered with %v", &a.h)
	a = r.null()
	r.want(a.h.Vers == 1, "version %d", a.h.Vers)
}

func nomsgNeedsPayload(r *responderRun) {
	mr := r.mem(4096, source|sink)
	for _, c := range []struct {
		what string
		proc rpcrdma.Proc
		h    rpcrdma.Header
	}{
		{"RDMA_NOMSG without a chunk", rpcrdma.RDMA_NOMSG, rpcrdma.Header{}},
		{"RDMA_NOMSG with a Reply chunk alone", rpcrdma.RDMA_NOMSG, rpcrdma.Header{HasReply: true, Reply: []rpcrdma.Segment{seg(mr, 0, 4096)}}},
		{"RDMA_NOMSG with a Read chunk that is not at zero", rpcrdma.RDMA_NOMSG, rpcrdma.Header{Reads: []rpcrdma.ReadSegment{{Position: 4, Segment: seg(mr, 0, 4096)}}}},
		{"a position-zero chunk without bytes", rpcrdma.RDMA_NOMSG, rpcrdma.Header{Reads: []rpcrdma.ReadSegment{{Segment: seg(mr, 0, 0)}}}},
		{"RDMA_MSG with a position-zero chunk", rpcrdma.RDMA_MSG, rpcrdma.Header{Reads: []rpcrdma.ReadSegment{{Segment: seg(mr, 0, 100)}}}},
	} {
		h := r.header(c.proc)
		h.Reads, h.HasReply, h.Reply = c.h.Reads, c.h.HasReply, c.h.Reply
		r.wantErr(r.exchange(h, r.rpcCall(h.XID, nfs3.NULL, nil)), rpcrdma.ERR_CHUNK, c.what)
	}
	r.null()
}

func dropsRDMAError(r *responderRun) {
	for range 4 {
		h := r.header(rpcrdma.RDMA_ERROR)
		h.Err = rpcrdma.ERR_CHUNK
		r.wantSilence(append(rpcrdma.AppendHeader(nil, h), make([]byte, 16)...), "RDMA_ERROR")
	}
}

func dropsShort(r *responderRun) {
	h := r.header(rpcrdma.RDMA_MSG)
	full := rpcrdma.AppendHeader(nil, h)
	for n := 4; n < 28; n += 4 { // more messages than receives: see F10 for their count
		r.wantSilence(full[:n], "a message shorter than a header")
	}
}

// shortFlood sends more short messages than any server posts receives.
func shortFlood(r *responderRun) {
	h := r.header(rpcrdma.RDMA_MSG)
	full := rpcrdma.AppendHeader(nil, h)
	old := r.header(rpcrdma.RDMA_ERROR)
	old.Err = rpcrdma.ERR_VERS
	for i := range 300 {
		switch i % 3 {
		case 0:
			r.send(full[:i%21]) // shorter than any header
		case 1:
			r.send(rpcrdma.AppendHeader(nil, old))
		default:
			r.send(nil)
		}
	}
	r.null()
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
	r.conn()
	h := r.header(rpcrdma.RDMA_MSG)
	b := append(rpcrdma.AppendHeader(nil, h), r.rpcCall(h.XID, nfs3.NULL, nil)...)
	binary.BigEndian.PutUint32(b[16:], 2) // a list's flag that is no bool
	r.send(b)
	r.wantErr(r.answer(), rpcrdma.ERR_CHUNK, "a flag of 2")

	h = r.header(rpcrdma.RDMA_MSG)
	b = rpcrdma.AppendHeader(nil, h)
	binary.BigEndian.PutUint32(b[20:], 1) // a Write list whose chunk is not there
	r.send(b)
	r.wantErr(r.answer(), rpcrdma.ERR_CHUNK, "a Write list that ends early")
}

func garbageArgs(r *responderRun) {
	h := r.header(rpcrdma.RDMA_MSG)
	a := r.exchange(h, r.rpcCall(h.XID, nfs3.GETATTR, []byte{0, 0, 0, 99}))
	r.want(a.h.Proc == rpcrdma.RDMA_MSG && a.rpc.Accept == rpc.GARBAGE_ARGS, "a file handle of 99 bytes: %v %v", &a.h, rpcOf(a))
	r.null()
}

func msgpRefused(r *responderRun) {
	h := r.header(rpcrdma.RDMA_MSGP)
	h.Align, h.Thresh = 4096, 100
	r.wantErr(r.exchange(h, r.rpcCall(h.XID, nfs3.NULL, nil)), rpcrdma.ERR_CHUNK, "RDMA_MSGP")
	r.null()
}

func dropsDone(r *responderRun) {
	for _, pad := range []int{0, 12, 100} {
		h := r.header(rpcrdma.RDMA_DONE)
		r.wantSilence(append(rpcrdma.AppendHeader(nil, h), make([]byte, pad)...), "RDMA_DONE")
	}
}

func dropsReplies(r *responderRun) {
	h := r.header(rpcrdma.RDMA_MSG)
	h.Credits = 0
	r.wantSilence(append(rpcrdma.AppendHeader(nil, h), rpc.AppendReplySuccess(nil, h.XID)...), "an RPC reply of the requester")
}
