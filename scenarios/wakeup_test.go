package scenarios

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWakeup(t *testing.T) {
	r, err := wakeup.Run(context.Background(), Options{Seed: 1})
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, r.WriteText(&b, false))
	t.Log(b.String())
	assert.Empty(t, r.Misses())
	assert.Contains(t, b.String(), "wakeup, seed 1:")
	for _, line := range strings.Split(b.String(), "\n") {
		assert.LessOrEqual(t, len(line), 130, "fits a terminal: %s", line)
	}
	reported := 0
	for _, row := range r.Rows {
		if row.Reported != nil {
			reported++
		}
	}
	assert.GreaterOrEqual(t, reported, 11, "every figure of the report")
}
