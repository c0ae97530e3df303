package report

import (
	"fmt"
	"slices"
	"strings"
)

// Piece is the cells of a file.
type Piece struct {
	Name  string
	Cells []Cell
}

// Merge joins the pieces of one sweep in the order of the matrix. It fails if a piece is of another sweep, or
// if a cell is missing or double.
func Merge(pieces []Piece) ([]Cell, error) {
	var all []Cell
	from := map[int]string{}
	first := ""
	for _, p := range pieces {
		for _, c := range p.Cells {
			if len(all) == 0 {
				first = p.Name
			} else if c.Sweep != all[0].Sweep || c.Of != all[0].Of {
				return nil, fmt.Errorf("%s is of sweep %s with %d cells, %s of sweep %s with %d", p.Name, c.Sweep, c.Of, first, all[0].Sweep, all[0].Of)
			}
			if f, double := from[c.Index]; double {
				return nil, fmt.Errorf("cell %d (%s) is double: in %s and in %s", c.Index, c.Params, f, p.Name)
			}
			from[c.Index] = p.Name
			all = append(all, c)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no cells in %d files", len(pieces))
	}
	if err := checkKnobs(all); err != nil {
		return nil, err
	}
	Sort(all)
	if n := all[0].Of - len(all); n > 0 {
		return nil, fmt.Errorf("%d of %d cells are missing: %s", n, all[0].Of, missing(all))
	}
	return all, nil
}

// Sort puts cells in the order of the matrix.
func Sort(cells []Cell) {
	slices.SortFunc(cells, func(a, b Cell) int { return a.Index - b.Index })
}

// missing lists the first gaps.
func missing(sorted []Cell) string {
	var gaps []string
	next := 0
	gap := func(end int) {
		switch {
		case end == next+1:
			gaps = append(gaps, fmt.Sprint(next))
		case end > next:
			gaps = append(gaps, fmt.Sprintf("%d-%d", next, end-1))
		}
	}
	for i := range sorted {
		gap(sorted[i].Index)
		next = sorted[i].Index + 1
	}
	gap(sorted[0].Of)
	if len(gaps) > 10 {
		gaps = append(gaps[:10], "...")
	}
	return strings.Join(gaps, ", ")
}
