package verbsfuzz

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/verbs"
)

// TestRigGoesOn: what a failed program had posted is not judged with the next one.
func TestRigGoesOn(t *testing.T) {
	r := newRig(t)
	bad := &Program{ORD: 16, IRD: 16, Steps: []Step{write(bufAll, 0, 8), {Op: verbs.OpAtomicFetchAdd, Flags: verbs.Signaled}}}
	require.ErrorIs(t, r.Run(context.Background(), bad), verbs.ErrUnsupported)
	assert.NoError(t, r.Run(context.Background(), &Program{ORD: 16, IRD: 16}))
}
