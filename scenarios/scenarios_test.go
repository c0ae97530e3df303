package scenarios

import (
	"bytes"
	"context"
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
	require.NoError(t, r.WriteText(&b))
	t.Log(b.String())
	assert.Empty(t, r.Misses())
}
