package scenarios

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSplice(t *testing.T) {
	var texts []string
	for range 2 {
		r, err := splice.Run(context.Background(), Options{Seed: 1})
		require.NoError(t, err)
		assert.Empty(t, r.Misses())
		var b bytes.Buffer
		require.NoError(t, r.WriteText(&b, false))
		texts = append(texts, b.String())
	}
	t.Log(texts[0])
	assert.Equal(t, texts[0], texts[1], "one seed, one result")
	for _, line := range strings.Split(texts[0], "\n") {
		if !strings.HasPrefix(line, string(KnownMiss)) {
			assert.LessOrEqual(t, len(line), 140, "fits a terminal: %s", line)
		}
	}
}

// The figures come out of the run: a buffer of two segments does not stall.
func TestSpliceLargerBuffer(t *testing.T) {
	c := spliceBase(spliceNotLast).small()
	slow, err := c.run(context.Background(), 1)
	require.NoError(t, err)
	c.sndbuf = 128 << 10
	fast, err := c.run(context.Background(), 1)
	require.NoError(t, err)
	assert.Greater(t, fast.rate, 100*slow.rate)
}
