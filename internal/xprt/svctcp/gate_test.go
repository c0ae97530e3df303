package svctcp

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/svc"
)

// fakeBuffer is a connection whose send buffer the test fills.
type fakeBuffer struct {
	size, queued int
	full         bool
	space        func()
}

func (f *fakeBuffer) Read([]byte) (int, error)       { return 0, net.ErrClosed }
func (f *fakeBuffer) Write(*net.Buffers) error       { return net.ErrClosed }
func (f *fakeBuffer) ReadTimeout(sched.Duration)     {}
func (f *fakeBuffer) WriteTimeout(sched.Duration)    {}
func (f *fakeBuffer) Close() error                   { return nil }
func (f *fakeBuffer) LocalAddr() string              { return "server:2049" }
func (f *fakeBuffer) PeerAddr() string               { return "client:1" }
func (f *fakeBuffer) SendBuffer() (size, queued int) { return f.size, f.queued }
func (f *fakeBuffer) SetSendBuffer(size int)         { f.size = size }
func (f *fakeBuffer) Full() bool                     { return f.full }
func (f *fakeBuffer) Meter() *sched.Meter            { return nil }
func (f *fakeBuffer) OnSpace(g func())               { f.space = g }

// testM is sv_max_mesg of a payload of 1 MiB.
const testM = 1<<20 + 4096

func newTestGate(t *testing.T, cfg Gate) (*gate, *fakeBuffer) {
	t.Helper()
	s := sched.NewVirtual(1)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.NoError(t, cfg.setDefaults())
	x := &Transport{s: s, cfg: Config{Gate: cfg, MaxPayload: 1 << 20, ReplySize: func(msg []byte) int { return len(msg) }}}
	f := &fakeBuffer{}
	c := newConn(x, f)
	require.NotNil(t, c.gate)
	return c.gate, f
}

func (g *gate) isOpen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open()
}

// Each policy lets calls in up to its own bounds: with nothing queued, calls that reserve M each; and with none, bytes
// that are queued.
func TestGatePolicies(t *testing.T) {
	for _, k := range []struct {
		policy Policy
		size   int // send buffer, M
		calls  int // reserved by so many calls, one more is let in
		queued int // M: with so much queued, a call is let in
	}{
		{Locked, 22, 10, 14}, // free 8 >= 14/2
		{Auto, 8, 3, 5},
		{No23, 8, 3, 6},
		{R2M, 8, 6, 6},
		{RM, 8, 7, 7},
		{Clamp, 8, 3, 5},
		{Deferred, 8, 3, 5},
	} {
		g, f := newTestGate(t, Gate{Policy: k.policy})
		assert.Equal(t, k.size*testM, f.size, "%v", k.policy)
		g.reserved = k.calls * testM
		assert.True(t, g.isOpen(), "%v with %d calls", k.policy, k.calls)
		g.reserved++
		assert.False(t, g.isOpen(), "%v with a byte more than %d calls", k.policy, k.calls)
		g.reserved = 0
		f.queued = k.queued * testM
		assert.True(t, g.isOpen(), "%v with %d M queued", k.policy, k.queued)
		f.queued += testM
		assert.False(t, g.isOpen(), "%v with %d M queued", k.policy, k.queued+1)
	}
}

// Today's rule asks for a sender that waits, and for nothing else.
func TestGateNoSpace(t *testing.T) {
	g, f := newTestGate(t, Gate{})
	assert.Equal(t, 4<<20, f.size, "tcp_wmem[2]")
	g.reserved, f.queued = 1<<30, f.size
	assert.True(t, g.isOpen())
	f.full = true
	assert.False(t, g.isOpen())
}

// A call reserves M when it is taken, its longest reply after decoding, and nothing once that is sent.
func TestGateReserves(t *testing.T) {
	g, _ := newTestGate(t, Gate{Policy: Auto})
	r := &Request{conn: g.c, msg: make([]byte, 1000)}
	ok, err := g.admit(r)
	require.NoError(t, err)
	require.True(t, ok)
	assert.Zero(t, g.reserved, "on its way to a thread it is not counted")
	g.take(r)
	assert.Equal(t, 1000, g.reserved)
	assert.EqualValues(t, testM, g.c.n.reservedMax.Load())
	g.take(r) // served again
	assert.Equal(t, 1000, g.reserved)
	assert.Equal(t, 1, g.active)
	g.give(r)
	g.give(r)
	assert.Zero(t, g.reserved)
	assert.Zero(t, g.active)
}

// TCP cuts the buffer at the first acknowledgement.
func TestGateClamp(t *testing.T) {
	g, f := newTestGate(t, Gate{Policy: Clamp})
	f.space()
	assert.Equal(t, 4<<20, f.size)
	assert.True(t, g.isOpen())
	g.reserved = 1 << 20
	assert.False(t, g.isOpen(), "one call at most")
	g, f = newTestGate(t, Gate{Policy: Clamp, WMem: 1 << 30})
	f.space()
	assert.Equal(t, 8*testM, f.size, "it does not grow")
	_ = g
}

func TestPolicyNames(t *testing.T) {
	for _, p := range Policies() {
		b, err := p.MarshalText()
		require.NoError(t, err)
		var q Policy
		require.NoError(t, q.UnmarshalText(b))
		assert.Equal(t, p, q)
	}
	var q Policy
	assert.ErrorContains(t, q.UnmarshalText([]byte("none")), "no-2/3")
	assert.Equal(t, "Policy(99)", Policy(99).String())
}

func TestGateConfig(t *testing.T) {
	s := sched.NewLive(1)
	defer s.Close()
	for want, g := range map[string]Gate{
		"must be one of":     {Policy: 99},
		"SndBuf":             {SndBuf: -1},
		"tcp_wmem":           {WMem: 1},
		"the kernel decides": {Policy: Auto},
	} {
		_, err := New(Config{Sched: s, Pool: svc.NewPool(s), Addrs: []string{"127.0.0.1:0"}, DataAt: itemAt, Gate: g,
			NewState: func() svc.State { return counted{} }, NewReplyState: func() svc.State { return counted{} }})
		assert.ErrorContains(t, err, want)
	}
}
