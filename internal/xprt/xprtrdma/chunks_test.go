package xprtrdma

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/xdr"
	"example.org/nfsrdma/verbs/softroce"
)

const callHead = 40 // RPC call header with AUTH_NONE

// sizes of a message that fits inline, to the byte.
func TestC07C10C26ChunkDecisions(t *testing.T) {
	const (
		hdr = rpcrdma.MinHeaderLen
		ok  = rpc.SuccessLen + 4
	)
	for _, c := range []struct {
		name string
		mode RegMode
		spec callSpec
		want string // rtype wtype, or an error
	}{
		{"null", FastReg, callSpec{}, "inline inline"},
		{"data that just fits", FastReg, callSpec{data: make([]byte, 4096-hdr-callHead)}, "inline inline"},
		{"data with pad that just fits", FastReg, callSpec{data: make([]byte, 4096-hdr-callHead-3)}, "inline inline"},
		{"a byte too many", FastReg, callSpec{data: make([]byte, 4096-hdr-callHead+1)}, "readch inline"},
		{"64 KiB", FastReg, callSpec{data: make([]byte, 65536)}, "readch inline"},
		{"64 KiB", AllPhysical, callSpec{data: make([]byte, 65536)}, "readch inline"},
		{"sink of 3 bytes", FastReg, callSpec{sink: make([]byte, 3)}, "inline writech"},
		{"sink of 3 bytes", AllPhysical, callSpec{sink: make([]byte, 3)}, "inline writech"},
		{"sink of 3 bytes that may come inline", FastReg, callSpec{sink: make([]byte, 3), inline: true}, "inline inline"},
		{"sink that may but cannot", FastReg, callSpec{sink: make([]byte, 4096), inline: true}, "inline writech"},
		{"reply that just fits", FastReg, callSpec{maxReply: 4096 - hdr}, "inline inline"},
		{"reply a word longer", FastReg, callSpec{maxReply: 4096 - hdr + 4}, "inline replych"},
		{"reply a word longer", AllPhysical, callSpec{maxReply: 4096 - hdr + 4}, "inline replych"},
		{"arguments that just fit", FastReg, callSpec{args: 4096 - hdr - callHead}, "inline inline"},
		{"arguments a word longer", FastReg, callSpec{args: 4096 - hdr - callHead + 4}, "areadch inline"},
		{"long both ways", FastReg, callSpec{args: 5000, maxReply: 10000}, "areadch replych"},
		{"long both ways", AllPhysical, callSpec{args: 5000, maxReply: 10000}, "areadch replych"},
		{"data behind long arguments", FastReg, callSpec{args: 4096 - hdr - callHead, data: make([]byte, 100)}, "areadch inline"},
		{"data and sink", FastReg, callSpec{data: make([]byte, 9000), sink: make([]byte, 9000)}, "readch writech"},
		{"sink, and a reply that is long without it", FastReg, callSpec{sink: make([]byte, 100), maxReply: 4096}, "inline replych"},
		{"long both ways", Register, callSpec{args: 5000, maxReply: 10000}, "areadch replych"},
		{"data and sink", Register, callSpec{data: make([]byte, 9000), sink: make([]byte, 9000)}, "readch writech"},
		{"long both ways", MemWindow, callSpec{args: 5000, maxReply: 10000}, "areadch replych"},
		{"data and sink", MemWindow, callSpec{data: make([]byte, 9000), sink: make([]byte, 9000)}, "readch writech"},
		{"long both ways", FMR, callSpec{args: 5000, maxReply: 10000}, "areadch replych"},
		{"data and sink", FMR, callSpec{data: make([]byte, 9000), sink: make([]byte, 9000)}, "readch writech"},
		{"fits", Bounce, callSpec{data: make([]byte, 4096-hdr-callHead)}, "inline inline"},
		{"too long", Bounce, callSpec{data: make([]byte, 4096-hdr-callHead+1)},
			fmt.Sprintf("call of %d bytes exceeds 4096, the limit of InlineSend", hdr+callHead+4096-hdr-callHead+4)},
		{"sink fits", Bounce, callSpec{sink: make([]byte, 4096-hdr-ok)}, "inline inline"},
		{"sink does not", Bounce, callSpec{sink: make([]byte, 4096-hdr-ok+1)},
			"reply of 4100 bytes exceeds 4096, the limit of InlineRecv"},
		{"reply does not", Bounce, callSpec{maxReply: 4096 - hdr + 4}, "reply of 4100 bytes exceeds 4096, the limit of InlineRecv"},
	} {
		t.Run(fmt.Sprintf("%v/%s", c.mode, c.name), func(t *testing.T) {
			r := newRig(t, withConfig(func(k *Config) { k.Mode = c.mode }))
			q, err := r.x.Get(bg)
			require.NoError(t, err)
			defer r.x.Put(q)
			q.Msg = append(q.Msg, make([]byte, callHead+c.spec.args)...)
			q.Data, q.Sink, q.SinkInline = c.spec.data, c.spec.sink, c.spec.inline
			if q.MaxReply = c.spec.maxReply; q.MaxReply == 0 {
				q.MaxReply = ok
			}
			p, err := q.choose(r.x.link.Load())
			if err != nil {
				assert.EqualError(t, err, c.want)
				assert.ErrorIs(t, err, ErrMarshal)
				return
			}
			assert.Equal(t, c.want, fmt.Sprint(p.rtype, " ", p.wtype))
		})
	}
}

// dataCase is a length of Data, and whether its pad goes into the chunk.
func testReadChunk(t *testing.T, mode RegMode, n int, pad bool, pers softroce.Personality) {
	var got []byte
	segs := 0
	r := newRig(t, withConfig(func(k *Config) { k.Mode, k.PadInChunk = mode, pad }),
		func(c *rigConfig) { c.personality = pers },
		serve(func(k *call) {
			got = k.fetch(uint32(len(k.msg)))
			assert.Len(t, k.msg, callHead+8)
			want := n
			if pad {
				want = xdr.Roundup(n)
			}
			chunk, _ := rpcrdma.ReadChunk(k.hdr.Reads)
			assert.EqualValues(t, want, rpcrdma.ReadChunkLen(chunk))
			wantSegs := 1
			switch {
			case mode == AllPhysical:
				wantSegs = (n + 4095) / 4096
			case pers.Attr.MaxFastRegPages < 512:
				wantSegs = (n + 4096*pers.Attr.MaxFastRegPages - 1) / (4096 * pers.Attr.MaxFastRegPages)
			}
			if pad && n%4 != 0 {
				wantSegs++
			}
			assert.Len(t, chunk, wantSegs)
			segs = wantSegs
			k.reply()
		}))
	data := pattern(n, 3)
	assert.Equal(t, okBody, r.mustDo(callSpec{args: 8, data: data}))
	require.GreaterOrEqual(t, len(got), n)
	assert.True(t, bytes.Equal(data, got[:n]), "data at the peer")
	r.wantCounter("read_chunk_count", segs) // as in the kernel, of segments
	r.wantCounter("nomsg_call_count", 0)
	r.wantCounter("pullup_copy_count", 0)
}

func TestC08C11C12ReadChunk(t *testing.T) {
	for _, mode := range []RegMode{FastReg, AllPhysical} {
		for _, n := range []int{4096, 5000, 5001, 5002, 5003, 8192, 65535, 65536} {
			for _, pad := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v/%d/pad=%t", mode, n, pad), func(t *testing.T) {
					testReadChunk(t, mode, n, pad, softroce.RoCE)
				})
			}
		}
	}
}

// A page list of 24 pages cuts a chunk into several segments.
func TestC10PageListLongerThanDevice(t *testing.T) {
	p := softroce.T310
	p.Attr.MaxFastRegPages = 3
	testReadChunk(t, FastReg, 65536-5, false, p)
}

func TestC13C15WriteChunk(t *testing.T) {
	for _, mode := range []RegMode{FastReg, AllPhysical} {
		for _, n := range []int{1, 3, 4096, 5001, 65536} {
			t.Run(fmt.Sprintf("%v/%d", mode, n), func(t *testing.T) {
				short := n / 2
				r := newRig(t, withConfig(func(k *Config) { k.Mode = mode }), serve(func(k *call) {
					h := k.answer()
					segs := h.Writes.Chunk(0)
					assert.EqualValues(t, n, rpcrdma.ChunkLen(segs))
					k.store(segs, pattern(n-short, 9))
					k.send(h, success(h.XID, okBody), 0)
				}))
				q, err := r.x.Get(bg)
				require.NoError(t, err)
				defer r.x.Put(q)
				sink := make([]byte, n)
				_, err = r.doReq(bg, q, callSpec{sink: sink})
				require.NoError(t, err)
				assert.Equal(t, n-short, q.SinkLen, "the item's length, not the chunk's")
				assert.Equal(t, pattern(n-short, 9), sink[:n-short])
				r.wantCounter("write_chunk_count", max(1, btoi(mode == AllPhysical)*(n+4095)/4096))
				r.wantCounter("total_rdma_request", n)
				r.wantCounter("total_rdma_reply", n-short)
			})
		}
	}
}

// C16, C19: all of a long call is in a position-zero Read chunk, its data with pad.
func TestC16C19LongCall(t *testing.T) {
	for _, mode := range []RegMode{FastReg, AllPhysical} {
		for _, data := range []int{0, 5} {
			t.Run(fmt.Sprintf("%v/data=%d", mode, data), func(t *testing.T) {
				const args = 20000
				var got []byte
				r := newRig(t, withConfig(func(k *Config) { k.Mode = mode }), serve(func(k *call) {
					assert.Equal(t, rpcrdma.RDMA_NOMSG, k.hdr.Proc)
					got = k.fetch(0)
					k.reply()
				}))
				r.mustDo(callSpec{args: args, data: pattern(data, 1)})
				want := append(got[:callHead:callHead], make([]byte, args)...)
				for i := range args {
					want[callHead+i] = byte(i)
				}
				want = xdr.AppendFixedOpaque(want, pattern(data, 1))
				assert.Equal(t, want, got)
				r.wantCounter("nomsg_call_count", 1)
			})
		}
	}
}

func TestC26C27ReplyChunk(t *testing.T) {
	for _, mode := range []RegMode{FastReg, AllPhysical} {
		t.Run(mode.String(), func(t *testing.T) {
			const most = 30000
			long := true
			r := newRig(t, withConfig(func(k *Config) { k.Mode = mode }), serve(func(k *call) {
				assert.True(t, k.hdr.HasReply)
				assert.GreaterOrEqual(t, int(rpcrdma.ChunkLen(k.hdr.Reply)), most)
				if long {
					k.replyLong(pattern(most-rpc.SuccessLen, 5))
				} else {
					k.reply() // it fits after all
				}
			}))
			assert.Equal(t, pattern(most-rpc.SuccessLen, 5), r.mustDo(callSpec{maxReply: most}))
			long = false
			assert.Equal(t, okBody, r.mustDo(callSpec{maxReply: most}))
			r.wantCounter("reply_chunk_count", 2*max(1, btoi(mode == AllPhysical)*(most+4095)/4096))
		})
	}
}

// F19: data just below the inline threshold is exact, and nothing else is sent.
func TestF19InlineDataExact(t *testing.T) {
	var got []byte
	r := newRig(t, serve(func(k *call) { got = k.msg; k.reply() }))
	for n := 0; n < 4096-rpcrdma.MinHeaderLen-callHead; n += 13 {
		r.mustDo(callSpec{data: pattern(n, 2)})
		want := xdr.AppendFixedOpaque(got[:callHead:callHead], pattern(n, 2))
		require.True(t, bytes.Equal(want, got), "%d bytes", n)
	}
	r.wantCounter("read_chunk_count", 0)
}

func TestReturnedChunk(t *testing.T) {
	s := func(h, n uint32, off uint64) rpcrdma.Segment {
		return rpcrdma.Segment{Handle: h, Length: n, Offset: off}
	}
	offered := []rpcrdma.Segment{s(1, 100, 0x1000), s(2, 50, 0x2000)}
	for _, c := range []struct {
		name string
		got  []rpcrdma.Segment
		n    int
		ok   bool
	}{
		{"full", []rpcrdma.Segment{s(1, 100, 0x1000), s(2, 50, 0x2000)}, 150, true},
		{"second not used", []rpcrdma.Segment{s(1, 100, 0x1000), s(2, 0, 0x2000)}, 100, true},
		{"unused", []rpcrdma.Segment{s(1, 0, 0x1000), s(2, 0, 0x2000)}, 0, true},
		{"hole", []rpcrdma.Segment{s(1, 99, 0x1000), s(2, 1, 0x2000)}, 0, false},
		{"too long", []rpcrdma.Segment{s(1, 100, 0x1000), s(2, 51, 0x2000)}, 0, false},
		{"other handle", []rpcrdma.Segment{s(1, 100, 0x1000), s(3, 50, 0x2000)}, 0, false},
		{"other offset", []rpcrdma.Segment{s(1, 100, 0x1000), s(2, 50, 0x2001)}, 0, false},
		{"fewer", []rpcrdma.Segment{s(1, 100, 0x1000)}, 0, false},
		{"more", []rpcrdma.Segment{s(1, 100, 0x1000), s(2, 50, 0x2000), s(3, 0, 0)}, 0, false},
		{"none", nil, 0, false},
	} {
		n, ok := returned(offered, c.got)
		assert.Equal(t, c.ok, ok, c.name)
		assert.Equal(t, c.n, n, c.name)
	}
}
