package fabric_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/fabric"
)

// ORD binds until the wire does, and then no longer matters; IRD above ORD never does.
func TestSweepExpectations(t *testing.T) {
	slow := fabric.IBSDR.WithDelay(20_000)
	r := fabric.Sweep(t, fabric.Matrix{
		Params: fabric.Params{Link: &slow, IRD: 64},
		Load:   fabric.Load{Op: fabric.Write, Size: 16 << 10, Depth: 32, Calls: 256, Warm: 32, FileSize: 1 << 20},
		Knobs:  []fabric.Knob{{"ord", "1..16:x2"}, {"ird", "16,64"}},
	})
	r.WantRising(t, "ORD", 0.01)
	r.WantFlat(t, "IRD", 0.01)
	r.Where(t, "ord=1").WantBound(t, "the ORD window")
	r.Where(t, "ord=8..16").WantBound(t, "the link client->server")
	r.Where(t, "ord=8,16", "ird=64").WantFlat(t, "max_outbound_read_requests", 0.03)
	require.Len(t, r.Where(t, "ord=8,16", "ird=64").Cells, 2)

	fails := func(want string, f func(tb fabric.TB)) {
		t.Helper()
		tb := &recordTB{TB: t}
		f(tb)
		assert.Contains(t, strings.Join(tb.errors, "\n"), want)
	}
	fails("throughput changes from", func(tb fabric.TB) { r.WantFlat(tb, "ord", 0.5) })
	fails("ORD=1 IRD=16", func(tb fabric.TB) { r.WantFlat(tb, "ord", 0.5) })
	fails("no two cells differ only in Depth", func(tb fabric.TB) { r.WantFlat(tb, "depth", 0.5) })
	fails("did you mean ORD", func(tb fabric.TB) { r.WantRising(tb, "odr", 0) })
	fails("want the inode lock", func(tb fabric.TB) { r.WantBound(tb, "the inode lock") })
	down := fabric.Sweep(t, fabric.Matrix{
		Params: fabric.Params{Link: &slow},
		Load:   fabric.Load{Op: fabric.Write, Size: 16 << 10, Depth: 16, Calls: 64, FileSize: 1 << 20},
		Knobs:  []fabric.Knob{{"ord", "8,1"}},
	})
	fails("throughput falls from", func(tb fabric.TB) { down.WantRising(tb, "ORD", 0.01) })
}

// The bound of a cell is right if a larger window makes just those cells faster that it bound.
func TestSweepBoundsAgreeWithTurning(t *testing.T) {
	r := fabric.Sweep(t, fabric.Matrix{
		Params: fabric.Params{Link: &fabric.IBSDR, IRD: 16},
		Load:   fabric.Load{Op: fabric.Write, Depth: 16, Calls: 128, Warm: 32, FileSize: 1 << 20},
		Knobs:  []fabric.Knob{{"mode", "fastreg,all-physical"}, {"bs", "4K,16K,64K"}, {"ord", "1..8:x2"}},
	})
	byORD := 0
	for i, c := range r.Cells[:len(r.Cells)-1] {
		next := r.Cells[i+1]
		if next.Index%4 == 0 { // another line
			continue
		}
		faster := next.Throughput > 1.02*c.Throughput
		bound := strings.Contains(c.Bound.Resource, "ORD")
		assert.Equal(t, faster, bound, "%s: %s\n%s: %s", c.Params, c.Why, next.Params, next.Why)
		if bound {
			byORD++
		}
	}
	assert.Greater(t, byORD, 4)
}
