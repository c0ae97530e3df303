package scenarios

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
)

// Scenario is one reported limit.
type Scenario struct {
	Name    string // what `nfsrdma run` takes
	Title   string // one line
	Explain string // what was reported, the mechanism, and what to look at
	// Constants of the model, each with its source.
	Constants []Constant
	Run       func(ctx context.Context, o Options) (*Result, error)
}

// Options are the same for every scenario.
type Options struct {
	Seed     uint64
	Progress io.Writer // one line per step; nil is silent
}

func (o Options) progress(format string, args ...any) {
	if o.Progress != nil {
		fmt.Fprintf(o.Progress, format+"\n", args...)
	}
}

// Verdict says what a row shows.
type Verdict string

// OK: within the bounds. Miss: not. KnownMiss: not reproduced, and the reason
// is known. Info: measured only, nothing was reported.
const (
	OK        Verdict = "ok"
	Miss      Verdict = "miss"
	KnownMiss Verdict = "known-miss"
	Info      Verdict = "info"
)

// Row is one figure.
type Row struct {
	Name     string            `json:"name"`
	Params   map[string]string `json:"params"`
	Reported *float64          `json:"reported"` // nil: not reported
	Measured float64           `json:"measured"`
	Unit     string            `json:"unit"`
	Error    *float64          `json:"error"`             // (measured - reported) / reported
	WantLo   *float64          `json:"want_lo,omitempty"` // bounds of the verdict; nil: none
	WantHi   *float64          `json:"want_hi,omitempty"`
	Verdict  Verdict           `json:"verdict"`
	Note     string            `json:"note,omitempty"` // the bounds of the verdict, or the reason of a known miss
}

// Result is what a scenario found.
type Result struct {
	Scenario string `json:"scenario"`
	Seed     uint64 `json:"seed"`
	Rows     []Row  `json:"rows"`

	// Usual are parameters that most rows share; text output leaves them out.
	Usual map[string]string `json:"-"`
}

// Misses are the rows with verdict miss.
func (r *Result) Misses() []Row {
	var out []Row
	for _, row := range r.Rows {
		if row.Verdict == Miss {
			out = append(out, row)
		}
	}
	return out
}

// All lists the scenarios by name.
func All() []*Scenario {
	all := []*Scenario{commit, segments, sendbuf, splice, wakeup}
	slices.SortFunc(all, func(a, b *Scenario) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Find is the scenario of a name.
func Find(name string) (*Scenario, error) {
	var names []string
	for _, s := range All() {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return nil, fmt.Errorf("scenarios: no scenario %q; there are %v", name, names)
}

// Source says where a constant of a model comes from.
type Source string

// The kinds of source; a fitted one says what it was fitted to.
const (
	Reported     Source = "reported"
	KernelSource Source = "kernel source"
	Assumed      Source = "assumed"
)

// Fitted is the source of a constant that was fitted.
func Fitted(to string) Source { return Source("fitted to " + to) }

// Constant is one line of a model's table.
type Constant struct {
	Name   string
	Value  float64
	Unit   string
	Source Source
}

// round keeps six significant digits, and whole numbers as they are.
func round(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) || v == math.Trunc(v) {
		return v
	}
	m := math.Pow(10, 5-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*m) / m
}

// band makes a row whose verdict is whether measured lies in [lo, hi].
func band(name string, params map[string]string, reported *float64, measured, lo, hi float64, unit string) Row {
	v := OK
	if !(measured >= lo && measured <= hi) {
		v = Miss
	}
	r := Row{Name: name, Params: params, Reported: reported, Measured: round(measured), Unit: unit, Verdict: v}
	if !math.IsInf(lo, 0) {
		r.WantLo = value(round(lo))
	}
	if !math.IsInf(hi, 0) {
		r.WantHi = value(round(hi))
	}
	switch {
	case lo == hi:
		r.Note = fmt.Sprintf("want %.6g", lo)
	case math.IsInf(hi, 1):
		r.Note = fmt.Sprintf("want at least %.4g", lo)
	case math.IsInf(lo, -1):
		r.Note = fmt.Sprintf("want at most %.4g", hi)
	default:
		r.Note = fmt.Sprintf("want %.4g to %.4g", lo, hi)
	}
	r.setError()
	return r
}

func (r *Row) setError() {
	if r.Reported != nil && *r.Reported != 0 {
		e := round((r.Measured - *r.Reported) / *r.Reported)
		if math.Abs(e) < 5e-5 {
			e = 0
		}
		r.Error = &e
	}
}
