package xprtrdma

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/xdr"
)

// wantDropped wants a call to be still without reply when its caller gives up.
func (r *rig) wantDropped(c callSpec) {
	r.t.Helper()
	ctx, cancel := r.s.WithTimeout(bg, 10*second)
	defer cancel()
	_, err := r.do(ctx, c)
	assert.ErrorIs(r.t, err, ctx.Err())
	assert.Error(r.t, ctx.Err())
}

// badReplies are answers to a call with a Write chunk of two segments, or a Reply chunk, that break the
// protocol. Each sends its answer itself.
var badReplies = []struct {
	name string
	send func(k *call)
}{
	{"C21: a Read list", func(k *call) {
		h := k.answer()
		h.Reads = append(h.Reads, rpcrdma.ReadSegment{Position: 4, Segment: rpcrdma.Segment{Handle: 1, Length: 4}})
		k.send(h, success(h.XID, okBody), 0)
	}},
	{"no Write list", func(k *call) {
		h := k.answer()
		h.Writes.Reset()
		k.send(h, success(h.XID, okBody), 0)
	}},
	{"a Write chunk more", func(k *call) {
		h := k.answer()
		h.Writes.Add(h.Writes.Chunk(0))
		k.send(h, success(h.XID, okBody), 0)
	}},
	{"F01: a Write chunk without segments", func(k *call) {
		h := k.answer()
		h.Writes.Reset()
		h.Writes.Add(nil)
		k.send(h, success(h.XID, okBody), 0)
	}},
	{"a segment longer than offered", func(k *call) {
		h := k.answer()
		h.Writes.Chunk(0)[0].Length++
		k.send(h, success(h.XID, okBody), 0)
	}},
	{"a segment of another handle", func(k *call) {
		h := k.answer()
		h.Writes.Chunk(0)[0].Handle++
		k.send(h, success(h.XID, okBody), 0)
	}},
	{"a Reply chunk that was not offered", func(k *call) {
		h := k.answer()
		h.HasReply, h.Reply = true, []rpcrdma.Segment{{Handle: 1, Length: 100}}
		k.send(h, success(h.XID, okBody), 0)
	}},
	{"C19: RDMA_NOMSG without Reply chunk", func(k *call) {
		h := k.answer()
		h.Proc = rpcrdma.RDMA_NOMSG
		k.send(h, nil, 0)
	}},
	{"C37: RDMA_MSGP", func(k *call) {
		h := k.answer()
		h.Proc = rpcrdma.RDMA_MSGP
		k.send(h, success(h.XID, okBody), 0)
	}},
	{"an unknown procedure", func(k *call) {
		k.raw(append(head(k.hdr.XID, 1, 8, 9), make([]byte, 40)...), 0)
	}},
	{"version 2", func(k *call) {
		k.raw(append(head(k.hdr.XID, 2, 8, 0), make([]byte, 40)...), 0)
	}},
	{"C32: RDMA_ERROR of an unknown kind", func(k *call) {
		k.raw(append(xdr.AppendUint32(head(k.hdr.XID, 1, 8, uint32(rpcrdma.RDMA_ERROR)), 7), make([]byte, 8)...), 0)
	}},
	{"F04: 2^28 segments", func(k *call) {
		b := head(k.hdr.XID, 1, 8, 0)
		for _, v := range []uint32{0, 1, 1 << 28, 1, 2, 3, 4} {
			b = xdr.AppendUint32(b, v)
		}
		k.raw(b, 0)
	}},
	{"a list without end", func(k *call) {
		b := head(k.hdr.XID, 1, 8, 0)
		for range 50 {
			b = append(xdr.AppendUint32(b, 1), make([]byte, 20)...)
		}
		k.raw(b, 0)
	}},
	{"C18: another XID in the RPC reply", func(k *call) {
		h := k.answer()
		k.send(h, success(h.XID+1<<10, okBody), 0)
	}},
	{"an RPC reply cut short", func(k *call) {
		h := k.answer()
		k.send(h, success(h.XID, nil)[:7], 0)
	}},
	{"no RPC reply", func(k *call) {
		k.send(k.answer(), nil, 0)
	}},
}

func head(xid, vers, credits, proc uint32) []byte {
	b := xdr.AppendUint32(xdr.AppendUint32(nil, xid), vers)
	return xdr.AppendUint32(xdr.AppendUint32(b, credits), proc)
}

// C31: a bad header ends its call with EIO, or is dropped: a switch. Whichever, the receive is posted again, and
// the credits of such a header do not count.
func TestC18C21C31C32C37BadReply(t *testing.T) {
	for _, policy := range []BadReplyPolicy{BadReplyEIO, BadReplyDrop} {
		for _, c := range badReplies {
			t.Run(fmt.Sprintf("%d/%s", policy, c.name), func(t *testing.T) {
				r := newRig(t, withConfig(func(k *Config) { k.BadReply, k.Timeout = policy, 60*second }))
				r.mustDo(callSpec{})
				r.peer.cfg.serve = c.send
				spec := callSpec{sink: make([]byte, 8192)}
				if policy == BadReplyEIO {
					_, err := r.do(bg, spec)
					require.ErrorIs(t, err, ErrBadReply)
				} else {
					r.wantDropped(spec)
				}
				r.wantCounter("bad_reply_count", 1)
				assert.Equal(t, 8, r.x.Conn().Credits)
				r.peer.cfg.serve = (*call).reply
				r.mustDo(spec)
				r.wantCounter("connect_count", 1)
			})
		}
	}
}

// C29, C38, F10: what is too short, RDMA_DONE, and answers to nothing are dropped; a stream of
// them takes no receive away.
func TestC29C38F10StreamOfUselessMessages(t *testing.T) {
	r := newRig(t, serve(func(k *call) {
		for i := range 200 {
			switch i % 5 {
			case 0:
				k.raw(make([]byte, i%28), 0)
			case 1:
				k.raw(head(k.hdr.XID, 1, 1, uint32(rpcrdma.RDMA_DONE)), 0)
			case 2:
				k.raw(append(head(k.hdr.XID, 7, 1, 0), 1, 2, 3), 0) // version 7, shorter than a header
			case 3:
				h := k.answer()
				h.XID ^= 0x4000_0000
				k.send(h, success(h.XID, okBody), 0)
			case 4:
				h := k.answer()
				h.XID |= 7 // a slot that has no call
				h.XID++
				k.send(h, success(h.XID, okBody), 0)
			}
		}
		k.reply()
	}))
	r.mustDo(callSpec{})
	r.wantCounter("recvs", 201)
	r.wantCounter("bad_reply_count", 120)
	r.wantCounter("bad_xids", 80)
	r.wantCounter("connect_count", 1)
	r.mustDo(callSpec{})
}

// A second answer to the same call is counted and dropped.
func TestDuplicateReply(t *testing.T) {
	xids := map[uint32]bool{}
	r := newRig(t, serve(func(k *call) { xids[k.hdr.XID] = true; k.reply(); k.reply() }))
	for range 20 {
		r.mustDo(callSpec{})
	}
	r.settle()
	r.wantCounter("bad_xids", 20)
	assert.Len(t, xids, 20, "each call has an XID of its own")
}

// C29, C32: an RDMA_ERROR that is too short for what it says is dropped whatever the policy.
func TestC29C32ShortRDMAError(t *testing.T) {
	r := newRig(t, serve(func(k *call) {
		k.raw(xdr.AppendUint32(head(k.hdr.XID, 1, 8, uint32(rpcrdma.RDMA_ERROR)), 7), 0)
		k.raw(xdr.AppendUint32(head(k.hdr.XID, 1, 8, uint32(rpcrdma.RDMA_ERROR)), uint32(rpcrdma.ERR_VERS)), 0)
		k.reply()
	}))
	r.mustDo(callSpec{})
	r.wantCounter("bad_reply_count", 2)
}

// C33, C43, F09: RDMA_ERROR ends the call with an error, and it is not sent again.
func TestC33C43F09RDMAError(t *testing.T) {
	for _, c := range []struct {
		code rpcrdma.ErrCode
		want string
	}{
		{rpcrdma.ERR_CHUNK, "RDMA_ERROR ERR_CHUNK"},
		{rpcrdma.ERR_VERS, "RDMA_ERROR ERR_VERS: the server has versions 1 to 1"},
	} {
		t.Run(c.code.String(), func(t *testing.T) {
			calls := 0
			r := newRig(t, serve(func(k *call) {
				calls++
				h := k.answer()
				h.SetError(c.code)
				k.send(h, nil, 0)
			}))
			_, err := r.do(bg, callSpec{sink: make([]byte, 100), data: make([]byte, 9000)})
			var e *RDMAError
			require.ErrorAs(t, err, &e)
			assert.EqualError(t, err, c.want)
			assert.Equal(t, 1, calls)
			r.wantCounter("bad_reply_count", 0)
			r.peer.cfg.serve = (*call).reply
			r.mustDo(callSpec{})
			r.wantCounter("connect_count", 1)
		})
	}
}

// C50, C51, C52: a call from the server is not an answer, even with the XID of one of ours, and its credits are not
// of this direction. There is no backchannel here: it is dropped.
func TestC50C51C52CallFromServer(t *testing.T) {
	r := newRig(t, serve(func(k *call) {
		h := k.answer()
		h.Writes.Reset()
		h.Credits = 1
		k.send(h, rpc.AppendCall(nil, &rpc.Call{XID: h.XID, Prog: 0x40000000, Vers: 1}), 0)
		k.reply()
	}))
	r.mustDo(callSpec{})
	r.mustDo(callSpec{})
	assert.Equal(t, 8, r.x.Conn().Credits)
	r.wantCounter("bcall_count", 2)
	r.wantCounter("bad_xids", 0)
}

// A reply in the Reply chunk is looked at as one that comes inline is.
func TestC18LongReplyChecked(t *testing.T) {
	for _, c := range []struct {
		name string
		msg  func(xid uint32) []byte
	}{
		{"empty", func(uint32) []byte { return nil }},
		{"short", func(xid uint32) []byte { return success(xid, nil)[:7] }},
		{"another XID", func(xid uint32) []byte { return success(xid+1, okBody) }},
		{"a call", func(xid uint32) []byte { return rpc.AppendCall(nil, &rpc.Call{XID: xid}) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, serve(func(k *call) {
				h := k.answer()
				h.Proc, h.HasReply = rpcrdma.RDMA_NOMSG, true
				h.Reply = append(h.Reply, k.hdr.Reply...)
				k.store(h.Reply, c.msg(h.XID))
				k.send(h, nil, 0)
			}))
			_, err := r.do(bg, callSpec{maxReply: 10000})
			assert.ErrorIs(t, err, ErrBadReply)
			r.wantCounter("bad_reply_count", 1)
		})
	}
}

// C24: what the server writes beyond the length that it returns does not matter.
func TestC24UnusedMemoryMayChange(t *testing.T) {
	r := newRig(t, serve(func(k *call) {
		h := k.answer()
		k.store(h.Writes.Chunk(0), pattern(8192, 1))
		h.Writes.Chunk(0)[0].Length = 10
		k.send(h, success(h.XID, okBody), 0)
	}))
	q, err := r.x.Get(bg)
	require.NoError(t, err)
	defer r.x.Put(q)
	sink := make([]byte, 8192)
	_, err = r.doReq(bg, q, callSpec{sink: sink})
	require.NoError(t, err)
	assert.Equal(t, 10, q.SinkLen)
	assert.Equal(t, pattern(10, 1), sink[:10])
}

// A dropped reply leaves its call to be cancelled, timed out or answered properly.
func TestC31DroppedThenAnswered(t *testing.T) {
	r := newRig(t, withConfig(func(k *Config) { k.BadReply = BadReplyDrop }), serve(func(k *call) {
		h := k.answer()
		h.Writes.Reset()
		k.send(h, success(h.XID, okBody), 0)
		k.reply()
	}))
	r.mustDo(callSpec{sink: make([]byte, 100)})
	r.wantCounter("bad_reply_count", 1)
}

func TestC31DroppedThenTimedOut(t *testing.T) {
	r := newRig(t, withConfig(func(k *Config) { k.BadReply = BadReplyDrop }), serve(func(k *call) {
		h := k.answer()
		if r := k.c.p.conns(); r == 1 {
			h.Writes.Reset()
			k.send(h, success(h.XID, okBody), 0)
			return
		}
		k.reply()
	}))
	start := r.s.Now()
	r.mustDo(callSpec{sink: make([]byte, 100)})
	took := r.s.Now().Sub(start)
	assert.GreaterOrEqual(t, took, 60*second)
	assert.Less(t, took, 69*second)
	r.wantCounter("connect_count", 2)
	r.wantCounter("timeouts", 1)
	r.wantCounter("retransmissions", 1)
}

func TestErrorsAreDistinct(t *testing.T) {
	assert.False(t, errors.Is(&RDMAError{}, ErrBadReply))
	assert.False(t, errors.Is(&MarshalError{}, ErrBadReply))
	assert.ErrorIs(t, badReply("x"), ErrBadReply)
}
