package chunkfuzz

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/verbs/softroce"
)

func newRig(t testing.TB, cfg RigConfig) *Rig {
	t.Helper()
	r, err := NewRig(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

func TestNoBytesAreALegalRead(t *testing.T) {
	r := newRig(t, RigConfig{})
	res, err := r.Try(nil)
	require.NoError(t, err)
	require.NoError(t, res.Err(true))
	require.Equal(t, Reply, res.Got.Kind)
	require.Len(t, res.Want.item, 1000)
	require.True(t, res.Want.reduce)
}

// campaign compares oracle and server over generated calls.
func campaign(t *testing.T, cfg RigConfig, seed uint64, until func(n int) bool) (n int, seen [numKinds]int) {
	t.Helper()
	r := newRig(t, cfg)
	rnd := rand.New(rand.NewPCG(seed, 1))
	in := make([]byte, 96)
	for ; !until(n); n++ {
		RandomInput(rnd, in)
		res, err := r.Try(in)
		require.NoError(t, err, "%v", res.Got)
		if err := res.Err(true); err != nil {
			t.Fatalf("call %d of seed %d: %v\ninput %x", n, seed, err, in)
		}
		seen[res.Got.Kind]++
	}
	return n, seen
}

func TestOracleAndServerAgree(t *testing.T) {
	for i, cfg := range []RigConfig{{}, {Inline: 1024}, {Device: softroce.MT25208}, {Device: softroce.T310},
		{Server: nfsserver.Config{Credits: 1, Threads: 1}}} {
		n, seen := campaign(t, cfg, uint64(i), func(n int) bool { return n == 4000 })
		t.Logf("%d calls: %v", n, seen)
		for k := range Violation {
			assert.NotZero(t, seen[k], "%v", k)
		}
	}
}

// TestLongAgreement compares oracle and server for NFSRDMA_LONG, a duration, or over 10 million calls.
func TestLongAgreement(t *testing.T) {
	long := os.Getenv("NFSRDMA_LONG")
	if long == "" {
		t.Skip("NFSRDMA_LONG is not set")
	}
	start := time.Now()
	until := func(n int) bool { return n == 10_000_000 }
	if d, err := time.ParseDuration(long); err == nil {
		until = func(n int) bool { return n%1024 == 0 && time.Since(start) > d }
	}
	seed := uint64(start.UnixNano())
	n, seen := campaign(t, RigConfig{}, seed, until)
	t.Logf("seed %d: %d calls, %.0f/s: %v", seed, n, float64(n)/time.Since(start).Seconds(), seen)
}
