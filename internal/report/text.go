package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteText writes a table of the cells, what each knob changed, and what bound them.
func WriteText(w io.Writer, cells []Cell) error {
	all := axes(cells)
	knobs, _ := turned(all)
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "sweep %s, %s", cells[0].Sweep, countOf(len(cells), cells[0].Of))
	if p := fixedParams(all); len(p) > 0 {
		fmt.Fprintf(b, ": %s", p)
	}
	fmt.Fprint(b, "\n\n")
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, k := range knobs {
		fmt.Fprintf(t, "%s\t", k.Knob)
	}
	fmt.Fprint(t, "MB/s\tCALLS/S\tP50\tP99\t")
	counters := counterNames(cells)
	for _, c := range counters {
		fmt.Fprintf(t, "%s\t", c)
	}
	fmt.Fprint(t, "BOUND BY\n")
	for i := range cells {
		c := &cells[i]
		for _, k := range knobs {
			p, _ := c.Params.Get(k.Knob)
			fmt.Fprintf(t, "%s\t", p.Label())
		}
		if c.Error != "" {
			fmt.Fprintf(t, "-\t-\t-\t-\t%sfailed: %s\n", strings.Repeat("-\t", len(counters)), oneLine(c.Error))
			continue
		}
		fmt.Fprintf(t, "%.1f\t%.0f\t%v\t%v\t", c.Throughput/1e6, c.Ops, short(c.Latency.P50), short(c.Latency.P99))
		for _, name := range counters {
			n, _ := c.Counters.get(name)
			fmt.Fprintf(t, "%d\t", n)
		}
		fmt.Fprintf(t, "%s, %.0f %% busy\n", boundName(c), 100*c.Bound.Busy)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if effects := Effects(cells); len(effects) > 0 {
		fmt.Fprint(b, "\nWhat each knob changes, the others taken together (geometric mean):\n")
		for _, e := range effects {
			fmt.Fprintf(b, "  %s\n", e.String())
		}
	}
	fmt.Fprint(b, "\nWhat bound the cells:\n")
	for _, s := range boundShares(cells) {
		fmt.Fprintf(b, "  %3.0f %%  %s\n", 100*float64(s.n)/float64(len(cells)), s.name)
	}
	return b.Flush()
}

func countOf(n, of int) string {
	if n == of {
		return fmt.Sprintf("%d cells", n)
	}
	return fmt.Sprintf("%d of %d cells", n, of)
}

// short is a time of three digits.
func short(ns int64) string {
	d := time.Duration(ns)
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// counterNames are those of the first cell that did not fail.
func counterNames(cells []Cell) []string {
	for i := range cells {
		if cells[i].Error == "" {
			var out []string
			for _, c := range cells[i].Counters {
				out = append(out, c.Name)
			}
			return out
		}
	}
	return nil
}

func (c Counters) get(name string) (uint64, bool) {
	for _, x := range c {
		if x.Name == name {
			return x.Value, true
		}
	}
	return 0, false
}
