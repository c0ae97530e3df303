package report

import (
	"fmt"
	"html"
	"html/template"
	"strings"
)

// Sizes in units of the viewBox.
const (
	plotW, plotH          = 320.0, 210.0
	left, right, top, bot = 52.0, 10.0, 10.0, 34.0
)

// point is one mark of a plot: a cell, perhaps for several.
type point struct {
	x      float64 // 0 to 1
	y      float64
	lo, hi float64 // whisker; equal: none
	style  int     // of its bound
	title  string
	failed bool // a cross at the foot; y means nothing
}

// line is the points of one value of the knob that tells series apart.
type line struct {
	dash   int
	points []point
}

// plot is one SVG.
type plot struct {
	id           string
	title, desc  string // for those who do not see it
	x, y         scale
	xName, yName string
	lines        []line
}

// bounds are told apart by colour and by shape.
const (
	colours = 8 // c0.. of the style sheet
	shapes  = 5
	dashes  = 6 // d0.. of the style sheet
)

// shape draws mark number style around x, y.
func shape(b *strings.Builder, style int, x, y float64, title string) {
	class := fmt.Sprintf("mark c%d", style%colours)
	t := "<title>" + html.EscapeString(title) + "</title>"
	const r = 3.6
	switch style % shapes {
	case 0:
		fmt.Fprintf(b, `<circle class="%s" cx="%.1f" cy="%.1f" r="%.1f">%s</circle>`, class, x, y, r, t)
	case 1:
		fmt.Fprintf(b, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f">%s</rect>`, class, x-r*.9, y-r*.9, r*1.8, r*1.8, t)
	case 2:
		fmt.Fprintf(b, `<path class="%s" d="M%.1f %.1fl%.1f %.1fh%.1fz">%s</path>`, class, x, y-r*1.2, r*1.15, r*2, -r*2.3, t)
	case 3:
		fmt.Fprintf(b, `<path class="%s" d="M%.1f %.1fl%.1f %.1fl%.1f %.1fl%.1f %.1fz">%s</path>`, class, x, y-r*1.3, r*1.3, r*1.3, -r*1.3, r*1.3, -r*1.3, -r*1.3, t)
	default:
		fmt.Fprintf(b, `<path class="%s" d="M%.1f %.1fl%.1f %.1fh%.1fz">%s</path>`, class, x, y+r*1.2, r*1.15, -r*2, -r*2.3, t)
	}
}

func cross(b *strings.Builder, x, y float64, title string) {
	fmt.Fprintf(b, `<path class="mark fail" d="M%.1f %.1fl7 7m0 -7l-7 7"><title>%s</title></path>`, x-3.5, y-3.5, html.EscapeString(title))
}

func openSVG(b *strings.Builder, id string, w, h float64, title, desc string) {
	fmt.Fprintf(b, `<svg class="plot" viewBox="0 0 %.0f %.0f" role="img" aria-labelledby="%[3]s-t %[3]s-d"><title id="%[3]s-t">%[4]s</title><desc id="%[3]s-d">%[5]s</desc>`,
		w, h, id, html.EscapeString(title), html.EscapeString(desc))
}

func text(b *strings.Builder, class string, x, y float64, s string) {
	fmt.Fprintf(b, `<text class="%s" x="%.1f" y="%.1f">%s</text>`, class, x, y, html.EscapeString(s))
}

func rule(b *strings.Builder, class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(b, `<path class="%s" d="M%.1f %.1fL%.1f %.1f"/>`, class, x1, y1, x2, y2)
}

// svg draws the plot.
func (p *plot) svg() template.HTML {
	var b strings.Builder
	w, h := plotW-left-right, plotH-top-bot
	px := func(v float64) float64 { return left + v*w }
	py := func(v float64) float64 { return top + (1-p.y.at(v))*h }
	openSVG(&b, p.id, plotW, plotH, p.title, p.desc)
	for _, t := range p.y.ticks {
		y := top + (1-t.at)*h
		rule(&b, "grid", left, y, plotW-right, y)
		text(&b, "tick end", left-5, y+3.5, t.label)
	}
	rule(&b, "axis", left, top+h, plotW-right, top+h)
	for _, t := range p.x.ticks {
		rule(&b, "axis", px(t.at), top+h, px(t.at), top+h+4)
		text(&b, "tick mid", px(t.at), top+h+14, t.label)
	}
	text(&b, "name end", plotW-right, plotH-5, p.xName)
	text(&b, "name", 4, plotH-5, p.yName)
	for _, l := range p.lines {
		var d strings.Builder
		for _, q := range l.points {
			if q.failed {
				continue
			}
			op := "L"
			if d.Len() == 0 {
				op = "M"
			}
			fmt.Fprintf(&d, "%s%.1f %.1f", op, px(q.x), py(q.y))
		}
		if strings.Contains(d.String(), "L") {
			fmt.Fprintf(&b, `<path class="line d%d" d="%s"/>`, l.dash%dashes, d.String())
		}
		for _, q := range l.points {
			if !q.failed && q.lo < q.hi {
				rule(&b, "whisker", px(q.x), py(q.lo), px(q.x), py(q.hi))
			}
		}
	}
	for _, l := range p.lines {
		for _, q := range l.points {
			if q.failed {
				cross(&b, px(q.x), top+h, q.title)
				continue
			}
			shape(&b, q.style, px(q.x), py(q.y), q.title)
		}
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}
