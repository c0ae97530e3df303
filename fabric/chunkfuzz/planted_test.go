package chunkfuzz

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/xprt/svcrdma"
)

// tryFresh tries an input on a server of its own.
func tryFresh(t testing.TB, before [][]byte, in []byte) error {
	r, err := NewRig(RigConfig{})
	require.NoError(t, err)
	defer func() { _ = r.Close() }()
	for _, b := range before {
		if _, err := r.Try(b); err != nil {
			return err
		}
	}
	res, err := r.Try(in)
	if err != nil {
		return err
	}
	return res.Err(true)
}

func TestPlantedBugsAreFound(t *testing.T) {
	for _, bug := range svcrdma.Bugs() {
		t.Run(bug.String(), func(t *testing.T) {
			r, err := NewRig(RigConfig{})
			require.NoError(t, err)
			svcrdma.PlantBug(bug)
			defer svcrdma.PlantBug(0)
			rnd := rand.New(rand.NewPCG(7, uint64(bug)))
			in := make([]byte, 96)
			start := time.Now()
			for n := 1; ; n++ {
				RandomInput(rnd, in)
				res, err := r.Try(in)
				if err == nil {
					err = res.Err(true)
				}
				if err != nil {
					r.dead = true
					t.Logf("after %d calls, %v: %v", n, time.Since(start).Round(time.Millisecond), res.Got)
					break
				}
				require.Less(t, time.Since(start), time.Minute, "%d calls", n)
			}
			before := [][]byte{nil} // a stale key needs one that was there before
			small := Shrink(in, 30, func(b []byte) bool { return tryFresh(t, before, b) != nil })
			if err := tryFresh(t, before, small); assert.Error(t, err) {
				t.Logf("made small, %x: %v", small, err)
			}
			svcrdma.PlantBug(0)
			assert.NoError(t, tryFresh(t, before, small), "without the bug")
			r.dead = true
			_ = r.Close()
		})
	}
}
