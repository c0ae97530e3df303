package xprttcp

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xdr"
	"example.org/nfsrdma/internal/xprt/clnt"
)

var bg = context.Background()

// peer is a server that does what the test says with each connection.
type peer struct {
	t     *testing.T
	l     net.Listener
	wg    sync.WaitGroup
	mu    sync.Mutex
	conns []net.Conn
}

// newPeer calls f for each connection, with its number, and closes it when f returns.
func newPeer(t *testing.T, f func(n int, c *peerConn)) *peer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &peer{t: t, l: l}
	p.wg.Go(func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			p.conns = append(p.conns, c)
			p.mu.Unlock()
			p.wg.Go(func() {
				defer c.Close()
				f(n, &peerConn{t, c})
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

// peerConn is a connection as the server has it.
type peerConn struct {
	t *testing.T
	net.Conn
}

// call reads a call; nil at the end of the connection.
func (c *peerConn) call() []byte {
	var mark [4]byte
	if _, err := io.ReadFull(c, mark[:]); err != nil {
		return nil
	}
	n, _, _ := rpc.ConsumeRecordMark(mark[:])
	b := make([]byte, n)
	if _, err := io.ReadFull(c, b); err != nil {
		return nil
	}
	return b
}

// raw writes bytes.
func (c *peerConn) raw(b []byte) { _, _ = c.Write(b) }

// reply makes a record of the reply to a call: a count word and so many bytes of data, cut into fragments.
func reply(call, data []byte, size int) []byte {
	msg := rpc.AppendReplySuccess(nil, binary.BigEndian.Uint32(call))
	msg = xdr.AppendOpaque(msg, data)
	var out []byte
	for {
		n := len(msg)
		if size > 0 {
			n = min(n, size)
		}
		last := n == len(msg)
		out = append(rpc.AppendRecordMark(out, n, last), msg[:n]...)
		if msg = msg[n:]; last {
			return out
		}
	}
}

// echo answers every call with data.
func (c *peerConn) echo(data []byte) {
	for b := c.call(); b != nil; b = c.call() {
		c.raw(reply(b, data, 0))
	}
}

// hang reads until the end of the connection.
func (c *peerConn) hang() { _, _ = io.Copy(io.Discard, c) }

// newXprt makes a transport to p, with its first connection.
func newXprt(t *testing.T, p *peer, change ...func(*Config)) *Xprt {
	t.Helper()
	s := sched.NewLive(1)
	cfg := Config{Sched: s, Addr: p.l.Addr().String(), Slots: 4, Timeout: 20 * sched.Second,
		ReconnectMin: sched.Millisecond, ReconnectMax: 10 * sched.Millisecond}
	for _, f := range change {
		f(&cfg)
	}
	x, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, x.Close())
		assert.Equal(t, len(x.reqs), x.slots.Free(), "slots")
		assert.NoError(t, s.Close())
	})
	require.NoError(t, x.Connect(bg))
	return x
}

// opaqueHead finds the data of reply.
func opaqueHead(b []byte) (pos int, n uint32, ok bool) {
	if len(b) < rpc.SuccessLen+4 {
		return 0, 0, false
	}
	return rpc.SuccessLen + 4, binary.BigEndian.Uint32(b[rpc.SuccessLen:]), true
}

// do makes a call with data, whose result goes to sink, and gives how many bytes came.
func do(ctx context.Context, x *Xprt, data, sink []byte) (n int, err error) {
	q, err := x.Get(ctx)
	if err != nil {
		return 0, err
	}
	defer x.Put(q)
	q.Msg = rpc.AppendCall(q.Msg, &rpc.Call{XID: q.XID(), Prog: 1, Vers: 1, Proc: 1})
	if data != nil {
		q.Msg = xdr.AppendUint32(q.Msg, uint32(len(data)))
		q.Data = data
	}
	q.Sink, q.SinkHead, q.MaxReply = sink, opaqueHead, rpc.SuccessLen+4+8
	if err := q.Do(ctx); err != nil {
		return 0, err
	}
	if q.SinkLen >= 0 {
		return q.SinkLen, nil
	}
	pos, m, ok := opaqueHead(q.Reply)
	if !ok {
		return 0, clnt.ErrBadReply
	}
	return copy(sink, q.Reply[pos:min(pos+int(m), len(q.Reply))]), nil
}

// within fails the test if f takes longer than anything should.
func within(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(15 * time.Second):
		require.Fail(t, "hangs")
	}
}

func get(x *Xprt, name string) uint64 {
	for _, c := range x.Counters() {
		if c.Name == name {
			return c.Value
		}
	}
	panic(name)
}
