package fabric_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/fabric/faults"
	"example.org/nfsrdma/nfsclient"
)

// chaosSeeds is how many seeds run, and from which on: NFSRDMA_CHAOS=1000 or 1000+5000 asks for others.
func chaosSeeds(t *testing.T) (first, n uint64) {
	t.Helper()
	n = uint64(share(40))
	if e := os.Getenv("NFSRDMA_CHAOS"); e != "" {
		v, err := strconv.ParseUint(e, 10, 32)
		require.NoError(t, err, "NFSRDMA_CHAOS")
		n = v
	}
	if e := os.Getenv("NFSRDMA_CHAOS_FIRST"); e != "" {
		v, err := strconv.ParseUint(e, 10, 64)
		require.NoError(t, err, "NFSRDMA_CHAOS_FIRST")
		first = v
	}
	return first, n
}

// Seeds that have found something.
func TestChaosFound(t *testing.T) {
	for _, seed := range []uint64{
		111, // a server that crashed where its device had gone
	} {
		fabric.Chaos(t, seed)
	}
}

// Live, nothing replays, and all else holds; so it does in each mode, on each device and over TCP.
func TestChaosWith(t *testing.T) {
	for i, o := range []fabric.ChaosOptions{
		{Live: true}, {Live: true, Proto: "tcp"}, {Live: true, Proto: "rdma", Personality: "T310"},
		{Proto: "tcp"}, {Personality: "t310", Mode: nfsclient.MemWindow}, {Personality: "MT25208", Mode: nfsclient.FMR}, {Personality: "T310", Proto: "rdma"},
	} {
		r, err := fabric.RunChaosWith(bg, uint64(i), o)
		require.NoError(t, err, "%v\n%v", o, r)
		assert.Equal(t, o.Live, r.Fingerprint == 0)
		if !o.Live { // where it depends on the machine how far the load gets
			assert.Positive(t, r.Calls)
			assert.Positive(t, r.Bytes)
		}
	}
	_, err := fabric.RunChaosWith(bg, 1, fabric.ChaosOptions{Personality: "abacus"})
	assert.ErrorContains(t, err, "abacus")
	_, err = fabric.RunChaosWith(bg, 1, fabric.ChaosOptions{Proto: "udp"})
	assert.ErrorContains(t, err, "udp")
}

// A campaign does the same whatever the number of its workers, and makes a failure small.
func TestChaosCampaign(t *testing.T) {
	c := fabric.ChaosCampaign{First: 3, Seeds: 3, Workers: 1, Twice: true}
	a, err := fabric.RunChaosCampaign(bg, c)
	require.NoError(t, err)
	c.Workers = 3
	b, err := fabric.RunChaosCampaign(bg, c)
	require.NoError(t, err)
	a.Wall, b.Wall = 0, 0
	assert.Equal(t, a, b)
	assert.Empty(t, a.Failures)
	assert.Equal(t, 3, a.Seeds)

	c = fabric.ChaosCampaign{Seeds: 1, Options: fabric.ChaosOptions{Proto: "rdma",
		Faults: parse(t, "slow p=0.1 optional; eio op=MKNOD; drop kind=SEND p=0.01 optional; enospc op=MKNOD")}}
	a, err = fabric.RunChaosCampaign(bg, c)
	require.NoError(t, err)
	require.Len(t, a.Failures, 1)
	assert.Equal(t, "enospc op=MKNOD", a.Failures[0].Minimal)
	assert.Equal(t, "nfsrdma chaos -seed 0 -seeds 1 -proto rdma -faults 'enospc op=MKNOD'", a.Failures[0].Replay())
	_, err = fabric.RunChaosCampaign(bg, fabric.ChaosCampaign{})
	assert.Error(t, err)
}

// TestChaos: faults at random under a load lose nothing that was acknowledged, leave nothing, and give the same trace
// again.
func TestChaos(t *testing.T) {
	first, n := chaosSeeds(t)
	combinations, kinds := map[string]int{}, map[string]int{}
	var calls, failed int
	var bytes int64
	for seed := first; seed < first+n; seed++ {
		r := fabric.Chaos(t, seed)
		if c := r.Combination(); c != "" {
			combinations[c]++
		}
		for _, c := range r.Faults {
			if c.Fired > 0 {
				kinds[c.Fault.Kind.String()]++
			}
		}
		calls, failed, bytes = calls+r.Calls, failed+r.Failed, bytes+r.Bytes
		if seed%5 == 0 || n >= 1000 {
			again, _ := fabric.RunChaos(bg, seed)
			require.Equal(t, r, again, "seed %d", seed)
		}
	}
	t.Logf("%d seeds: %d calls, %d failed, %d bytes compared; %d combinations of faults; %v", n, calls, failed, bytes, len(combinations), kinds)
	if n >= 1000 {
		require.GreaterOrEqual(t, len(combinations), 200)
		require.Len(t, kinds, len(faults.Kinds()), "every kind fired")
	}
}
