package scenarios

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCommit(t *testing.T) {
	r, err := commit.Run(context.Background(), Options{Seed: 1})
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, r.WriteText(&b, false))
	t.Log(b.String())
	assert.Empty(t, r.Misses())
	reported := 0
	for _, row := range r.Rows {
		if row.Reported != nil {
			reported++
		}
	}
	assert.GreaterOrEqual(t, reported, 4*9, "every figure of the report")
}

func TestSampler(t *testing.T) {
	for _, p := range []float64{0, 0.025, 0.1, 0.25, 1} {
		rng := rand.New(rand.NewPCG(1, 2))
		s := sampler(p, rng)
		n := 0
		for k := range 400 {
			if s(k) {
				n++
			}
		}
		assert.InDelta(t, 400*p, n, 1.01, "p = %v", p)
	}
}

// One seed gives one result, another seed another.
func TestCommitIsRepeatable(t *testing.T) {
	c := commitBase(commitInitial, commitAfter)
	c.records = 8
	run := func(seed uint64) commitRun {
		r, err := c.run(context.Background(), seed)
		require.NoError(t, err)
		return r
	}
	assert.Equal(t, run(3), run(3))
	assert.NotEqual(t, run(3), run(4))
	crash := func() crashRun {
		r, err := commitCrash{policy: commitAfter}.run(context.Background(), 3)
		require.NoError(t, err)
		return r
	}
	assert.Equal(t, crash(), crash())
}

// The figures come out of the run: a slower log is seen.
func TestCommitSlowerLogIsMeasured(t *testing.T) {
	c := commitBase(commitInitial, commitAfter)
	c.records = 8
	a, err := c.run(context.Background(), 1)
	require.NoError(t, err)
	c.log = 2
	b, err := c.run(context.Background(), 1)
	require.NoError(t, err)
	fast, _, _ := a.children()
	slow, _, _ := b.children()
	assert.InDelta(t, 4.84e-3/(commitRecord/1024/(slow/commitProcs)-commitRecord/1024/(fast/commitProcs)), 1, 0.1)
}
