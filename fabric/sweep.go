package fabric

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"

	"example.org/nfsrdma/internal/report"
)

// Knob is a parameter and the values that a sweep gives it. Name is that of a field of Params or Load, in any case of
// letters, its kernel name, or Link.Field; KnobInfos lists them. Values is a list of values and ranges: "1,2,4..16",
// "4K..1M:x2" (times 2), "0s..100us:+10us", "fastreg,all-physical"; "default" is the knob's default.
type Knob struct{ Name, Values string }

// ParseKnob reads "ord=1,2,4..16".
func ParseKnob(s string) (Knob, error) {
	name, values, ok := strings.Cut(s, "=")
	if !ok || name == "" || values == "" {
		return Knob{}, fmt.Errorf("fabric: sweep: %q is not name=values, such as ord=1,2,4..16", s)
	}
	return Knob{strings.TrimSpace(name), values}, nil
}

// Matrix is a sweep: all combinations of the values of its knobs, each run in virtual time by a fabric of its own.
type Matrix struct {
	// Params and Load are those of every cell, the knobs aside. Cells run in virtual time on softroce. Params.Seed is the
	// sweep's, from which each cell's own is derived, unless there is a knob Seed.
	Params Params
	Load   Load

	Knobs    []Knob   // the first turns slowest
	Counters []string // to be recorded: "read_chunk_count", or with client. or server. before it where both ends have the name

	Workers int   // cells at a time; default GOMAXPROCS. It changes no result
	Shard   Shard // the part of the cells to run; default all

	// File, if set, keeps the results, a line of JSON each, as they come. A sweep that finds its own results there runs
	// only the others; in the end it is in the order of the matrix, whatever happened before.
	File string

	// Progress, if set, is told of each cell. Calls come one at a time.
	Progress func(SweepProgress)

	// Note is part of what tells this sweep from others. The rest is the knobs, the counters, and the fields of Params and
	// Load, without functions and the figures inside Storage: if those change, so should Note.
	Note string
}

// SweepProgress says how far a sweep is.
type SweepProgress struct {
	Done, Total int        // cells of the shard
	Failed      int        // of those done
	Resumed     bool       // the cell was found in File
	Cell        *SweepCell // the one that is done
}

// SweepCell is the result of a cell:
//
//	Sweep            string  // hash of the sweep's definition
//	Index, Of        int     // its place in the matrix, and the number of cells
//	Seed             uint64
//	Params           Params  // a Knob and its Value each, in the order of the matrix; Get(knob)
//	Error            string  // if not empty the cell failed, and what follows is zero
//	Size             int     // bytes a call
//	Calls, Bytes     int64
//	Elapsed          int64   // ns
//	Throughput, Ops  float64 // bytes and calls a second
//	Latency          Latency // Mean, P50, P90, P99, Max in ns
//	Bound            Bound   // of Result.Bound: Resource, Knob, Busy, Waited
//	Why              string  // of Result.Why
//	Counters         Counters // Name and Value of those asked for
type SweepCell = report.Cell

// SweepResult is the results of a sweep, or of its shard, in the order of the matrix.
type SweepResult struct{ Cells []SweepCell }

// Sweep runs all cells, and fails the test for each that fails.
func Sweep(t TB, m Matrix) *SweepResult {
	t.Helper()
	r, err := SweepAll(context.Background(), m)
	if err != nil {
		t.Fatalf("%v", err)
	}
	failed := r.Failed()
	for i, c := range failed {
		if i == 10 {
			t.Errorf("fabric: sweep: and %d more cells failed", len(failed)-i)
			break
		}
		t.Errorf("fabric: sweep: %s (seed %d): %s", c.Params, c.Seed, c.Error)
	}
	return r
}

// SweepAll is Sweep outside a test. A cell that fails is a result, with its Error. If ctx ends, the results so far
// come with its error; with Matrix.File the next call goes on from there.
func SweepAll(ctx context.Context, m Matrix) (*SweepResult, error) {
	s, err := m.define()
	if err != nil {
		return nil, err
	}
	if m.File != "" {
		if s.file, err = openSweepFile(m.File, s); err != nil {
			return nil, err
		}
	}
	err = s.run(ctx)
	if s.file != nil {
		err = errors.Join(err, s.file.close(err == nil))
	}
	r := &SweepResult{}
	for i := range s.of {
		if c := s.done[i]; c != nil && m.Shard.has(i) {
			r.Cells = append(r.Cells, *c)
		}
	}
	return r, err
}

// sweep is a matrix being run.
type sweep struct {
	m      Matrix
	knobs  []*sweepKnob
	values [][]string // canonical
	of     int
	hash   string
	seed   uint64
	file   *sweepFile // nil: none

	mu       sync.Mutex
	done     []*SweepCell // by place
	progress SweepProgress
	err      error // of the file
}

// define checks the matrix, and gives it its hash.
func (m Matrix) define() (*sweep, error) {
	s := &sweep{m: m, of: 1}
	frame := m.Params
	if frame.Device == "" {
		frame.Device = Softroce
	}
	switch {
	case frame.Live:
		return nil, &LimitError{"Params.Live", true, "false: cells of a sweep run in virtual time"}
	case frame.Device != Softroce:
		return nil, &LimitError{"Params.Device", frame.Device, Softroce + ": cells of a sweep run in virtual time"}
	case m.Load.Mount != nil:
		return nil, &LimitError{"Load.Mount", "set", "nil: each cell has a fabric of its own"}
	case len(m.Knobs) == 0:
		return nil, errors.New("fabric: sweep: no knobs to turn")
	}
	if err := m.Shard.check(); err != nil {
		return nil, err
	}
	if err := frame.setFrame(); err != nil {
		return nil, err
	}
	s.seed = frame.Seed
	s.m.Params.Device = Softroce
	all := sweepKnobs()
	for _, k := range m.Knobs {
		knob, err := findKnob(all, k.Name)
		if err != nil {
			return nil, err
		}
		for _, other := range s.knobs {
			if other == knob {
				return nil, fmt.Errorf("fabric: sweep: knob %s comes twice", knob)
			}
		}
		values, err := knob.values(k.Values)
		if err != nil {
			return nil, err
		}
		s.knobs = append(s.knobs, knob)
		s.values = append(s.values, values)
		if s.of *= len(values); s.of > maxCells {
			return nil, fmt.Errorf("fabric: sweep: more than %d cells", maxCells)
		}
	}
	if err := s.checkCounters(); err != nil {
		return nil, err
	}
	s.done = make([]*SweepCell, s.of)
	s.hash = s.definition()
	return s, nil
}

// definition is a hash over what decides the results.
func (s *sweep) definition() string {
	h := sha256.New()
	p := s.m.Params
	p.Seed, p.Trace = s.seed, false
	fmt.Fprint(h, "sweep 1\n")
	printFields(h, reflect.ValueOf(p))
	printFields(h, reflect.ValueOf(s.m.Load))
	fmt.Fprintf(h, "%q\n%q\n", s.m.Counters, s.m.Note)
	for i, k := range s.knobs {
		fmt.Fprintf(h, "%s=%q\n", k.name, s.values[i])
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// printFields writes what is not zero, by name: not addresses, and no functions. A new field that is zero changes nothing.
func printFields(w io.Writer, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		fmt.Fprint(w, "{")
		for i := range v.NumField() {
			if f := v.Field(i); !f.IsZero() && f.Kind() != reflect.Func {
				fmt.Fprintf(w, "%s:", v.Type().Field(i).Name)
				printFields(w, f)
			}
		}
		fmt.Fprint(w, "}\n")
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			printFields(w, v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			printFields(w, v.Index(i))
		}
	case reflect.String:
		fmt.Fprintf(w, "%q ", v.String())
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		fmt.Fprintf(w, "%v ", v)
	}
}

// params are the values of cell i.
func (s *sweep) params(i int) report.Params {
	p := make(report.Params, len(s.knobs))
	for k := len(s.knobs) - 1; k >= 0; k-- {
		n := len(s.values[k])
		p[k] = report.Param{Knob: s.knobs[k].name, Value: s.values[k][i%n]}
		i /= n
	}
	return p
}

// cellSeed is that of a cell: from the sweep's and the cell's values, so it does not depend on what else is swept. It
// fits a number of JavaScript.
func (s *sweep) cellSeed(p report.Params) uint64 {
	h := sha256.New()
	fmt.Fprintf(h, "%d", s.seed)
	for _, x := range p {
		fmt.Fprintf(h, " %s=%q", x.Knob, x.Value)
	}
	return binary.BigEndian.Uint64(h.Sum(nil))>>11 | 1
}

// run runs what is not done yet.
func (s *sweep) run(ctx context.Context) error {
	var todo []int
	for i := range s.of {
		if s.m.Shard.has(i) {
			s.progress.Total++
			if s.done[i] == nil {
				todo = append(todo, i)
			}
		}
	}
	for i, c := range s.done {
		if c != nil && s.m.Shard.has(i) {
			s.tell(c, true)
		}
	}
	workers := s.m.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(workers, len(todo)) {
		wg.Go(func() {
			for i := range next {
				c, err := s.cell(ctx, i)
				if err == nil {
					err = s.add(c)
				}
				if err != nil {
					s.fail(err)
					cancel()
				}
			}
		})
	}
	for _, i := range todo {
		if ctx.Err() != nil {
			break
		}
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	wg.Wait()
	if s.err != nil {
		return s.err
	}
	return context.Cause(ctx)
}

func (s *sweep) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

// add takes a result in.
func (s *sweep) add(c *SweepCell) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done[c.Index] = c
	if s.file != nil {
		if err := s.file.append(c); err != nil {
			return err
		}
	}
	s.tell(c, false)
	return nil
}

func (s *sweep) tell(c *SweepCell, resumed bool) {
	s.progress.Done++
	if c.Error != "" {
		s.progress.Failed++
	}
	if s.m.Progress != nil {
		p := s.progress
		p.Cell, p.Resumed = c, resumed
		s.m.Progress(p)
	}
}

// Failed are the cells that failed.
func (r *SweepResult) Failed() []SweepCell {
	var out []SweepCell
	for _, c := range r.Cells {
		if c.Error != "" {
			out = append(out, c)
		}
	}
	return out
}

// SweepFormats lists the formats of Write, which are also suffixes of files: text, csv, json, jsonl, bench, html.
func SweepFormats() []string { return report.Formats() }

// SweepFormat is the format of a file's suffix; it fails if the suffix says none.
func SweepFormat(name string) (string, error) { return report.FormatOf(name) }

// Write writes the results in one of SweepFormats. Equal results give equal bytes.
func (r *SweepResult) Write(w io.Writer, format string) error {
	return report.Write(w, format, r.Cells)
}

// WriteFile writes the results in the format of the file's suffix, such as .html; a file that exists is replaced at once.
func (r *SweepResult) WriteFile(name string) error {
	format, err := report.FormatOf(name)
	if err != nil {
		return err
	}
	return replaceFile(name, func(w io.Writer) error { return r.Write(w, format) })
}

// replaceFile writes a file beside name and puts it in its place.
func replaceFile(name string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// MergeSweeps joins the results in files, JSON lines or JSON, in the order of the matrix. It fails
// if one is of another sweep, or if a cell is missing or double.
func MergeSweeps(files ...string) (*SweepResult, error) {
	var pieces []report.Piece
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		cells, err := report.ReadCells(f)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("fabric: merge: %s: %w", name, err)
		}
		pieces = append(pieces, report.Piece{Name: name, Cells: cells})
	}
	cells, err := report.Merge(pieces)
	if err != nil {
		return nil, fmt.Errorf("fabric: merge: %w", err)
	}
	return &SweepResult{cells}, nil
}
