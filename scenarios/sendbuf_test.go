package scenarios

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/nfsserver"
)

func TestSendbuf(t *testing.T) {
	r, err := sendbuf.Run(context.Background(), Options{Seed: 1})
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, r.WriteText(&b, false))
	t.Log(b.String())
	assert.Empty(t, r.Misses())
	reported := map[float64]bool{}
	for _, row := range r.Rows {
		if row.Reported != nil {
			reported[*row.Reported] = true
		}
	}
	for _, m := range []map[int]float64{sendbufOld, sendbufRC1, sendbufRC3} {
		for n, v := range m {
			assert.True(t, reported[v], "%v of %d nfsd is a row", v, n)
		}
	}
	for _, k := range []sendbufRuns{sendbufRC4, sendbufRC4Revert, sendbufCFQNew, sendbufCFQRevert} {
		for _, v := range append(k.runs, k.mean) {
			assert.True(t, reported[v], "%v is a row", v)
		}
	}
	for _, line := range strings.Split(b.String(), "\n") {
		if !strings.HasPrefix(line, string(KnownMiss)) {
			assert.LessOrEqual(t, len(line), 140, "fits a terminal: %s", line)
		}
	}
}

// One seed gives one result, another seed another.
func TestSendbufIsRepeatable(t *testing.T) {
	c := sendbufBase(nfsserver.Auto, 8).in(50)
	run := func(seed uint64) sendbufRun {
		r, err := c.run(context.Background(), seed)
		require.NoError(t, err)
		return r
	}
	assert.Equal(t, run(3), run(3))
	assert.NotEqual(t, run(3), run(4))
}

// The report of the hang names the calls that wait, what for, and who holds it.
func TestSendbufHang(t *testing.T) {
	r, err := sendbufBase(nfsserver.Deferred, 8).in(50).run(context.Background(), 1)
	require.NoError(t, err)
	assert.Regexp(t, `load read 3: waits for a reply \(xid`, r.hang)
	assert.Regexp(t, `deferred calls of .* waits for the send buffer of the server.*free 8421376 of 8421376 bytes, \d+ reserved by 16 calls`, r.hang)
}

// The figures come out of the run: a slower disk is seen.
func TestSendbufSlowerDiskIsMeasured(t *testing.T) {
	c := sendbufBase(nfsserver.Locked, 1).in(300)
	a, err := c.run(context.Background(), 1)
	require.NoError(t, err)
	c.disk = 2
	b, err := c.run(context.Background(), 1)
	require.NoError(t, err)
	assert.InDelta(t, 2, a.rate/b.rate, 0.06)
}
