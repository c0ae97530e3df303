package report

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// testCells are a matrix of knobs of all kinds, with figures made up: 4 ORD x 2 RegMode x 3 Link.Delay, one fixed
// knob, three bounds, and two cells that failed.
func testCells(t *testing.T) []Cell {
	t.Helper()
	var out []Cell
	for i, ord := range []int{1, 2, 4, 16} {
		for j, mode := range []string{"fastreg", "all-physical"} {
			for k, delay := range []string{"0s", "2µs", "1ms"} {
				c := Cell{Sweep: "feedc0de00000001", Index: len(out), Of: 24, Seed: uint64(1000 + len(out)),
					Params: Params{{"Op", "write"}, {"ORD", fmt.Sprint(ord)}, {"RegMode", mode}, {"Link.Delay", delay}}}
				out = append(out, c)
				c.Size, c.Calls, c.Bytes = 65536, 100, 6553600
				c.Throughput = 1e8 * float64(ord) / float64(1+j+k)
				c.Ops = c.Throughput / 65536
				c.Elapsed = int64(float64(c.Bytes) / c.Throughput * 1e9)
				c.Latency = Latency{Mean: 1e6 / int64(ord), P50: 1e6 / int64(ord), P90: 2e6, P99: 2e6 + int64(k), Max: 3e6}
				c.Bound = Bound{Resource: []string{"the link client->server", "the load's depth of 16", "the nfsd threads"}[(i+k)%3], Knob: "<Link>", Busy: 0.987, Waited: 0.25}
				c.Why = "bound by " + c.Bound.Resource + `: "busy" & <so on>`
				c.Counters = Counters{{"read_chunk_count", uint64(ord * 100)}, {"z", 0}}
				if i == 3 && j == 1 && k > 0 {
					c = out[len(out)-1]
					c.Error = "fabric: ORD is 16,\n\tmust be <less>"
				}
				out[len(out)-1] = c
			}
		}
	}
	require.Len(t, out, 24)
	return out
}
