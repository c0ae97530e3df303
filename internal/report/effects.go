package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Effect is what turning a knob changes, the other knobs taken together.
type Effect struct {
	Knob   string
	Values []Param
	Means  []float64 // geometric mean for each value, bytes or calls a second; 0: all cells failed
	Calls  bool      // of calls, since no bytes were moved
}

// Ratio is the best mean over the worst.
func (e Effect) Ratio() float64 {
	lo, hi := math.Inf(1), 0.0
	for _, m := range e.Means {
		if m > 0 {
			lo, hi = min(lo, m), max(hi, m)
		}
	}
	if hi == 0 {
		return 1
	}
	return hi / lo
}

func (e Effect) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-16s x%.2f ", e.Knob, e.Ratio())
	for i, v := range e.Values {
		if len(e.Values) > 12 && i >= 5 && i < len(e.Values)-5 {
			if i == 5 {
				b.WriteString(" ...")
			}
			continue
		}
		if e.Means[i] == 0 {
			fmt.Fprintf(&b, " %s:failed", v.Label())
			continue
		}
		fmt.Fprintf(&b, " %s:%s", v.Label(), strings.ReplaceAll(rate(e.Means[i], e.Calls), " ", ""))
	}
	return b.String()
}

func rate(v float64, calls bool) string {
	if calls {
		return fmt.Sprintf("%.0f calls/s", v)
	}
	return fmt.Sprintf("%.1f MB/s", v/1e6)
}

// moved says whether the cells moved bytes.
func moved(cells []Cell) bool {
	return slices.ContainsFunc(cells, func(c Cell) bool { return c.Bytes > 0 })
}

// Effects are those of the knobs that were turned, the greatest first.
func Effects(cells []Cell) []Effect {
	knobs, _ := turned(axes(cells))
	bytes := moved(cells)
	var out []Effect
	for _, k := range knobs {
		e := Effect{Knob: k.Knob, Values: k.Values, Means: make([]float64, len(k.Values)), Calls: !bytes}
		n := make([]float64, len(k.Values))
		for i := range cells {
			v := cells[i].rate(bytes)
			if v <= 0 {
				continue
			}
			p, _ := cells[i].Params.Get(k.Knob)
			j := slices.Index(k.Values, p)
			e.Means[j] += math.Log(v)
			n[j]++
		}
		for j := range n {
			if n[j] > 0 {
				e.Means[j] = math.Exp(e.Means[j] / n[j])
			}
		}
		out = append(out, e)
	}
	slices.SortStableFunc(out, func(a, b Effect) int {
		switch x, y := a.Ratio(), b.Ratio(); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	return out
}

func (c *Cell) rate(bytes bool) float64 {
	if bytes {
		return c.Throughput
	}
	return c.Ops
}

// boundName is the resource without what names one of several alike, so that cells compare: "the load's depth of 16"
// and "... of 32" are one.
func boundName(c *Cell) string {
	if c.Error != "" {
		return "failed"
	}
	name := c.Bound.Resource
	if name == "" {
		return "unknown"
	}
	if i := strings.LastIndex(name, " of "); i > 0 && strings.Trim(name[i+4:], "0123456789") == "" {
		name = name[:i]
	}
	return name
}

type share struct {
	name string
	n    int
}

// boundShares counts the cells by what bound them, the most frequent first.
func boundShares(cells []Cell) []share {
	var out []share
	for i := range cells {
		name := boundName(&cells[i])
		j := slices.IndexFunc(out, func(s share) bool { return s.name == name })
		if j < 0 {
			j = len(out)
			out = append(out, share{name: name})
		}
		out[j].n++
	}
	slices.SortFunc(out, func(a, b share) int {
		if a.n != b.n {
			return b.n - a.n
		}
		return strings.Compare(a.name, b.name)
	})
	return out
}
