package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"example.org/nfsrdma/fabric"
)

type sweepCmd struct {
	Knob    []string `short:"k" sep:"none" placeholder:"NAME=VALUES" help:"Turn a knob: a list of values and ranges, such as ord=1,2,4..16, size=4K..1M:x2 or mode=fastreg,bounce. Repeat it for more; the last turns fastest."`
	Op      string   `placeholder:"OP" help:"What the load does, short for -knob op=OP: write, read, mix, getattr or null."`
	Counter []string `placeholder:"NAME" help:"Record these counters, too."`
	Seed    uint64   `default:"1" help:"Seed of all randomness: equal seeds give equal output."`
	Note    string   `help:"Text that tells this sweep from others with the same knobs."`
	Knobs   bool     `help:"List the knobs and what values they take; run nothing."`

	outFlags
	shardFlags
	Workers int  `help:"Cells run at a time; default all cores. It changes no result."`
	Quiet   bool `short:"q" help:"No progress on standard error."`
}

// outFlags say where results go.
type outFlags struct {
	Out    []string `short:"o" sep:"none" type:"path" placeholder:"FILE" help:"Write the results to a file in the format of its suffix: .txt .csv .json .jsonl .bench .html. Repeat it for more. {shard} in a name stands for the shard."`
	Format string   `enum:",text,csv,json,jsonl,bench,html" default:"" help:"Write to standard output: text, csv, json, jsonl, bench or html. Default text, or nothing if there are files."`
}

// shardFlags say which part of the cells to run.
type shardFlags struct {
	Shard  string `placeholder:"I/N" help:"Run only the I-th of N parts of the cells, or none. Default what the variables of Bazel, Slurm arrays or Kubernetes' indexed jobs say, or all."`
	Shards int    `placeholder:"N" help:"Number of parts where the engine does not tell (Kubernetes)."`
}

// cliDefaults are the knobs of the command that are not given.
var cliDefaults = []fabric.Knob{
	{Name: "Op", Values: "write"}, {Name: "Link", Values: "RoCE25G"}, {Name: "Depth", Values: "16"},
	{Name: "Calls", Values: "512"}, {Name: "Warm", Values: "64"}, {Name: "FileSize", Values: "16M"},
}

// stops are the knobs that end a load: one of them takes the place of the default's calls.
var stops = []string{"Calls", "Bytes", "Time"}

// Run runs the matrix, and fails if a cell fails.
func (c *sweepCmd) Run(e env) error {
	if c.Knobs {
		return listKnobs(e)
	}
	m, err := c.matrix()
	if err != nil {
		return err
	}
	if m.Shard, err = c.shardFlags.shard(); err != nil {
		return err
	}
	if err := c.outFlags.prepare(m.Shard); err != nil {
		return err
	}
	var partial string
	m.File, partial = c.outFlags.journal()
	var bar progress
	m.Progress = func(p fabric.SweepProgress) {
		if c.Quiet {
			return
		}
		if bar == nil {
			bar = newProgress(e.err, p.Total)
		}
		bar.step(p)
	}
	began := time.Now()
	r, err := fabric.SweepAll(e.ctx, m)
	if bar != nil {
		bar.end()
	}
	if err != nil {
		if e.ctx.Err() != nil && m.File != "" {
			fmt.Fprintf(e.err, "nfsrdma: %d cells are kept in %s; the same command goes on from there\n", len(r.Cells), m.File)
		}
		return err
	}
	if err := c.outFlags.write(e, r, m.File); err != nil {
		return err
	}
	if partial != "" {
		if err := os.Remove(partial); err != nil {
			return err
		}
	}
	if !c.Quiet {
		fmt.Fprintf(e.err, "sweep: %d cells in %v\n", len(r.Cells), time.Since(began).Round(10*time.Millisecond))
	}
	if f := r.Failed(); len(f) > 0 {
		return fmt.Errorf("%d of %d cells failed, the first %s: %s", len(f), len(r.Cells), f[0].Params, f[0].Error)
	}
	return nil
}

// matrix is the defaults and the knobs given.
func (c *sweepCmd) matrix() (fabric.Matrix, error) {
	m := fabric.Matrix{Params: fabric.Params{Seed: c.Seed}, Counters: c.Counter, Workers: c.Workers, Note: c.Note}
	given := map[string]bool{}
	var knobs []fabric.Knob
	if c.Op != "" {
		c.Knob = append([]string{"op=" + c.Op}, c.Knob...)
	}
	for _, s := range c.Knob {
		k, err := fabric.ParseKnob(s)
		if err != nil {
			return m, err
		}
		field, err := k.Field()
		if err != nil {
			return m, fmt.Errorf("%w (nfsrdma sweep -knobs lists them)", err)
		}
		given[field] = true
		knobs = append(knobs, k)
	}
	if len(knobs) == 0 {
		return m, errors.New("sweep: no knob to turn: give -knob NAME=VALUES (-knobs lists them)")
	}
	stops := slices.ContainsFunc(stops, func(s string) bool { return given[s] })
	for _, d := range cliDefaults {
		if !given[d.Name] && !(d.Name == "Calls" && stops) {
			m.Knobs = append(m.Knobs, d)
		}
	}
	m.Knobs = append(m.Knobs, knobs...)
	return m, nil
}

func listKnobs(e env) error {
	w := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "KNOB\tALSO\tVALUES\n")
	for _, k := range fabric.KnobInfos() {
		fmt.Fprintf(w, "%s\t%s\t%s\n", k.Name, strings.Join(k.Kernel, ", "), k.Kind)
	}
	return w.Flush()
}

func (s shardFlags) shard() (fabric.Shard, error) {
	switch s.Shard {
	case "none":
		return fabric.Shard{}, nil
	case "":
		return fabric.ShardFromEnv(s.Shards)
	}
	return fabric.ParseShard(s.Shard)
}

// prepare puts the shard into the names, and refuses what could not be written in the end.
func (o *outFlags) prepare(s fabric.Shard) error {
	for i, name := range o.Out {
		o.Out[i] = strings.ReplaceAll(name, "{shard}", strings.ReplaceAll(s.String(), "/", "-of-"))
		if _, err := fabric.SweepFormat(name); err != nil {
			return err
		}
		if slices.Contains(o.Out[:i], o.Out[i]) {
			return fmt.Errorf("file %s is given twice", o.Out[i])
		}
		if d, err := os.Stat(filepath.Dir(o.Out[i])); err != nil || !d.IsDir() {
			return fmt.Errorf("%s: there is no directory %s", o.Out[i], filepath.Dir(o.Out[i]))
		}
	}
	return nil
}

// journal is the file that keeps results as they come: that of JSON lines, or one beside the first
// file, which is then partial and removed in the end.
func (o *outFlags) journal() (file, partial string) {
	for _, name := range o.Out {
		if f, _ := fabric.SweepFormat(name); f == "jsonl" {
			return name, ""
		}
	}
	if len(o.Out) == 0 {
		return "", ""
	}
	partial = o.Out[0] + ".partial"
	return partial, partial
}

// write writes the results everywhere but to the file that has them already.
func (o *outFlags) write(e env, r *fabric.SweepResult, journal string) error {
	for _, name := range o.Out {
		if name == journal {
			continue
		}
		if err := r.WriteFile(name); err != nil {
			return err
		}
	}
	format := o.Format
	if format == "" && len(o.Out) == 0 {
		format = "text"
	}
	if format == "" {
		return nil
	}
	return r.Write(e.out, format)
}
