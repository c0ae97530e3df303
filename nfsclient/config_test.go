package nfsclient_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
)

func TestConfigBounds(t *testing.T) {
	s := sched.NewVirtual(1)
	net := softroce.NewNetwork(s, softroce.NetConfig{})
	dev, err := net.NewDevice("client", softroce.RoCE)
	require.NoError(t, err)
	for _, c := range []struct {
		set  func(*nfsclient.Config)
		want string
	}{
		{func(c *nfsclient.Config) { c.Device = nil }, "nfsclient: Device is <nil>, must be set"},
		{func(c *nfsclient.Config) { c.Addr = "" }, `nfsclient: Addr is "", must be "host:port"`},
		{func(c *nfsclient.Config) { c.InlineSend = 1000 },
			"nfsclient: InlineSend (rdma_max_inline_write) is 1000, must be 1024 to 65536 bytes"},
		{func(c *nfsclient.Config) { c.InlineRecv = 65537 },
			"nfsclient: InlineRecv (rdma_max_inline_read) is 65537, must be 1024 to 65536 bytes"},
		{func(c *nfsclient.Config) { c.MaxDataSegs = -1 },
			"nfsclient: MaxDataSegs (RPCRDMA_MAX_DATA_SEGS) is -1, must be 1 to 4096 pages"},
		{func(c *nfsclient.Config) { c.Credits = 20000 },
			"nfsclient: Credits (rdma_slot_table_entries) is 20000, must be 1 to 16384 slots"},
		{func(c *nfsclient.Config) { c.IRD = 200 }, "nfsclient: IRD is 200, must be 0 to 128 RDMA READs (the device's limit)"},
		{func(c *nfsclient.Config) { c.RNRRetry = 8 }, "nfsclient: RNRRetry is 8, must be 0 to 7 retries"},
		{func(c *nfsclient.Config) { c.Cred.GIDs = make([]uint32, 17) },
			"nfsclient: Cred.GIDs is 17, must be at most 16 groups (AUTH_SYS)"},
		{func(c *nfsclient.Config) { c.RegMode = 99 }, "nfsclient: RegMode is RegMode(99), must be a registration mode"},
		{func(c *nfsclient.Config) { c.ReconnectMax = time.Second },
			"nfsclient: ReconnectMax is 1s, must be at least ReconnectMin, 5s"},
	} {
		cfg := nfsclient.Config{Device: dev, Addr: "server:20049", Sched: s}
		c.set(&cfg)
		_, err := nfsclient.New(bg, cfg)
		assert.EqualError(t, err, c.want)
		assert.ErrorIs(t, err, verbs.ErrInvalid)
	}
	_, err = nfsclient.New(bg, nfsclient.Config{Device: dev, Addr: "server:20049", Sched: s})
	assert.ErrorIs(t, err, verbs.ErrUnreachable)
	require.NoError(t, dev.Close())
	require.NoError(t, net.Close())
	require.NoError(t, s.Close())
}

func TestRegModeText(t *testing.T) {
	for _, m := range nfsclient.RegModes() {
		b, err := m.MarshalText()
		require.NoError(t, err)
		var got nfsclient.RegMode
		require.NoError(t, got.UnmarshalText(b))
		assert.Equal(t, m, got)
	}
	var m nfsclient.RegMode
	assert.ErrorContains(t, m.UnmarshalText([]byte("6")), "the era of the strategy number is missing")
}

// The strategy numbers 5 and 6 depend on the kernel.
func TestStrategyNumbers(t *testing.T) {
	for s, want := range map[string]nfsclient.RegMode{
		"0@2.6.24": nfsclient.Bounce, "1@2.6.26.8": nfsclient.Register, "2@2.6.24": nfsclient.MemWindow,
		"3@6.x": nfsclient.MemWindowAsync, "4@3.18": nfsclient.FMR,
		"5@2.6.24": nfsclient.AllPhysical, "5@2.6.27": nfsclient.AllPhysical,
		"5@2.6.27-rc1": nfsclient.AllPhysical, "6@2.6.27-rc": nfsclient.FastReg,
		"5@2.6.28": nfsclient.FastReg, "6@2.6.32": nfsclient.AllPhysical, "5@4.15": nfsclient.FastReg, "5@6.1": nfsclient.FastReg,
		"RPCRDMA_MEMWINDOWS_ASYNC": nfsclient.MemWindowAsync, "frwr": nfsclient.FastReg, "RPCRDMA_MTHCAFMR": nfsclient.FMR,
	} {
		m, err := nfsclient.ParseRegMode(s)
		assert.NoError(t, err, s)
		assert.Equal(t, want, m, s)
	}
	for s, want := range map[string]string{
		"6@2.6.24":       "strategy 6 of kernel 2.6.24: want 0 to 5",
		"7@6.1":          "strategy 7 of kernel 6.1: want 0 to 6",
		"-1@6.1":         "strategy -1 of kernel 6.1: want 0 to 6",
		"5@":             `kernel "" of strategy 5: want a version such as 2.6.24`,
		"5@x":            `kernel "x" of strategy 5: want a version such as 2.6.24`,
		"5@2.6.23":       `kernel "2.6.23" of strategy 5: NFS/RDMA has been in Linux since 2.6.24`,
		"5@2.6":          `kernel "2.6" of strategy 5: NFS/RDMA has been in Linux since 2.6.24`,
		"5@1.9.99.9.9.9": `kernel "1.9.99.9.9.9" of strategy 5: want a version such as 2.6.24`,
		"6":              `registration mode "6": the era of the strategy number is missing: want 6@2.6.24, 6@2.6.27-rc or 6@2.6.28`,
		"fast":           `registration mode "fast": want one of ["auto" "fastreg" "all-physical" "bounce" "register" "mw" "mw-async" "fmr"], or NUMBER@KERNEL such as 5@2.6.24`,
	} {
		_, err := nfsclient.ParseRegMode(s)
		assert.EqualError(t, err, want)
	}
}

// rsize and wsize are the mount option, bounded by MaxDataSegs, by what the headers have room for,
// and by the server; and the mount says by which.
func TestSizes(t *testing.T) {
	for _, c := range []struct {
		mode        nfsclient.RegMode
		segs, asked int
		pers        softroce.Personality
		rsize       int
		wsize       int
		why         string
	}{
		{nfsclient.FastReg, 8, 0, softroce.RoCE, 32768, 32768, "MaxDataSegs"},
		{nfsclient.FastReg, 16, 65536, softroce.RoCE, 65536, 65536, "RSize"},
		{nfsclient.FastReg, 8, 65536, softroce.RoCE, 32768, 32768, "MaxDataSegs"},
		{nfsclient.AllPhysical, 8, 65536, softroce.MT25208, 32768, 32768, "MaxDataSegs"},
		{nfsclient.AllPhysical, 16, 65536, softroce.T310, 65536, 65536, "RSize"},
		{nfsclient.FastReg, 0, 0, softroce.RoCE, 1 << 20, 1 << 20, "the server's rtmax"},
		{nfsclient.FastReg, 0, 16384, softroce.RoCE, 16384, 16384, "RSize"},
		{nfsclient.FastReg, 192, 0, softroce.T310, 192 * 4096, 192 * 4096, "MaxDataSegs"},
		{nfsclient.AllPhysical, 0, 0, softroce.RoCE, 995328, 659456, "InlineSend"},
		{nfsclient.Bounce, 0, 0, softroce.RoCE, 3932, 3912, "InlineRecv"},
	} {
		t.Run(fmt.Sprint(c.mode, c.segs, c.asked, c.pers.Name), func(t *testing.T) {
			e := newEnv(t, func(x *envConfig) { x.personality = c.pers }, client(func(x *nfsclient.Config) {
				x.RegMode, x.MaxDataSegs, x.RSize, x.WSize = c.mode, c.segs, c.asked, c.asked
			}))
			n := e.m.Negotiated()
			assert.Equal(t, c.rsize, n.RSize)
			assert.Equal(t, c.wsize, n.WSize)
			assert.Equal(t, c.why, n.RSizeLimit)
			// They are sizes that work, at any alignment of the buffer, and in one call.
			want := pattern(n.WSize, 3)
			odd := append(make([]byte, 1, n.WSize+8192), want...)[1:]
			require.NoError(t, e.m.WriteFile(bg, "f", odd, 0o600))
			fh, _, err := e.m.LookupPath(bg, "f")
			require.NoError(t, err)
			for _, shift := range []int{0, 1, 4095} {
				buf := make([]byte, n.RSize+4096)[shift : shift+min(n.RSize, n.WSize)]
				k, _, err := e.m.Read(bg, fh, 0, buf)
				require.NoError(t, err)
				assert.Equal(t, want[:len(buf)], buf[:k])
				r, err := e.m.Write(bg, fh, 0, buf, nfsclient.FILE_SYNC)
				require.NoError(t, err)
				assert.Equal(t, len(buf), r.Count)
			}
		})
	}
}

func TestNegotiated(t *testing.T) {
	e := newEnv(t, client(func(c *nfsclient.Config) { c.Credits, c.IRD, c.InlineRecv = 16, 8, 8192 }),
		server(func(c *nfsserver.Config) { c.ORD, c.InlineSend, c.InlineRecv, c.Credits = 4, 8192, 2048, 32 }))
	n := e.m.Negotiated()
	assert.Equal(t, 2048, n.InlineSend)
	assert.Equal(t, 8192, n.InlineRecv)
	assert.Equal(t, 16, n.Credits)
	assert.True(t, n.PrivateData)
	assert.True(t, n.RemoteInvalidation)
	assert.Equal(t, 8, n.IRD)
	assert.NotEmpty(t, n.LocalAddr)
	assert.Positive(t, n.SQDepth)
}

// The whole path on devices of old, and with each odd switch.
func TestPersonalitiesAndSwitches(t *testing.T) {
	for _, p := range softroce.Personalities() {
		for name, set := range map[string]func(*nfsclient.Config){
			"default":                func(*nfsclient.Config) {},
			"no private data":        func(c *nfsclient.Config) { c.NoPrivateData = true },
			"no remote invalidation": func(c *nfsclient.Config) { c.NoRemoteInvalidation = true },
			"pads in chunks":         func(c *nfsclient.Config) { c.NoPadOptimize = true },
			"one credit":             func(c *nfsclient.Config) { c.Credits = 1 },
			"small send queue":       func(c *nfsclient.Config) { c.SQDepth, c.MaxDataSegs = 8, 16 },
			"auth none":              func(c *nfsclient.Config) { c.Cred.None = true },
			"all-physical":           func(c *nfsclient.Config) { c.RegMode = nfsclient.AllPhysical },
		} {
			t.Run(p.Name+"/"+name, func(t *testing.T) {
				e := newEnv(t, func(c *envConfig) { c.personality = p }, client(set))
				want := pattern(300_001, 8)
				require.NoError(t, e.m.WriteFile(bg, "f", want, 0o666))
				got, err := e.m.ReadFile(bg, "f")
				require.NoError(t, err)
				assert.Equal(t, want, got)
				assert.Equal(t, 1, e.counter("connect_count"))
				if p.Name == "RoCE" { // one region a call, but for pads
					locally := name == "no remote invalidation" || name == "no private data" || name == "pads in chunks"
					assert.Equal(t, locally, e.counter("local_inv_needed") > 0)
				}
			})
		}
	}
}
