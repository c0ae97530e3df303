package nfsserver_test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/xdr"
	"example.org/nfsrdma/internal/xprt/svcrdma/rawpeer"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/verbs"
)

// The tests of this file are named by the rows of the conformance checklist that they prove: RFC 8166
// (C01 to C38), RFC 8267 (C39 to C45) and RFC 8797 (C46 to C49), on the responder's side.

func TestC02NeverGrantsZeroCredits(t *testing.T) {
	e := newEnv(t, envOpt{cfg: nfsserver.Config{Credits: 1}})
	for _, asked := range []uint32{0, 1, 1 << 31} {
		h := e.header(rpcrdma.RDMA_MSG)
		h.Credits = asked
		a := e.send(h, e.rpcCall(h.XID, nfs3.NULL, nil))
		assert.EqualValues(t, 1, a.h.Credits)
	}
	h := e.header(rpcrdma.RDMA_MSGP) // errors grant too
	assert.EqualValues(t, 1, e.send(h, nil).h.Credits)
	h = e.header(rpcrdma.RDMA_MSG)
	h.Vers = 2
	assert.EqualValues(t, 1, binary.BigEndian.Uint32(e.rawAnswer(h)[8:]))
}

func TestC03ReceivesAreThereForEveryCredit(t *testing.T) {
	e := newEnv(t, envOpt{cfg: nfsserver.Config{Credits: 8}, peer: rawpeer.Config{Recvs: 100}})
	h := e.header(rpcrdma.RDMA_MSG)
	msg := append(rpcrdma.AppendHeader(nil, h), e.rpcCall(h.XID, nfs3.NULL, nil)...)
	// All credits at once, and one more call the moment each reply comes.
	for range 8 {
		require.NoError(t, e.peer.Post(msg, false))
	}
	for range 80 {
		assert.EqualValues(t, 8, e.answer().h.Credits)
		require.NoError(t, e.peer.Post(msg, false))
	}
	for range 8 {
		e.answer()
	}
	for _, c := range append(e.sdev.Counters(), e.cdev.Counters()...) {
		if strings.Contains(c.Name, "rnr") {
			assert.Zero(t, c.Value, c.Name)
		}
	}
}

func TestC06ThresholdIs1024Unnegotiated(t *testing.T) {
	e := newEnv(t, envOpt{noPrivate: true})
	fh := e.newFile("f", pattern(2000, 0))
	head := 28 + rpc.SuccessLen + nfs3.ReadResHeadLen
	most := uint32(1024 - head)
	h := e.header(rpcrdma.RDMA_MSG)
	a := e.send(h, e.rpcCall(h.XID, nfs3.READ, e.readArgs(fh, 0, most)))
	assert.Len(t, a.msg.Bytes, 1024)
	assert.Equal(t, pattern(2000, 0)[:most], e.readRes(a, false).Data)
	h = e.header(rpcrdma.RDMA_MSG)
	a = e.send(h, e.rpcCall(h.XID, nfs3.READ, e.readArgs(fh, 0, most+1)))
	e.wantError(a, h, rpcrdma.ERR_CHUNK)
	c := e.srv.Connections()
	require.Len(t, c, 1)
	assert.Equal(t, 1024, c[0].InlineSend)
	assert.False(t, c[0].RemoteInvalidation)
}

// readChunked reads with the given Write chunks.
func (e *env) readChunked(fh nfs3.FH, off uint64, n uint32, chunks ...[]rpcrdma.Segment) (*answer, *rpcrdma.Header) {
	e.t.Helper()
	h := e.header(rpcrdma.RDMA_MSG)
	for _, c := range chunks {
		h.Writes.Add(c)
	}
	return e.send(h, e.rpcCall(h.XID, nfs3.READ, e.readArgs(fh, off, n))), h
}

func TestC08CountStaysInline(t *testing.T) {
	e := newEnv(t, envOpt{})
	want := pattern(5001, 1)
	fh := e.newFile("f", want)
	mr := e.mem(8192, sink)
	a, _ := e.readChunked(fh, 0, 8192, []rpcrdma.Segment{seg(mr, 0, 8192)})
	r := e.readRes(a, true) // head with count, eof and length word, nothing behind it
	assert.EqualValues(t, 5001, r.Count)
	assert.True(t, r.EOF)
	assert.Equal(t, want, mr.Bytes()[:5001])
}

func TestC09UnionArmDecidesEligibility(t *testing.T) {
	e := newEnv(t, envOpt{})
	mr := e.mem(4096, sink)
	a, h := e.readChunked(e.root, 0, 4096, []rpcrdma.Segment{seg(mr, 0, 4096)})
	var r nfs3.ReadRes
	_, err := nfs3.ConsumeReadRes(a.body, &r)
	require.NoError(t, err)
	assert.NotEqual(t, nfs3.NFS3_OK, r.Status)
	require.Equal(t, 1, a.h.Writes.Len())
	want := h.Writes.Chunk(0)[0]
	want.Length = 0
	assert.Equal(t, []rpcrdma.Segment{want}, a.h.Writes.Chunk(0), "the chunk comes back unused")
}

// writeChunked writes with the data in a Read chunk of the given segments.
func (e *env) writeChunked(fh nfs3.FH, off uint64, n int, stable nfs3.StableHow, segs ...rpcrdma.Segment) *answer {
	e.t.Helper()
	h := e.header(rpcrdma.RDMA_MSG)
	msg := e.rpcCall(h.XID, nfs3.WRITE, e.writeHead(fh, off, n, stable))
	for _, s := range segs {
		h.Reads = append(h.Reads, rpcrdma.ReadSegment{Position: uint32(len(msg)), Segment: s})
	}
	return e.send(h, msg)
}

func TestC10RoundupIsNotInTheStream(t *testing.T) {
	e := newEnv(t, envOpt{})
	fh := e.newFile("f", nil)
	want := pattern(4097, 3)
	mr := e.mem(8192, source)
	copy(mr.Bytes(), want)
	okStatus(t, e.writeRes(e.writeChunked(fh, 0, 4097, nfs3.FILE_SYNC, seg(mr, 0, 4097))).Status)
	assert.Equal(t, want, e.contents(fh))
	// Several chunks for a call that has one data item.
	h := e.header(rpcrdma.RDMA_MSG)
	msg := e.rpcCall(h.XID, nfs3.WRITE, e.writeHead(fh, 0, 8, nfs3.UNSTABLE))
	for i := range 2 {
		h.Reads = append(h.Reads, rpcrdma.ReadSegment{Position: uint32(len(msg) - 4*i), Segment: seg(mr, 0, 4)})
	}
	e.wantCount("bad_chunk", 1, func() { e.wantError(e.send(h, msg), h, rpcrdma.ERR_CHUNK) })
}

func TestC12ReadChunkWithAndWithoutPad(t *testing.T) {
	e := newEnv(t, envOpt{})
	mr := e.mem(8192, source)
	for _, n := range []int{1, 2, 3, 4, 4093} {
		for _, padded := range []bool{false, true} {
			fh := e.newFile("f", nil)
			want := pattern(n, byte(n))
			copy(mr.Bytes(), want)
			length := n
			if padded {
				length = xdr.Roundup(n)
			}
			okStatus(t, e.writeRes(e.writeChunked(fh, 0, n, nfs3.UNSTABLE, seg(mr, 0, length))).Status)
			assert.Equal(t, want, e.contents(fh), "%d bytes, padded %t", n, padded)
			e.remove(e.root, "f")
		}
	}
	fh := e.newFile("g", nil)
	for _, length := range []int{1, 4, 6, 9} { // of 5
		h := rpcrdma.Header{XID: e.xid + 1}
		e.wantError(e.writeChunked(fh, 0, 5, nfs3.UNSTABLE, seg(mr, 0, length)), &h, rpcrdma.ERR_CHUNK)
	}
	assert.Empty(t, e.contents(fh))
}

func TestC14WriteChunkComesBackWhole(t *testing.T) {
	e := newEnv(t, envOpt{})
	want := pattern(10000, 9)
	fh := e.newFile("f", want)
	mr := e.mem(64<<10, sink)
	segs := []rpcrdma.Segment{seg(mr, 0, 4096), seg(mr, 8192, 0), seg(mr, 16384, 5000), seg(mr, 32768, 4000), seg(mr, 40000, 100)}
	a, _ := e.readChunked(fh, 0, 10000, segs)
	e.readRes(a, true)
	segs[3].Length, segs[4].Length = 904, 0
	assert.Equal(t, segs, a.h.Writes.Chunk(0))
	got := bytes.Join([][]byte{mr.Bytes()[:4096], mr.Bytes()[16384:21384], mr.Bytes()[32768 : 32768+904]}, nil)
	assert.Equal(t, want, got)
}

func TestC15NoPadIsWritten(t *testing.T) {
	e := newEnv(t, envOpt{})
	for n := 1; n < 9; n++ {
		fh := e.newFile("f", pattern(n, 1))
		mr := e.mem(64, sink)
		for i := range mr.Bytes() {
			mr.Bytes()[i] = 0xee
		}
		a, _ := e.readChunked(fh, 0, 64, []rpcrdma.Segment{seg(mr, 0, 64)})
		e.readRes(a, true)
		assert.EqualValues(t, n, a.h.Writes.Chunk(0)[0].Length)
		assert.Equal(t, append(pattern(n, 1), bytes.Repeat([]byte{0xee}, 64-n)...), mr.Bytes())
		e.remove(e.root, "f")
	}
}

// longCall sends an RDMA_NOMSG call whose message is in memory, in segments of the given length.
func (e *env) longCall(h *rpcrdma.Header, msg []byte, segLen int) *answer {
	e.t.Helper()
	mr := e.mem(len(msg), source)
	copy(mr.Bytes(), msg)
	var pz []rpcrdma.ReadSegment
	for at := 0; at < len(msg); at += segLen {
		pz = append(pz, rpcrdma.ReadSegment{Segment: seg(mr, at, min(segLen, len(msg)-at))})
	}
	h.Reads = append(pz, h.Reads...)
	return e.send(h, nil)
}

func TestC16LongCall(t *testing.T) {
	for _, n := range []int{100, 3000, 70000, 1 << 20} {
		e := newEnv(t, envOpt{})
		fh := e.newFile("f", nil)
		want := pattern(n, 5)
		h := e.header(rpcrdma.RDMA_NOMSG)
		args := nfs3.AppendWriteArgs(nil, &nfs3.WriteArgs{File: fh, Count: uint32(n), Stable: nfs3.FILE_SYNC, Data: want})
		a := e.longCall(h, e.rpcCall(h.XID, nfs3.WRITE, args), 64<<10)
		okStatus(t, e.writeRes(a).Status)
		assert.True(t, bytes.Equal(want, e.contents(fh)))
		assert.EqualValues(t, 1, e.counter("nomsg_call"))
	}
}

func TestC17ReplyChunkWhenTooLongForInline(t *testing.T) {
	for _, prefer := range []bool{false, true} {
		e := newEnv(t, envOpt{cfg: nfsserver.Config{PreferReplyChunk: prefer}})
		want := pattern(5001, 2)
		fh := e.newFile("f", want)
		mr := e.mem(16384, sink)
		read := func(n uint32) (*answer, []rpcrdma.Segment) {
			h := e.header(rpcrdma.RDMA_MSG)
			h.HasReply, h.Reply = true, []rpcrdma.Segment{seg(mr, 0, 100), seg(mr, 100, 8000), seg(mr, 9000, 4)}
			return e.send(h, e.rpcCall(h.XID, nfs3.READ, e.readArgs(fh, 0, n))), h.Reply
		}
		a, segs := read(5001)
		require.Equal(t, rpcrdma.RDMA_NOMSG, a.h.Proc)
		total := rpc.SuccessLen + nfs3.ReadResHeadLen + 5004
		segs[1].Length, segs[2].Length = uint32(total-100), 0
		assert.Equal(t, segs, a.h.Reply, "C27: segments with what was written")
		e.decodeRPC(a, mr.Bytes()[:total])
		assert.Equal(t, want, e.readRes(a, false).Data)

		a, segs = read(100)
		if prefer {
			assert.Equal(t, rpcrdma.RDMA_NOMSG, a.h.Proc)
			continue
		}
		require.Equal(t, rpcrdma.RDMA_MSG, a.h.Proc)
		assert.Equal(t, want[:100], e.readRes(a, false).Data)
		for i := range segs {
			segs[i].Length = 0
		}
		assert.Equal(t, segs, a.h.Reply, "C27: an unused Reply chunk")
	}
}

func TestC18XIDsMustAgree(t *testing.T) {
	e := newEnv(t, envOpt{})
	h := e.header(rpcrdma.RDMA_MSG)
	e.wantCount("bad_xid", 1, func() {
		e.wantError(e.send(h, e.rpcCall(h.XID+1, nfs3.NULL, nil)), h, rpcrdma.ERR_CHUNK)
	})
	h = e.header(rpcrdma.RDMA_NOMSG)
	e.wantCount("bad_xid", 1, func() {
		e.wantError(e.longCall(h, e.rpcCall(h.XID+1, nfs3.NULL, nil), 4096), h, rpcrdma.ERR_CHUNK)
	})
	e.wantAlive()
}

func TestC19NomsgNeedsItsPayload(t *testing.T) {
	e := newEnv(t, envOpt{})
	mr := e.mem(4096, source|sink)
	bad := func(name string, proc rpcrdma.Proc, f func(h *rpcrdma.Header)) {
		h := e.header(proc)
		f(h)
		e.wantCount("bad_chunk", 1, func() {
			e.wantError(e.send(h, e.rpcCall(h.XID, nfs3.NULL, nil)), h, rpcrdma.ERR_CHUNK)
		})
	}
	bad("no chunk", rpcrdma.RDMA_NOMSG, func(*rpcrdma.Header) {})
	bad("Reply chunk alone", rpcrdma.RDMA_NOMSG, func(h *rpcrdma.Header) {
		h.HasReply, h.Reply = true, []rpcrdma.Segment{seg(mr, 0, 4096)}
	})
	bad("Read chunk that is not at zero", rpcrdma.RDMA_NOMSG, func(h *rpcrdma.Header) {
		h.Reads = []rpcrdma.ReadSegment{{Position: 4, Segment: seg(mr, 0, 4096)}}
	})
	bad("position-zero chunk without bytes", rpcrdma.RDMA_NOMSG, func(h *rpcrdma.Header) {
		h.Reads = []rpcrdma.ReadSegment{{Segment: seg(mr, 0, 0)}}
	})
	bad("RDMA_MSG with a position-zero chunk", rpcrdma.RDMA_MSG, func(h *rpcrdma.Header) {
		h.Reads = []rpcrdma.ReadSegment{{Segment: seg(mr, 0, 100)}}
	})
	e.wantAlive()
}

func TestC20ErrorFromRequesterIsDropped(t *testing.T) {
	e := newEnv(t, envOpt{})
	for range 200 { // more than receives are posted: each is posted again (F10)
		h := e.header(rpcrdma.RDMA_ERROR)
		h.Err = rpcrdma.ERR_CHUNK
		require.NoError(t, e.peer.Send(bg, append(rpcrdma.AppendHeader(nil, h), make([]byte, 16)...)))
	}
	e.wantAlive()
	assert.EqualValues(t, 200, e.counter("bad_rdma_error"))
	assert.EqualValues(t, 200, e.counter("dropped"))
}

func TestC22EligibleResultsGoIntoWriteChunks(t *testing.T) {
	e := newEnv(t, envOpt{})
	fh := e.newFile("f", []byte("x")) // even one byte
	mr := e.mem(4096, sink)
	a, _ := e.readChunked(fh, 0, 1, []rpcrdma.Segment{seg(mr, 0, 4096)})
	e.readRes(a, true)
	assert.Equal(t, byte('x'), mr.Bytes()[0])
	e.wantCount("rdma_stat_write", 0, func() { // and nothing at the end of the file
		a, _ = e.readChunked(fh, 1, 1, []rpcrdma.Segment{seg(mr, 0, 4096)})
		assert.Zero(t, e.readRes(a, true).Count)
		assert.Zero(t, a.h.Writes.Chunk(0)[0].Length)
	})
}

func TestC23UnconsumedWriteChunks(t *testing.T) {
	for _, empty := range []bool{false, true} {
		e := newEnv(t, envOpt{cfg: nfsserver.Config{EmptyUnusedChunks: empty}})
		fh := e.newFile("f", pattern(100, 0))
		mr := e.mem(8192, sink)
		a, _ := e.readChunked(fh, 0, 100, []rpcrdma.Segment{seg(mr, 0, 100)}, []rpcrdma.Segment{seg(mr, 4096, 100), seg(mr, 5000, 9)}, nil)
		e.readRes(a, true)
		require.Equal(t, 3, a.h.Writes.Len())
		assert.Equal(t, []rpcrdma.Segment{seg(mr, 0, 100)}, a.h.Writes.Chunk(0))
		if empty {
			assert.Empty(t, a.h.Writes.Chunk(1))
		} else {
			assert.Equal(t, []rpcrdma.Segment{seg(mr, 4096, 0), seg(mr, 5000, 0)}, a.h.Writes.Chunk(1))
		}
		assert.Empty(t, a.h.Writes.Chunk(2))
		// No result is eligible: all come back.
		h := e.header(rpcrdma.RDMA_MSG)
		h.Writes.Add([]rpcrdma.Segment{seg(mr, 0, 100)})
		a = e.send(h, e.rpcCall(h.XID, nfs3.GETATTR, nfs3.AppendGetattrArgs(nil, &nfs3.GetattrArgs{Object: fh})))
		assert.True(t, a.rpc.OK())
		require.Equal(t, 1, a.h.Writes.Len())
		assert.Zero(t, rpcrdma.ChunkLen(a.h.Writes.Chunk(0)))
	}
}

func TestC25EmptyWriteChunk(t *testing.T) {
	e := newEnv(t, envOpt{})
	want := pattern(101, 4)
	fh := e.newFile("f", want)
	mr := e.mem(4096, sink)
	a, _ := e.readChunked(fh, 0, 200, nil, []rpcrdma.Segment{seg(mr, 0, 4096)})
	assert.Equal(t, want, e.readRes(a, false).Data, "inline, pad and all")
	require.Equal(t, 2, a.h.Writes.Len())
	assert.Empty(t, a.h.Writes.Chunk(0))
	assert.Equal(t, []rpcrdma.Segment{seg(mr, 0, 0)}, a.h.Writes.Chunk(1))

	e = newEnv(t, envOpt{cfg: nfsserver.Config{RejectEmptyWriteChunk: true}})
	fh = e.newFile("f", want)
	a, h := e.readChunked(fh, 0, 200, nil)
	e.wantError(a, h, rpcrdma.ERR_CHUNK)
}

func TestC29ShortMessagesAreDropped(t *testing.T) {
	e := newEnv(t, envOpt{})
	h := e.header(rpcrdma.RDMA_MSG)
	full := rpcrdma.AppendHeader(nil, h)
	require.Len(t, full, 28)
	for range 4 { // 112 messages, more than receives are posted
		for n := range 28 {
			require.NoError(t, e.peer.Send(bg, full[:n]))
		}
	}
	e.wantAlive()
	assert.EqualValues(t, 112, e.counter("bad_short"))
}

func TestC30ErrorsCarryXIDAndVersion(t *testing.T) {
	e := newEnv(t, envOpt{})
	for _, vers := range []uint32{0, 2, 1 << 31} {
		h := e.header(rpcrdma.RDMA_MSG)
		h.Vers = vers
		a := e.rawAnswer(h)
		assert.Equal(t, h.XID, binary.BigEndian.Uint32(a))
		assert.Equal(t, vers, binary.BigEndian.Uint32(a[4:]))
	}
	h := e.header(9)
	a := e.send(h, make([]byte, 40))
	e.wantError(a, h, rpcrdma.ERR_CHUNK)
	assert.EqualValues(t, rpcrdma.Version, a.h.Vers)
}

// rawAnswer sends a header with a NULL call and gives the answer's bytes.
func (e *env) rawAnswer(h *rpcrdma.Header) []byte {
	e.t.Helper()
	require.NoError(e.t, e.peer.Send(bg, append(rpcrdma.AppendHeader(nil, h), e.rpcCall(h.XID, nfs3.NULL, nil)...)))
	m, err := e.peer.Recv(bg)
	require.NoError(e.t, err)
	return m.Bytes
}

func TestC33ErrVersOffersVersionOne(t *testing.T) {
	e := newEnv(t, envOpt{})
	h := e.header(rpcrdma.RDMA_MSG)
	h.Vers = 2
	var b []byte
	e.wantCount("err_vers_sent", 1, func() { b = e.rawAnswer(h) })
	w := make([]uint32, len(b)/4)
	for i := range w {
		w[i] = binary.BigEndian.Uint32(b[4*i:])
	}
	assert.Equal(t, []uint32{h.XID, 2, 64, uint32(rpcrdma.RDMA_ERROR), uint32(rpcrdma.ERR_VERS), 1, 1}, w)
	e.wantAlive()
}

func TestC34HeaderErrorsAndGarbageArgs(t *testing.T) {
	e := newEnv(t, envOpt{})
	h := e.header(rpcrdma.RDMA_MSG)
	b := append(rpcrdma.AppendHeader(nil, h), e.rpcCall(h.XID, nfs3.NULL, nil)...)
	binary.BigEndian.PutUint32(b[16:], 2) // a list's flag that is no bool
	e.wantCount("bad_header", 1, func() { e.wantError(e.exchange(b), h, rpcrdma.ERR_CHUNK) })

	h = e.header(rpcrdma.RDMA_MSG)
	var a *answer
	e.wantCount("rpc_garbage_args", 1, func() { a = e.send(h, e.rpcCall(h.XID, nfs3.GETATTR, []byte{0, 0, 0, 99})) })
	assert.Equal(t, rpc.GARBAGE_ARGS, a.rpc.Accept)

	mr := e.mem(8192, source)
	fh := e.newFile("f", nil)
	h = e.header(rpcrdma.RDMA_MSG)
	msg := e.rpcCall(h.XID, nfs3.WRITE, nfs3.AppendWriteArgsHead(nil, &nfs3.WriteArgs{File: fh, Count: 99}, 100))
	h.Reads = []rpcrdma.ReadSegment{{Position: uint32(len(msg)), Segment: seg(mr, 0, 100)}}
	assert.Equal(t, rpc.GARBAGE_ARGS, e.send(h, msg).rpc.Accept, "count and data differ")
	e.wantAlive()
}

func TestC35ReplyThatFitsNowhere(t *testing.T) {
	e := newEnv(t, envOpt{})
	fh := e.newFile("f", pattern(100000, 0))
	mr := e.mem(100000, sink)
	none := func(what string, f func(h *rpcrdma.Header)) {
		h := e.header(rpcrdma.RDMA_MSG)
		f(h)
		e.wantCount("reply_no_room", 1, func() {
			e.wantError(e.send(h, e.rpcCall(h.XID, nfs3.READ, e.readArgs(fh, 0, 100000))), h, rpcrdma.ERR_CHUNK)
		})
	}
	none("no chunk (F05)", func(*rpcrdma.Header) {})
	none("Write chunk too short", func(h *rpcrdma.Header) { h.Writes.Add([]rpcrdma.Segment{seg(mr, 0, 99999)}) })
	none("Reply chunk too short", func(h *rpcrdma.Header) {
		h.HasReply, h.Reply = true, []rpcrdma.Segment{seg(mr, 0, 100000)}
	})
	none("Reply chunk without segments", func(h *rpcrdma.Header) { h.HasReply = true })
	e.wantAlive()
	assert.Equal(t, make([]byte, 100000), mr.Bytes(), "nothing was written")
}

func TestC36ResponderThatCannotReplyCloses(t *testing.T) {
	e := newEnv(t, envOpt{peer: rawpeer.Config{Recvs: -1}})
	other := e.dial(envOpt{})
	require.NoError(t, e.peer.Send(bg, e.nullCall()))
	// No receive is there for the reply. The peer notices the end of the connection.
	require.Eventually(t, func() bool {
		require.NoError(t, e.s.Sleep(bg, 1e12))
		return len(e.srv.Connections()) == 1
	}, 1e9, 1)
	assert.EqualValues(t, 1, e.counter("conn_ended"))
	e.peer, other = other, e.peer
	other.Close()
	e.wantAlive()
}

func (e *env) nullCall() []byte {
	h := e.header(rpcrdma.RDMA_MSG)
	return append(rpcrdma.AppendHeader(nil, h), e.rpcCall(h.XID, nfs3.NULL, nil)...)
}

func TestC37MSGPGetsErrChunk(t *testing.T) {
	e := newEnv(t, envOpt{})
	h := e.header(rpcrdma.RDMA_MSGP)
	h.Align, h.Thresh = 4096, 100
	e.wantCount("bad_msgp", 1, func() { e.wantError(e.send(h, e.rpcCall(h.XID, nfs3.NULL, nil)), h, rpcrdma.ERR_CHUNK) })
	e.wantAlive()
}

func TestC38DoneIsDropped(t *testing.T) {
	e := newEnv(t, envOpt{})
	for _, pad := range []int{0, 12, 100} {
		h := e.header(rpcrdma.RDMA_DONE)
		require.NoError(t, e.peer.Send(bg, append(rpcrdma.AppendHeader(nil, h), make([]byte, pad)...)))
	}
	e.wantAlive()
	assert.EqualValues(t, 3, e.counter("bad_done"))
}

func TestC39EligibleItems(t *testing.T) {
	e := newEnv(t, envOpt{})
	// SYMLINK path in a Read chunk.
	mr := e.mem(8192, source)
	path := "../" + strings.Repeat("long/", 30) + "p"
	copy(mr.Bytes(), path)
	h := e.header(rpcrdma.RDMA_MSG)
	msg := e.rpcCall(h.XID, nfs3.SYMLINK, nfs3.AppendSymlinkArgsHead(nil, &nfs3.SymlinkArgs{Where: nfs3.DirOp{Dir: e.root, Name: []byte("l")}}, uint32(len(path))))
	h.Reads = []rpcrdma.ReadSegment{{Position: uint32(len(msg)), Segment: seg(mr, 0, len(path))}}
	a := e.send(h, msg)
	require.True(t, a.rpc.OK(), "%v %v", &a.h, &a.rpc)
	var sym nfs3.SymlinkRes
	_, err := nfs3.ConsumeSymlinkRes(a.body, &sym)
	require.NoError(t, err)
	okStatus(t, sym.Status)

	// READLINK path into a Write chunk.
	dst := e.mem(8192, sink)
	h = e.header(rpcrdma.RDMA_MSG)
	h.Writes.Add([]rpcrdma.Segment{seg(dst, 0, 10), seg(dst, 10, 8000)})
	a = e.send(h, e.rpcCall(h.XID, nfs3.READLINK, nfs3.AppendReadlinkArgs(nil, &nfs3.ReadlinkArgs{Symlink: sym.Object.FH})))
	var link nfs3.ReadlinkRes
	n, _, err := nfs3.ConsumeReadlinkResHead(a.body, &link)
	require.NoError(t, err)
	okStatus(t, link.Status)
	assert.EqualValues(t, len(path), n)
	assert.Equal(t, path, string(dst.Bytes()[:len(path)]))

	// Nothing else may be reduced.
	h = e.header(rpcrdma.RDMA_MSG)
	msg = e.rpcCall(h.XID, nfs3.LOOKUP, nfs3.AppendLookupArgs(nil, &nfs3.LookupArgs{What: nfs3.DirOp{Dir: e.root, Name: []byte("abcd")}}))
	h.Reads = []rpcrdma.ReadSegment{{Position: uint32(len(msg) - 4), Segment: seg(mr, 0, 4)}}
	e.wantCount("bad_read_chunk", 1, func() { e.wantError(e.send(h, msg[:len(msg)-4]), h, rpcrdma.ERR_CHUNK) })
}

func TestC40DefaultPort(t *testing.T) {
	e := newEnv(t, envOpt{})
	assert.Equal(t, "server:20049", e.srv.Addr())
}

func TestC42LongCallWithReadChunkAndSixteenSegments(t *testing.T) {
	e := newEnv(t, envOpt{})
	want := pattern(100001, 7)
	fh := e.newFile("f", nil)
	mr := e.mem(len(want), source)
	copy(mr.Bytes(), want)
	h := e.header(rpcrdma.RDMA_NOMSG)
	msg := e.rpcCall(h.XID, nfs3.WRITE, e.writeHead(fh, 0, len(want), nfs3.FILE_SYNC))
	for i := range 16 {
		at := i * 6250
		h.Reads = append(h.Reads, rpcrdma.ReadSegment{Position: uint32(len(msg)), Segment: seg(mr, at, min(6251, len(want)-at))})
		if i < 15 {
			h.Reads[i].Length = 6250
		}
	}
	okStatus(t, e.writeRes(e.longCall(h, msg, 16)).Status)
	assert.True(t, bytes.Equal(want, e.contents(fh)))

	dst := e.mem(len(want), sink)
	var segs []rpcrdma.Segment
	for i := range 16 {
		segs = append(segs, seg(dst, i*6250, 6250))
	}
	segs[15].Length = 6251
	a, _ := e.readChunked(fh, 0, uint32(len(want)), segs)
	e.readRes(a, true)
	assert.True(t, bytes.Equal(want, dst.Bytes()))
}

func TestC46PrivateData(t *testing.T) {
	// Reserved flags and the bytes behind are ignored.
	pd := append(rpcrdma.AppendPrivateData(nil, rpcrdma.PrivateData{RemoteInvalidate: true, SendSize: 4096, RecvSize: 2048}), 1, 2, 3)
	pd[5] |= 0xfe
	e := newEnv(t, envOpt{peer: rawpeer.Config{PrivateData: pd}})
	own, ok := rpcrdma.ConsumePrivateData(e.peer.Private)
	require.True(t, ok)
	assert.Equal(t, rpcrdma.PrivateData{RemoteInvalidate: true, SendSize: 4096, RecvSize: 4096}, own)
	assert.Equal(t, byte(1), e.peer.Private[5], "reserved flags are sent as zero")
	e.wantAlive()
	c := e.srv.Connections()
	require.Len(t, c, 1)
	assert.Equal(t, 2048, c[0].InlineSend)
	assert.True(t, c[0].RemoteInvalidation)

	// Read again on each connection.
	e.peer.Close()
	e.peer = e.dial(envOpt{noPrivate: true})
	e.wantAlive()
	for _, c := range e.srv.Connections() {
		assert.Equal(t, 1024, c.InlineSend)
	}
}

func TestC47SendWithInvalidate(t *testing.T) {
	with := func(inv bool) []byte {
		return rpcrdma.AppendPrivateData(nil, rpcrdma.PrivateData{RemoteInvalidate: inv, SendSize: 4096, RecvSize: 4096})
	}
	for _, c := range []struct {
		name         string
		client, off  bool
		chunks, keys int
		inv          bool
	}{
		{"both agree, one key", true, false, 1, 1, true},
		{"both agree, one key in several segments", true, false, 3, 1, true},
		{"both agree, several keys", true, false, 2, 2, false},
		{"both agree, no chunk", true, false, 0, 0, false},
		{"the client does not", false, false, 1, 1, false},
		{"the server does not", true, true, 1, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnv(t, envOpt{cfg: nfsserver.Config{NoRemoteInvalidation: c.off}, peer: rawpeer.Config{PrivateData: with(c.client)}})
			fh := e.newFile("f", pattern(100, 0))
			fr := []*fastReg{e.fastReg(8192), e.fastReg(8192)}
			h := e.header(rpcrdma.RDMA_MSG)
			var segs []rpcrdma.Segment
			for i := range c.chunks {
				segs = append(segs, fr[min(i, c.keys-1)].seg(i*100, 100))
			}
			h.Writes.Add(segs)
			a := e.send(h, e.rpcCall(h.XID, nfs3.READ, e.readArgs(fh, 0, 100)))
			e.readRes(a, c.chunks > 0)
			assert.Equal(t, c.inv, a.msg.Inv)
			if c.inv {
				assert.Equal(t, fr[0].key, a.msg.InvKey, "a key of this call")
			}
		})
	}
}

// F01 of the field: chunks without segments while remote invalidation is on.
func TestC47EmptyChunksAndInvalidation(t *testing.T) {
	pd := rpcrdma.AppendPrivateData(nil, rpcrdma.PrivateData{RemoteInvalidate: true, SendSize: 4096, RecvSize: 4096})
	e := newEnv(t, envOpt{peer: rawpeer.Config{PrivateData: pd}})
	fh := e.newFile("f", pattern(100, 0))
	h := e.header(rpcrdma.RDMA_MSG)
	h.Writes.Add(nil)
	h.HasReply = true
	a := e.send(h, e.rpcCall(h.XID, nfs3.READ, e.readArgs(fh, 0, 100)))
	assert.Equal(t, pattern(100, 0), e.readRes(a, false).Data)
	assert.False(t, a.msg.Inv)
	assert.True(t, a.h.HasReply)
	assert.Empty(t, a.h.Reply)
	// An error does not invalidate either: its client may still own the memory.
	fr := e.fastReg(4096)
	h = e.header(rpcrdma.RDMA_MSG)
	h.Writes.Add([]rpcrdma.Segment{fr.seg(0, 10)})
	a = e.send(h, e.rpcCall(h.XID, nfs3.READ, e.readArgs(fh, 0, 100)))
	e.wantError(a, h, rpcrdma.ERR_CHUNK)
	assert.False(t, a.msg.Inv)
}

// fastReg is memory registered by a work request, so that it can be invalidated.
type fastReg struct {
	mr  verbs.FastRegMR
	key uint32
}

func (e *env) fastReg(n int) *fastReg {
	e.t.Helper()
	f, err := newFastReg(e, n)
	require.NoError(e.t, err)
	return f
}

func (f *fastReg) seg(off, n int) rpcrdma.Segment {
	return rpcrdma.Segment{Handle: f.key, Length: uint32(n), Offset: f.mr.Addr() + uint64(off)}
}

func newFastReg(e *env, n int) (*fastReg, error) {
	pd := e.peer.PD()
	buf := make([]byte, n)
	m := &verbs.DMAMap{}
	if err := pd.MapDMA(m, buf); err != nil {
		return nil, err
	}
	mr, err := pd.AllocFastRegMR(n/verbs.PageSize + 2)
	if err != nil {
		return nil, err
	}
	mr.MapPages(m.Segs)
	f := &fastReg{mr: mr, key: mr.NextKey()}
	_, err = e.peer.QP().PostSend([]verbs.SendWR{{Op: verbs.OpRegMR, Reg: mr, Key: f.key, Access: sink | verbs.RemoteRead}})
	e.t.Cleanup(func() {
		pd.UnmapDMA(m)
		_ = mr.Close()
	})
	return f, err
}

func TestC48ThresholdIsTheLesser(t *testing.T) {
	for _, c := range []struct{ own, peer, want int }{{4096, 1024, 1024}, {1024, 4096, 1024}, {8192, 65536, 8192}} {
		pd := rpcrdma.AppendPrivateData(nil, rpcrdma.PrivateData{SendSize: c.peer, RecvSize: c.peer})
		e := newEnv(t, envOpt{cfg: nfsserver.Config{InlineSend: c.own, InlineRecv: c.own}, peer: rawpeer.Config{PrivateData: pd, RecvSize: 65536}})
		own, ok := rpcrdma.ConsumePrivateData(e.peer.Private)
		require.True(t, ok)
		assert.Equal(t, c.own, own.SendSize)
		assert.Equal(t, c.own, own.RecvSize)
		fh := e.newFile("f", pattern(100000, 0))
		most := uint32(c.want - 28 - rpc.SuccessLen - nfs3.ReadResHeadLen)
		h := e.header(rpcrdma.RDMA_MSG)
		a := e.send(h, e.rpcCall(h.XID, nfs3.READ, e.readArgs(fh, 0, most)))
		assert.Len(t, a.msg.Bytes, c.want)
		h = e.header(rpcrdma.RDMA_MSG)
		e.wantError(e.send(h, e.rpcCall(h.XID, nfs3.READ, e.readArgs(fh, 0, most+1))), h, rpcrdma.ERR_CHUNK)
	}
}

func TestC49NoValidPrivateData(t *testing.T) {
	bad := rpcrdma.AppendPrivateData(nil, rpcrdma.PrivateData{RemoteInvalidate: true, SendSize: 4096, RecvSize: 4096})
	bad[4] = 2 // version
	e := newEnv(t, envOpt{peer: rawpeer.Config{PrivateData: bad}})
	fh := e.newFile("f", pattern(100, 0))
	fr := e.fastReg(4096)
	a, _ := e.readChunked(fh, 0, 100, []rpcrdma.Segment{fr.seg(0, 100)})
	e.readRes(a, true)
	assert.False(t, a.msg.Inv)
	assert.Equal(t, 1024, e.srv.Connections()[0].InlineSend)
}

func (e *env) remove(dir nfs3.FH, name string) {
	e.t.Helper()
	r := do(e, nfs3.REMOVE, nfs3.AppendRemoveArgs, &nfs3.RemoveArgs{Object: nfs3.DirOp{Dir: dir, Name: []byte(name)}}, nfs3.ConsumeRemoveRes)
	okStatus(e.t, r.Status)
}
