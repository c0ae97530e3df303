package report

// axis is a knob and its values, in the order of the sweep.
type axis struct {
	Knob   string
	Values []Param
}

// axes are the knobs of the cells, which all have the same. Since the matrix is walked in order, values come first in
// theirs.
func axes(cells []Cell) []axis {
	out := make([]axis, len(cells[0].Params))
	seen := make([]map[string]bool, len(out))
	for j, p := range cells[0].Params {
		out[j].Knob = p.Knob
		seen[j] = map[string]bool{}
	}
	for i := range cells {
		for j, p := range cells[i].Params {
			if !seen[j][p.Value] {
				seen[j][p.Value] = true
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
