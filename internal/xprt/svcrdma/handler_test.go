package svcrdma_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/svc"
	"example.org/nfsrdma/internal/xprt/svcrdma"
	"example.org/nfsrdma/internal/xprt/svcrdma/rawpeer"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
)

var bg = context.Background()

// rig is a transport with one thread and a handler, and a peer.
type rig struct {
	t    *testing.T
	x    *svcrdma.Transport
	peer *rawpeer.Peer
	xid  uint32
}

type handlerFunc func(t *svc.Thread, r svc.Request)

func (f handlerFunc) Serve(t *svc.Thread, r svc.Request) { f(t, r) }

type nothing struct{}

func (nothing) Release() {}

func newRig(t *testing.T, p softroce.Personality, cfg svcrdma.Config, f handlerFunc) *rig {
	t.Helper()
	s := sched.NewVirtual(1)
	net := softroce.NewNetwork(s, softroce.NetConfig{})
	server, err := net.NewDevice("server", p)
	require.NoError(t, err)
	client, err := net.NewDevice("client", softroce.RoCE)
	require.NoError(t, err)
	cfg.Device, cfg.Sched, cfg.Addr = server, s, "server:1"
	cfg.Pool = svc.NewPool(s)
	cfg.NewState = func() svcrdma.State { return nothing{} }
	cfg.NewReplyState = func() svcrdma.State { return nothing{} }
	r := &rig{t: t}
	r.x, err = svcrdma.New(cfg)
	require.NoError(t, err)
	threads := s.NewGroup("threads")
	threads.Go("thread", func() { cfg.Pool.Run(cfg.Pool.NewThread(), f) })
	r.peer, err = rawpeer.Dial(bg, rawpeer.Config{Device: client, Sched: s, Addr: "server:1",
		PrivateData: rpcrdma.AppendPrivateData(nil, rpcrdma.PrivateData{SendSize: 4096, RecvSize: 4096})})
	require.NoError(t, err)
	t.Cleanup(func() {
		r.peer.Close()
		r.x.Shutdown()
		cfg.Pool.Close()
		require.NoError(t, threads.Wait(bg))
		cfg.Pool.Abort()
		require.NoError(t, r.x.Close())
		assert.Equal(t, verbs.Resources{}, server.Resources())
		require.NoError(t, server.Close())
		require.NoError(t, client.Close())
		require.NoError(t, net.Close())
		require.NoError(t, s.Close())
	})
	return r
}

// call sends a call of an XID and some bytes, with a Reply chunk if reply has a length, and gives the answer.
func (r *rig) call(reply ...rpcrdma.Segment) (h rpcrdma.Header, msg []byte) {
	r.t.Helper()
	r.xid++
	var c rpcrdma.Header
	c.Reset()
	c.XID, c.HasReply, c.Reply = r.xid, len(reply) > 0, reply
	b := rpcrdma.AppendHeader(nil, &c)
	b = binary.BigEndian.AppendUint32(b, r.xid)
	require.NoError(r.t, r.peer.Send(bg, append(b, 0, 0, 0, 0)))
	m, err := r.peer.Recv(bg)
	require.NoError(r.t, err)
	n, err := rpcrdma.ConsumeHeader(m.Bytes, &h, 0)
	require.NoError(r.t, err)
	return h, m.Bytes[n:]
}

// TestManyPiecesInline sends an item in more pieces than the device has SGEs.
func TestManyPiecesInline(t *testing.T) {
	mem := bytes.Repeat([]byte("0123456789"), 500)
	var x *svcrdma.Transport
	r := newRig(t, softroce.T310, svcrdma.Config{}, func(th *svc.Thread, r svc.Request) {
		p := r.Reply(th)
		p.Msg = append(p.Msg, "head"...)
		p.EndWithItem()
		for i := range 11 {
			m, err := x.Region(3, mem, uint32(i*100), 9)
			if err != nil {
				t.Error(err)
			}
			p.AddData(m)
		}
		p.Send(th, r)
	})
	x = r.x
	h, msg := r.call()
	assert.Equal(t, rpcrdma.RDMA_MSG, h.Proc)
	assert.Equal(t, "head"+string(bytes.Repeat([]byte("012345678"), 11))+"\x00", string(msg), "99 bytes and a pad")

	dst, err := r.peer.Mem(4096, verbs.LocalWrite|verbs.RemoteWrite)
	require.NoError(t, err)
	var segs []rpcrdma.Segment
	for i := range 252 { // more than fits inline with the header
		segs = append(segs, rpcrdma.Segment{Handle: dst.RKey(), Length: 7, Offset: dst.Addr() + uint64(i*7)})
	}
	h, _ = r.call(segs...)
	assert.Equal(t, rpcrdma.RDMA_NOMSG, h.Proc)
	assert.Equal(t, msg, dst.Bytes()[:len(msg)])
}

// TestMessageThatOutgrowsItsBuffer is a fault of the upper layer: the client gets an error, not other memory.
func TestMessageThatOutgrowsItsBuffer(t *testing.T) {
	big := 0
	r := newRig(t, softroce.RoCE, svcrdma.Config{}, func(th *svc.Thread, r svc.Request) {
		if big == 0 {
			if b, err := r.Need(100); b == nil || err != nil {
				t.Error("no memory")
			}
		}
		p := r.Reply(th)
		if big == 0 {
			p.UseBuffer(r)
		}
		p.Msg = append(p.Msg, make([]byte, p.Room()+1)...)
		big++
		p.Send(th, r)
	})
	dst, err := r.peer.Mem(100_000, verbs.LocalWrite|verbs.RemoteWrite)
	require.NoError(t, err)
	for range 2 {
		h, _ := r.call(rpcrdma.Segment{Handle: dst.RKey(), Length: 100_000, Offset: dst.Addr()})
		assert.Equal(t, rpcrdma.RDMA_ERROR, h.Proc)
	}
	assert.EqualValues(t, 2, r.x.Stats().NoRoom)
	assert.Equal(t, make([]byte, 100_000), dst.Bytes())
}

func TestDropAndDiscard(t *testing.T) {
	n := 0
	r := newRig(t, softroce.RoCE, svcrdma.Config{Credits: 1}, func(th *svc.Thread, r svc.Request) {
		n++
		if n%3 != 0 {
			if p := r.Reply(th); n%3 == 1 {
				p.Discard()
				r.Drop()
			} else {
				p.Discard()
				r.Fail(th)
			}
			return
		}
		p := r.Reply(th)
		p.Msg = append(p.Msg, "done"...)
		p.Send(th, r)
	})
	var c rpcrdma.Header
	c.Reset()
	b := append(rpcrdma.AppendHeader(nil, &c), make([]byte, 8)...)
	for range 40 {
		require.NoError(t, r.peer.Send(bg, b)) // dropped
		h, _ := r.call()
		assert.Equal(t, rpcrdma.RDMA_ERROR, h.Proc)
		_, msg := r.call()
		assert.Equal(t, "done", string(msg))
	}
	assert.EqualValues(t, 40, r.x.Stats().Dropped)
}

func TestRegionNumbersAreBounded(t *testing.T) {
	r := newRig(t, softroce.RoCE, svcrdma.Config{}, func(_ *svc.Thread, r svc.Request) { r.Drop() })
	mem := make([]byte, 100)
	for _, id := range []uint32{0, 7, 1<<20 - 1, 7} {
		m, err := r.x.Region(id, mem, 10, 20)
		require.NoError(t, err)
		assert.Equal(t, &mem[10], &m.Bytes[0])
		assert.EqualValues(t, 20, m.Len)
	}
	_, err := r.x.Region(1<<20, mem, 0, 1)
	require.ErrorIs(t, err, verbs.ErrInvalid)
}
