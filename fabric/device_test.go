package fabric_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/verbs"
)

func TestDeviceErrors(t *testing.T) {
	_, err := fabric.Start(fabric.Params{Device: "no-such-device"})
	require.Error(t, err)
	assert.Contains(t, err.Error(), "fabric: Device: ")

	_, err = fabric.Start(fabric.Params{Device: "rxe0", Link: &fabric.IBSDR})
	assert.EqualError(t, err, "fabric: Device rxe0 has a wire and a personality of its own: Link and Personality are for softroce")

	t.Setenv("NFSRDMA_DEVICE", "no-such-device")
	_, err = fabric.Start(fabric.Params{Link: &fabric.IBSDR}) // overruled
	assert.ErrorContains(t, err, "fabric: Device: ")
	assert.NotErrorIs(t, err, verbs.ErrUnreachable)

	f := fabric.New(t, fabric.Params{Device: fabric.Softroce, Link: &fabric.IBSDR})
	assert.Equal(t, fabric.Softroce, f.Params().Device)
	assert.False(t, f.Params().Live)
}
