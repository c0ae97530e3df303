package stream_test

import (
	"context"
	"io"
	"net"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/stream"
)

// socketPair gives both ends of a connection over loopback.
func socketPair(t *testing.T, o stream.DialOptions) (client, server stream.Conn) {
	t.Helper()
	l, err := stream.Sockets{}.Listen("127.0.0.1:0")
	require.NoError(t, err)
	client, err = stream.Sockets{}.Dial(context.Background(), l.Addr(), o)
	require.NoError(t, err)
	server, err = l.Accept()
	require.NoError(t, err)
	require.NoError(t, l.Close())
	_, err = l.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

func TestSockets(t *testing.T) {
	c, s := socketPair(t, stream.DialOptions{})
	assert.Equal(t, c.LocalAddr(), s.PeerAddr())
	assert.Equal(t, s.LocalAddr(), c.PeerAddr())
	bufs := net.Buffers{[]byte("one "), nil, []byte("two")}
	require.NoError(t, c.Write(&bufs))
	got := make([]byte, 7)
	_, err := io.ReadFull(readerOf{s}, got)
	require.NoError(t, err)
	assert.Equal(t, "one two", string(got))

	s.ReadTimeout(sched.Millisecond)
	_, err = s.Read(got)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	s.ReadTimeout(0)
	require.NoError(t, c.Close())
	_, err = s.Read(got)
	require.ErrorIs(t, err, io.EOF)
	_, err = c.Read(got)
	require.ErrorIs(t, err, net.ErrClosed)

	// A peer that does not read.
	c, _ = socketPair(t, stream.DialOptions{})
	c.WriteTimeout(10 * sched.Millisecond)
	big := net.Buffers{make([]byte, 64<<20)}
	require.ErrorIs(t, c.Write(&big), os.ErrDeadlineExceeded)
}

type readerOf struct{ stream.Conn }

func (r readerOf) Read(b []byte) (int, error) { return r.Conn.Read(b) }

func TestReservedPort(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("ports below 1024 take a privilege")
	}
	c, _ := socketPair(t, stream.DialOptions{Resv: true})
	_, port, err := net.SplitHostPort(c.LocalAddr())
	require.NoError(t, err)
	n, err := strconv.Atoi(port)
	require.NoError(t, err)
	assert.Less(t, n, 1024)
}
