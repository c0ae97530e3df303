package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
)

//go:embed page.html.tmpl
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// section is all about one knob.
type section struct {
	ID, Knob   string
	Also       string // what shows the other knobs
	Lines      []legendEntry
	LinesOf    string
	Throughput []figure
	Latency    []figure
	Shares     template.HTML
}

// row is a line of the table.
type row struct {
	Params []string
	Cells  []string
	Bound  string
	Key    template.HTML
	Why    string
	Failed bool
}

// WriteHTML writes one page that needs nothing else: style and plots are inside, and there is no script.
func WriteHTML(w io.Writer, cells []Cell) error {
	p := newPage(cells)
	data := struct {
		Sweep, Count, Metric string
		Fixed                Params
		Failed               int
		FirstError           string
		Best, Worst          *highlight
		Legend               []legendEntry
		Effects              template.HTML
		Sections             []section
		Knobs, Columns       []string
		Rows                 []row
	}{Sweep: cells[0].Sweep, Count: countOf(len(cells), cells[0].Of), Metric: p.throughput().name,
		Fixed: fixedParams(axes(cells)), Legend: p.legend()}
	for i := range cells {
		if cells[i].Error != "" {
			if data.Failed++; data.Failed == 1 {
				data.FirstError = fmt.Sprintf("%s: %s", cells[i].Params, oneLine(cells[i].Error))
			}
		}
	}
	data.Best, data.Worst = p.extremes()
	if len(p.effects) > 0 {
		data.Effects = p.effectsSVG()
	}
	for i, k := range p.knobs {
		l := p.layout(k)
		s := section{ID: fmt.Sprintf("k%d", i), Knob: k.Knob, Lines: l.lineKeys(), Also: l.words(), Shares: p.sharesSVG(fmt.Sprintf("k%d-b", i), k)}
		if l.series != nil {
			s.LinesOf = l.series.Knob
		}
		s.Throughput = p.figures(s.ID+"-t", l, p.throughput())
		s.Latency = p.figures(s.ID+"-l", l, latency())
		data.Sections = append(data.Sections, s)
		data.Knobs = append(data.Knobs, k.Knob)
	}
	counters := counterNames(cells)
	data.Columns = append([]string{"MB/s", "calls/s", "P50", "P90", "P99"}, counters...)
	for i := range cells {
		data.Rows = append(data.Rows, p.row(&cells[i], counters))
	}
	return pageTemplate.Execute(w, data)
}

// words say where the other knobs are.
func (l *layout) words() string {
	var parts []string
	if l.series != nil {
		parts = append(parts, "Lines: "+l.series.Knob)
	}
	if len(l.facets) > 0 {
		parts = append(parts, "plots: "+names(l.facets))
	}
	if len(l.rest) > 0 {
		parts = append(parts, "grey bars: the range over "+names(l.rest)+", the mark is the middle cell")
	}
	return strings.Join(parts, "; ")
}

func names(list []axis) string {
	var out []string
	for _, a := range list {
		out = append(out, a.Knob)
	}
	return strings.Join(out, ", ")
}

// highlight is a cell worth a tile.
type highlight struct{ Rate, Params, Why string }

// extremes are the fastest and the slowest cell.
func (p *page) extremes() (best, worst *highlight) {
	var hi, lo *Cell
	for i := range p.cells {
		c := &p.cells[i]
		if c.Error != "" {
			continue
		}
		if hi == nil || c.rate(p.bytes) > hi.rate(p.bytes) {
			hi = c
		}
		if lo == nil || c.rate(p.bytes) < lo.rate(p.bytes) {
			lo = c
		}
	}
	if hi == nil {
		return nil, nil
	}
	tile := func(c *Cell) *highlight {
		return &highlight{rate(c.rate(p.bytes), !p.bytes), p.turnedParams(c).String(), c.Why}
	}
	return tile(hi), tile(lo)
}

func (p *page) row(c *Cell, counters []string) row {
	r := row{Bound: boundName(c), Why: c.Why, Failed: c.Error != ""}
	for _, x := range p.turnedParams(c) {
		r.Params = append(r.Params, x.Label())
	}
	if r.Failed {
		r.Bound = "failed: " + oneLine(c.Error)
		r.Cells = make([]string, 5+len(counters))
		return r
	}
	r.Key = template.HTML(fmt.Sprintf(`<i class="dot c%d"></i>`, p.style[r.Bound]%colours))
	r.Cells = []string{fmt.Sprintf("%.1f", c.Throughput/1e6), fmt.Sprintf("%.0f", c.Ops), short(c.Latency.P50), short(c.Latency.P90), short(c.Latency.P99)}
	for _, name := range counters {
		n, _ := c.Counters.get(name)
		r.Cells = append(r.Cells, fmt.Sprint(n))
	}
	return r
}
