package packetfuzz

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func newRig(t testing.TB) *Rig {
	r, err := NewRig()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

func campaign(t *testing.T, o Options) {
	rep, err := newRig(t).Campaign(o)
	t.Log(rep)
	require.NoError(t, err)
	assert.Zero(t, len(rep.Failures))
}

func TestCampaign(t *testing.T) { campaign(t, Options{Inputs: 2000}) }

func TestLongPackets(t *testing.T) {
	d := os.Getenv("NFSRDMA_LONG")
	if d == "" {
		t.Skip("NFSRDMA_LONG=30s packets for so long")
	}
	n, err := time.ParseDuration(d)
	require.NoError(t, err)
	campaign(t, Options{Time: n, Seed: uint64(time.Now().UnixNano())})
}
