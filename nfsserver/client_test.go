package nfsserver_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/verbs/softroce"
)

func (e *env) mount(cfg nfsclient.Config) *nfsclient.Mount {
	e.t.Helper()
	cfg.Device, cfg.Addr, cfg.Sched = e.cdev, e.srv.Addr(), e.s
	m, err := nfsclient.New(bg, cfg)
	require.NoError(e.t, err)
	e.t.Cleanup(func() { _ = m.Close() })
	return m
}

// TestClientReads counts the RDMA READs of 64 KiB WRITEs by the client's registration mode: one a page when each page is
// a segment, one in all when they are coalesced, and on iWARP one a page in any case unless the sink is registered.
func TestClientReads(t *testing.T) {
	for _, c := range []struct {
		p        softroce.Personality
		register bool
		mode     nfsclient.RegMode
		reads    int
	}{
		{softroce.RoCE, false, nfsclient.FastReg, 1},
		{softroce.RoCE, false, nfsclient.AllPhysical, 16},
		{softroce.MT25208, false, nfsclient.FastReg, 1},
		{softroce.MT25208, false, nfsclient.AllPhysical, 16},
		{softroce.T310, false, nfsclient.FastReg, 16},
		{softroce.T310, false, nfsclient.AllPhysical, 16},
		{softroce.T310, true, nfsclient.FastReg, 1},
		{softroce.T310, true, nfsclient.AllPhysical, 16},
	} {
		t.Run(fmt.Sprintf("%s/register=%t/%v", c.p.Name, c.register, c.mode), func(t *testing.T) {
			e := newEnv(t, envOpt{noPeer: true, personality: &c.p, cfg: nfsserver.Config{RegisterSink: c.register}})
			m := e.mount(nfsclient.Config{RegMode: c.mode, WSize: 64 << 10, MaxDataSegs: 16, Soft: true})
			want := pattern(1<<20, 1)
			e.wantCount("rdma_stat_read", 16*c.reads, func() { require.NoError(t, m.FS(bg).WriteFile("f", want, 0o644)) })
			assert.EqualValues(t, 16, e.counter("nfs3_WRITE"))
			got, err := m.FS(bg).ReadFile("f")
			require.NoError(t, err)
			assert.True(t, bytes.Equal(want, got))
			assert.Equal(t, c.mode == nfsclient.FastReg, e.counter("send_with_inv") > 0)
			assert.Zero(t, e.counter("err_chunk_sent"))
			assert.Zero(t, e.counter("rpc_garbage_args"))
		})
	}
}

// TestDisconnectsDoNotRepeatCalls ends connections while names are made and removed: each call happens once, because
// the client's retransmissions find the first in the duplicate request cache.
func TestDisconnectsDoNotRepeatCalls(t *testing.T) {
	e := newLinkEnv(t, nfsserver.Config{})
	e.peer.Close()
	e.peer = nil
	m := e.mount(nfsclient.Config{ReconnectMin: time.Millisecond, Timeout: time.Second})
	stop := false
	cuts := e.s.NewGroup("the cuts")
	cuts.Go("cuts", func() {
		rng := e.s.Rand("cuts")
		for !stop {
			_ = e.s.Sleep(bg, sched.Duration(50+rng.IntN(3000))*sched.Microsecond)
			e.srv.Disconnect()
		}
	})
	fs := m.FS(bg)
	for i := range 150 {
		a, b := fmt.Sprint("a", i), fmt.Sprint("b", i)
		require.NoError(t, fs.Mkdir(a, 0o755))
		require.NoError(t, fs.Rename(a, b))
		if i%2 == 0 {
			require.NoError(t, fs.Remove(b))
		}
	}
	stop = true
	require.NoError(t, cuts.Wait(bg))
	assert.Greater(t, e.counter("drc_hits"), uint64(3), "some replies were lost")
	ents, err := fs.ReadDir(".")
	require.NoError(t, err)
	assert.Len(t, ents, 75)
}
