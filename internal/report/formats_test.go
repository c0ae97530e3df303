package report

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/perf/benchfmt"
)

func render(t *testing.T, format string, cells []Cell) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Write(&b, format, cells))
	return b.String()
}

func TestText(t *testing.T) {
	out := render(t, "text", testCells(t))
	assert.Contains(t, out, "sweep feedc0de00000001, 24 cells: Op=write\n\n")
	assert.Regexp(t, `(?m)^ORD  RegMode       Link.Delay  MB/s    CALLS/S  P50     P99  read_chunk_count  z  BOUND BY$`, out)
	assert.Regexp(t, `(?m)^1    fastreg       0s          100.0 +1526 +1ms +2ms +100 +0  the link client->server, 99 % busy$`, out)
	assert.Regexp(t, `(?m)^16   all-physical  2µs         - +- +- +- +- +-  failed: fabric: ORD is 16, must be <less>$`, out)
	assert.Regexp(t, `(?m)^  ORD +x\d+\.\d\d +1:\d+\.\dMB/s 2:`, out)
	assert.Regexp(t, `(?m)^ +8 %  failed$`, out)
	assert.Contains(t, out, " the load's depth\n", "depths are one bound")
	assert.Contains(t, render(t, "text", testCells(t)[:5]), "5 of 24 cells")
}

func TestCSV(t *testing.T) {
	rows, err := csv.NewReader(strings.NewReader(render(t, "csv", testCells(t)))).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 25)
	assert.Equal(t, "sweep cell of seed Op ORD RegMode Link.Delay size calls bytes elapsed_ns bytes_per_s calls_per_s mean_ns p50_ns p90_ns p99_ns max_ns bound bound_knob busy waited error read_chunk_count z",
		strings.Join(rows[0], " "))
	assert.Equal(t, "50000000", rows[2][12])
	assert.Equal(t, "100", rows[2][24])
	assert.Contains(t, rows[24][23], "must be <less>")
	assert.Equal(t, "", rows[24][24])
}

// The reader that benchstat uses takes it.
func TestBench(t *testing.T) {
	cells := testCells(t)
	r := benchfmt.NewReader(strings.NewReader(render(t, "bench", cells)), "x")
	n := 0
	for r.Scan() {
		switch rec := r.Result().(type) {
		case *benchfmt.Result:
			c := &cells[n]
			base, parts := rec.Name.Parts()
			assert.Equal(t, "Sweep", string(base))
			require.Len(t, parts, 3, "knobs that are the same in all cells are not in the name")
			for i, p := range c.Params[1:] {
				assert.Equal(t, "/"+p.Knob+"="+p.Label(), string(parts[i]))
			}
			assert.Equal(t, 100, rec.Iters)
			v, ok := rec.Value("B/s")
			assert.True(t, ok)
			assert.InEpsilon(t, c.Throughput, v, 1e-6)
			v, ok = rec.Value("sec/op")
			assert.True(t, ok)
			assert.InEpsilon(t, float64(c.Elapsed)/100/1e9, v, 1e-6)
			v, ok = rec.Value("read_chunk_count")
			assert.True(t, ok)
			assert.EqualValues(t, c.Counters[0].Value, v)
			assert.Empty(t, rec.Config, "benchstat compares two files only if they agree in this")
			n++
		case *benchfmt.SyntaxError:
			assert.NoError(t, rec)
		}
	}
	require.NoError(t, r.Err())
	require.Equal(t, 22, n)
	assert.Equal(t, "better=higher", "better="+unit(r, "B/s", "better"))
	assert.Equal(t, "exact", unit(r, "sec/op", "assume"))
}

func unit(r *benchfmt.Reader, unit, key string) string {
	for k, v := range r.Units() {
		if k.Unit == unit && k.Key == key {
			return v.Value
		}
	}
	return ""
}

var svgs = regexp.MustCompile(`(?s)<svg class="plot".*?</svg>`)

// wantSound checks what holds for the page before and in a browser.
func wantSound(t *testing.T, page string, plots int) {
	t.Helper()
	all := svgs.FindAllString(page, -1)
	require.Len(t, all, plots)
	for _, s := range all {
		assert.NotEmpty(t, marks(s), "a plot without marks: %.300s", s)
		assert.Regexp(t, `^<svg class="plot" viewBox="[^"]+" role="img" aria-labelledby="(\S+)-t (\S+)-d"><title id="\S+-t">[^<]+</title><desc id="\S+-d">[^<]+</desc>`, s)
	}
	for _, m := range regexp.MustCompile(`(?i)\b(?:src|href|srcset|action|data|xlink:href)\s*=\s*"([^"]*)"|url\(([^)]*)\)|@import`).FindAllStringSubmatch(page, -1) {
		assert.Regexp(t, `^(#.*|data:,)$`, m[1], "%s leads outside", m[0])
	}
	assert.NotContains(t, page, "<script")
	ids := map[string]bool{}
	for _, m := range regexp.MustCompile(` id="([^"]+)"`).FindAllStringSubmatch(page, -1) {
		assert.False(t, ids[m[1]], "id %s is double", m[1])
		ids[m[1]] = true
	}
	for _, m := range regexp.MustCompile(`href="#([^"]+)"`).FindAllStringSubmatch(page, -1) {
		assert.True(t, ids[m[1]], "no target for #%s", m[1])
	}
}

func marks(svg string) []string {
	return regexp.MustCompile(`class="mark[ "]`).FindAllString(svg, -1)
}

func TestHTML(t *testing.T) {
	cells := testCells(t)
	page := render(t, "html", cells)
	layouts := 0
	p := newPage(cells)
	for _, k := range p.knobs {
		l := p.layout(k)
		layouts += 1 + 2*len(p.facets(l))
	}
	wantSound(t, page, 1+layouts)
	for _, s := range svgs.FindAllString(page, -1) {
		d := xml.NewDecoder(strings.NewReader(s))
		for {
			_, err := d.Token()
			if err == io.EOF {
				break
			}
			require.NoError(t, err, "%.300s", s)
		}
		for _, m := range regexp.MustCompile(` (?:c?x|c?y|width|height|r|d)="([^"]*)"`).FindAllStringSubmatch(s, -1) {
			assert.NotContains(t, m[1], "N", "not a number in %s", m[0])
			assert.NotContains(t, m[1], "Inf", m[0])
		}
		for _, m := range regexp.MustCompile(`<circle class="mark[^"]*" cx="([^"]+)" cy="([^"]+)"`).FindAllStringSubmatch(s, -1) {
			x, _ := strconv.ParseFloat(m[1], 64)
			y, _ := strconv.ParseFloat(m[2], 64)
			assert.True(t, x > 0 && x < 760 && y > 0 && y < 600, m[0])
		}
	}
	// Markup in texts is text.
	assert.NotContains(t, page, "<less>")
	assert.NotContains(t, page, "<so on>")
	assert.Contains(t, page, "must be &lt;less&gt;")
	assert.Equal(t, 24, strings.Count(page, "<th scope=\"row\">"))
	// Each cell that is in no group is a mark of its own, in throughput and in latency, for each knob.
	for _, c := range cells[:6] {
		n := strings.Count(page, "<title>"+c.Params[1:].String()+": ")
		assert.Equal(t, 2*3, n, c.Params)
	}
	assert.Contains(t, page, "Definition <code>feedc0de00000001</code>")
}

// Odd shapes of sweeps give pages, too.
func TestHTMLOfOddSweeps(t *testing.T) {
	all := testCells(t)
	failed := all[22:24]
	zero := testCells(t)[:6]
	for i := range zero {
		zero[i].Throughput, zero[i].Bytes, zero[i].Latency = 0, 0, Latency{}
	}
	still := testCells(t)[:6]
	for i := range still {
		still[i].Throughput, still[i].Ops, still[i].Bytes, still[i].Latency = 0, 0, 0, Latency{}
	}
	for name, cells := range map[string][]Cell{"one": all[:1], "line": all[:3], "failed": failed, "one failed": failed[:1], "no bytes": zero, "no time": still, "two knobs": all[:6]} {
		t.Run(name, func(t *testing.T) {
			page := render(t, "html", cells)
			for _, s := range svgs.FindAllString(page, -1) {
				for _, m := range regexp.MustCompile(` (?:c?x|c?y|width|height|r|d)="([^"]*)"`).FindAllStringSubmatch(s, -1) {
					assert.NotContains(t, m[1], "N", "not a number in %s", m[0])
					assert.NotContains(t, m[1], "Inf", m[0])
				}
			}
			for _, f := range Formats() {
				render(t, f, cells)
			}
		})
	}
}

// With more knobs than a plot can show the rest is a range, and the mark is the middle cell.
func TestLayout(t *testing.T) {
	var cells []Cell
	sizes := []int{6, 5, 4, 3, 7}
	n := 1
	for _, s := range sizes {
		n *= s
	}
	for i := range n {
		c := Cell{Sweep: "s", Index: i, Of: n, Bytes: 1, Throughput: 1e6, Latency: Latency{P50: 1000, P99: 2000}, Bound: Bound{Resource: "x"}}
		r := i
		for k := len(sizes) - 1; k >= 0; k-- {
			v := r % sizes[k]
			r /= sizes[k]
			c.Params = append(Params{{string(rune('a' + k)), strconv.Itoa(v)}}, c.Params...)
			c.Throughput *= 1 + float64(v)/float64(1+k) // a matters most
		}
		cells = append(cells, c)
	}
	p := newPage(cells)
	assert.Equal(t, "a", p.effects[0].Knob)
	for _, k := range p.knobs {
		l := p.layout(k)
		fs := p.facets(l)
		assert.LessOrEqual(t, len(fs), maxFacets)
		require.NotNil(t, l.series)
		assert.Equal(t, 5, 2+len(l.facets)+len(l.rest))
		group := 1
		for _, a := range l.rest {
			group *= len(a.Values)
		}
		for _, f := range fs {
			for _, g := range f.lines {
				for _, cells := range g {
					require.Len(t, cells, group)
				}
			}
		}
		pt := p.point(fs[0].lines[0][0], p.throughput())
		assert.LessOrEqual(t, pt.lo, pt.y)
		assert.LessOrEqual(t, pt.y, pt.hi)
		assert.Less(t, pt.lo, pt.hi)
		assert.Contains(t, pt.title, "the middle of "+strconv.Itoa(group)+" cells")
	}
}

func TestFormatOf(t *testing.T) {
	for name, want := range map[string]string{"a.txt": "text", "b/c.CSV": "csv", "x.json": "json", "x.jsonl": "jsonl", "x.bench": "bench", "x.html": "html"} {
		f, err := FormatOf(name)
		require.NoError(t, err)
		assert.Equal(t, want, f)
	}
	_, err := FormatOf("x.doc")
	assert.ErrorContains(t, err, `suffix ".doc" says no format; there are .txt .csv .json .jsonl .bench .html`)
	assert.ErrorContains(t, Write(io.Discard, "xml", testCells(t)), "there are text, csv")
	assert.ErrorContains(t, Write(io.Discard, "text", nil), "no cells")
}

func TestScales(t *testing.T) {
	s, where := knobScale([]Param{{"k", "1"}, {"k", "2"}, {"k", "4"}, {"k", "16"}})
	assert.True(t, s.log)
	assert.InDelta(t, where[2]-where[1], where[1]-where[0], 1e-9, "doublings are equal steps")
	s, where = knobScale([]Param{{"k", "0s"}, {"k", "1µs"}, {"k", "10µs"}})
	assert.False(t, s.log, "there is a 0")
	assert.InDelta(t, 10, (where[2]-where[0])/(where[1]-where[0]), 1e-9)
	_, where = knobScale([]Param{{"k", "0s"}, {"k", "1µs"}, {"k", "1ms"}})
	assert.InDelta(t, where[2]-where[1], where[1]-where[0], 1e-9)
	s, where = knobScale([]Param{{"k", "b"}, {"k", "a"}})
	assert.Equal(t, []float64{0.25, 0.75}, where)
	assert.Equal(t, "b", s.ticks[0].label)
	many := make([]Param, 100)
	for i := range many {
		many[i] = Param{"k", strconv.Itoa(1000 + i)}
	}
	s, _ = knobScale(many)
	assert.Less(t, len(s.ticks), 12, "labels do not touch")
	r := rateScale(994.9e6, false)
	assert.GreaterOrEqual(t, r.hi, 994.9e6)
	assert.Equal(t, "0", r.ticks[0].label)
	assert.Equal(t, "1200", r.ticks[len(r.ticks)-1].label)
	assert.True(t, timeScale(1e3, 1e6).log)
	lin := timeScale(1e5, 3e5)
	assert.Equal(t, "100µs", lin.ticks[1].label)
	for _, hi := range []float64{0, 1, 9.99, 1e10} {
		for _, s := range []scale{rateScale(hi, true), timeScale(0, hi)} {
			require.NotEmpty(t, s.ticks)
			assert.Less(t, len(s.ticks), 8)
			assert.Greater(t, s.hi, hi)
		}
	}
}
