package report

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"
)

// Most plots of one knob, and most lines in one of them.
const (
	maxFacets = 12
	maxLines  = dashes
)

// page is what the HTML shows.
type page struct {
	cells   []Cell
	knobs   []axis // turned
	bytes   bool   // throughput is in bytes
	effects []Effect
	shares  []share // what bound the cells, most frequent first
	style   map[string]int
}

func newPage(cells []Cell) *page {
	p := &page{cells: cells, bytes: moved(cells), effects: Effects(cells), shares: boundShares(cells), style: map[string]int{}}
	p.knobs, _ = turned(axes(cells))
	if len(p.knobs) == 0 { // one cell: any knob will do for an axis
		p.knobs = axes(cells)[:1]
	}
	for _, s := range p.shares {
		if s.name != "failed" {
			p.style[s.name] = len(p.style)
		}
	}
	return p
}

// layout says how the knobs but one are shown: each combination of facets is a plot, each value of series a line,
// and the rest is a range.
type layout struct {
	x      axis
	facets []axis
	series *axis
	rest   []axis
}

// layout gives the other knobs a place, the most influential first: plots side by side for the first, lines in
// each for the second, more plots while there are few.
func (p *page) layout(x axis) layout {
	l := layout{x: x}
	var others []axis
	for _, e := range p.effects {
		i := slices.IndexFunc(p.knobs, func(a axis) bool { return a.Knob == e.Knob })
		if e.Knob != x.Knob {
			others = append(others, p.knobs[i])
		}
	}
	for i := range others {
		k := others[(i+1)%len(others)]
		if len(k.Values) <= maxLines {
			l.series = &k
			break
		}
	}
	plots := 1
	for _, k := range others {
		switch {
		case l.series != nil && k.Knob == l.series.Knob:
		case plots*len(k.Values) <= maxFacets:
			plots *= len(k.Values)
			l.facets = append(l.facets, k)
		default:
			l.rest = append(l.rest, k)
		}
	}
	return l
}

// place says where a cell goes.
func (l *layout) place(c *Cell) (facet string, series, x int) {
	var names Params
	for _, f := range l.facets {
		v, _ := c.Params.Get(f.Knob)
		names = append(names, v)
	}
	v, _ := c.Params.Get(l.x.Knob)
	x = slices.Index(l.x.Values, v)
	if l.series != nil {
		v, _ = c.Params.Get(l.series.Knob)
		series = slices.Index(l.series.Values, v)
	}
	return names.String(), series, x
}

// facet is a plot's cells, by line and place.
type facet struct {
	name  string
	lines [][][]*Cell
}

func (p *page) facets(l layout) []facet {
	var out []facet
	lines := 1
	if l.series != nil {
		lines = len(l.series.Values)
	}
	at := map[string]int{}
	for i := range p.cells {
		name, s, x := l.place(&p.cells[i])
		j, ok := at[name]
		if !ok {
			j = len(out)
			at[name] = j
			f := facet{name: name, lines: make([][][]*Cell, lines)}
			for k := range f.lines {
				f.lines[k] = make([][]*Cell, len(l.x.Values))
			}
			out = append(out, f)
		}
		out[j].lines[s][x] = append(out[j].lines[s][x], &p.cells[i])
	}
	return out
}

// figure is a plot and its caption.
type figure struct {
	Caption string
	SVG     template.HTML
}

// quantity is what a plot's y axis shows.
type quantity struct {
	name  string // "MB/s"
	what  string // "Throughput"
	value func(c *Cell) float64
	// whisker of the middle one of a group
	whisker func(sorted []*Cell, mid *Cell) (lo, hi float64)
	scale   func(lo, hi float64) scale
	print   func(v float64) string
}

func (p *page) throughput() quantity {
	q := quantity{name: "MB/s", what: "Throughput", value: func(c *Cell) float64 { return c.rate(p.bytes) },
		scale: func(_, hi float64) scale { return rateScale(hi, !p.bytes) },
		print: func(v float64) string { return rate(v, !p.bytes) }}
	if !p.bytes {
		q.name = "calls/s"
	}
	q.whisker = func(sorted []*Cell, _ *Cell) (lo, hi float64) {
		return q.value(sorted[0]), q.value(sorted[len(sorted)-1])
	}
	return q
}

func latency() quantity {
	return quantity{name: "P50, bar to P99", what: "Latency", value: func(c *Cell) float64 { return float64(c.Latency.P50) },
		whisker: func(_ []*Cell, mid *Cell) (lo, hi float64) {
			return float64(mid.Latency.P50), float64(mid.Latency.P99)
		},
		scale: timeScale, print: func(v float64) string { return short(int64(v)) }}
}

// figures are the plots of one quantity against one knob, on the same scale.
func (p *page) figures(id string, l layout, q quantity) []figure {
	fs := p.facets(l)
	xs, where := knobScale(l.x.Values)
	plots := make([]plot, len(fs))
	lo, hi := 0.0, 0.0
	first := true
	for i, f := range fs {
		pl := &plots[i]
		*pl = plot{id: fmt.Sprintf("%s-%d", id, i), x: xs, xName: l.x.Knob, yName: q.name}
		for s, groups := range f.lines {
			ln := line{dash: s}
			for x, group := range groups {
				if len(group) == 0 {
					continue
				}
				pt := p.point(group, q)
				pt.x = where[x]
				if !pt.failed {
					if first {
						lo, hi, first = min(pt.lo, pt.y), pt.hi, false
					}
					lo, hi = min(lo, pt.lo, pt.y), max(hi, pt.hi, pt.y)
				}
				ln.points = append(ln.points, pt)
			}
			// Lines go from left to right, whatever the order of the values.
			slices.SortStableFunc(ln.points, func(a, b point) int { return cmp.Compare(a.x, b.x) })
			pl.lines = append(pl.lines, ln)
		}
	}
	ys := q.scale(lo, hi)
	var out []figure
	for i := range plots {
		pl := &plots[i]
		pl.y = ys
		pl.title = fmt.Sprintf("%s against %s", q.what, l.x.Knob)
		if fs[i].name != "" {
			pl.title += ", " + fs[i].name
		}
		pl.desc = p.describe(pl, l, q)
		out = append(out, figure{Caption: fs[i].name, SVG: pl.svg()})
	}
	return out
}

// point is the middle cell of those that differ only in knobs that have no place in the plot.
func (p *page) point(group []*Cell, q quantity) point {
	good := slices.DeleteFunc(slices.Clone(group), func(c *Cell) bool { return c.Error != "" })
	if len(good) == 0 {
		return point{failed: true, title: fmt.Sprintf("%s failed: %s", group[0].Params, oneLine(group[0].Error))}
	}
	slices.SortStableFunc(good, func(a, b *Cell) int { return cmp.Compare(q.value(a), q.value(b)) })
	mid := good[(len(good)-1)/2]
	pt := point{y: q.value(mid), style: p.style[boundName(mid)]}
	pt.lo, pt.hi = q.whisker(good, mid)
	pt.title = fmt.Sprintf("%s: %s, latency %s (99 %%: %s). %s", p.turnedParams(mid), rate(mid.rate(p.bytes), !p.bytes),
		short(mid.Latency.P50), short(mid.Latency.P99), mid.Why)
	if len(group) > 1 {
		pt.title += fmt.Sprintf("; the middle of %d cells from %s to %s", len(good), q.print(q.value(good[0])), q.print(q.value(good[len(good)-1])))
	}
	if n := len(group) - len(good); n > 0 {
		pt.title += fmt.Sprintf("; %d more failed", n)
	}
	return pt
}

// turnedParams are the values of the knobs that were turned.
func (p *page) turnedParams(c *Cell) Params {
	var out Params
	for _, k := range p.knobs {
		if v, ok := c.Params.Get(k.Knob); ok {
			out = append(out, v)
		}
	}
	return out
}

// describe says in words what the plot shows.
func (p *page) describe(pl *plot, l layout, q quantity) string {
	var parts []string
	for _, ln := range pl.lines {
		var ends []point
		for _, pt := range ln.points {
			if !pt.failed {
				ends = append(ends, pt)
			}
		}
		name := "The line"
		if l.series != nil {
			name = l.series.Knob + " " + l.series.Values[ln.dash].Label()
		}
		if len(ends) == 0 {
			parts = append(parts, name+": no cell succeeded.")
			continue
		}
		parts = append(parts, fmt.Sprintf("%s goes from %s to %s.", name, q.print(ends[0].y), q.print(ends[len(ends)-1].y)))
	}
	return strings.Join(parts, " ")
}
