package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/scenarios/bench"
)

type benchCmd struct {
	Format string            `default:"text" enum:"text,json" help:"Output: text or json."`
	Time   time.Duration     `default:"1s" help:"Time of each measurement."`
	Mode   nfsclient.RegMode `default:"auto" help:"Registration mode: auto, fastreg, all-physical, bounce, register, mw, mw-async or fmr; or a strategy number with its kernel, such as 5@2.6.24."`
	Seed   uint64            `default:"1" help:"Seed of the random offsets."`
	Only   string            `help:"Measure only the figures whose name contains this."`
	Quiet  bool              `short:"q" help:"No progress on standard error."`
}

// Run prints each figure, and its share of the bound that it is measured beside.
func (c *benchCmd) Run(e env) error {
	o := bench.Options{Params: fabric.Params{Live: true, RegMode: c.Mode, Seed: c.Seed}, Time: c.Time, Only: c.Only}
	if !c.Quiet {
		o.Progress = e.err
	}
	if c.Time <= 0 {
		return fmt.Errorf("bench: time %v, must be positive", c.Time)
	}
	r, err := bench.Run(e.ctx, o)
	if err != nil {
		return err
	}
	if c.Format == "json" {
		enc := json.NewEncoder(e.out)
		enc.SetIndent("", "  ")
		return enc.Encode(r.Map())
	}
	w := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "figure\tvalue\tof bound\t\n")
	for _, f := range r.Figures {
		share := ""
		if f.Bound != "" {
			if b, ok := r.Get(f.Bound); ok && b > 0 {
				share = fmt.Sprintf("%.2f of %s", f.Value/b, f.Bound)
			}
		}
		digits := 0
		if f.Ratio() {
			digits = 2
		}
		fmt.Fprintf(w, "%s\t%.*f\t%s\t\n", f.Name, digits, f.Value, share)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(e.out, "\n%s, %d of %d cores, mode %v\n", runtime.Version(), runtime.GOMAXPROCS(0), runtime.NumCPU(), c.Mode)
	if i := slices.IndexFunc(r.Figures, func(f bench.Figure) bool { return f.Name == "allocs_per_read4k" }); i >= 0 {
		fmt.Fprintf(e.out, "allocations a call once warm: %.3f\n", r.Figures[i].Value)
	}
	return nil
}
