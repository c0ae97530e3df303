package tcpnet

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/link"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/tcpsim"
	"example.org/nfsrdma/internal/xprt/stream"
)

var bg = context.Background()

const addr = "server:2049"

type rig struct {
	t    *testing.T
	s    *sched.Sched
	n    *Network
	a, b stream.Conn // client's and server's end
}

func newRig(t *testing.T, cfg Config) *rig {
	t.Helper()
	r := &rig{t: t, s: sched.NewVirtual(1)}
	n, err := New(r.s, cfg)
	require.NoError(t, err)
	r.n = n
	l, err := n.Listen(addr)
	require.NoError(t, err)
	accepted := r.s.NewGroup("accept")
	accepted.Go("accept", func() {
		r.b, err = l.Accept()
		assert.NoError(t, err)
	})
	r.a, err = n.Dial(bg, addr, stream.DialOptions{})
	require.NoError(t, err)
	require.NoError(t, accepted.Wait(bg))
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		require.NoError(t, r.a.Close())
		require.NoError(t, r.b.Close())
		require.NoError(t, r.s.Close())
		n.Close()
	})
	return r
}

// write writes pieces in a task; the group ends with it.
func (r *rig) write(c stream.Conn, err *error, pieces ...[]byte) *sched.Group {
	g := r.s.NewGroup("writer")
	g.Go("writer", func() {
		bufs := net.Buffers(pieces)
		*err = c.Write(&bufs)
	})
	return g
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i>>8) ^ byte(i*7)
	}
	return b
}

func readAll(c stream.Conn, n int) ([]byte, error) {
	b := make([]byte, n)
	for at := 0; at < n; {
		k, err := c.Read(b[at:min(n, at+10_000)])
		if err != nil {
			return b[:at], err
		}
		at += k
	}
	return b, nil
}

// All arrives as it was written, at the link's rate, and every run is the same.
func TestBytesAndRate(t *testing.T) {
	l := link.GbE1
	var prints []uint64
	for range 2 {
		r := newRig(t, Config{Link: &l})
		want := pattern(4 << 20)
		var werr error
		start := r.s.Now()
		g := r.write(r.a, &werr, want[:5], want[5:1<<20], want[1<<20:])
		got, err := readAll(r.b, len(want))
		require.NoError(t, err)
		require.NoError(t, g.Wait(bg))
		require.NoError(t, werr)
		assert.True(t, bytes.Equal(want, got))
		assert.InEpsilon(t, l.PayloadRate(), float64(len(want))/r.s.Now().Sub(start).Seconds(), 0.02)
		assert.Equal(t, "client:32769", r.b.PeerAddr())
		assert.Equal(t, addr, r.a.PeerAddr())
		prints = append(prints, r.s.Fingerprint())
	}
	assert.Equal(t, prints[0], prints[1])
}

// A writer waits for the send buffer, which empties as the peer reads: window and buffer are all that is on its way.
func TestWriterWaits(t *testing.T) {
	r := newRig(t, Config{TCP: tcpsim.Config{SndBuf: 100_000, Window: 50_000}})
	var werr error
	g := r.write(r.a, &werr, pattern(1<<20))
	require.NoError(t, r.s.Sleep(bg, sched.Second))
	sb := r.a.(stream.SendBuffer)
	size, queued := sb.SendBuffer()
	assert.Equal(t, 100_000, size)
	assert.GreaterOrEqual(t, queued, size)
	assert.Less(t, queued, size+65536, "a segment more at most")
	assert.True(t, sb.Full())
	assert.Equal(t, 1, g.Count())
	got, err := readAll(r.b, 1<<20)
	require.NoError(t, err)
	require.NoError(t, g.Wait(bg))
	require.NoError(t, werr)
	assert.Equal(t, pattern(1<<20), got)
	assert.False(t, sb.Full())
	use := map[string]sched.Usage{}
	for _, u := range r.s.Usage() {
		use[u.Name] = u
	}
	assert.InDelta(t, 1, use["the send buffer of the client"].Waited.Seconds(), 0.01)
	assert.Positive(t, use["the TCP window from the client"].Busy)
}

// A window holds a fast link to window / round trip.
func TestWindowBoundsTheRate(t *testing.T) {
	l := link.RoCE25G.WithDelay(500 * time.Microsecond)
	r := newRig(t, Config{Link: &l, TCP: tcpsim.Config{Window: 64 << 10}})
	var werr error
	start := r.s.Now()
	g := r.write(r.a, &werr, pattern(4<<20))
	_, err := readAll(r.b, 4<<20)
	require.NoError(t, err)
	require.NoError(t, g.Wait(bg))
	assert.InEpsilon(t, (64<<10)/0.001, (4<<20)/r.s.Now().Sub(start).Seconds(), 0.1)
}

func TestEndOfStream(t *testing.T) {
	l := link.GbE1
	r := newRig(t, Config{Link: &l})
	var werr error
	require.NoError(t, r.write(r.a, &werr, pattern(100_000)).Wait(bg))
	require.NoError(t, r.a.Close())
	got, err := readAll(r.b, 100_000)
	require.NoError(t, err, "what was written before Close arrives")
	assert.Equal(t, pattern(100_000), got)
	_, err = r.b.Read(got)
	assert.ErrorIs(t, err, io.EOF)
	_, err = r.a.Read(got)
	assert.ErrorIs(t, err, net.ErrClosed)
	// What comes for an end that is closed is answered with a reset.
	require.NoError(t, r.write(r.b, &werr, pattern(10)).Wait(bg))
	require.NoError(t, werr)
	require.NoError(t, r.s.Sleep(bg, sched.Second))
	require.NoError(t, r.write(r.b, &werr, pattern(10)).Wait(bg))
	assert.ErrorIs(t, werr, syscall.ECONNRESET)
}

// Close with data that nobody has read resets, and ends who waits at both ends.
func TestReset(t *testing.T) {
	r := newRig(t, Config{TCP: tcpsim.Config{SndBuf: 8192, Window: 8192}})
	var werr, rerr error
	g := r.write(r.a, &werr, pattern(1<<20))
	read := r.s.NewGroup("reader")
	read.Go("reader", func() { _, rerr = r.a.Read(make([]byte, 1)) })
	require.NoError(t, r.s.Sleep(bg, sched.Second))
	require.NoError(t, r.b.Close())
	require.NoError(t, g.Wait(bg))
	require.NoError(t, read.Wait(bg))
	assert.ErrorIs(t, werr, syscall.ECONNRESET)
	assert.ErrorIs(t, rerr, syscall.ECONNRESET)
}

func TestCloseEndsOwnTasks(t *testing.T) {
	r := newRig(t, Config{TCP: tcpsim.Config{SndBuf: 8192, Window: 8192}})
	var werr, rerr error
	g := r.write(r.a, &werr, pattern(1<<20))
	g.Go("reader", func() { _, rerr = r.a.Read(make([]byte, 1)) })
	require.NoError(t, r.s.Sleep(bg, sched.Second))
	require.NoError(t, r.a.Close())
	require.NoError(t, g.Wait(bg))
	assert.ErrorIs(t, werr, net.ErrClosed)
	assert.ErrorIs(t, rerr, net.ErrClosed)
}

func TestTimeouts(t *testing.T) {
	r := newRig(t, Config{TCP: tcpsim.Config{SndBuf: 8192, Window: 8192}})
	r.a.ReadTimeout(sched.Second)
	_, err := r.a.Read(make([]byte, 1))
	assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
	r.a.WriteTimeout(sched.Second)
	var werr error
	require.NoError(t, r.write(r.a, &werr, pattern(1<<20)).Wait(bg))
	assert.ErrorIs(t, werr, os.ErrDeadlineExceeded)
	assert.InDelta(t, 2, sched.Duration(r.s.Now()).Seconds(), 0.01)
}

func TestRefused(t *testing.T) {
	r := newRig(t, Config{})
	_, err := r.n.Dial(bg, "server:1", stream.DialOptions{})
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
	_, err = r.n.Listen(addr)
	assert.ErrorIs(t, err, syscall.EADDRINUSE)
	_, err = r.n.Listen("nowhere")
	assert.Error(t, err)
	// One that nobody accepts is reset with its listener.
	l, err := r.n.Listen("server:2")
	require.NoError(t, err)
	c, err := r.n.Dial(bg, "server:2", stream.DialOptions{Resv: true})
	require.NoError(t, err)
	assert.Regexp(t, `^client:(6[6-9]|[7-9]|10)\d+$`, c.LocalAddr())
	require.NoError(t, r.s.Sleep(bg, sched.Second))
	require.NoError(t, l.Close())
	_, err = c.Read(make([]byte, 1))
	assert.ErrorIs(t, err, syscall.ECONNRESET)
	require.NoError(t, c.Close())
}

// A caller that gives up leaves no connection behind.
func TestDialCancelled(t *testing.T) {
	l := link.GbE1.WithDelay(time.Second)
	r := newRig(t, Config{Link: &l})
	ctx, cancel := r.s.WithTimeout(bg, sched.Millisecond)
	defer cancel()
	_, err := r.n.Dial(ctx, addr, stream.DialOptions{})
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, r.s.Sleep(bg, 10*sched.Second))
	assert.Zero(t, r.n.lis[addr].in.Len())
}

func TestBadConfig(t *testing.T) {
	s := sched.NewVirtual(1)
	defer s.Close()
	lossy := link.GbE1.WithLoss(0.1)
	for want, cfg := range map[string]Config{
		"retransmission": {Link: &lossy},
		"Window":         {TCP: tcpsim.Config{Window: 1}},
		"Delay":          {Link: &link.Config{Delay: -1}},
	} {
		_, err := New(s, cfg)
		assert.ErrorContains(t, err, want)
	}
	live := sched.NewLive(1)
	defer live.Close()
	_, err := New(live, Config{})
	assert.ErrorContains(t, err, "virtual time")
}
