package report

import (
	"encoding/csv"
	"io"
	"strconv"
)

// WriteCSV writes a header and a line for each cell: its place, its knobs, and the figures in the units that the header says.
func WriteCSV(w io.Writer, cells []Cell) error {
	c := csv.NewWriter(w)
	head := []string{"sweep", "cell", "of", "seed"}
	knobs := axes(cells)
	for _, k := range knobs {
		head = append(head, k.Knob)
	}
	head = append(head, "size", "calls", "bytes", "elapsed_ns", "bytes_per_s", "calls_per_s",
		"mean_ns", "p50_ns", "p90_ns", "p99_ns", "max_ns", "bound", "bound_knob", "busy", "waited", "error")
	counters := counterNames(cells)
	_ = c.Write(append(head, counters...)) // its error comes again from c.Error
	f := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	d := func(v int64) string { return strconv.FormatInt(v, 10) }
	for i := range cells {
		x := &cells[i]
		line := []string{x.Sweep, d(int64(x.Index)), d(int64(x.Of)), strconv.FormatUint(x.Seed, 10)}
		for _, k := range knobs {
			p, _ := x.Params.Get(k.Knob)
			line = append(line, p.Value)
		}
		line = append(line, d(int64(x.Size)), d(x.Calls), d(x.Bytes), d(x.Elapsed), f(x.Throughput), f(x.Ops),
			d(x.Latency.Mean), d(x.Latency.P50), d(x.Latency.P90), d(x.Latency.P99), d(x.Latency.Max),
			x.Bound.Resource, x.Bound.Knob, f(x.Bound.Busy), f(x.Bound.Waited), x.Error)
		for _, name := range counters {
			n, ok := x.Counters.get(name)
			if !ok {
				line = append(line, "")
				continue
			}
			line = append(line, strconv.FormatUint(n, 10))
		}
		_ = c.Write(line)
	}
	c.Flush()
	return c.Error()
}
