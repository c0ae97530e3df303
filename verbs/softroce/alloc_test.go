//go:build !race

package softroce

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestNoAllocation: once warm, nothing on the way of data allocates.
func TestNoAllocation(t *testing.T) {
	for _, live := range []bool{false, true} {
		for _, l := range []bool{false, true} {
			c := pairConfig{live: live}
			if l {
				c.link = micro()
			}
			w := newWarm(t, c)
			for op := range w.ops() {
				f := w.run(op)
				for range 150 { // all entries of the send queue
					f()
				}
				assert.Zero(t, testing.AllocsPerRun(200, f), fmt.Sprintf("%s, live %v, link %v", op, live, l))
			}
			w.close()
		}
	}
}
