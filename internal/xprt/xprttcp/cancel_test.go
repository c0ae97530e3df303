package xprttcp

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/sched"
)

// TestCancelledCallLeavesItsSlot until its late reply, over the same connection.
func TestCancelledCallLeavesItsSlot(t *testing.T) {
	seen, answer := make(chan struct{}), make(chan struct{})
	p := newPeer(t, func(_ int, c *peerConn) {
		b := c.call()
		close(seen)
		<-answer
		c.raw(reply(b, pattern(50), 0))
		c.echo(pattern(100))
	})
	x := newXprt(t, p)
	ctx, cancel := context.WithCancel(bg)
	go func() { <-seen; cancel() }()
	sink := make([]byte, 100)
	within(t, func() {
		_, err := do(ctx, x, nil, sink)
		require.ErrorIs(t, err, context.Canceled)
	})
	assert.Equal(t, 3, x.slots.Free(), "the call is still outstanding")
	close(answer)
	within(t, func() {
		for range 10 {
			n, err := do(bg, x, nil, sink)
			require.NoError(t, err)
			require.Equal(t, pattern(100), sink[:n])
		}
	})
	assert.Equal(t, 4, x.slots.Free())
	assert.EqualValues(t, 1, get(x, "connect_count"))
	assert.EqualValues(t, 1, get(x, "cancels"))
}

// TestCancelInTheMiddleOfTheReply gives the memory back at once, at the price of the connection.
func TestCancelInTheMiddleOfTheReply(t *testing.T) {
	p := newPeer(t, func(n int, c *peerConn) {
		if n == 0 {
			c.raw(reply(c.call(), pattern(100_000), 0)[:60_000])
			c.hang()
			return
		}
		c.echo(pattern(100))
	})
	x := newXprt(t, p)
	ctx, cancel := context.WithCancel(bg)
	sink := make([]byte, 100_000)
	within(t, func() {
		c, err := x.Get(ctx)
		require.NoError(t, err)
		defer x.Put(c)
		c.Msg = rpc.AppendCall(c.Msg, &rpc.Call{XID: c.XID()})
		c.Sink, c.MaxReply = sink, 40
		c.SinkHead = func(b []byte) (int, uint32, bool) {
			cancel() // the reader has the slot
			return opaqueHead(b)
		}
		require.ErrorIs(t, c.Do(ctx), context.Canceled)
	})
	clear(sink) // the race detector sees it if the reader still writes
	within(t, func() {
		n, err := do(bg, x, nil, sink)
		require.NoError(t, err)
		require.Equal(t, pattern(100), sink[:n])
	})
	assert.Equal(t, make([]byte, len(sink)-100), sink[100:])
	assert.EqualValues(t, 2, get(x, "connect_count"))
}

// TestCancelWhileTheServerDoesNotRead: neither a call in the middle of being sent nor one behind it holds its caller.
func TestCancelWhileTheServerDoesNotRead(t *testing.T) {
	release := make(chan struct{})
	p := newPeer(t, func(n int, c *peerConn) {
		if n == 0 {
			<-release
			return
		}
		c.echo(pattern(100))
	})
	x := newXprt(t, p)
	ctx, cancel := x.s.WithTimeout(bg, 100*sched.Millisecond)
	defer cancel()
	errs := make(chan error, 3)
	for range 3 {
		go func() {
			_, err := do(ctx, x, make([]byte, maxData), nil)
			errs <- err
		}()
	}
	within(t, func() {
		for range 3 {
			require.ErrorIs(t, <-errs, context.DeadlineExceeded)
		}
	})
	close(release)
	within(t, func() {
		_, err := do(bg, x, nil, make([]byte, 100))
		require.NoError(t, err)
	})
	assert.Equal(t, 4, x.slots.Free())
}

// TestCloseWhileTheServerDoesNotRead ends a caller that writes itself.
func TestCloseWhileTheServerDoesNotRead(t *testing.T) {
	release := make(chan struct{})
	p := newPeer(t, func(int, *peerConn) { <-release })
	defer close(release)
	sent := make(chan string, 10)
	x := newXprt(t, p, func(c *Config) { c.Trace = func(line string) { sent <- line } })
	done := make(chan error)
	go func() {
		_, err := do(bg, x, make([]byte, maxData), nil)
		done <- err
	}()
	for line := range sent {
		if line[0] == '>' {
			break
		}
	}
	within(t, func() { require.NoError(t, x.Close()) })
	require.Error(t, <-done)
}

// TestSchedulerEndsFirst: nothing is left hanging.
func TestSchedulerEndsFirst(t *testing.T) {
	seen := make(chan struct{})
	p := newPeer(t, func(_ int, c *peerConn) {
		c.call()
		close(seen)
		c.hang()
	})
	s := sched.NewLive(1)
	x, err := New(Config{Sched: s, Addr: p.l.Addr().String(), Slots: 2})
	require.NoError(t, err)
	require.NoError(t, x.Connect(bg))
	done := make(chan error)
	go func() {
		_, err := do(bg, x, nil, nil)
		done <- err
	}()
	<-seen
	within(t, func() { require.NoError(t, s.Close()) })
	within(t, func() { require.Error(t, <-done) })
	within(t, func() { _ = x.Close() })
}
