package fabric_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/fabric/faults"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/verbs"
)

// quickly lets a client be back soon after its connection broke.
func quickly(c *nfsclient.Config) {
	c.ReconnectMin, c.ReconnectMax, c.Timeout = time.Millisecond, 8*time.Millisecond, 300*time.Millisecond
}

func parse(t *testing.T, text string) []faults.Fault {
	t.Helper()
	list, err := faults.Parse(text)
	require.NoError(t, err)
	return list
}

// A registration that fails fails its call, and no other.
func TestFaultRegFail(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			f := fabric.New(t, fabric.Params{RegMode: mode, Faults: parse(t, "regfail side=client nth=1 from=1ms optional")})
			m := f.Mount(t, "/")
			require.NoError(t, f.Sleep(bg, 2*time.Millisecond))
			want := data(200_000, 1)
			err := m.NFS().WriteFile(bg, "a", want, 0o644)
			fired := f.Faults().Counts()[0].Fired > 0
			assert.Equal(t, fired, err != nil)
			if fired {
				var x *faults.Error
				require.ErrorAs(t, err, &x)
				assert.ErrorIs(t, err, verbs.ErrNoResources)
			}
			m.WriteFile(t, "a", want)
			assert.Equal(t, want, m.ReadFile(t, "a"))
		})
	}
}

// A WRITE that is slow in the file system, and is sent again on a new connection meanwhile, must not write over what
// comes after its answer. Without a duplicate request cache it does.
func TestFaultSlowWriteTwice(t *testing.T) {
	for _, size := range []int{100, 20_000} { // inline, and in a Read chunk
		for _, entries := range []int{0, -1} {
			f := fabric.New(t, fabric.Params{DRCEntries: entries, Client: quickly,
				Faults: parse(t, "slow op=WRITE nth=1 by=50ms; disconnect op=WRITE nth=1")})
			m := f.Mount(t, "/").NFS()
			c, err := m.Create(bg, m.Root(), "a", nfsclient.CreateHow{})
			require.NoError(t, err)
			for i := range byte(2) {
				_, err = m.Write(bg, c.FH, 0, data(size, i), nfsclient.FILE_SYNC)
				require.NoError(t, err)
			}
			require.NoError(t, f.Sleep(bg, time.Second))
			got := stored(t, f.FS(), "a")
			if entries < 0 {
				assert.Equal(t, string(data(size, 0)), got)
				continue
			}
			assert.Equal(t, string(data(size, 1)), got)
			f.Server().Counters().Want(t, "drc_in_progress=1 drc_hits=1")
		}
	}
}

// A fault that never fires fails the test that asks for it.
func TestFaultMustFire(t *testing.T) {
	tb := runFake("x", func(t fabric.TB) {
		f := fabric.New(t, fabric.Params{Faults: []faults.Fault{{Kind: faults.EIO, Op: "LINK"}, {Kind: faults.Drop, Nth: 1 << 20, Optional: true}}})
		f.Mount(t, "/").WriteFile(t, "a", []byte("x"))
	})
	require.Len(t, tb.errors(), 1)
	assert.Contains(t, tb.errors()[0], "eio op=LINK (0 events seen)")
	assert.NotContains(t, tb.errors()[0], "drop")

	_, err := fabric.Start(fabric.Params{Faults: []faults.Fault{{Kind: faults.EIO, Op: "TALK"}}})
	assert.ErrorContains(t, err, "no operation TALK")
}

// The same faults give the same trace, and other faults another.
func TestFaultsReplay(t *testing.T) {
	run := func(text string) (uint64, []faults.Count) {
		f := fabric.New(t, fabric.Params{Link: &fabric.RoCE25G, Faults: parse(t, text), Client: quickly})
		f.Run(t, fabric.Load{Op: fabric.Write, FileSize: 1 << 20, Depth: 4, Calls: 100, Verify: true})
		return f.Fingerprint(), f.Faults().Counts()
	}
	a, ca := run("drop p=0.02; delay p=0.02")
	b, cb := run("drop p=0.02; delay p=0.02")
	assert.Equal(t, a, b)
	assert.Equal(t, ca, cb)
	c, _ := run("drop p=0.02; delay p=0.03")
	assert.NotEqual(t, a, c)
}

// A device that goes away ends the calls of a soft mount.
func TestFaultRemove(t *testing.T) {
	f := fabric.New(t, fabric.Params{Faults: parse(t, "remove op=WRITE nth=3"), Client: func(c *nfsclient.Config) {
		quickly(c)
		c.Soft = true
	}})
	_, err := f.RunLoad(bg, fabric.Load{Op: fabric.Write, FileSize: 1 << 20, Depth: 2})
	assert.Error(t, err)
}

// Over TCP faults of the file system, of the server and of connections fire.
func TestFaultsTCP(t *testing.T) {
	for _, text := range []string{"disconnect op=WRITE nth=7", "disconnect at=1ms side=server", "crash op=WRITE nth=11 by=3ms",
		"jukebox op=WRITE nth=3", "remove at=1ms by=1ms side=server"} {
		p := fabric.Params{Proto: fabric.TCP, Link: &fabric.RoCE25G, Faults: parse(t, text), Client: quickly, Storage: fabric.Memory().Crashable()}
		f := fabric.New(t, p)
		r := f.Run(t, fabric.Load{Op: fabric.Mix, ReadPercent: 50, FileSize: 1 << 20, Size: 32 << 10, Depth: 4, Calls: 200, Stable: true, Verify: true})
		assert.EqualValues(t, 200, r.Calls)
		assert.Positive(t, f.Faults().Counts()[0].Fired, text)
	}
}

// Each of these faults fires in a load, which goes through with all its data, and shows in a counter.
func TestFaults(t *testing.T) {
	for text, want := range map[string]string{
		"drop kind=SEND dir=c->s nth=5":               "client retransmits>=1",
		"drop kind=WRITE nth=5":                       "",
		"drop kind=READ_RESPONSE nth=7":               "",
		"drop kind=ACK every=3":                       "",
		"delay kind=SEND every=7 by=50us":             "",
		"duplicate kind=SEND every=5":                 "server duplicate_request>=1",
		"corrupt kind=READ_REQUEST nth=2":             "client icrc_err=1",
		"reorder kind=WRITE every=9":                  "client out_of_seq_request>=1",
		"rnr dir=c->s nth=9":                          "server send_rnr_err>=1",
		"rnr dir=s->c nth=9":                          "client send_rnr_err=1",
		"postfail op=REG_MR side=client nth=9":        "",
		"postfail op=SEND side=client nth=9":          "",
		"postfail op=SEND_WITH_INV side=server nth=9": "",
		"postfail op=RDMA_READ side=server nth=3":     "",
		"postfail op=RDMA_WRITE side=server nth=3":    "",
		"postfail op=RECV side=client nth=150":        "",
		"postfail op=RECV side=server nth=80":         "",
		"slow op=WRITE every=5":                       "",
		"disconnect op=WRITE nth=7":                   "",
		"disconnect at=1ms side=server":               "",
		"qperror op=READ nth=7":                       "",
		"qperror op=READ nth=7 side=server":           "",
		"cqoverflow op=READ nth=7":                    "",
		"cqoverflow kind=WRITE nth=70 side=server":    "",
		"addrchange op=RDMA_READ nth=7":               "",
		"addrchange op=WRITE nth=7 side=server":       "",
		"crash op=WRITE nth=11 by=3ms":                "",
		"jukebox op=READ from=300us to=12s":           "",
		"drop kind=REQ nth=1":                         "",
		"corrupt kind=REP nth=1":                      "",
		"drop kind=RTU nth=1":                         "",
		"duplicate kind=CM":                           "",
		"reorder kind=REQ by=1ms":                     "",
		"disconnect op=READ nth=7; drop kind=DREQ":    "",
		"disconnect kind=RTU nth=1":                   "",
		"remove op=READ nth=7 by=5ms":                 "",
		"remove op=WRITE nth=7 by=5ms side=server":    "",
		"remove at=500us by=2ms; remove at=1ms by=2ms side=server; remove at=2ms by=2ms":                      "",
		"disconnect at=500us; allocfail from=400us nth=1; allocfail op=CreateQP side=server from=400us nth=1": "",
	} {
		t.Run(text, func(t *testing.T) {
			p := fabric.Params{Link: &fabric.RoCE25G, Faults: parse(t, text), Client: quickly, Storage: fabric.Memory().Crashable()}
			f := fabric.New(t, p)
			r := f.Run(t, fabric.Load{Op: fabric.Mix, ReadPercent: 50, FileSize: 1 << 20, Size: 32 << 10, Depth: 4, Calls: 200, Stable: true, Verify: true})
			assert.EqualValues(t, 200, r.Calls)
			for _, c := range f.Faults().Counts() {
				assert.Positive(t, c.Fired, "%v", c.Fault)
			}
			switch {
			case want == "":
			case want[0] == 'c':
				f.Client().Device().Want(t, want[len("client "):])
			default:
				f.Server().Device().Want(t, want[len("server "):])
			}
		})
	}
}
