package fabric_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/fabric/faults"
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
		527,  // a file whose number was an older file's
		1898, // a WRITE that was slow, and sent again, wrote over a later one
	} {
		fabric.Chaos(t, seed)
	}
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
