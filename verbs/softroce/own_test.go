package softroce

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/verbs"
)

// A network without a scheduler runs live, and ends its own.
func TestNetworkOfItsOwn(t *testing.T) {
	n := NewNetwork(nil, NetConfig{})
	d, err := n.NewDevice("d", RoCE)
	require.NoError(t, err)
	c, err := d.CreateCQ(verbs.CQInit{Depth: 1})
	require.NoError(t, err)
	require.ErrorIs(t, n.Close(), verbs.ErrBusy)
	require.NoError(t, c.Close())
	for range 3 { // however often
		assert.ErrorIs(t, c.Wait(bg), verbs.ErrClosed)
	}
	require.NoError(t, d.Close())
	require.NoError(t, n.Close())
}
