package fabric_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/nfsclient"
)

// The same code runs over RDMA and TCP, in one fabric, in virtual time and live.
func TestMountsOverBothTransports(t *testing.T) {
	for name, live := range map[string]bool{"virtual": false, "live": true} {
		t.Run(name, func(t *testing.T) {
			f := fabric.New(t, fabric.Params{Device: fabric.Softroce, Live: live, TCP: true})
			r, c := f.Mount(t, "/"), f.Mount(t, "/", fabric.Over(fabric.TCP))
			assert.Equal(t, nfsclient.RDMA, r.Negotiated().Proto)
			assert.Equal(t, nfsclient.TCP, c.Negotiated().Proto)
			want := make([]byte, 3<<20+5)
			for i := range want {
				want[i] = byte(i * 13)
			}
			c.WriteFile(t, "a", want)
			assert.Equal(t, want, r.ReadFile(t, "a"))
			r.WriteFile(t, "b", want[:100])
			assert.Equal(t, want[:100], c.ReadFile(t, "b"))
			for _, m := range []*fabric.Mount{r, c} {
				f.Run(t, fabric.Load{Op: fabric.Mix, ReadPercent: 50, Size: 32 << 10, Depth: 8, Calls: 100, FileSize: 1 << 20, Verify: true, Mount: m})
			}
			f.Server().Counters().Want(t, "tcp_conn_accepted=1 tcp_recv>=100 rdma_stat_write>=1")
		})
	}
}

// A run over the model is the same each time, and its rate is the link's.
func TestTCPIsModelled(t *testing.T) {
	l := fabric.GbE1
	var prints []uint64
	for range 2 {
		f := fabric.New(t, fabric.Params{Device: fabric.Softroce, Proto: fabric.TCP, Link: &l, Storage: fabric.Sink()})
		for _, op := range []fabric.Op{fabric.Read, fabric.Write} {
			r := f.Run(t, fabric.Load{Op: op, Size: 256 << 10, Depth: 8, Calls: 200, Warm: 20})
			r.WantThroughput(t, fabric.Between(114*fabric.MBps, 118*fabric.MBps))
			assert.Contains(t, r.Bound().Resource, "the link tcp")
		}
		prints = append(prints, f.Fingerprint())
	}
	assert.Equal(t, prints[0], prints[1])
}

// A window below rate times round trip binds, and one of twice the size gives twice the throughput.
func TestTCPWindowBinds(t *testing.T) {
	l := fabric.RoCE25G.WithDelay(500 * time.Microsecond)
	rate := map[int]float64{}
	for _, w := range []int{256 << 10, 512 << 10} {
		f := fabric.New(t, fabric.Params{Device: fabric.Softroce, Proto: fabric.TCP, Link: &l, Storage: fabric.Sink(), TCPWindow: w})
		r := f.Run(t, fabric.Load{Op: fabric.Read, Size: 256 << 10, Depth: 16, Calls: 400, Warm: 40})
		assert.Equal(t, "the TCP window from the server", r.Bound().Resource, "%s", r.Why())
		rate[w] = r.Throughput()
	}
	assert.InEpsilon(t, 2, rate[512<<10]/rate[256<<10], 0.1)
}

// Calls that hold what they wait for hang, and the report says so.
func TestDeferredGateHangs(t *testing.T) {
	f, err := fabric.Start(fabric.Params{Device: fabric.Softroce, Proto: fabric.TCP, SndPolicy: fabric.Deferred, Storage: fabric.Sink(),
		Client: func(c *nfsclient.Config) { c.Timeout = -1 }})
	require.NoError(t, err)
	_, err = f.RunLoad(t.Context(), fabric.Load{Op: fabric.Read, Size: 1 << 20, Depth: 16, Calls: 100})
	var d *fabric.DeadlockError
	require.True(t, errors.As(err, &d), "%v", err)
	assert.Regexp(t, `svctcp deferred calls .*the send buffer of the server.*free \d+ of 8421376 bytes, \d+ reserved by \d+ calls, 1052672 more asked for; \d+ of the calls are deferred`, err.Error())
	assert.Regexp(t, `load.*a reply \(xid`, err.Error())
	require.NoError(t, f.Close())
}

// The server that crashed comes back at its address, and the mount goes on.
func TestTCPServerCrash(t *testing.T) {
	for name, live := range map[string]bool{"virtual": false, "live": true} {
		t.Run(name, func(t *testing.T) {
			f := fabric.New(t, fabric.Params{Device: fabric.Softroce, Live: live, Proto: fabric.TCP, Storage: fabric.Memory().Crashable(),
				Client: func(c *nfsclient.Config) { c.ReconnectMin = time.Millisecond }})
			m := f.Mount(t, "/")
			m.WriteFile(t, "a", []byte("committed"))
			require.NoError(t, f.CrashServer(t.Context(), 10*time.Millisecond))
			assert.Equal(t, "committed", string(m.ReadFile(t, "a")))
		})
	}
}

func TestBadTCPParams(t *testing.T) {
	lossy := fabric.GbE1.WithLoss(0.1)
	for want, p := range map[string]fabric.Params{
		"SndPolicy":              {Proto: fabric.TCP, SndPolicy: 99},
		"SndBuf":                 {Proto: fabric.TCP, SndBuf: 1},
		"TCPWindow":              {Proto: fabric.TCP, TCPWindow: -1},
		"DelayedAck":             {Proto: fabric.TCP, DelayedAck: -1},
		"Proto":                  {Proto: 7},
		"set Proto or TCP":       {Nagle: true},
		"the kernel decides":     {Live: true, TCP: true, SndPolicy: fabric.Auto},
		"TCP here has no retran": {TCP: true, Link: &lossy},
	} {
		p.Device = fabric.Softroce
		_, err := fabric.Start(p)
		assert.ErrorContains(t, err, want)
	}
	f := fabric.New(t, fabric.Params{Device: fabric.Softroce})
	_, err := f.Dial(t.Context(), "/", fabric.Over(fabric.TCP))
	assert.ErrorContains(t, err, "Params.TCP")
}
