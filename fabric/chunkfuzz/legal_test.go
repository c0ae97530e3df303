package chunkfuzz

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/rpcrdma"
)

func TestLegalMessagesAreAnswered(t *testing.T) {
	r := newRig(t, RigConfig{})
	for _, m := range r.Legal() {
		res, err := r.Exchange(m.Msg)
		require.NoError(t, err, m.Name)
		assert.NoError(t, res.Err(true), m.Name)
		assert.Equal(t, Reply, res.Got.Kind, m.Name)
		assert.Equal(t, Success, res.Got.RPC, m.Name)
	}
}

func TestNeighboursAreAsForeseen(t *testing.T) {
	r := newRig(t, RigConfig{})
	list := r.Neighbours()
	require.Greater(t, len(list), 50)
	var seen [numKinds]int
	for _, m := range list {
		res, err := r.Exchange(m.Msg)
		require.NoError(t, err, m.Name)
		assert.NoError(t, res.Err(true), m.Name)
		seen[res.Got.Kind]++
	}
	for k := range Violation {
		assert.NotZero(t, seen[k], "%v", k)
	}
}

func BenchmarkHeader(b *testing.B) {
	r, err := NewRig(RigConfig{})
	require.NoError(b, err)
	list := r.Neighbours()
	var h rpcrdma.Header
	for i := 0; b.Loop(); i++ {
		_, _ = rpcrdma.ConsumeHeader(list[i%len(list)].Msg, &h, 0)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "headers/s")
	require.NoError(b, r.Close())
}
