package fabric

import (
	"slices"
	"strings"

	"example.org/nfsrdma/internal/report"
)

// Where are the cells whose knobs have the given values: Where(t, "ord=4", "mode=fastreg"). A list or range stands for
// any of its values. It ends the test if there are none.
func (r *SweepResult) Where(t TB, knobs ...string) *SweepResult {
	t.Helper()
	cells := slices.Clone(r.Cells)
	for _, s := range knobs {
		want, err := paramsOf(s)
		if err != nil {
			t.Fatalf("%v", err)
		}
		cells = slices.DeleteFunc(cells, func(c SweepCell) bool {
			p, _ := c.Params.Get(want[0].Knob)
			return !slices.Contains(want, p)
		})
	}
	if len(cells) == 0 {
		t.Fatalf("fabric: sweep: no cell has %s", strings.Join(knobs, " "))
	}
	return &SweepResult{cells}
}

// paramsOf are the values of a specification of one knob.
func paramsOf(spec string) ([]report.Param, error) {
	k, err := ParseKnob(spec)
	if err != nil {
		return nil, err
	}
	knob, err := findKnob(sweepKnobs(), k.Name)
	if err != nil {
		return nil, err
	}
	values, err := knob.values(k.Values)
	if err != nil {
		return nil, err
	}
	var out []report.Param
	for _, v := range values {
		out = append(out, report.Param{Knob: knob.name, Value: v})
	}
	return out, nil
}

// WantRising fails the test if throughput (calls a second where no bytes move) falls by more than the share slack from
// one value of the knob to the next, in the order of the sweep, all other knobs equal.
func (r *SweepResult) WantRising(t TB, knob string, slack float64) {
	t.Helper()
	r.pairs(t, knob, func(a, b *SweepCell, from, to float64) {
		t.Helper()
		if to < from*(1-slack) {
			t.Errorf("fabric: sweep: throughput falls from %.4g to %.4g\n\t%s: %s\n\t%s: %s", from, to, a.Params, a.Why, b.Params, b.Why)
		}
	})
}

// WantFlat fails the test if throughput changes by more than the share slack from one value of the knob to the next,
// all other knobs equal: the knob does not bind.
func (r *SweepResult) WantFlat(t TB, knob string, slack float64) {
	t.Helper()
	r.pairs(t, knob, func(a, b *SweepCell, from, to float64) {
		t.Helper()
		if to < from*(1-slack) || to > from*(1+slack) {
			t.Errorf("fabric: sweep: throughput changes from %.4g to %.4g\n\t%s: %s\n\t%s: %s", from, to, a.Params, a.Why, b.Params, b.Why)
		}
	})
}

// WantBound fails the test unless the name of each cell's binding resource contains part.
func (r *SweepResult) WantBound(t TB, part string) {
	t.Helper()
	for i := range r.Cells {
		if c := &r.Cells[i]; !strings.Contains(c.Bound.Resource, part) {
			t.Errorf("fabric: sweep: %s: %s%s, want %s", c.Params, c.Why, c.Error, part)
		}
	}
}

// pairs are the cells that differ only in the knob, and in it by one place.
func (r *SweepResult) pairs(t TB, name string, each func(a, b *SweepCell, from, to float64)) {
	t.Helper()
	knob, err := findKnob(sweepKnobs(), name)
	if err != nil {
		t.Errorf("%v", err)
		return
	}
	bytes := slices.ContainsFunc(r.Cells, func(c SweepCell) bool { return c.Bytes > 0 })
	rate := func(c *SweepCell) float64 {
		if bytes {
			return c.Throughput
		}
		return c.Ops
	}
	last := map[string]*SweepCell{}
	n := 0
	for i := range r.Cells {
		c := &r.Cells[i]
		if c.Error != "" {
			t.Errorf("fabric: sweep: %s: %s", c.Params, c.Error)
			continue
		}
		others := slices.DeleteFunc(slices.Clone(c.Params), func(p report.Param) bool { return p.Knob == knob.name })
		key := others.String()
		if before := last[key]; before != nil && len(others) < len(c.Params) {
			each(before, c, rate(before), rate(c))
			n++
		}
		last[key] = c
	}
	if n == 0 {
		t.Errorf("fabric: sweep: no two cells differ only in %s", knob)
	}
}
