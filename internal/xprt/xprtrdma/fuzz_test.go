package xprtrdma

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/rpcrdma"
)

// FuzzReply has the server send any bytes before its answer, with the XID of the call if patch. The call
// ends one way or the other, the connection lives, no receive is lost and nothing grows.
func FuzzReply(f *testing.F) {
	var msg []byte
	var patch bool
	var sent *call
	r := newRig(f, withConfig(func(c *Config) { c.Credits = 3 }), serve(func(k *call) {
		sent = k
		b := append([]byte(nil), msg...)
		if patch && len(b) >= 4 {
			rpcrdma.PatchXID(b, k.hdr.XID)
		}
		k.raw(b, 0)
		k.replyCredits(8) // touches no memory: the call may be over
	}))
	spec := callSpec{sink: make([]byte, 100), maxReply: 200}
	r.mustDo(spec)

	h := sent.answer()
	f.Add(append(rpcrdma.AppendHeader(nil, h), success(h.XID, okBody)...), true)
	h.Proc, h.HasReply, h.Reply = rpcrdma.RDMA_NOMSG, true, h.Writes.Chunk(0)
	f.Add(rpcrdma.AppendHeader(nil, h), true)
	h.SetError(rpcrdma.ERR_VERS)
	f.Add(rpcrdma.AppendHeader(nil, h), true)
	h.SetError(rpcrdma.ERR_CHUNK)
	f.Add(rpcrdma.AppendHeader(nil, h), false)
	f.Add([]byte{}, false)
	f.Add(append(head(0, 1, 0, 0), 0, 0, 0, 0, 0, 0, 0, 1, 0x10, 0, 0, 0), true)

	f.Cleanup(func() { r.t, r.peer.t = f, f })
	f.Fuzz(func(t *testing.T, b []byte, p bool) {
		r.t, r.peer.t = t, t
		msg, patch = b[:min(len(b), 4096)], p
		for range 2 {
			_, err := r.do(bg, spec)
			if err != nil {
				var e *RDMAError
				require.True(t, errors.Is(err, ErrBadReply) || errors.As(err, &e), "%v", err)
			}
		}
		r.mu.Lock()
		r.trace = r.trace[:0]
		r.mu.Unlock()
		e := r.x.link.Load()
		require.EqualValues(t, 1, r.x.Counters().Get("connect_count"))
		require.LessOrEqual(t, cap(e.hdr.Reads)+e.hdr.Writes.Segments()+cap(e.hdr.Reply), 256)
		require.Less(t, len(r.x.recv.pending), recvBatch)
	})
}
