package scenarios

import (
	"bytes"
	"context"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSegments(t *testing.T) {
	r, err := segments.Run(context.Background(), Options{Seed: 1})
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, r.WriteText(&b, false))
	t.Log(b.String())
	assert.Empty(t, r.Misses())
	assert.Contains(t, b.String(), "REPORTED")
	assert.Regexp(t, `first run +ird=8 net=ib ord=8 segs=8 +185 `, b.String())
	for _, line := range strings.Split(b.String(), "\n") {
		if !strings.HasPrefix(line, string(KnownMiss)) {
			assert.LessOrEqual(t, len(line), 120, "fits a terminal: %s", line)
		}
	}
	assert.Regexp(t, `segments, seed 1: \d+ rows: \d+ ok, 0 miss`, b.String())
}

// Each kind of row is judged: what lies outside its bounds is a miss.
func TestVerdicts(t *testing.T) {
	assert.Equal(t, OK, band("x", nil, value(10), 11, 10, 12, "").Verdict)
	r := band("x", nil, value(10), 13, 10, 12, "")
	assert.Equal(t, Miss, r.Verdict)
	assert.InDelta(t, 0.3, *r.Error, 1e-9)
	assert.Equal(t, Miss, band("x", nil, nil, math.NaN(), 0, 1, "").Verdict, "no figure is no success")
	assert.Nil(t, band("x", nil, nil, 1, 0, 2, "").Error)
	assert.Len(t, (&Result{Rows: []Row{r}}).Misses(), 1)
	assert.Equal(t, KnownMiss, later(nil, 250, 255, 275).Verdict)
	assert.Equal(t, 32768.0, round(32768))
	assert.Equal(t, 0.00123457, round(0.00123456789))
	assert.Equal(t, "32768", number(32768))
	assert.Equal(t, "185.4", number(185.4321))
}

// A law with another slope would be noticed: the rows come out of the run, not of the constants.
func TestSlowerServerIsMeasured(t *testing.T) {
	c := segTransports[0].base(16)
	a, err := c.run(context.Background(), 1)
	require.NoError(t, err)
	c.scaleO, c.scaleS = 2, 2
	b, err := c.run(context.Background(), 1)
	require.NoError(t, err)
	assert.InDelta(t, 2, a.rate/b.rate, 0.02)
}

func TestCancelledRunEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := segments.Run(ctx, Options{Seed: 1})
	assert.ErrorIs(t, err, context.Canceled)
}
