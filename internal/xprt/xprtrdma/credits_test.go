package xprtrdma

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/rpcrdma"
)

// holder keeps calls at the peer until the test lets them go.
type holder struct {
	mu   sync.Mutex
	held []*call
	most int
}

func (h *holder) serve(k *call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = append(h.held, k)
	h.most = max(h.most, len(h.held))
}

func (h *holder) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.held)
}

// release answers the oldest call with a grant.
func (h *holder) release(t testing.TB, credits uint32) {
	t.Helper()
	h.mu.Lock()
	require.NotEmpty(t, h.held)
	k := h.held[0]
	h.held = h.held[1:]
	h.mu.Unlock()
	k.replyCredits(credits)
}

func (k *call) replyCredits(credits uint32) {
	h := k.answer()
	h.Credits = credits
	for i := range h.Writes.Len() {
		k.store(h.Writes.Chunk(i), nil)
	}
	k.send(h, success(h.XID, okBody), 0)
}

// open makes a first call, which the peer answers with a grant.
func (r *rig) open(h *holder, credits uint32) {
	r.t.Helper()
	first := r.goDo(bg, callSpec{})
	r.settle()
	h.release(r.t, credits)
	require.NoError(r.t, first.wait())
}

// settle lets everything happen that happens without delay.
func (r *rig) settle() { r.sleep(second / 1000) }

func TestC01C05CreditsBoundCalls(t *testing.T) {
	h := &holder{}
	r := newRig(t, serve(h.serve))
	var calls []*pendingCall
	for range 20 {
		calls = append(calls, r.goDo(bg, callSpec{}))
	}
	for _, step := range []struct {
		grant uint32
		want  int // outstanding at the peer afterwards
		why   string
	}{
		{0, 1, "C05: one call before the first reply; a grant of 0 counts as 1"},
		{1, 1, "one goes, one comes"},
		{5, 5, "the window opens"},
		{5, 5, "and stays"},
		{3, 4, "C01: the window closes by attrition: no call is sent"},
		{3, 3, "and no call is sent"},
		{3, 3, "until it is below the grant"},
		{1000, 8, "never more than the slots"},
		{2, 7, "closing again"},
		{8, 8, "and opening"},
	} {
		r.settle()
		h.release(t, step.grant)
		r.settle()
		assert.Equal(t, step.want, h.len(), step.why)
	}
	for h.len() > 0 {
		h.release(t, 8)
		r.settle()
	}
	for _, c := range calls {
		assert.NoError(t, c.wait())
	}
	assert.LessOrEqual(t, h.most, 8)
}

// C04: eight replies at once, and answers that nobody asked for in between, find receives.
func TestC04ReceivesForAllReplies(t *testing.T) {
	h := &holder{}
	r := newRig(t, serve(h.serve))
	r.open(h, 8)
	for round := range 5 {
		var calls []*pendingCall
		for range 8 {
			calls = append(calls, r.goDo(bg, callSpec{}))
		}
		r.settle()
		require.Equal(t, 8, h.len(), "round %d", round)
		c := h.held[0]
		require.NoError(t, c.raw(make([]byte, 20), 0)) // too short to be anything
		for h.len() > 0 {
			h.release(t, 8)
		}
		for _, c := range calls {
			assert.NoError(t, c.wait())
		}
	}
	r.wantCounter("bad_reply_count", 5)
	r.wantCounter("connect_count", 1)
}

// C05: a new connection begins with one credit again.
func TestC05OneCreditAfterReconnect(t *testing.T) {
	h := &holder{}
	r := newRig(t, serve(h.serve))
	r.open(h, 8)
	var calls []*pendingCall
	for range 6 {
		calls = append(calls, r.goDo(bg, callSpec{}))
	}
	r.settle()
	require.Equal(t, 6, h.len())
	h.held = nil
	r.x.Disconnect()
	r.settle()
	assert.Equal(t, 1, h.len())
	for range 6 {
		h.release(t, 8)
		r.settle()
	}
	for _, c := range calls {
		assert.NoError(t, c.wait())
	}
}

// C06, C48, C49: thresholds as negotiated, 1024 without private data.
func TestC06C46C48C49Thresholds(t *testing.T) {
	for _, c := range []struct {
		name       string
		opt        rigOption
		send, recv int
		inv        bool
	}{
		{"both 4096", func(*rigConfig) {}, 4096, 4096, true},
		{"peer sends none", withPeer(func(p *peerConfig) { p.private = false }), 1024, 1024, false},
		{"we send none", withConfig(func(c *Config) { c.NoPrivateData = true }), 1024, 1024, false},
		{"peer receives 2048", withPeer(func(p *peerConfig) { p.recv = 2048 }), 2048, 4096, true},
		{"peer sends 3072", withPeer(func(p *peerConfig) { p.send = 3072 }), 4096, 3072, true},
		{"peer takes more than we send", withPeer(func(p *peerConfig) { p.send, p.recv = 65536, 65536 }), 4096, 4096, true},
		{"C48: sizes count in units of 1024", withConfig(func(c *Config) { c.InlineSend, c.InlineRecv = 5000, 3000 }), 4096, 2048, true},
		{"peer does not invalidate", withPeer(func(p *peerConfig) { p.inv = false }), 4096, 4096, false},
		{"we do not want it", withConfig(func(c *Config) { c.NoRemoteInvalidation = true }), 4096, 4096, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := newRig(t, c.opt).x.Conn()
			assert.Equal(t, c.send, got.InlineSend)
			assert.Equal(t, c.recv, got.InlineRecv)
			assert.Equal(t, c.inv, got.RemoteInvalidation)
		})
	}
}

// C46: each connection's private data counts for that connection.
func TestC46PrivateDataReadAnew(t *testing.T) {
	r := newRig(t)
	r.peer.cfg.recv, r.peer.cfg.inv = 1024, false
	r.x.Disconnect()
	r.mustDo(callSpec{})
	got := r.x.Conn()
	assert.Equal(t, 1024, got.InlineSend)
	assert.False(t, got.RemoteInvalidation)
	r.peer.cfg.recv, r.peer.cfg.inv = 8192, true
	r.x.Disconnect()
	r.mustDo(callSpec{data: make([]byte, 3000)})
	assert.Equal(t, 4096, r.x.Conn().InlineSend)
	assert.True(t, r.x.Conn().RemoteInvalidation)
	r.wantCounter("read_chunk_count", 0)
}

func TestCreditsRequested(t *testing.T) {
	r := newRig(t, serve(func(k *call) {
		assert.EqualValues(t, 8, k.hdr.Credits)
		assert.Equal(t, rpcrdma.RDMA_MSG, k.hdr.Proc)
		k.reply()
	}))
	r.mustDo(callSpec{})
}
