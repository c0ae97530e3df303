package report

import "slices"

// axis is a knob and its values, in the order of the sweep.
type axis struct {
	Knob   string
	Values []Param
}

// axes are the knobs of the cells. Since the matrix is walked in order, values come first in theirs.
func axes(cells []Cell) []axis {
	var out []axis
	for i := range cells {
		for j, p := range cells[i].Params {
			if j == len(out) {
				out = append(out, axis{Knob: p.Knob})
			}
			if out[j].Knob == p.Knob && !slices.Contains(out[j].Values, p) {
				out[j].Values = append(out[j].Values, p)
			}
		}
	}
	return out
}

// turned are the axes with more than one value; fixed the others.
func turned(all []axis) (turned, fixed []axis) {
	for _, a := range all {
		if len(a.Values) > 1 {
			turned = append(turned, a)
		} else {
			fixed = append(fixed, a)
		}
	}
	return turned, fixed
}

// fixedParams are the knobs that all cells share.
func fixedParams(all []axis) Params {
	_, fixed := turned(all)
	var p Params
	for _, a := range fixed {
		p = append(p, a.Values[0])
	}
	return p
}
