package report

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
)

// WriteBench writes the benchmark format of Go (golang.org/design/14313-benchmark-format), for benchstat: a benchmark
// a cell, its knobs as keys of the name. Times are of the fabric, virtual. A cell that failed is a FAIL
// line, which readers pass over.
func WriteBench(w io.Writer, cells []Cell) error {
	b := bufio.NewWriter(w)
	// As comments: keys such as "sweep: ..." would keep benchstat from comparing two sweeps.
	fmt.Fprintf(b, "# sweep %s %s\n", cells[0].Sweep, fixedParams(axes(cells)))
	fmt.Fprint(b, "Unit MB/s better=higher assume=exact\nUnit calls/s better=higher assume=exact\n")
	for _, u := range []string{"ns/op", "p50-ns", "p99-ns"} {
		fmt.Fprintf(b, "Unit %s better=lower assume=exact\n", u)
	}
	for _, c := range counterNames(cells) {
		fmt.Fprintf(b, "Unit %s assume=exact\n", benchWord(c))
	}
	knobs, _ := turned(axes(cells))
	for i := range cells {
		c := &cells[i]
		name := "BenchmarkSweep"
		for _, k := range knobs {
			p, _ := c.Params.Get(k.Knob)
			name += "/" + benchWord(k.Knob) + "=" + benchWord(p.Label())
		}
		if c.Error != "" {
			fmt.Fprintf(b, "--- FAIL: %s\n", name)
			continue
		}
		g := func(v float64) string { return strconv.FormatFloat(v, 'g', 8, 64) }
		perCall := 0.0
		if c.Calls > 0 {
			perCall = float64(c.Elapsed) / float64(c.Calls)
		}
		fmt.Fprintf(b, "%s %d %s ns/op", name, c.Calls, g(perCall))
		if c.Bytes > 0 {
			fmt.Fprintf(b, " %s MB/s", g(c.Throughput/1e6))
		}
		fmt.Fprintf(b, " %s calls/s %d p50-ns %d p99-ns", g(c.Ops), c.Latency.P50, c.Latency.P99)
		for _, x := range c.Counters {
			fmt.Fprintf(b, " %d %s", x.Value, benchWord(x.Name))
		}
		fmt.Fprintln(b)
	}
	return b.Flush()
}

// benchWord has nothing that would end a part of a benchmark's name.
func benchWord(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '/' || r == '=' {
			return '_'
		}
		return r
	}, s)
}
