package xprtrdma

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
)

// segsOf are copies of the segments that a call offers, for use when it is over.
func segsOf(k *call) (read, write []rpcrdma.Segment) {
	for _, s := range k.hdr.Reads {
		read = append(read, s.Segment)
	}
	for i := range k.hdr.Writes.Len() {
		write = append(write, k.hdr.Writes.Chunk(i)...)
	}
	return read, append(write, k.hdr.Reply...)
}

// C28: once a call has returned, its keys are of no use, whoever invalidated them. A use is an access error
// that ends the connection, and the memory is as it was.
func TestC28MemoryIsFencedAfterReply(t *testing.T) {
	for _, c := range []struct {
		name     string
		inv      bool // the peer replies with Send With Invalidate
		spec     callSpec
		localInv int
	}{
		{"local invalidation of a Write chunk", false, callSpec{sink: make([]byte, 9000)}, 1},
		{"local invalidation of a Read chunk", false, callSpec{data: make([]byte, 9000)}, 1},
		{"local invalidation of a Reply chunk", false, callSpec{maxReply: 9000}, 1},
		{"remote invalidation", true, callSpec{sink: make([]byte, 9000)}, 0},
		{"remote invalidation of one of two", true, callSpec{sink: make([]byte, 9000), data: make([]byte, 9000)}, 1},
	} {
		for _, mode := range chunkCases {
			if mode.mode == AllPhysical || c.inv && !mode.remoteInv {
				continue
			}
			t.Run(c.name+"/"+mode.String(), func(t *testing.T) {
				var last *call
				r := newRig(t, mode.use, serve(func(k *call) {
					last = k
					h := k.answer()
					for i := range h.Writes.Len() {
						k.store(h.Writes.Chunk(i), pattern(9000, 1))
					}
					inv := uint32(0)
					if c.inv {
						inv = k.aKey()
					}
					k.send(h, success(h.XID, okBody), inv)
				}))
				q, err := r.x.Get(bg)
				require.NoError(t, err)
				defer r.x.Put(q)
				_, err = r.doReq(bg, q, c.spec)
				require.NoError(t, err)
				if mode.wrs {
					r.wantCounter("local_inv_needed", c.localInv)
				}
				r.wantCounter("remote_invalidations", btoi(c.inv))
				r.wantPeerShutOut(last, c.spec.sink)
				r.wantCounter("connect_count", 1)
				r.mustDo(callSpec{})
				r.wantCounter("connect_count", 2)
			})
		}
	}
}

// wantPeerShutOut has the peer use each segment of an earlier call, and wants that to fail and to
// change nothing.
func (r *rig) wantPeerShutOut(k *call, sink []byte) {
	r.t.Helper()
	before := append([]byte(nil), sink...)
	read, write := segsOf(k)
	require.NotEmpty(r.t, append(read, write...))
	b, sge := k.c.bulk()
	for i := range b[:64] {
		b[i] = 0xff
	}
	sge.Length = 64
	// The first failure takes the connection with it; which key is tried first does not matter.
	for _, s := range append(write, read...) {
		op := verbs.OpRDMAWrite
		if len(write) == 0 {
			op = verbs.OpRDMARead
		}
		err := k.rdma(verbs.SendWR{Op: op, SGEs: []verbs.SGE{sge}, RemoteAddr: s.Offset, RKey: s.Handle})
		assert.Error(r.t, err)
	}
	assert.Equal(r.t, before, sink)
}

// C28: a cancelled call returns only when its memory is fenced; the call keeps its credit until the
// reply comes, and the connection lives on.
func TestC28CancelledCallIsFenced(t *testing.T) {
	for _, mode := range chunkCases {
		if mode.mode != AllPhysical {
			t.Run(mode.String(), func(t *testing.T) { cancelledIsFenced(t, mode) })
		}
	}
}

func cancelledIsFenced(t *testing.T, mode modeCase) {
	h := &holder{}
	r := newRig(t, mode.use, serve(h.serve))
	r.open(h, 2)
	ctx, cancel := r.s.WithCancel(bg)
	sink := pattern(9000, 4)
	p := r.goDo(ctx, callSpec{sink: sink})
	r.settle()
	k := h.held[0]
	cancel()
	assert.ErrorIs(t, p.wait(), context.Canceled)
	assert.Equal(t, pattern(9000, 4), sink)
	r.wantCounter("cancels", 1)

	// Two credits, one of them still in use at the peer.
	a, b := r.goDo(bg, callSpec{}), r.goDo(bg, callSpec{})
	r.settle()
	require.Equal(t, 2, h.len(), "the cancelled call is outstanding")

	// The answer comes without touching the memory: slot and credit are free again.
	k.send(k.answer(), success(k.hdr.XID, okBody), 0)
	h.held = h.held[1:]
	r.settle()
	require.Equal(t, 2, h.len())
	h.release(t, 8)
	h.release(t, 8)
	assert.NoError(t, a.wait())
	assert.NoError(t, b.wait())
	r.wantCounter("connect_count", 1)
	r.wantCounter("bad_xids", 0)
}

// C28: the server that writes after a cancel is shut out; calls go on over a new connection.
func TestC28LateWriteAfterCancel(t *testing.T) {
	for _, mode := range chunkCases {
		if mode.mode != AllPhysical {
			t.Run(mode.String(), func(t *testing.T) { lateWrite(t, mode) })
		}
	}
}

func lateWrite(t *testing.T, mode modeCase) {
	h := &holder{}
	r := newRig(t, mode.use, serve(h.serve))
	r.open(h, 8)
	ctx, cancel := r.s.WithCancel(bg)
	sink := pattern(9000, 4)
	p := r.goDo(ctx, callSpec{sink: sink})
	r.settle()
	k := h.held[0]
	h.held = nil
	cancel()
	require.ErrorIs(t, p.wait(), context.Canceled)
	r.wantPeerShutOut(k, sink)
	q := r.goDo(bg, callSpec{})
	r.settle()
	h.release(t, 8)
	assert.NoError(t, q.wait())
	r.wantCounter("connect_count", 2)
}

// C36: what cannot be invalidated is fenced by closing the connection. The other call in flight is sent again.
func TestC36AllPhysicalCancelCloses(t *testing.T) {
	h := &holder{}
	r := newRig(t, withConfig(func(c *Config) { c.Mode = AllPhysical }), serve(h.serve))
	r.open(h, 8)
	ctx, cancel := r.s.WithCancel(bg)
	sink := pattern(9000, 4)
	p := r.goDo(ctx, callSpec{sink: sink})
	other := r.goDo(bg, callSpec{data: make([]byte, 9000)})
	plain := r.goDo(bg, callSpec{})
	r.settle()
	k := h.held[0]
	h.held = nil
	cancel()
	require.ErrorIs(t, p.wait(), context.Canceled)
	r.wantPeerShutOut(k, sink)
	r.settle()
	h.release(t, 8)
	r.settle()
	h.release(t, 8)
	assert.NoError(t, other.wait())
	assert.NoError(t, plain.wait())
	r.wantCounter("connect_count", 2)
	r.wantCounter("retransmissions", 2)
}

// A call without chunks has nothing to fence: cancelling it leaves the connection alone in each mode.
func TestCancelInlineCall(t *testing.T) {
	for _, mode := range modeCases {
		t.Run(mode.String(), func(t *testing.T) {
			h := &holder{}
			r := newRig(t, mode.use, serve(h.serve))
			ctx, cancel := r.s.WithTimeout(bg, second)
			defer cancel()
			_, err := r.do(ctx, callSpec{})
			require.ErrorIs(t, err, context.DeadlineExceeded)
			h.release(t, 8)
			p := r.goDo(bg, callSpec{})
			r.settle()
			h.release(t, 8)
			assert.NoError(t, p.wait())
			r.wantCounter("connect_count", 1)
		})
	}
}

// C47: a key that the server invalidates must be one of the call that it answers. Another call has lost
// its memory then, so the connection ends and that call is sent again.
func TestC47InvalidationOfAnotherCallsKey(t *testing.T) {
	h := &holder{}
	r := newRig(t, serve(h.serve))
	r.open(h, 8)
	a := r.goDo(bg, callSpec{sink: make([]byte, 9000)})
	b := r.goDo(bg, callSpec{sink: make([]byte, 9000)})
	r.settle()
	ka, kb := h.held[0], h.held[1]
	h.held = nil
	ka.send(ka.answer(), success(ka.hdr.XID, okBody), kb.aKey())
	assert.ErrorIs(t, a.wait(), ErrBadReply)
	r.settle()
	h.release(t, 8)
	assert.NoError(t, b.wait())
	r.wantCounter("connect_count", 2)
}

// F16: a burst of calls that needs more regions than the device has waits its turn; no call is sent twice, and
// the connection stays.
func TestF16RegionPoolExhausted(t *testing.T) {
	p := softroce.RoCE
	p.Attr.MaxMR = 5 // two are buffers
	p.Attr.MaxFastRegPages = 4
	served := 0
	r := newRig(t, func(c *rigConfig) { c.personality = p }, serve(func(k *call) { served++; k.reply() }))
	r.mustDo(callSpec{})
	var calls []*pendingCall
	for range 30 {
		calls = append(calls, r.goDo(bg, callSpec{sink: make([]byte, 9*4096)})) // three regions each
	}
	for _, c := range calls {
		assert.NoError(t, c.wait())
	}
	assert.Equal(t, 31, served)
	r.wantCounter("connect_count", 1)
	r.wantCounter("retransmissions", 0)
	r.wantCounter("mrs_allocated", 3)
	// What needs more than there is fails, and does not wait for ever.
	_, err := r.do(bg, callSpec{sink: make([]byte, 13*4096)})
	assert.ErrorIs(t, err, verbs.ErrNoResources)
	r.mustDo(callSpec{sink: make([]byte, 9*4096)})
	r.wantCounter("failed_marshal_count", 1)
}

// F15: with a send queue for one call at a time, calls wait for entries and are woken.
func TestF15SendQueueExhausted(t *testing.T) {
	for _, inv := range []bool{false, true} {
		r := newRig(t, withConfig(func(c *Config) { c.SQDepth = 4 }), serve(func(k *call) {
			h := k.answer()
			key := uint32(0)
			if inv {
				key = k.aKey()
			}
			k.send(h, success(h.XID, okBody), key)
		}))
		r.mustDo(callSpec{})
		var calls []*pendingCall
		for range 40 {
			calls = append(calls, r.goDo(bg, callSpec{sink: make([]byte, 9000)}))
		}
		for _, c := range calls {
			assert.NoError(t, c.wait())
		}
		assert.Positive(t, r.x.Counters().Get("empty_sendctx_q"))
		r.wantCounter("connect_count", 1)
		_, err := r.do(bg, callSpec{sink: make([]byte, 9000), data: make([]byte, 9000)})
		assert.EqualError(t, err, "call of 5 work requests exceeds 3, the limit of SQDepth")
	}
}

// Every send queue entry comes back: with its completion, or with that of a later one.
func TestSendQueueEntriesComeBack(t *testing.T) {
	for _, inv := range []bool{false, true} {
		for _, mc := range modeCases {
			mode := mc.mode
			r := newRig(t, mc.use, serve(func(k *call) {
				key := uint32(0)
				if inv && mc.remoteInv {
					key = k.aKey()
				}
				k.send(k.answer(), success(k.hdr.XID, okBody), key)
			}))
			for i := range 500 {
				c := callSpec{}
				if mode != Bounce && i%3 > 0 {
					c.sink, c.data = make([]byte, 100), make([]byte, 5000*(i%3))
				}
				r.mustDo(c)
			}
			e := r.x.link.Load()
			assert.Equal(t, r.x.sqDepth(), e.sq.Free()+int(e.sqLoose.Load()), "%v %t", mc, inv)
			r.wantCounter("empty_sendctx_q", 0)
		}
	}
}
