package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"

	"example.org/nfsrdma/scenarios"
)

type listCmd struct{}

// Run lists the scenarios.
func (listCmd) Run(e env) error {
	w := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	for _, s := range scenarios.All() {
		fmt.Fprintf(w, "%s\t%s\n", s.Name, s.Title)
	}
	return w.Flush()
}

type runCmd struct {
	Name    string `arg:"" help:"Scenario, as in nfsrdma list, or all."`
	Seed    uint64 `default:"1" help:"Seed of all randomness: equal seeds give equal output. Figures that do not depend on chance are equal for all."`
	Format  string `default:"text" enum:"text,json" help:"Output: text or json."`
	Explain bool   `help:"Print what was reported and why, and the model's constants with their sources; run nothing."`
	Notes   bool   `help:"In text, print the bounds of every row."`
	Quiet   bool   `short:"q" help:"No progress on standard error."`
}

// Run runs the scenario and fails if a row misses its bounds.
func (c *runCmd) Run(e env) error {
	list := scenarios.All()
	if c.Name != "all" {
		s, err := scenarios.Find(c.Name)
		if err != nil {
			return err
		}
		list = []*scenarios.Scenario{s}
	}
	if c.Explain && c.Format == "json" {
		return errors.New("--explain is text only")
	}
	if c.Explain {
		for _, s := range list {
			if err := s.WriteExplanation(e.out); err != nil {
				return err
			}
		}
		return nil
	}
	o := scenarios.Options{Seed: c.Seed, Progress: e.err}
	if c.Quiet {
		o.Progress = nil
	}
	var results []*scenarios.Result
	misses := 0
	for _, s := range list {
		r, err := s.Run(e.ctx, o)
		if err != nil {
			return err
		}
		results = append(results, r)
		misses += len(r.Misses())
		if c.Format == "text" {
			if err := r.WriteText(e.out, c.Notes); err != nil {
				return err
			}
		}
	}
	if c.Format == "json" {
		if err := c.writeJSON(e, results); err != nil {
			return err
		}
	}
	if misses > 0 {
		return fmt.Errorf("%d rows miss their bounds", misses)
	}
	return nil
}

// writeJSON prints one object for one scenario, an array for all.
func (c *runCmd) writeJSON(e env, results []*scenarios.Result) error {
	if c.Name != "all" {
		return results[0].WriteJSON(e.out)
	}
	enc := json.NewEncoder(e.out)
	enc.SetIndent("", "  ")
	return enc.Encode(results)
}
