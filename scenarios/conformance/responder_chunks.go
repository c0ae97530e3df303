package conformance

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/xdr"
	"example.org/nfsrdma/verbs"
)

func countStaysInline(r *responderRun) {
	want := pattern(5001, 1)
	fh := r.file(want)
	mr := r.mem(8192, sink)
	res := r.readRes(r.readChunked(fh, 0, 8192, []rpcrdma.Segment{seg(mr, 0, 8192)}), true)
	r.want(res.Count == 5001 && res.EOF, "count %d, eof %t", res.Count, res.EOF)
	r.want(bytes.Equal(want, mr.Bytes()[:5001]), "other data in the chunk")
}

func unionArm(r *responderRun) {
	mr := r.mem(4096, sink)
	bad := r.mount().Root() // a directory: READ fails, and its result has no data
	a := r.readChunked(bad, 0, 4096, []rpcrdma.Segment{seg(mr, 0, 4096)})
	r.wantOK(a)
	var res nfs3.ReadRes
	_, err := nfs3.ConsumeReadRes(a.body, &res)
	r.must(err == nil, "READ of a directory: %v", err)
	r.want(res.Status != nfs3.NFS3_OK, "READ of a directory succeeds")
	r.must(a.h.Writes.Len() == 1, "%d Write chunks come back", a.h.Writes.Len())
	r.want(rpcrdma.ChunkLen(a.h.Writes.Chunk(0)) == 0, "the chunk comes back with %d bytes", rpcrdma.ChunkLen(a.h.Writes.Chunk(0)))
}

func roundupRemoved(r *responderRun) {
	for _, n := range []int{4097, 4098, 4099} {
		want := pattern(n, 3)
		fh := r.file(nil)
		mr := r.mem(8192, source)
		copy(mr.Bytes(), want)
		r.wantWritten(r.writeChunked(fh, n, seg(mr, 0, n)), n)
		r.wantContents(fh, want, "WRITE from a chunk")
	}
}

func padOrNot(r *responderRun) {
	mr := r.mem(8192, source)
	for _, n := range []int{1, 2, 3, 4, 4093} {
		for _, length := range []int{n, xdr.Roundup(n)} {
			fh := r.file(nil)
			want := pattern(n, byte(n))
			copy(mr.Bytes(), want)
			r.wantWritten(r.writeChunked(fh, n, seg(mr, 0, length)), n)
			r.wantContents(fh, want, "WRITE from a padded chunk")
		}
	}
}

func writeChunkComesBackWhole(r *responderRun) {
	want := pattern(10000, 9)
	fh := r.file(want)
	mr := r.mem(64<<10, sink)
	segs := []rpcrdma.Segment{seg(mr, 0, 4096), seg(mr, 16384, 5000), seg(mr, 32768, 4000), seg(mr, 40000, 100)}
	a := r.readChunked(fh, 0, 10000, segs)
	r.readRes(a, true)
	segs[2].Length, segs[3].Length = 904, 0
	r.must(a.h.Writes.Len() == 1, "%d Write chunks come back", a.h.Writes.Len())
	r.want(segsEqual(segs, a.h.Writes.Chunk(0)), "the chunk comes back as %v, not %v", a.h.Writes.Chunk(0), segs)
	got := bytes.Join([][]byte{mr.Bytes()[:4096], mr.Bytes()[16384:21384], mr.Bytes()[32768 : 32768+904]}, nil)
	r.want(bytes.Equal(want, got), "other data in the segments")
}

func noPadWritten(r *responderRun) {
	for n := 1; n < 9; n++ {
		want := pattern(n, 1)
		fh := r.file(want)
		mr := r.mem(64, sink)
		for i := range mr.Bytes() {
			mr.Bytes()[i] = 0xee
		}
		a := r.readChunked(fh, 0, 64, []rpcrdma.Segment{seg(mr, 0, 64)})
		r.readRes(a, true)
		r.must(a.h.Writes.Len() == 1, "%d Write chunks come back", a.h.Writes.Len())
		r.want(rpcrdma.ChunkLen(a.h.Writes.Chunk(0)) == uint64(n), "the chunk comes back with %d bytes of %d", rpcrdma.ChunkLen(a.h.Writes.Chunk(0)), n)
		r.want(bytes.Equal(append(want, bytes.Repeat([]byte{0xee}, 64-n)...), mr.Bytes()), "READ of %d bytes wrote more", n)
	}
}

func longCalls(r *responderRun) {
	for _, n := range []int{101, 3002, 70003} {
		fh := r.file(nil)
		want := pattern(n, 5)
		h := r.header(rpcrdma.RDMA_NOMSG)
		args := nfs3.AppendWriteArgs(nil, &nfs3.WriteArgs{File: fh, Count: uint32(n), Stable: nfs3.FILE_SYNC, Data: want})
		r.wantWritten(r.longCall(h, r.rpcCall(h.XID, nfs3.WRITE, args), 20000), n)
		r.wantContents(fh, want, "WRITE by a long call")
	}
}

func replyChunk(r *responderRun) {
	want := pattern(5001, 2)
	fh := r.file(want)
	mr := r.mem(16384, sink)
	read := func(n int) (*answer, []rpcrdma.Segment) {
		r.conn()
		h := r.header(rpcrdma.RDMA_MSG)
		h.HasReply, h.Reply = true, []rpcrdma.Segment{seg(mr, 0, 100), seg(mr, 100, 8000), seg(mr, 9000, 4)}
		return r.exchange(h, r.rpcCall(h.XID, nfs3.READ, readArgs(fh, 0, n))), h.Reply
	}
	a, segs := read(5001)
	r.must(a.h.Proc == rpcrdma.RDMA_NOMSG, "a long reply comes as %v", a)
	total := rpc.SuccessLen + nfs3.ReadResHeadLen + 5004
	segs[1].Length, segs[2].Length = uint32(total-100), 0
	r.want(segsEqual(segs, a.h.Reply), "the Reply chunk comes back as %v, not %v", a.h.Reply, segs)
	r.decodeRPC(a, mr.Bytes()[:total])
	r.want(bytes.Equal(want, r.readRes(a, false).Data), "other data in the Reply chunk")

	a, segs = read(100)
	if a.h.Proc == rpcrdma.RDMA_NOMSG { // allowed: the chunk was offered
		n := int(rpcrdma.ChunkLen(a.h.Reply))
		r.must(n <= len(mr.Bytes()), "%d bytes in the Reply chunk", n)
		r.decodeRPC(a, mr.Bytes()[:n])
	} else {
		for i := range segs {
			segs[i].Length = 0
		}
		r.want(segsEqual(segs, a.h.Reply), "an unused Reply chunk comes back as %v", a.h.Reply)
	}
	r.want(bytes.Equal(want[:100], r.readRes(a, false).Data), "other data")
}

func usesWriteList(r *responderRun) {
	fh := r.file([]byte("x")) // even one byte
	mr := r.mem(4096, sink)
	r.readRes(r.readChunked(fh, 0, 1, []rpcrdma.Segment{seg(mr, 0, 4096)}), true)
	r.want(mr.Bytes()[0] == 'x', "the byte is not in the chunk")
	a := r.readChunked(fh, 1, 1, []rpcrdma.Segment{seg(mr, 0, 4096)})
	r.want(r.readRes(a, true).Count == 0, "data behind the end")
	r.want(a.h.Writes.Len() == 1 && rpcrdma.ChunkLen(a.h.Writes.Chunk(0)) == 0, "at the end of the file the list comes back as %v", &a.h)
}

func unconsumedChunks(r *responderRun) {
	fh := r.file(pattern(100, 0))
	mr := r.mem(8192, sink)
	a := r.readChunked(fh, 0, 100, []rpcrdma.Segment{seg(mr, 0, 100)}, []rpcrdma.Segment{seg(mr, 4096, 100), seg(mr, 5000, 9)})
	r.readRes(a, true)
	r.must(a.h.Writes.Len() == 2, "%d of 2 Write chunks come back", a.h.Writes.Len())
	r.want(rpcrdma.ChunkLen(a.h.Writes.Chunk(0)) == 100, "the first chunk has %d of 100 bytes", rpcrdma.ChunkLen(a.h.Writes.Chunk(0)))
	r.want(rpcrdma.ChunkLen(a.h.Writes.Chunk(1)) == 0, "the second chunk comes back used")
	// No result is eligible: all come back.
	h := r.header(rpcrdma.RDMA_MSG)
	h.Writes.Add([]rpcrdma.Segment{seg(mr, 0, 100)})
	a = r.exchange(h, r.rpcCall(h.XID, nfs3.GETATTR, nfs3.AppendGetattrArgs(nil, &nfs3.GetattrArgs{Object: fh})))
	r.wantOK(a)
	r.want(a.h.Writes.Len() == 1 && rpcrdma.ChunkLen(a.h.Writes.Chunk(0)) == 0, "GETATTR returns %v", &a.h)
}

func emptyWriteChunk(r *responderRun) {
	want := pattern(101, 4)
	fh := r.file(want)
	mr := r.mem(4096, sink)
	a := r.readChunked(fh, 0, 200, nil, []rpcrdma.Segment{seg(mr, 0, 4096)})
	r.want(bytes.Equal(want, r.readRes(a, false).Data), "other data inline")
	r.must(a.h.Writes.Len() == 2, "%d of 2 Write chunks come back", a.h.Writes.Len())
	r.want(len(a.h.Writes.Chunk(0)) == 0, "the empty chunk comes back with segments")
	r.want(rpcrdma.ChunkLen(a.h.Writes.Chunk(1)) == 0, "the second chunk comes back used")
}

func replyFitsNowhere(r *responderRun) {
	fh := r.file(pattern(100000, 0))
	none := func(what string, f func(*rpcrdma.Header)) {
		r.each(what, func() {
			r.conn()
			h := r.header(rpcrdma.RDMA_MSG)
			f(h)
			r.wantErrChunk(r.exchange(h, r.rpcCall(h.XID, nfs3.READ, readArgs(fh, 0, 100000))))
		})
	}
	none("no chunk for a long reply", func(*rpcrdma.Header) {})
	none("Write chunk too short", func(h *rpcrdma.Header) { h.Writes.Add([]rpcrdma.Segment{seg(r.mem(100000, sink), 0, 99999)}) })
	none("Reply chunk too short", func(h *rpcrdma.Header) {
		h.HasReply, h.Reply = true, []rpcrdma.Segment{seg(r.mem(100000, sink), 0, 100000)}
	})
	none("Reply chunk without segments", func(h *rpcrdma.Header) { h.HasReply = true })
}

func eligibleItems(r *responderRun) {
	m := r.mount()
	// WRITE data in a Read chunk, READ data into a Write chunk.
	data := pattern(5001, 6)
	fh := r.file(nil)
	from, to := r.mem(len(data), source), r.mem(8192, sink)
	copy(from.Bytes(), data)
	r.wantWritten(r.writeChunked(fh, len(data), seg(from, 0, len(data))), len(data))
	r.readRes(r.readChunked(fh, 0, 8192, []rpcrdma.Segment{seg(to, 0, 8192)}), true)
	r.want(bytes.Equal(data, to.Bytes()[:len(data)]), "READ gives other data than WRITE was given")

	// SYMLINK path in a Read chunk.
	mr := r.mem(8192, source)
	path := "../" + strings.Repeat("long/", 30) + "p"
	copy(mr.Bytes(), path)
	const name = "conformance-link"
	_, _ = m.Remove(r.ctx, m.Root(), name)
	r.names = append(r.names, name)
	h := r.header(rpcrdma.RDMA_MSG)
	msg := r.rpcCall(h.XID, nfs3.SYMLINK, nfs3.AppendSymlinkArgsHead(nil, &nfs3.SymlinkArgs{Where: nfs3.DirOp{Dir: m.Root(), Name: []byte(name)}}, uint32(len(path))))
	h.Reads = []rpcrdma.ReadSegment{{Position: uint32(len(msg)), Segment: seg(mr, 0, len(path))}}
	a := r.exchange(h, msg)
	r.wantOK(a)
	var sym nfs3.SymlinkRes
	_, err := nfs3.ConsumeSymlinkRes(a.body, &sym)
	r.must(err == nil && sym.Status == nfs3.NFS3_OK, "SYMLINK: %v %v", sym.Status, err)
	l, err := m.Lookup(r.ctx, m.Root(), name)
	r.noErr(err, "LOOKUP")

	// READLINK path into a Write chunk.
	dst := r.mem(8192, sink)
	h = r.header(rpcrdma.RDMA_MSG)
	h.Writes.Add([]rpcrdma.Segment{seg(dst, 0, 10), seg(dst, 10, 8000)})
	a = r.exchange(h, r.rpcCall(h.XID, nfs3.READLINK, nfs3.AppendReadlinkArgs(nil, &nfs3.ReadlinkArgs{Symlink: l.FH})))
	r.wantOK(a)
	var link nfs3.ReadlinkRes
	n, _, err := nfs3.ConsumeReadlinkResHead(a.body, &link)
	r.must(err == nil && link.Status == nfs3.NFS3_OK, "READLINK: %v %v", link.Status, err)
	r.want(int(n) == len(path) && path == string(dst.Bytes()[:len(path)]), "READLINK of %d bytes is %q", n, dst.Bytes()[:len(path)])
}

func othersNotReduced(r *responderRun) {
	mr := r.mem(64, source)
	h := r.header(rpcrdma.RDMA_MSG)
	msg := r.rpcCall(h.XID, nfs3.LOOKUP, nfs3.AppendLookupArgs(nil, &nfs3.LookupArgs{What: nfs3.DirOp{Dir: r.mount().Root(), Name: []byte("abcd")}}))
	h.Reads = []rpcrdma.ReadSegment{{Position: uint32(len(msg) - 4), Segment: seg(mr, 0, 4)}}
	a := r.exchange(h, msg[:len(msg)-4])
	r.want(a.h.Proc == rpcrdma.RDMA_ERROR || !a.rpc.OK(), "LOOKUP with its name in a Read chunk succeeds")
	r.null()
}

func largestLegalCalls(r *responderRun) {
	want := pattern(100001, 7)
	fh := r.file(nil)
	mr := r.mem(len(want), source)
	copy(mr.Bytes(), want)
	h := r.header(rpcrdma.RDMA_MSG)
	msg := r.rpcCall(h.XID, nfs3.WRITE, writeHead(fh, len(want), nfs3.FILE_SYNC))
	for i := range 16 {
		h.Reads = append(h.Reads, rpcrdma.ReadSegment{Position: uint32(len(msg)), Segment: seg(mr, i*6250, 6250)})
	}
	h.Reads[15].Length = 6251
	r.wantWritten(r.exchange(h, msg), len(want))
	r.wantContents(fh, want, "WRITE from 16 segments")

	dst := r.mem(len(want), sink)
	var segs []rpcrdma.Segment
	for i := range 16 {
		segs = append(segs, seg(dst, i*6250, 6250))
	}
	segs[15].Length = 6251
	r.readRes(r.readChunked(fh, 0, len(want), segs), true)
	r.want(bytes.Equal(want, dst.Bytes()), "other data in 16 segments")
}

// longCallsWithData are long calls whose data is in a chunk besides, with and without a length that has a pad.
func longCallsWithData(r *responderRun) {
	for _, n := range []int{100000, 100001} {
		want := pattern(n, 7)
		fh := r.file(nil)
		mr := r.mem(n, source)
		copy(mr.Bytes(), want)
		h := r.header(rpcrdma.RDMA_NOMSG)
		msg := r.rpcCall(h.XID, nfs3.WRITE, writeHead(fh, n, nfs3.FILE_SYNC))
		h.Reads = []rpcrdma.ReadSegment{{Position: uint32(len(msg)), Segment: seg(mr, 0, n)}}
		a := r.longCall(h, msg, 4096)
		if r.want(a.h.Proc == rpcrdma.RDMA_MSG && a.rpc.OK(), "a long WRITE with %d bytes in a Read chunk: %v", n, a) {
			r.wantWritten(a, n)
			r.wantContents(fh, want, "WRITE by a long call with a Read chunk")
		}
	}
}

// badReadChunks sends WRITEs whose Read chunks cannot be right: F02 and C11.
func badReadChunks(r *responderRun) {
	fh := r.file(nil)
	var mr verbs.MR
	type place struct {
		what string
		pos  func(n int) []rpcrdma.ReadSegment
	}
	at := func(p int, off, n int) rpcrdma.ReadSegment {
		return rpcrdma.ReadSegment{Position: uint32(p), Segment: seg(mr, off, n)}
	}
	for _, c := range []place{
		{"position behind the message", func(n int) []rpcrdma.ReadSegment { return []rpcrdma.ReadSegment{at(n+4, 0, 1000)} }},
		{"position 4 below the top", func(int) []rpcrdma.ReadSegment { return []rpcrdma.ReadSegment{at(-4, 0, 1000)} }},
		{"position 2^31", func(int) []rpcrdma.ReadSegment { return []rpcrdma.ReadSegment{at(1<<31, 0, 1000)} }},
		{"two chunks that overlap", func(n int) []rpcrdma.ReadSegment {
			return []rpcrdma.ReadSegment{at(n-8, 0, 500), at(n-4, 0, 500)}
		}},
		{"two chunks, the second first", func(n int) []rpcrdma.ReadSegment {
			return []rpcrdma.ReadSegment{at(n, 0, 500), at(n-8, 0, 500)}
		}},
	} {
		r.each(c.what, func() {
			r.hangUp()
			mr = r.mem(8192, source)
			h := r.header(rpcrdma.RDMA_MSG)
			msg := r.rpcCall(h.XID, nfs3.WRITE, writeHead(fh, 1000, nfs3.FILE_SYNC))
			h.Reads = c.pos(len(msg))
			r.wantErrChunk(r.exchange(h, msg))
		})
	}
	r.wantContents(fh, nil, "WRITEs with bad chunks")
}

// hugeLengths asks for chunks of lengths that nobody has: F03.
func hugeLengths(r *responderRun) {
	fh := r.file(nil)
	for _, n := range []uint32{1 << 28, 1 << 31, 1<<32 - 1, 1<<32 - 4} {
		for _, long := range []bool{false, true} {
			what := fmt.Sprintf("a Read segment of %#x bytes", n)
			if long {
				what += " at position zero"
			}
			r.each(what, func() {
				mr := r.mem(4096, source)
				h := r.header(rpcrdma.RDMA_MSG)
				msg := r.rpcCall(h.XID, nfs3.WRITE, nfs3.AppendWriteArgsHead(nil, &nfs3.WriteArgs{File: fh, Count: n, Stable: nfs3.FILE_SYNC}, n))
				s := rpcrdma.ReadSegment{Position: uint32(len(msg)), Segment: seg(mr, 0, 0)}
				s.Length = n
				if long {
					h.Proc, s.Position, msg = rpcrdma.RDMA_NOMSG, 0, nil
				}
				h.Reads = append(h.Reads, s)
				r.wantErrChunk(r.exchange(h, msg))
				for range 8 { // their sum wraps
					h.Reads = append(h.Reads, s)
				}
				r.wantErrChunk(r.exchange(h, msg))
			})
		}
	}
}

// hugeCounts says that a chunk has more segments than the message could hold: F04.
func hugeCounts(r *responderRun) {
	for _, n := range []uint32{1 << 28, 1<<28 + 1, 1 << 31, 1<<32 - 1, 1000} {
		for _, reply := range []bool{false, true} {
			r.each(fmt.Sprintf("%#x segments, Reply chunk %t", n, reply), func() {
				r.conn()
				h := r.header(rpcrdma.RDMA_MSG)
				at := 24 // count of the first Write chunk
				if reply {
					h.HasReply, at = true, 28
				} else {
					h.Writes.Add(nil)
				}
				b := rpcrdma.AppendHeader(nil, h)
				binary.BigEndian.PutUint32(b[at:], n)
				r.send(append(b, r.rpcCall(h.XID, nfs3.NULL, nil)...))
				r.wantErrChunk(r.answer())
			})
		}
	}
}

// unalignedData reads and writes at every alignment, by every way: F06, F07, F19 and F21's data.
func unalignedData(r *responderRun) {
	want := pattern(20000, 8)
	fh := r.file(want)
	dst := r.mem(65536, sink)
	for _, off := range []int{0, 1, 2, 3, 4093, 4095, 4097, 8191} {
		for _, n := range []int{1, 3, 4, 4095, 4096, 4097, 9001} {
			part := want[off : off+n]
			r.readRes(r.readChunked(fh, uint64(off), n, []rpcrdma.Segment{seg(dst, off%5, n)}), true)
			r.want(bytes.Equal(part, dst.Bytes()[off%5:off%5+n]), "READ of %d at %d into a Write chunk: other data", n, off)
			h := r.header(rpcrdma.RDMA_MSG)
			h.HasReply, h.Reply = true, []rpcrdma.Segment{seg(dst, 3, 1000), seg(dst, 5003, 20000)}
			a := r.exchange(h, r.rpcCall(h.XID, nfs3.READ, readArgs(fh, uint64(off), n)))
			if a.h.Proc == rpcrdma.RDMA_NOMSG {
				var b []byte
				for i, s := range a.h.Reply {
					b = append(b, dst.Bytes()[[...]int{3, 5003}[i]:][:s.Length]...)
				}
				r.decodeRPC(a, b)
			}
			r.want(bytes.Equal(part, r.readRes(a, false).Data), "READ of %d at %d without a Write chunk: other data", n, off)
		}
	}
	// Inline WRITEs of every length to 40, and some longer.
	for n := 1; n < 3000; n = max(n+1, n*5/4) {
		fh, data := r.file(nil), pattern(n, byte(n))
		h := r.header(rpcrdma.RDMA_MSG)
		args := nfs3.AppendWriteArgs(nil, &nfs3.WriteArgs{File: fh, Count: uint32(n), Stable: nfs3.FILE_SYNC, Data: data})
		r.wantWritten(r.exchange(h, r.rpcCall(h.XID, nfs3.WRITE, args)), n)
		r.wantContents(fh, data, "inline WRITE")
	}
}
