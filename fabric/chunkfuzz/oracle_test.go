package chunkfuzz

import (
	"context"
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

// agree compares oracle and server over generated calls.
func agree(t *testing.T, cfg RigConfig, o Options) Report {
	t.Helper()
	r := newRig(t, cfg)
	o.Strict = true
	rep, err := Campaign(context.Background(), r.TryContext, o)
	t.Logf("seed %d: %v", o.Seed, &rep)
	require.NoError(t, err)
	require.NoError(t, rep.Err())
	return rep
}

func TestOracleAndServerAgree(t *testing.T) {
	for i, cfg := range []RigConfig{{}, {Inline: 1024}, {Device: softroce.MT25208}, {Device: softroce.T310},
		{Server: nfsserver.Config{Credits: 1, Threads: 1}}} {
		rep := agree(t, cfg, Options{Seed: uint64(i + 1), Calls: 2500})
		for k := range Violation {
			assert.NotZero(t, rep.Kinds[k], "%v", k)
		}
		assert.Less(t, rep.Open, rep.Calls/100, "not foreseen")
	}
}

// TestLongAgreement compares oracle and server for NFSRDMA_LONG, a duration, or over 10 million calls.
func TestLongAgreement(t *testing.T) {
	long := os.Getenv("NFSRDMA_LONG")
	if long == "" {
		t.Skip("it takes long: NFSRDMA_LONG is not set")
	}
	o := Options{Seed: uint64(time.Now().UnixNano()), Calls: 10_000_000}
	if d, err := time.ParseDuration(long); err == nil {
		o.Calls, o.Time = 0, d
	}
	agree(t, RigConfig{}, o)
}

func TestSameInputSameTrace(t *testing.T) {
	var prints []uint64
	for range 2 {
		r := newRig(t, RigConfig{Seed: 5})
		_, err := Campaign(context.Background(), r.TryContext, Options{Calls: 2000})
		require.NoError(t, err)
		prints = append(prints, r.Fingerprint())
	}
	assert.Equal(t, prints[0], prints[1])
}
