package fabric_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
)

// knobs are the integers of Params with their bounds on the default device.
var knobs = []struct {
	name, kernel string
	lo, hi       int
	set          func(*fabric.Params, int)
}{
	{"MaxDataSegs", "RPCRDMA_MAX_DATA_SEGS", 1, 4096, func(p *fabric.Params, v int) { p.MaxDataSegs = v }},
	{"IRD", "responder_resources", 1, 128, func(p *fabric.Params, v int) { p.IRD = v }},
	{"ORD", "max_outbound_read_requests", 1, 128, func(p *fabric.Params, v int) { p.ORD = v }},
	{"InlineRead", "rdma_max_inline_read", 1024, 65536, func(p *fabric.Params, v int) { p.InlineRead = v }},
	{"InlineWrite", "rdma_max_inline_write", 1024, 65536, func(p *fabric.Params, v int) { p.InlineWrite = v }},
	{"ServerInline", "max_req_size", 1024, 65536, func(p *fabric.Params, v int) { p.ServerInline = v }},
	{"Credits", "rdma_slot_table_entries", 1, 16384, func(p *fabric.Params, v int) { p.Credits = v }},
	{"ServerCredits", "max_requests", 1, 16384, func(p *fabric.Params, v int) { p.ServerCredits = v }},
	{"Threads", "nfsd", 1, 8192, func(p *fabric.Params, v int) { p.Threads = v }},
	{"SQDepth", "RPCRDMA_SQ_DEPTH_MULT", 4, 1 << 20, func(p *fabric.Params, v int) { p.SQDepth = v }},
	{"ClientSQDepth", "max_send_wr", 4, 1 << 20, func(p *fabric.Params, v int) { p.ClientSQDepth = v }},
	{"MaxBlockSize", "max_block_size", 1024, 1 << 30, func(p *fabric.Params, v int) { p.MaxBlockSize = v }},
	{"RSize", "rsize", 1024, 1 << 30, func(p *fabric.Params, v int) { p.RSize = v }},
	{"WSize", "wsize", 1024, 1 << 30, func(p *fabric.Params, v int) { p.WSize = v }},
}

func TestParamsOutOfBounds(t *testing.T) {
	for _, k := range knobs {
		for _, v := range []int{k.lo - 1, -1, k.hi + 1, 1 << 40, -1 << 40} {
			if v == 0 {
				continue // the default
			}
			var p fabric.Params
			k.set(&p, v)
			_, err := fabric.Start(p)
			var limit *fabric.LimitError
			if !assert.ErrorAs(t, err, &limit, "%s %d", k.name, v) {
				continue
			}
			assert.True(t, strings.HasPrefix(limit.Knob, k.name+" ("), "%v", err)
			assert.Equal(t, v, limit.Value)
			for _, part := range []string{k.name, k.kernel, fmt.Sprint(v), fmt.Sprint(k.lo)} {
				assert.ErrorContains(t, err, part)
			}
		}
	}
	for _, c := range []struct {
		p    fabric.Params
		want string
	}{
		{fabric.Params{RSize: 1500}, "fabric: RSize (rsize) is 1500, must be a multiple of 1024 from 1024 to 1 GiB; 0 is the largest possible"},
		{fabric.Params{IRD: 33, Personality: softroce.T310}, "fabric: IRD (responder_resources) is 33, must be 1 to 32, the device's max_qp_rd_atom; 0 is the default"},
		{fabric.Params{Credits: 16377, Personality: softroce.T310}, "fabric: Credits (rdma_slot_table_entries) is 16377, must be 1 to 16376, calls, with 8 receives more within the device's max_qp_wr; 0 is the default"},
		{fabric.Params{ServerCredits: 16384, Personality: softroce.MT25208}, "fabric: ServerCredits (max_requests) is 16384, must be 1 to 16383, calls, with a receive more within the device's max_qp_wr; 0 is the default"},
		{fabric.Params{Link: &fabric.Link{Name: "x", Loss: 1.5}}, `fabric: Link: link "x": Loss is 1.5, want 0 to 1`},
		{fabric.Params{RegMode: 77}, "fabric: RegMode (rdma_memreg_strategy) is RegMode(77), must be a registration mode of package nfsclient"},
	} {
		_, err := fabric.Start(c.p)
		assert.EqualError(t, err, c.want)
	}
}

func TestSeedFromEnvironment(t *testing.T) {
	t.Setenv("NFSRDMA_SEED", "0x2a")
	f := fabric.New(t, fabric.Params{})
	assert.Equal(t, uint64(42), f.Params().Seed)
	f = fabric.New(t, fabric.Params{Seed: 3})
	assert.Equal(t, uint64(3), f.Params().Seed)
	t.Setenv("NFSRDMA_SEED", "many")
	_, err := fabric.Start(fabric.Params{})
	assert.EqualError(t, err, `fabric: NFSRDMA_SEED="many" is not a number`)
}

func TestUnsupportedModes(t *testing.T) {
	noFastReg := softroce.RoCE
	noFastReg.Name = "no fast registration"
	noFastReg.Attr.Caps &^= verbs.CapMemMgtExtensions
	noGlobalKey := softroce.RoCE
	noGlobalKey.Name = "no global key"
	noGlobalKey.Attr.Caps &^= verbs.CapGlobalKey
	noWindows := softroce.RoCE
	noWindows.Name = "no windows"
	noWindows.Attr.Caps &^= verbs.CapMemWindow1 | verbs.CapMemWindow2B
	for _, p := range []fabric.Params{
		{RegMode: nfsclient.MemWindow, Personality: noWindows}, {RegMode: nfsclient.MemWindowAsync, Personality: noWindows},
		{RegMode: nfsclient.FMR, Personality: softroce.T310},
		{RegMode: nfsclient.FastReg, Personality: noFastReg},
		{RegMode: nfsclient.AllPhysical, Personality: noGlobalKey},
	} {
		f, err := fabric.Start(p)
		require.NoError(t, err)
		_, err = f.Dial(bg, "/")
		assert.ErrorIs(t, err, verbs.ErrUnsupported, "%v", p.RegMode)
		assert.ErrorContains(t, err, p.RegMode.String())
		assert.NoError(t, f.Close())
	}
	_, err := fabric.Start(fabric.Params{RegisterSink: true, Personality: noFastReg})
	assert.ErrorIs(t, err, verbs.ErrUnsupported)
	assert.ErrorContains(t, err, "RegisterSink")
}

// TestDefaultMode: without a mode the client takes the best that the device has. The last two are as devices
// over libibverbs are: no fast registration, no keys for DMA addresses.
func TestDefaultMode(t *testing.T) {
	user := func(p softroce.Personality, caps verbs.Cap) softroce.Personality {
		p.Name = "user"
		p.Attr.Caps, p.Attr.MaxFastRegPages = caps, 0
		return p
	}
	for _, c := range []struct {
		per  softroce.Personality
		want nfsclient.RegMode
		inv  bool // by the server
	}{
		{softroce.RoCE, nfsclient.FastReg, true},
		{softroce.T310, nfsclient.FastReg, true},
		{user(softroce.RoCE, verbs.CapMemWindow1|verbs.CapMemWindow2B|verbs.CapSendWithInv|verbs.CapRNR), nfsclient.MemWindow, true},
		{user(softroce.T310, 0), nfsclient.Register, false},
	} {
		for _, live := range []bool{false, true} {
			f := fabric.New(t, fabric.Params{Personality: c.per, Live: live})
			assert.NoError(t, exercise(f), "%v", c.want)
			m := f.Mount(t, "/")
			assert.Equal(t, c.want, m.Negotiated().RegMode)
			assert.Equal(t, c.inv, m.Negotiated().RemoteInvalidation)
			m.ReadFile(t, "whole")
			n, ok := f.Client().Counters().Get("remote_invalidations")
			assert.True(t, ok)
			assert.Equal(t, c.inv, n > 0)
			if c.want != nfsclient.FastReg {
				assert.Zero(t, f.Client().Resources().DMAMap)
			}
		}
	}
}

// exercise moves data in both directions with sizes odd and even, and compares all of it.
func exercise(f *fabric.Fabric) error {
	m, err := f.Dial(bg, "/")
	if err != nil {
		return err
	}
	n := m.Negotiated()
	rw := min(n.RSize, n.WSize)
	file := int64(max(128<<10, 2*max(n.RSize, n.WSize)))
	mixed := int64(max(min(60, 8<<20/rw), 8))
	for _, l := range []fabric.Load{
		{Op: fabric.Write, Size: n.WSize, Depth: 5},
		{Op: fabric.Read, Size: n.RSize, Depth: 5},
		{Op: fabric.Mix, ReadPercent: 50, Sizes: []int{1, min(4095, rw), (rw + 2) / 3, rw}, Depth: 7, Random: true, Calls: mixed, Files: 2},
		{Op: fabric.Write, Size: rw, Stable: true, Calls: 3},
	} {
		l.FileSize, l.Verify, l.Mount = file, true, m
		if _, err := f.RunLoad(bg, l); err != nil {
			return err
		}
	}
	want := data(100_001, 3)
	if err := m.NFS().WriteFile(bg, "whole", want, 0o644); err != nil {
		return err
	}
	got, err := m.NFS().ReadFile(bg, "whole")
	if err == nil && string(got) != string(want) {
		err = errors.New("another file came back")
	}
	if err != nil {
		return err
	}
	_, err = m.NFS().FS(bg).ReadDir(".")
	return err
}

// checkWorks wants p to work, with nothing left behind.
func checkWorks(t *testing.T, p fabric.Params) {
	t.Helper()
	f, err := fabric.Start(p)
	if !assert.NoError(t, err) {
		return
	}
	assert.NoError(t, exercise(f))
	assert.NoError(t, f.Close())
}

func TestParamsAtTheirBounds(t *testing.T) {
	for _, k := range knobs {
		for _, v := range []int{k.lo, k.hi} {
			for i, mode := range modes {
				if raceEnabled && i > 0 {
					break
				}
				t.Run(fmt.Sprintf("%s=%d/%v", k.name, v, mode), func(t *testing.T) {
					p := fabric.Params{RegMode: mode, Link: &fabric.RoCE100G, Credits: 9, ServerCredits: 9}
					k.set(&p, v)
					checkWorks(t, p)
				})
			}
		}
	}
}

func TestParamsThatAreNotNumbers(t *testing.T) {
	for name, p := range map[string]fabric.Params{
		"large payloads":                   {MaxDataSegs: 4096, MaxBlockSize: 16 << 20},
		"large payloads live":              {MaxDataSegs: 4096, MaxBlockSize: 16 << 20, Live: true},
		"sizes of no page":                 {RSize: 3072, WSize: 5120},
		"no remote inv":                    {NoRemoteInv: true},
		"no pad optimize":                  {NoPadOptimize: true},
		"register sink":                    {RegisterSink: true},
		"register sink, iwarp":             {RegisterSink: true, Personality: softroce.T310},
		"one of everything":                {MaxDataSegs: 1, Credits: 1, ServerCredits: 1, Threads: 1, SQDepth: 4, ClientSQDepth: 4, IRD: 1, ORD: 1, InlineRead: 1024, InlineWrite: 1024},
		"calls longer than queues":         {MaxDataSegs: 300, MaxBlockSize: 2 << 20, Credits: 2, Personality: softroce.T310},
		"credits of a small device":        {Credits: 16376, Personality: softroce.T310},
		"server credits of a small device": {ServerCredits: 16383, Personality: softroce.T310},
		"user":                             {UID: 1000, GID: 1000},
		"root squash":                      {RootSquash: true},
		"trace":                            {Trace: true},
		"inode lock":                       {Storage: fabric.Memory().WithInodeLock(time.Microsecond, 100)},
		"no time limit":                    {TimeLimit: -1},
	} {
		t.Run(name, func(t *testing.T) {
			for _, mode := range modesOf(p.Personality) {
				p := p
				p.RegMode, p.Link = mode, &fabric.RoCE100G
				checkWorks(t, p)
			}
		})
	}
}

func TestLinksAndPersonalities(t *testing.T) {
	links := []*fabric.Link{nil, lossy()}
	for _, name := range fabric.LinkNames() {
		l, ok := fabric.NamedLink(name)
		require.True(t, ok)
		links = append(links, &l)
	}
	for i, l := range links {
		for j, per := range softroce.Personalities() {
			name := "direct"
			if l != nil {
				name = l.Name
			}
			t.Run(name+"/"+per.Name, func(t *testing.T) {
				for k, mode := range modesOf(per) {
					if !long("NFSRDMA_LONG") && (i+j+k)%3 != 0 {
						continue // each pair of them occurs
					}
					checkWorks(t, fabric.Params{RegMode: mode, Link: l, Personality: per})
				}
			})
		}
	}
	_, ok := fabric.NamedLink("token ring")
	assert.False(t, ok)
}

// TestParamsCombined takes a value of each knob at random, over 200 seeds; live, over a few.
func TestParamsCombined(t *testing.T) {
	eachTime(t, func(t *testing.T, time fabric.Params) {
		seeds := uint64(share(200))
		if time.Live {
			seeds = 16
		}
		if long("NFSRDMA_LONG") {
			seeds *= 25
		}
		for seed := range seeds {
			rng := rand.New(rand.NewPCG(seed, 9))
			p := randomParams(rng)
			p.Seed, p.Live = seed+1, time.Live
			f, err := fabric.Start(p)
			if err == nil {
				err = errors.Join(exercise(f), f.Close())
			}
			if tooSmall(&p, err) {
				continue
			}
			if !assert.NoError(t, err, "seed %d: %+v", p.Seed, p) {
				return
			}
		}
	})
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

func randomParams(rng *rand.Rand) fabric.Params {
	per := pick(rng, softroce.Personalities()...)
	return fabric.Params{
		Personality: per, RegMode: pick(rng, modesOf(per)...),
		Link:        pick(rng, nil, &fabric.RoCE100G, &fabric.IBSDR, &fabric.IWARP10G, &fabric.GbE1, lossy()),
		MaxDataSegs: pick(rng, 0, 1, 2, 17, 64, 300), RSize: pick(rng, 0, 1024, 3072, 65536), WSize: pick(rng, 0, 1024, 5120, 65536),
		InlineRead: pick(rng, 0, 1024, 1500, 16384, 65536), InlineWrite: pick(rng, 0, 1024, 1500, 16384, 65536),
		Credits: pick(rng, 0, 1, 2, 31, 300), IRD: pick(rng, 0, 1, 2, 32), ClientSQDepth: pick(rng, 0, 64, 500, 2000),
		NoRemoteInv: pick(rng, false, true), NoPadOptimize: pick(rng, false, true), UID: pick[uint32](rng, 0, 1000),
		Threads: pick(rng, 0, 1, 2, 33), ServerCredits: pick(rng, 0, 1, 2, 31, 300), ORD: pick(rng, 0, 1, 2, 32),
		SQDepth: pick(rng, 0, 4, 5, 64, 2000), ServerInline: pick(rng, 0, 1024, 8192, 65536),
		MaxBlockSize: pick(rng, 0, 1024, 32768, 2<<20), RegisterSink: pick(rng, false, true), RootSquash: pick(rng, false, true),
		Storage: pick(rng, fabric.Memory(), fabric.Memory().WithInodeLock(3*time.Microsecond, 50)),
	}
}

// tooSmall says whether the call does not fit into the client's send queue, which the error says.
func tooSmall(p *fabric.Params, err error) bool {
	var m *nfsclient.MarshalError
	return errors.As(err, &m) && m.Knob == "SQDepth" && p.ClientSQDepth > 0
}

// TestRegistrationCost: what a registration costs is the limit of a client with one call at a time.
func TestRegistrationCost(t *testing.T) {
	for _, c := range []struct {
		mode nfsclient.RegMode
		want time.Duration // a WRITE of 16 pages
	}{
		{nfsclient.FastReg, 10*time.Microsecond + 16*time.Microsecond}, // and the server invalidates
		{nfsclient.Register, 10*time.Microsecond + 16*time.Microsecond + 3*time.Microsecond},
		{nfsclient.FMR, 10*time.Microsecond + 16*time.Microsecond + 3*time.Microsecond},
		{nfsclient.MemWindow, 10 * time.Microsecond}, // the buffer stays registered
		{nfsclient.AllPhysical, 0},
	} {
		f := fabric.New(t, fabric.Params{RegMode: c.mode, RegTime: 10 * time.Microsecond, RegPageTime: time.Microsecond, InvTime: 3 * time.Microsecond})
		l := fabric.Load{Op: fabric.Write, Size: 64 << 10, Depth: 1, Calls: 100}
		f.Run(t, l) // warm
		before, _ := f.Client().Counters().Get("registration_ns")
		f.Run(t, l)
		after, _ := f.Client().Counters().Get("registration_ns")
		assert.InDelta(t, 100*c.want.Nanoseconds(), after-before, 100, "%v", c.mode)
	}
}
