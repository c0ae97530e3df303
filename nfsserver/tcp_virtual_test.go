package nfsserver_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/stream"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/nfsserver/memfs"
)

// pipeNet is a stream.Network in virtual time: pipes with a window and no delay.
type pipeNet struct {
	s    *sched.Sched
	lis  map[string]*pipeListener
	port int
}

type pipeListener struct {
	addr string
	in   *sched.Queue[*pipeConn]
}

func (l *pipeListener) Accept() (stream.Conn, error) { return l.in.Pop(context.Background()) }
func (l *pipeListener) Addr() string                 { return l.addr }
func (l *pipeListener) Close() error                 { l.in.Close(); return nil }

func (n *pipeNet) Listen(addr string) (stream.Listener, error) {
	l := &pipeListener{addr, sched.NewQueue[*pipeConn](n.s, "a connection")}
	n.lis[addr] = l
	return l, nil
}

func (n *pipeNet) Dial(_ context.Context, addr string, _ stream.DialOptions) (stream.Conn, error) {
	l := n.lis[addr]
	n.port++
	a, b := &pipeConn{s: n.s, local: fmt.Sprint("client:", n.port), window: 50_000}, &pipeConn{s: n.s, local: addr, window: 50_000}
	a.peer, b.peer = b, a
	for _, c := range []*pipeConn{a, b} {
		c.data.Init(n.s, "bytes of "+c.local)
		c.room.Init(n.s, "room at "+c.local)
	}
	if l == nil || !l.in.Push(b) {
		return nil, fmt.Errorf("connect to %s: refused", addr)
	}
	return a, nil
}

// pipeConn is an end: what has come for it, and who waits for that.
type pipeConn struct {
	s      *sched.Sched
	local  string
	peer   *pipeConn
	window int
	buf    []byte
	closed bool
	data   sched.Waiter // the reader
	room   sched.Waiter // the peer's writer
	until  sched.Time   // of Read; 0 is never
}

func (c *pipeConn) Read(b []byte) (int, error) {
	for len(c.buf) == 0 {
		switch {
		case c.closed:
			return 0, net.ErrClosed
		case c.peer.closed:
			return 0, io.EOF
		}
		ctx, cancel := context.Background(), context.CancelFunc(func() {})
		if c.until > 0 {
			ctx, cancel = c.s.WithTimeout(ctx, c.until.Sub(c.s.Now()))
		}
		err := c.data.Wait(ctx)
		cancel()
		if err == context.DeadlineExceeded {
			return 0, os.ErrDeadlineExceeded
		}
		if err != nil {
			return 0, err
		}
	}
	n := copy(b, c.buf)
	c.buf = c.buf[n:]
	c.room.Wake()
	return n, nil
}

func (c *pipeConn) Write(bufs *net.Buffers) error {
	for _, b := range *bufs {
		for len(b) > 0 {
			switch free := c.peer.window - len(c.peer.buf); {
			case c.closed || c.peer.closed:
				return net.ErrClosed
			case free == 0:
				if err := c.peer.room.Wait(context.Background()); err != nil {
					return err
				}
			default:
				n := min(free, len(b))
				c.peer.buf = append(c.peer.buf, b[:n]...)
				b = b[n:]
				c.peer.data.Wake()
			}
		}
	}
	return nil
}

func (c *pipeConn) ReadTimeout(d sched.Duration) {
	c.until = 0
	if d > 0 {
		c.until = c.s.Now().Add(d)
	}
}

func (c *pipeConn) WriteTimeout(sched.Duration) {}
func (c *pipeConn) LocalAddr() string           { return c.local }
func (c *pipeConn) PeerAddr() string            { return c.peer.local }

func (c *pipeConn) Close() error {
	c.closed = true
	for _, w := range []*sched.Waiter{&c.data, &c.room, &c.peer.data, &c.peer.room} {
		w.Wake()
	}
	return nil
}

// TestTCPInVirtualTime: the transports wait in the scheduler alone, so that another network can be put under them.
func TestTCPInVirtualTime(t *testing.T) {
	var prints []uint64
	for range 2 {
		s := sched.NewVirtual(3)
		network := &pipeNet{s: s, lis: map[string]*pipeListener{}}
		mem := memfs.New(memfs.Options{RootMode: 0o777})
		srv, err := nfsserver.New(nfsserver.Config{Sched: s, Net: network, TCP: []string{"server:2049", "server:20048"}, Credits: 4,
			Exports: []nfsserver.Export{{FS: mem}}})
		require.NoError(t, err)
		m, err := nfsclient.New(bg, nfsclient.Config{Sched: s, Net: network, Proto: nfsclient.TCP, Addr: "server:2049",
			MountAddr: "server:20048"})
		require.NoError(t, err)
		group := s.NewGroup("writers")
		for i := range 6 {
			group.Go("writer", func() {
				name, want := fmt.Sprint(i), bytes.Repeat([]byte{byte(i)}, 300_000+i)
				for range 3 {
					if !assert.NoError(t, m.WriteFile(bg, name, want, 0o644)) {
						return
					}
					got, err := m.ReadFile(bg, name)
					assert.NoError(t, err)
					assert.True(t, bytes.Equal(want, got))
					m.Disconnect()
				}
			})
		}
		require.NoError(t, group.Wait(bg))
		require.NoError(t, m.Unmount(bg))
		require.NoError(t, srv.Close())
		assert.Empty(t, s.Tasks())
		assert.Zero(t, mem.Pinned())
		prints = append(prints, s.Fingerprint())
		require.NoError(t, s.Close())
	}
	assert.Equal(t, prints[0], prints[1])
}
