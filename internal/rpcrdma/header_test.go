package rpcrdma_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/xdr"
	"example.org/nfsrdma/internal/xdr/xdrtest"
)

func seg(handle, length uint32, offset uint64) rpcrdma.Segment {
	return rpcrdma.Segment{Handle: handle, Length: length, Offset: offset}
}

// newHeader gives a version 1 header that change has filled in.
func newHeader(change func(h *rpcrdma.Header)) *rpcrdma.Header {
	h := &rpcrdma.Header{XID: 0x11223344, Vers: 1, Credits: 32}
	change(h)
	return h
}

func consumeHeader(b []byte, h *rpcrdma.Header) (int, error) {
	n, err := rpcrdma.ConsumeHeader(b, h, 0)
	return n, err
}

func headerCases() []xdrtest.Case {
	var cases []xdrtest.Case
	add := func(name string, change func(h *rpcrdma.Header)) {
		h := newHeader(change)
		// As a decode leaves them, empty lists are nil or have storage.
		cases = append(cases, xdrtest.Of(name, h, rpcrdma.AppendHeader, consumeHeader))
	}
	add("RDMA_MSG without chunks", func(*rpcrdma.Header) {})
	add("RDMA_MSG with a Read chunk of two segments", func(h *rpcrdma.Header) {
		h.Reads = []rpcrdma.ReadSegment{{Position: 112, Segment: seg(0xa1, 4096, 0x7f00)}, {Position: 112, Segment: seg(0xa2, 904, 0x9000)}}
	})
	add("RDMA_MSG with two Write chunks, the second empty", func(h *rpcrdma.Header) {
		h.Writes.Add([]rpcrdma.Segment{seg(0xb1, 4096, 1<<40), seg(0xb2, 4096, 1<<41)})
		h.Writes.Add(nil)
	})
	add("RDMA_MSG with a Reply chunk", func(h *rpcrdma.Header) {
		h.HasReply, h.Reply = true, []rpcrdma.Segment{seg(0xc1, 256, 0x1000)}
	})
	add("RDMA_MSG with a Reply chunk of no segment", func(h *rpcrdma.Header) { h.HasReply = true })
	add("RDMA_NOMSG with everything", func(h *rpcrdma.Header) {
		h.Proc = rpcrdma.RDMA_NOMSG
		h.Reads = []rpcrdma.ReadSegment{{Segment: seg(0xa1, 2048, 0x7f00)}, {Position: 128, Segment: seg(0xa2, 8, 8)}}
		h.Writes.Add([]rpcrdma.Segment{seg(0xb1, 8, 8)})
		h.HasReply, h.Reply = true, []rpcrdma.Segment{seg(0xc1, 8, 8), seg(0xc2, 0, math.MaxUint64)}
	})
	add("RDMA_MSGP", func(h *rpcrdma.Header) {
		h.Proc, h.Align, h.Thresh = rpcrdma.RDMA_MSGP, 4096, 2048
		h.Reads = []rpcrdma.ReadSegment{{Position: 4, Segment: seg(0xa1, 8, 8)}}
	})
	add("RDMA_DONE", func(h *rpcrdma.Header) { h.Proc = rpcrdma.RDMA_DONE })
	add("RDMA_ERROR for the version", func(h *rpcrdma.Header) {
		h.Proc, h.Err, h.Low, h.High = rpcrdma.RDMA_ERROR, rpcrdma.ERR_VERS, 1, 1
	})
	add("RDMA_ERROR for a chunk", func(h *rpcrdma.Header) { h.Proc, h.Err = rpcrdma.RDMA_ERROR, rpcrdma.ERR_CHUNK })
	return cases
}

func TestHeaderCases(t *testing.T) { xdrtest.Run(t, "headers.txt", headerCases()) }

// TestHeaderErrors is about what a responder does with what it cannot take.
func TestHeaderErrors(t *testing.T) {
	bytesOf := func(change func(h *rpcrdma.Header)) []byte {
		return rpcrdma.AppendHeader(nil, newHeader(change))
	}
	plain := bytesOf(func(*rpcrdma.Header) {})
	msgp := bytesOf(func(h *rpcrdma.Header) { h.Proc = rpcrdma.RDMA_MSGP })
	oneSegment := func(h *rpcrdma.Header) { h.HasReply, h.Reply = true, []rpcrdma.Segment{seg(1, 2, 3)} }
	patch := func(b []byte, off int, v uint32) []byte {
		return append(xdr.AppendUint32(append([]byte(nil), b[:off]...), v), b[off+4:]...)
	}
	const drop = rpcrdma.ErrCode(0)
	for _, c := range []struct {
		name  string
		in    []byte
		err   error
		field string
		reply rpcrdma.ErrCode
	}{
		{"nothing", nil, rpcrdma.ErrShort, "rdma_xid", drop},
		{"27 bytes", plain[:27], rpcrdma.ErrShort, "rdma_reply", drop},
		{"27 bytes of another version", patch(plain[:27], 4, 2), rpcrdma.ErrShort, "rdma_vers", drop},
		{"version 0", patch(plain, 4, 0), rpcrdma.ErrVersion, "rdma_vers", rpcrdma.ERR_VERS},
		{"version 2", patch(plain, 4, 2), rpcrdma.ErrVersion, "rdma_vers", rpcrdma.ERR_VERS},
		{"unknown proc", patch(plain, 12, 5), rpcrdma.ErrHeader, "rdma_proc", rpcrdma.ERR_CHUNK},
		{"Read list word", patch(plain, 16, 2), rpcrdma.ErrHeader, "rdma_reads", rpcrdma.ERR_CHUNK},
		{"Read list cut", patch(plain, 16, 1), rpcrdma.ErrHeader, "length", rpcrdma.ERR_CHUNK},
		{"Write list word", patch(plain, 20, 7), rpcrdma.ErrHeader, "rdma_writes", rpcrdma.ERR_CHUNK},
		{"Write list without end", patch(patch(plain, 20, 1), 24, 0), rpcrdma.ErrHeader, "rdma_writes", rpcrdma.ERR_CHUNK},
		{"Reply chunk without segments", patch(bytesOf(oneSegment)[:36], 28, 2), rpcrdma.ErrHeader, "segment count", rpcrdma.ERR_CHUNK},
		{"RDMA_MSGP cut", msgp[:32], rpcrdma.ErrHeader, "rdma_reply", rpcrdma.ERR_CHUNK},
		{"RDMA_ERROR of an unknown kind", patch(append(patch(plain, 12, 4), 0), 16, 3), rpcrdma.ErrHeader, "rdma_err", drop},
		{"RDMA_ERROR of another version", patch(patch(plain, 12, 4), 4, 9), rpcrdma.ErrVersion, "rdma_vers", drop},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &rpcrdma.Header{}
			n, err := rpcrdma.ConsumeHeader(c.in, h, 0)
			assert.Equal(t, -1, n)
			require.ErrorIs(t, err, c.err)
			var e *xdr.Error
			require.True(t, errors.As(err, &e))
			assert.Equal(t, c.field, e.Field)
			code, ok := rpcrdma.ErrorReply(h, err)
			assert.Equal(t, c.reply, code)
			assert.Equal(t, c.reply != drop, ok)
			if !ok {
				return
			}
			// C30, C33: the answer has the call's XID and version.
			vers := h.Vers
			h.SetError(code)
			var got rpcrdma.Header
			b := rpcrdma.AppendHeader(nil, h)
			assert.EqualValues(t, 0x11223344, h.XID)
			assert.Equal(t, vers, h.Vers)
			rpcrdma.ConsumeHeader(patch(b, 4, 1), &got, 0)
			assert.Equal(t, rpcrdma.RDMA_ERROR, got.Proc)
			assert.Equal(t, code, got.Err)
			if code == rpcrdma.ERR_VERS {
				assert.EqualValues(t, 1, got.Low)
				assert.EqualValues(t, 1, got.High)
			}
		})
	}
}

func TestHeaderSegmentLimit(t *testing.T) {
	h := newHeader(func(h *rpcrdma.Header) {
		h.Reads = []rpcrdma.ReadSegment{{Segment: seg(1, 1, 1)}, {Segment: seg(2, 2, 2)}}
		h.Writes.Add([]rpcrdma.Segment{seg(3, 3, 3), seg(4, 4, 4)})
		h.Writes.Add([]rpcrdma.Segment{seg(5, 5, 5)})
		h.HasReply, h.Reply = true, []rpcrdma.Segment{seg(6, 6, 6)}
	})
	b := rpcrdma.AppendHeader(nil, h)
	for limit := 1; limit <= 7; limit++ {
		var got rpcrdma.Header
		_, err := rpcrdma.ConsumeHeader(b, &got, limit)
		if limit < 6 {
			require.ErrorIs(t, err, rpcrdma.ErrHeader, "limit %d", limit)
			require.LessOrEqual(t, len(got.Reads)+got.Writes.Segments()+len(got.Reply), limit)
		} else {
			require.NoError(t, err, "limit %d", limit)
		}
	}
}

// TestIllegalHeader wants the encoder to write what it is told, for tests of the other side.
func TestIllegalHeader(t *testing.T) {
	h := newHeader(func(h *rpcrdma.Header) { h.Vers, h.Proc = 7, 9 })
	assert.Equal(t, "\x11\x22\x33\x44\x00\x00\x00\x07\x00\x00\x00\x20\x00\x00\x00\x09", string(rpcrdma.AppendHeader(nil, h)))
	assert.Equal(t, 16, rpcrdma.HeaderLen(h))
	assert.Equal(t, "RDMA_PROC(9) xid=0x11223344 vers=7 credits=32", h.String())
	h = newHeader(func(h *rpcrdma.Header) { h.Proc, h.Err = rpcrdma.RDMA_ERROR, 3 })
	assert.Len(t, rpcrdma.AppendHeader(nil, h), rpcrdma.HeaderLen(h))
	assert.Equal(t, "RDMA_ERROR xid=0x11223344 vers=1 credits=32 RDMA_ERR(3)", h.String())
}

func TestPatch(t *testing.T) {
	b := rpcrdma.AppendHeader(nil, newHeader(func(*rpcrdma.Header) {}))
	rpcrdma.PatchXID(b, 0xdeadbeef)
	rpcrdma.PatchCredits(b, 77)
	var h rpcrdma.Header
	_, err := rpcrdma.ConsumeHeader(b, &h, 0)
	require.NoError(t, err)
	assert.Equal(t, uint32(0xdeadbeef), h.XID)
	assert.EqualValues(t, 77, h.Credits)
	assert.EqualValues(t, 1, h.Vers)
}

func drawSegments(t *rapid.T, label string) []rpcrdma.Segment {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) rpcrdma.Segment {
		return seg(rapid.Uint32().Draw(t, "handle"), rapid.Uint32().Draw(t, "length"), rapid.Uint64().Draw(t, "offset"))
	}), 0, 5).Draw(t, label)
}

func TestHeaderRoundTrip(t *testing.T) {
	var got rpcrdma.Header // shared, so that what one decode leaves would be found by the next
	rapid.Check(t, func(t *rapid.T) {
		h := &rpcrdma.Header{Vers: 1}
		h.XID = rapid.Uint32().Draw(t, "xid")
		h.Credits = rapid.Uint32().Draw(t, "credits")
		h.Proc = rapid.SampledFrom([]rpcrdma.Proc{rpcrdma.RDMA_MSG, rpcrdma.RDMA_NOMSG, rpcrdma.RDMA_MSGP}).Draw(t, "proc")
		for _, s := range drawSegments(t, "reads") {
			h.Reads = append(h.Reads, rpcrdma.ReadSegment{Position: rapid.Uint32().Draw(t, "position"), Segment: s})
		}
		for range rapid.IntRange(0, 4).Draw(t, "writes") {
			h.Writes.Add(drawSegments(t, "write"))
		}
		if h.HasReply = rapid.Bool().Draw(t, "has reply"); h.HasReply {
			h.Reply = drawSegments(t, "reply")
		}
		b := rpcrdma.AppendHeader(nil, h)
		require.Len(t, b, rpcrdma.HeaderLen(h))
		n, err := rpcrdma.ConsumeHeader(append(b, "the RPC message"...), &got, 0)
		require.NoError(t, err)
		require.Equal(t, len(b), n)
		require.Equal(t, h.String(), got.String())
		require.Equal(t, b, rpcrdma.AppendHeader(nil, &got))
		require.Equal(t, h.Writes.Len(), got.Writes.Len())
	})
}

// fullHeader has as many segments as a warm Header is asked to hold below.
func fullHeader() *rpcrdma.Header {
	return newHeader(func(h *rpcrdma.Header) {
		for i := range uint32(8) {
			h.Reads = append(h.Reads, rpcrdma.ReadSegment{Position: 112, Segment: seg(i, 4096, 4096)})
			h.Writes.Add([]rpcrdma.Segment{seg(i, 4096, 4096), seg(i, 4096, 4096)})
			h.Reply = append(h.Reply, seg(i, 4096, 4096))
		}
		h.HasReply = true
	})
}

func TestHeaderAllocs(t *testing.T) {
	b := rpcrdma.AppendHeader(nil, fullHeader())
	buf := make([]byte, 0, len(b))
	var h rpcrdma.Header
	_, err := rpcrdma.ConsumeHeader(b, &h, 0)
	require.NoError(t, err)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := rpcrdma.ConsumeHeader(b, &h, 64); err != nil {
			t.Fatal(err)
		}
		buf = rpcrdma.AppendHeader(buf[:0], &h)
	}))
	require.Equal(t, b, buf)
}

// TestHostileCounts wants a count that the message cannot hold to cost the error and no more.
func TestHostileCounts(t *testing.T) {
	for _, count := range []uint32{1 << 28, 1 << 31, math.MaxUint32} {
		write := rpcrdma.AppendHeader(nil, newHeader(func(h *rpcrdma.Header) { h.Writes.Add(nil) }))
		write = append(xdr.AppendUint32(write[:24], count), write[28:]...)
		reply := rpcrdma.AppendHeader(nil, newHeader(func(h *rpcrdma.Header) { h.HasReply = true }))
		reply = append(xdr.AppendUint32(reply[:28], count), make([]byte, 64)...)
		for _, b := range [][]byte{write, reply} {
			var h rpcrdma.Header
			allocs := testing.AllocsPerRun(10, func() {
				if n, _ := rpcrdma.ConsumeHeader(b, &h, 0); n >= 0 {
					t.Fatal("taken")
				}
			})
			assert.LessOrEqual(t, allocs, 2.0, "the error and its cause")
			assert.Zero(t, cap(h.Reply)+cap(h.Reads))
			assert.Zero(t, h.Writes.Segments())
		}
	}
}

func BenchmarkConsumeHeader(b *testing.B) {
	for name, h := range map[string]*rpcrdma.Header{
		"inline": newHeader(func(*rpcrdma.Header) {}),
		"read64k": newHeader(func(h *rpcrdma.Header) {
			h.Writes.Add([]rpcrdma.Segment{seg(1, 65536, 4096)})
		}),
		"full": fullHeader(),
	} {
		b.Run(name, func(b *testing.B) {
			in := rpcrdma.AppendHeader(nil, h)
			var h rpcrdma.Header
			b.ReportAllocs()
			for b.Loop() {
				if _, err := rpcrdma.ConsumeHeader(in, &h, 64); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
