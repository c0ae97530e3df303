package xprttcp

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/clnt"
)

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 11)
	}
	return b
}

func TestRepliesOfAnyShape(t *testing.T) {
	sizes := []int{0, 1, 3, 4, 5, 100, 4096, 40_000, 1 << 20}
	for _, frag := range []int{0, 10, 1000, 500_000} {
		p := newPeer(t, func(_ int, c *peerConn) {
			for b := c.call(); b != nil; b = c.call() {
				c.raw(reply(b, pattern(int(binary.BigEndian.Uint32(b[len(b)-4:]))), frag))
			}
		})
		x := newXprt(t, p)
		for _, n := range sizes {
			if frag == 10 && n > 30_000 {
				continue // more fragments than a record may have
			}
			size := binary.BigEndian.AppendUint32(nil, uint32(n))
			sink := make([]byte, n+1)
			got, err := do(bg, x, size, sink[:max(n, 1)])
			require.NoError(t, err, "%d bytes in fragments of %d", n, frag)
			require.Equal(t, n, got)
			require.True(t, bytes.Equal(pattern(n), sink[:n]))
			require.Zero(t, sink[n], "nothing beyond the sink")
		}
		assert.Zero(t, get(x, "retransmissions"))
	}
}

// TestDataGoesStraightToTheSink unless the head of the reply is not as expected.
func TestDataGoesStraightToTheSink(t *testing.T) {
	p := newPeer(t, func(_ int, c *peerConn) { c.echo(pattern(100_000)) })
	x := newXprt(t, p)
	q, err := x.Get(bg)
	require.NoError(t, err)
	defer x.Put(q)
	q.Msg = rpc.AppendCall(q.Msg, &rpc.Call{XID: q.XID()})
	q.Sink, q.SinkHead, q.MaxReply = make([]byte, 100_000), opaqueHead, 40
	require.NoError(t, q.Do(bg))
	assert.Equal(t, 100_000, q.SinkLen)
	assert.Len(t, q.Reply, rpc.SuccessLen+4)
	assert.Equal(t, pattern(100_000), q.Sink)
}

func TestBadReplies(t *testing.T) {
	for _, c := range []struct {
		name string
		send func(c *peerConn, call []byte)
		want error // nil: the call is sent again over the next connection, and succeeds
	}{
		{"longer than may be", func(c *peerConn, b []byte) { c.raw(reply(b, pattern(10_000), 0)) }, clnt.ErrBadReply},
		{"longer in fragments", func(c *peerConn, b []byte) { c.raw(reply(b, pattern(10_000), 100)) }, clnt.ErrBadReply},
		{"huge mark", func(c *peerConn, _ []byte) { c.raw([]byte{0xff, 0xff, 0xff, 0xff}) }, nil},
		{"short record", func(c *peerConn, _ []byte) { c.raw([]byte{0x80, 0, 0, 4, 1, 2, 3, 4}) }, nil},
		{"cut off in the head", func(c *peerConn, b []byte) { c.raw(reply(b, pattern(100), 0)[:20]); c.Close() }, nil},
		{"cut off in the data", func(c *peerConn, b []byte) { c.raw(reply(b, pattern(100), 0)[:80]); c.Close() }, nil},
		{"closed", func(c *peerConn, _ []byte) { c.Close() }, nil},
		{"other XIDs first", func(c *peerConn, b []byte) {
			for _, xid := range []uint32{0, 0xffffffff, binary.BigEndian.Uint32(b) ^ 0x100} {
				c.raw(reply(binary.BigEndian.AppendUint32(nil, xid), pattern(10), 0))
			}
			c.raw(reply(b, pattern(100), 0))
		}, nil},
		{"twice", func(c *peerConn, b []byte) { c.raw(append(reply(b, pattern(100), 0), reply(b, pattern(50), 0)...)) }, nil},
		{"a call first", func(c *peerConn, b []byte) {
			msg := rpc.AppendCall(nil, &rpc.Call{XID: binary.BigEndian.Uint32(b)})
			c.raw(append(rpc.AppendRecordMark(nil, len(msg), true), msg...))
			c.raw(reply(b, pattern(100), 0))
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPeer(t, func(n int, pc *peerConn) {
				if n == 0 {
					if b := pc.call(); b != nil {
						c.send(pc, b)
					}
				}
				pc.echo(pattern(100))
			})
			x := newXprt(t, p)
			within(t, func() {
				for i := range 3 {
					sink := make([]byte, 100)
					n, err := do(bg, x, nil, sink)
					if i == 0 && c.want != nil {
						require.ErrorIs(t, err, c.want)
						continue
					}
					require.NoError(t, err)
					require.Equal(t, pattern(100), sink[:n])
				}
			})
		})
	}
}

// TestManyCallersAndLostConnections: every call gets its own reply, over however many connections.
func TestManyCallersAndLostConnections(t *testing.T) {
	p := newPeer(t, func(n int, c *peerConn) {
		for i := 0; ; i++ {
			b := c.call()
			if b == nil || i > 20+n {
				return
			}
			c.raw(reply(b, b[len(b)-8:], 0))
		}
	})
	x := newXprt(t, p)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			ctx := bg
			if i%2 == 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithCancel(bg)
				defer cancel()
			}
			for k := range 200 {
				data := binary.BigEndian.AppendUint64(nil, uint64(i*1000+k))
				sink := make([]byte, 8)
				n, err := do(ctx, x, data, sink)
				if !assert.NoError(t, err) || !assert.Equal(t, data, sink[:n]) {
					return
				}
			}
		})
	}
	within(t, wg.Wait)
	assert.Positive(t, get(x, "retransmissions"))
	assert.Greater(t, get(x, "connect_count"), uint64(3))
}

func TestSoftTimeout(t *testing.T) {
	p := newPeer(t, func(_ int, c *peerConn) { c.hang() })
	x := newXprt(t, p, func(c *Config) { c.Soft, c.Retrans, c.Timeout = true, 2, 20*sched.Millisecond })
	within(t, func() {
		_, err := do(bg, x, nil, nil)
		require.ErrorIs(t, err, clnt.ErrTimedOut)
	})
	assert.EqualValues(t, 3, get(x, "timeouts"))
	assert.EqualValues(t, 3, get(x, "sends"))
}

func TestSoftGivesUpToConnect(t *testing.T) {
	p := newPeer(t, func(_ int, c *peerConn) {})
	x := newXprt(t, p, func(c *Config) { c.Soft, c.Retrans = true, 2 })
	p.l.Close()
	within(t, func() {
		_, err := do(bg, x, nil, nil)
		require.ErrorIs(t, err, clnt.ErrTimedOut)
		require.ErrorContains(t, err, "refused")
	})
}

// TestHardOutlastsARestart: a call waits until somebody serves it.
func TestHardOutlastsARestart(t *testing.T) {
	calls := make(chan struct{}, 10)
	p := newPeer(t, func(n int, c *peerConn) {
		if n < 3 {
			if c.call() != nil {
				calls <- struct{}{}
			}
			return // without an answer
		}
		c.echo(pattern(9))
	})
	x := newXprt(t, p, func(c *Config) { c.Timeout = 50 * sched.Millisecond })
	within(t, func() {
		sink := make([]byte, 9)
		n, err := do(bg, x, nil, sink)
		require.NoError(t, err)
		require.Equal(t, pattern(9), sink[:n])
	})
	assert.Len(t, calls, 3)
}

func TestCloseEndsCalls(t *testing.T) {
	seen := make(chan struct{}, 10)
	p := newPeer(t, func(_ int, c *peerConn) {
		for c.call() != nil {
			seen <- struct{}{}
		}
	})
	x := newXprt(t, p)
	var wg sync.WaitGroup
	for range 6 { // two of them wait for a slot
		wg.Go(func() {
			_, err := do(bg, x, nil, nil)
			assert.ErrorIs(t, err, clnt.ErrClosed)
		})
	}
	for range 4 {
		<-seen
	}
	within(t, func() { require.NoError(t, x.Close()) })
	within(t, wg.Wait)
	_, err := x.Get(bg)
	require.ErrorIs(t, err, clnt.ErrClosed)
}

// TestVirtualTimeNeedsANetwork: the sockets have none.
func TestConfig(t *testing.T) {
	s := sched.NewVirtual(1)
	_, err := New(Config{Sched: s, Slots: 1, Addr: "x:1"})
	require.ErrorContains(t, err, "virtual time")
	_, err = New(Config{Sched: s, Slots: 0, Addr: "x:1"})
	require.ErrorContains(t, err, "Slots")
	require.NoError(t, s.Close())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	live := sched.NewLive(1)
	x, err := New(Config{Sched: live, Slots: 1, Addr: l.Addr().String()})
	require.NoError(t, err)
	require.ErrorContains(t, x.Connect(bg), "refused")
	require.NoError(t, x.Close())
	require.NoError(t, live.Close())
}
