package tcpsim

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"example.org/nfsrdma/internal/sched"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var bg = context.Background()

// newTestConn is a connection whose other end reads all that comes.
func newTestConn(t *testing.T, cfg Config) (*sched.Sched, *Conn, *int) {
	t.Helper()
	s := sched.NewVirtual(1)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	c, err := New(s, cfg)
	require.NoError(t, err)
	got := new(int)
	s.Go("reader", func() {
		for {
			n, err := c.Receive(bg)
			if err != nil {
				return
			}
			*got += n
		}
	})
	return s, c, got
}

func advance(t *testing.T, s *sched.Sched, d time.Duration) {
	t.Helper()
	require.NoError(t, s.Sleep(bg, sched.FromStd(d)))
}

// A segment that fills in the middle of a page leaves, one that fills with the page does not.
func TestSegmentFillsInMidPage(t *testing.T) {
	for _, k := range []struct{ mtu, pages, unpushed int }{
		{Headers + PageSize, 16, 16 * PageSize},
		{Headers + 3*PageSize/2, 15, 15 * PageSize}, // ten packets are 15 pages
		{Headers + 3*PageSize/2, 16, 16 * PageSize},
		{65536, 15, 15 * PageSize},
		{65536, 16, 16*PageSize - 65484},
	} {
		_, c, _ := newTestConn(t, Config{MTU: k.mtu, Push: NotLast, Delay: time.Second})
		for range k.pages {
			require.NoError(t, c.SendPage(bg, PageSize, Flags{NotLast: true}))
		}
		assert.Equal(t, k.unpushed, c.Unpushed(), "%+v", k)
	}
}

// The end of the last page pushes, unless it is said not to be the last.
func TestPushPolicies(t *testing.T) {
	for _, k := range []struct {
		push  Push
		total int // length given to splice
		want  int // unpushed
	}{
		{PerPage, 1 << 30, 0},
		{MsgMore, 1 << 30, 3 * PageSize},
		{NotLast, 1 << 30, 3 * PageSize},
		{Fixed, 1 << 30, 0},
		{MsgMore, 3 * PageSize, 0},
		{NotLast, 3 * PageSize, 0},
	} {
		s, c, got := newTestConn(t, Config{Push: k.push})
		require.NoError(t, c.Splice(bg, 3*PageSize, k.total, false))
		advance(t, s, time.Second)
		assert.Equal(t, k.want, c.Unpushed(), "%v of %d", k.push, k.total)
		assert.Equal(t, 3*PageSize-k.want, *got)
	}
}

// SPLICE_F_MORE holds back what is no whole packet.
func TestMoreCorks(t *testing.T) {
	s, c, got := newTestConn(t, Config{MTU: 9000})
	require.NoError(t, c.SendPage(bg, PageSize, Flags{More: true}))
	advance(t, s, time.Second)
	assert.Equal(t, PageSize, c.Unpushed())
	for range 2 {
		require.NoError(t, c.SendPage(bg, PageSize, Flags{More: true}))
	}
	assert.Equal(t, 3*PageSize-8948, c.Unpushed())
	advance(t, s, time.Second)
	assert.Equal(t, 3*PageSize, *got, "the acknowledgement lets the rest go")
}

// Nagle holds a small segment back while another is outstanding.
func TestNagle(t *testing.T) {
	_, c, _ := newTestConn(t, Config{Nagle: true, Delay: time.Millisecond})
	require.NoError(t, c.SendPage(bg, 100, Flags{}))
	require.NoError(t, c.SendPage(bg, 100, Flags{}))
	assert.Equal(t, 100, c.Unsent())
	_, c, _ = newTestConn(t, Config{Delay: time.Millisecond})
	require.NoError(t, c.SendPage(bg, 100, Flags{}))
	require.NoError(t, c.SendPage(bg, 100, Flags{}))
	assert.Zero(t, c.Unsent())
}

// A full buffer pushes and waits; one full packet is not enough for an acknowledgement before its time.
func TestFullBufferWaitsForDelayedAck(t *testing.T) {
	s, c, got := newTestConn(t, Config{MTU: 65536, SndBuf: 32 << 10, Push: NotLast, QuickAcks: -1, DelayedAck: 30 * time.Millisecond})
	for range 48 { // three segments and a bit
		require.NoError(t, c.SendPage(bg, PageSize, Flags{NotLast: true}))
	}
	assert.Equal(t, 3*65484, *got)
	st := c.Stats()
	assert.EqualValues(t, 3, st.Segments)
	assert.EqualValues(t, 3, st.Acks)
	assert.EqualValues(t, 3, st.DelayedAcks)
	assert.InDelta(t, 0.09, sched.Duration(s.Now()).Seconds(), 0.001)
	assert.InDelta(t, 0.09, st.Blocked.Seconds(), 0.001)
}

// Two packets are acknowledged at once, small segments of one size count as packets.
func TestAckEverySecondPacket(t *testing.T) {
	s, c, _ := newTestConn(t, Config{MTU: 65536, QuickAcks: -1, ReadBytePS: 1000})
	for range 8 {
		require.NoError(t, c.SendPage(bg, PageSize, Flags{}))
	}
	advance(t, s, 10*time.Millisecond)
	st := c.Stats()
	assert.EqualValues(t, 8, st.Segments)
	assert.EqualValues(t, 4, st.Acks)
	assert.Zero(t, st.DelayedAcks)
}

// Never more is outstanding than the window, which opens as the receiver reads.
func TestWindow(t *testing.T) {
	s, c, got := newTestConn(t, Config{Window: 64 << 10, ReadBytePS: 1_000_000}) // 1 MB/s
	most := 0
	for range 64 {
		require.NoError(t, c.SendPage(bg, PageSize, Flags{}))
		c.mu.Lock()
		most = max(most, int(c.next)-*got)
		assert.LessOrEqual(t, c.next, c.edge)
		c.mu.Unlock()
	}
	advance(t, s, time.Second)
	assert.Equal(t, 64*PageSize, *got)
	assert.LessOrEqual(t, most, 64<<10)
	assert.Greater(t, most, 32<<10)
}

func TestBadConfig(t *testing.T) {
	s := sched.NewVirtual(1)
	defer s.Close()
	for want, cfg := range map[string]Config{
		"MTU": {MTU: 70000}, "SndBuf": {SndBuf: 1}, "Window": {Window: -1}, "Push": {Push: 9}, "PagePS": {PagePS: -1},
		"DelayedAck": {DelayedAck: -1}, "GSO": {GSO: 3},
	} {
		_, err := New(s, cfg)
		assert.ErrorContains(t, err, want)
	}
}

// A sender that gives up gets the error of its context.
func TestCancelledSender(t *testing.T) {
	s := sched.NewVirtual(1)
	defer s.Close()
	c, err := New(s, Config{SndBuf: 4096})
	require.NoError(t, err)
	ctx, cancel := s.WithTimeout(bg, sched.Millisecond)
	defer cancel()
	for err == nil {
		err = c.SendPage(ctx, PageSize, Flags{})
	}
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}
