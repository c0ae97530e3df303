package fabric

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"example.org/nfsrdma/internal/report"
)

// cell runs cell i. What goes wrong in it is part of the result; the error is the end of ctx.
func (s *sweep) cell(ctx context.Context, i int) (*SweepCell, error) {
	c := &SweepCell{Sweep: s.hash, Index: i, Of: s.of, Params: s.params(i)}
	c.Seed = s.cellSeed(c.Params)
	set := setting{p: s.m.Params, l: s.m.Load}
	set.l.Sizes = slices.Clone(set.l.Sizes)
	if set.p.Link != nil {
		set.link, set.linked = *set.p.Link, true
	}
	// A whole link comes before what changes a field of it.
	for _, fields := range []bool{false, true} {
		for k, knob := range s.knobs {
			if strings.Contains(knob.name, ".") == fields {
				knob.turn(&set, c.Params[k].Value)
			}
		}
	}
	if set.seed != 0 {
		c.Seed = set.seed
	}
	set.p.Seed = c.Seed
	r, err := runCell(ctx, &set)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		c.Error = err.Error()
		return c, nil
	}
	b := r.Bound()
	ns := func(q float64) int64 { return int64(r.Latency.Quantile(q)) }
	c.Size, c.Calls, c.Bytes, c.Elapsed = r.Load.Size, r.Calls, r.Bytes, int64(r.Elapsed)
	c.Throughput, c.Ops = r.Throughput(), r.OpsPerSecond()
	c.Latency = report.Latency{Mean: int64(r.Latency.Mean()), P50: ns(0.5), P90: ns(0.9), P99: ns(0.99), Max: int64(r.Latency.Max())}
	c.Bound = report.Bound{Resource: b.Resource, Knob: b.Knob, Busy: b.Busy, Waited: b.Waited}
	c.Why = r.Why()
	for _, name := range s.m.Counters {
		n, _ := pickCounter(r.Client, r.Server, name)
		c.Counters = append(c.Counters, report.Counter{Name: name, Value: n})
	}
	return c, nil
}

// runCell runs one load on a fabric of its own.
func runCell(ctx context.Context, set *setting) (r *Result, err error) {
	// A broken invariant of one cell should not cost the others. Its fabric is left as it is: who panics may hold locks.
	defer func() {
		if x := recover(); x != nil {
			r, err = nil, fmt.Errorf("panic: %v", x)
		}
	}()
	f, err := Start(set.fabricParams())
	if err != nil {
		return nil, err
	}
	l := set.l
	if set.ioSize > 0 {
		if l.Size > 0 || len(l.Sizes) > 0 {
			err = &LimitError{"IOSize", set.ioSize, "the only size: Load.Size or Load.Sizes is set, too"}
		} else if l.Size, err = f.callSize(ctx, l.Op, set.ioSize); err == nil && l.FileSize > 0 {
			l.FileSize = max(l.FileSize, int64(l.Size))
		}
	}
	if err == nil {
		r, err = f.RunLoad(ctx, l)
	}
	return r, errors.Join(err, f.Close())
}

// callSize is how much of n bytes a call of the default mount carries.
func (f *Fabric) callSize(ctx context.Context, op Op, n int) (int, error) {
	m, err := f.defaultMount(ctx)
	if err != nil {
		return 0, err
	}
	neg := m.NFS().Negotiated()
	switch op {
	case Read:
		return min(n, neg.RSize), nil
	case Mix:
		return min(n, neg.RSize, neg.WSize), nil
	}
	return min(n, neg.WSize), nil
}

// pickCounter finds a counter by its name, with or without the end.
func pickCounter(client, server Counters, name string) (uint64, bool) {
	if end, bare, ok := strings.Cut(name, "."); ok {
		switch end {
		case "client":
			return client.Get(bare)
		case "server":
			return server.Get(bare)
		}
	}
	if n, ok := client.Get(name); ok {
		return n, true
	}
	return server.Get(name)
}

// checkCounters finds the names that no fabric has, before anything is run.
func (s *sweep) checkCounters() error {
	if len(s.m.Counters) == 0 {
		return nil
	}
	f, err := Start(Params{Device: Softroce, Seed: 1})
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.defaultMount(f.ctx); err != nil {
		return err
	}
	now := f.snapshot()
	seen := map[string]bool{}
	for _, name := range s.m.Counters {
		if _, ok := pickCounter(now.client, now.server, name); !ok {
			var names []string
			for _, c := range now.client {
				names = append(names, c.Name)
			}
			for _, c := range now.server {
				names = append(names, c.Name)
			}
			return fmt.Errorf("fabric: sweep: no counter %q%s", name, near(name, names))
		}
		if seen[name] {
			return fmt.Errorf("fabric: sweep: counter %q comes twice", name)
		}
		seen[name] = true
	}
	return nil
}
