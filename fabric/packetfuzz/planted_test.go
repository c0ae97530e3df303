package packetfuzz

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/verbs/softroce"
)

func TestPlantedBugsAreFound(t *testing.T) {
	for _, bug := range softroce.Bugs() {
		t.Run(bug.String(), func(t *testing.T) {
			softroce.PlantBug(bug)
			defer softroce.PlantBug(0)
			rep, err := newRig(t).Campaign(Options{Time: 10 * time.Second, Most: 1})
			require.NoError(t, err)
			require.Len(t, rep.Failures, 1)
			t.Log(rep)
			assert.Less(t, rep.Elapsed, 5*time.Second)
			softroce.PlantBug(0)
			res, err := newRig(t).Try(rep.Failures[0].Input)
			require.NoError(t, err)
			assert.NoError(t, res.Err, "without the bug")
		})
	}
}
