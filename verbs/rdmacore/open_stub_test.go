//go:build !rdmacore || !cgo

package rdmacore_test

import (
	"testing"

	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/rdmacore"
	"github.com/stretchr/testify/require"
)

func TestOpenWithoutTheTag(t *testing.T) {
	d, err := rdmacore.Open("rxe0")
	require.Nil(t, d)
	require.ErrorIs(t, err, verbs.ErrUnsupported)
	for _, hint := range []string{"rxe0", "build tag rdmacore", "libibverbs-dev", "librdmacm-dev", "-tags rdmacore"} {
		require.ErrorContains(t, err, hint)
	}
}
