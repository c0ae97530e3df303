package report

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
)

const rowH = 30.0

// effectsSVG shows the mean for each value of each knob, on one scale.
func (p *page) effectsSVG() template.HTML {
	const w, names = 760.0, 150.0
	hi := 0.0
	for _, e := range p.effects {
		hi = max(hi, slices.Max(e.Means))
	}
	s := rateScale(hi, !p.bytes)
	h := rowH*float64(len(p.effects)) + 48
	px := func(v float64) float64 { return names + s.at(v)*(w-names-20) }
	var b strings.Builder
	var desc strings.Builder
	for _, e := range p.effects {
		fmt.Fprintf(&desc, "%s. ", oneLine(e.String()))
	}
	openSVG(&b, "effects", w, h, "What each knob changes", desc.String())
	for _, t := range s.ticks {
		x := names + t.at*(w-names-20)
		rule(&b, "grid", x, 6, x, h-40)
		text(&b, "tick mid", x, h-26, t.label)
	}
	text(&b, "name end", w-4, h-6, p.throughput().name+", mean of all cells with the value")
	for i, e := range p.effects {
		y := 22 + rowH*float64(i)
		text(&b, "row end", names-12, y+4, e.Knob)
		lo, top := -1, -1
		for j, m := range e.Means {
			if m > 0 && (lo < 0 || m < e.Means[lo]) {
				lo = j
			}
			if m > 0 && (top < 0 || m > e.Means[top]) {
				top = j
			}
		}
		if lo < 0 {
			text(&b, "tick", names, y+4, "all cells failed")
			continue
		}
		rule(&b, "span", px(e.Means[lo]), y, px(e.Means[top]), y)
		for j, m := range e.Means {
			if m > 0 {
				fmt.Fprintf(&b, `<circle class="mark c0" cx="%.1f" cy="%.1f" r="4.5"><title>%s</title></circle>`, px(m), y,
					template.HTMLEscapeString(e.Knob+"="+e.Values[j].Label()+": "+rate(m, !p.bytes)))
			}
		}
		ends := fmt.Sprintf("%s … %s", e.Values[lo].Label(), e.Values[top].Label())
		text(&b, "tick mid", (px(e.Means[lo])+px(e.Means[top]))/2, y-8, fmt.Sprintf("%s, ×%.2f", ends, e.Ratio()))
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}

// sharesSVG shows by what the cells with each value of a knob were bound.
func (p *page) sharesSVG(id string, k axis) template.HTML {
	const w, names, row = 760.0, 150.0, 22.0
	h := row*float64(len(k.Values)) + 8
	var b, desc strings.Builder
	var bars strings.Builder
	for i, v := range k.Values {
		var with []Cell
		for j := range p.cells {
			if x, _ := p.cells[j].Params.Get(k.Knob); x == v {
				with = append(with, p.cells[j])
			}
		}
		y := 4 + row*float64(i)
		text(&bars, "row end", names-12, y+14, v.Label())
		x := names
		list := boundShares(with)
		// In the order of the legend, so that colours line up.
		slices.SortStableFunc(list, func(a, b share) int { return p.rank(a.name) - p.rank(b.name) })
		for _, s := range list {
			part := float64(s.n) / float64(len(with))
			wide := part * (w - names - 20)
			class := "fail"
			if n, ok := p.style[s.name]; ok {
				class = fmt.Sprintf("c%d", n%colours)
			}
			title := fmt.Sprintf("%s=%s: %.0f %% of cells bound by %s", k.Knob, v.Label(), 100*part, s.name)
			if s.name == "failed" {
				title = fmt.Sprintf("%s=%s: %.0f %% of cells failed", k.Knob, v.Label(), 100*part)
			}
			fmt.Fprintf(&bars, `<rect class="mark bar %s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%s</title></rect>`,
				class, x, y, wide, row-5, template.HTMLEscapeString(title))
			if wide > 40 {
				text(&bars, "share mid", x+wide/2, y+13, fmt.Sprintf("%.0f %%", 100*part))
			}
			x += wide
			fmt.Fprintf(&desc, "%s. ", title)
		}
	}
	openSVG(&b, id, w, h, "What bound the cells, by "+k.Knob, desc.String())
	return template.HTML(b.String() + bars.String() + "</svg>")
}

// rank is the place in the legend; what failed is last.
func (p *page) rank(name string) int {
	if n, ok := p.style[name]; ok {
		return n
	}
	return len(p.style)
}

// legendEntry is a bound with its mark.
type legendEntry struct {
	Name string
	Note string
	SVG  template.HTML
}

func (p *page) legend() []legendEntry {
	var out []legendEntry
	for _, s := range p.shares {
		var b strings.Builder
		b.WriteString(`<svg class="key" viewBox="0 0 14 14" aria-hidden="true">`)
		if s.name == "failed" {
			cross(&b, 7, 7, "")
		} else {
			shape(&b, p.style[s.name], 7, 7, "")
		}
		b.WriteString("</svg>")
		key := strings.NewReplacer("<title></title>", "", `class="mark `, `class="`).Replace(b.String())
		out = append(out, legendEntry{s.name, fmt.Sprintf("%d of %d cells", s.n, len(p.cells)), template.HTML(key)})
	}
	return out
}

// lineKeys are the dashes of the series.
func (l *layout) lineKeys() []legendEntry {
	if l.series == nil {
		return nil
	}
	var out []legendEntry
	for i, v := range l.series.Values {
		out = append(out, legendEntry{Name: v.Label(), SVG: template.HTML(fmt.Sprintf(
			`<svg class="key wide" viewBox="0 0 34 10" aria-hidden="true"><path class="line d%d" d="M1 5L33 5"/></svg>`, i%dashes))})
	}
	return out
}
