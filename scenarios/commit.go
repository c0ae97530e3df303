package scenarios

import (
	"context"
	"fmt"
	"math"
)

var commit = &Scenario{
	Name:  "commit",
	Title: "COMMIT and the per-file lock of nfsd (2021, Linux 5.13): iozone with 12 processes, direct I/O",
	Explain: `Reported: iozone -M -+u -i0 -i1 -s1g -r256k -t12 -I over NFSv3 to XFS on NVMe gained 4.6 % (initial write) and 5.4 %
(rewrite) when COMMIT no longer held the file's lock while it wrote the data back.

Mechanism: WRITE holds the file's nf_rwsem shared. COMMIT took it exclusively around writing back and the log force (before),
around the log force only (after), or not at all (nolock). A writer that waits for each COMMIT never meets it: with p = 0 the
gain is exactly 0. Where a COMMIT overlaps the file's next record, its 32 WRITEs block, and each holds an nfsd thread: the
others starve. So the gain depends on the number of threads more than on the lock.

Look at: p = 0 against 0.025; the gain at p = 0.25 from 16 to 400 nfsd; and that what COMMIT acknowledged is there
after a crash under each policy, but not on an async export.`,
	Constants: commitConstants,
	Run:       runCommit,
}

// commitUsual are the parameters of most cells.
var commitUsual = map[string]string{"p": number(commitOverlap), "nfsd": "64", "wsize": "8192", "procs": "12"}

func commitBase(ph *commitPhase, pol commitPolicy) commitCell {
	return commitCell{phase: ph, policy: pol, overlap: commitOverlap, nfsd: commitNfsd, wsize: commitWSize, procs: commitProcs, records: commitShort}
}

// commitReport makes rows; results are nil while it learns which cells are needed.
type commitReport struct {
	results map[commitCell]commitRun
	needed  []commitCell
	rows    []Row
}

func (s *commitReport) run(c commitCell) commitRun {
	if s.results == nil {
		s.needed = append(s.needed, c)
		return commitRun{rate: []float64{1}}
	}
	return s.results[c]
}

func (s *commitReport) children(c commitCell) float64 {
	sum, _, _ := s.run(c).children()
	return sum
}

// gain is what pol gives over the policy before, in percent.
func (s *commitReport) gain(c commitCell, pol commitPolicy) float64 {
	c.policy = commitBefore
	before := s.children(c)
	c.policy = pol
	return (s.children(c)/before - 1) * 100
}

func (s *commitReport) add(r Row) { s.rows = append(s.rows, r) }

func (s *commitReport) all() {
	for _, ph := range commitPhases {
		s.figures(ph, commitBefore, &ph.before)
		s.figures(ph, commitAfter, &ph.after)
		s.gains(ph)
	}
	s.threads()
	s.knobs()
	s.perturbed()
}

func runCommit(ctx context.Context, o Options) (*Result, error) {
	plan := &commitReport{}
	plan.all()
	results, err := runCells(ctx, o, "commit", plan.needed, func(ctx context.Context, c commitCell) (commitRun, error) { return c.run(ctx, o.Seed) })
	if err != nil {
		return nil, err
	}
	s := &commitReport{results: results}
	s.all()
	crashes, err := commitCrashes(ctx, o.Seed)
	if err != nil {
		return nil, err
	}
	s.rows = append(s.rows, crashes...)
	return &Result{Scenario: "commit", Seed: o.Seed, Rows: s.rows, Usual: commitUsual}, nil
}

// figures are those that iozone printed. A run writes less than iozone did; times and sizes are scaled to its file.
func (s *commitReport) figures(ph *commitPhase, pol commitPolicy, f *commitFigures) {
	c := commitBase(ph, pol)
	c.records = commitRecords
	r := s.run(c)
	sum, least, most := r.children()
	scale := float64(commitFile) / commitRecord / float64(c.records)
	near := func(name string, reported, measured, tolerance float64, unit string) {
		s.add(band(name, c.label(), value(reported), measured, reported*(1-tolerance), reported*(1+tolerance), unit))
	}
	near("children", f.children, sum, 0.03, "kB/s")
	near("parent", f.parent, commitProcs*float64(c.records)*commitRecord/1024/r.last, 0.04, "kB/s")
	near("min of a process", f.min, least, 0.04, "kB/s")
	near("max of a process", f.max, most, 0.04, "kB/s")
	near("avg of a process", f.avg, sum/commitProcs, 0.03, "kB/s")
	near("min xfer", f.minXfer, r.least*commitFile/1024, 0.05, "kB")
	near("wall time", f.wall, r.last*scale, 0.04, "s")
	near("client CPU time", f.cpu, r.calls*commitCPU*commitProcs*commitFile/commitRecord, 0.03, "s")
	s.add(band("max/min of the processes", c.label(), value(f.max/f.min), most/least, 1, 1.03, ""))
	blocked := band("WRITEs that block", c.label(), nil, r.blocked*100, 0, 100, "%")
	blocked.Verdict = Info
	s.add(blocked)
}

// gains compares the policies: with the overlap, and without.
func (s *commitReport) gains(ph *commitPhase) {
	c := commitBase(ph, commitBefore)
	c.records = commitRecords
	label := func(c commitCell, pol commitPolicy) map[string]string {
		m := c.label()
		m["policy"] = pol.name
		return m
	}
	s.add(band("gain", label(c, commitAfter), value(ph.gain), s.gain(c, commitAfter), 2, 8, "%"))
	if ph == commitInitial {
		after := s.gain(c, commitAfter)
		row := band("gain", label(c, commitNoLock), nil, s.gain(c, commitNoLock), after-0.5, inf, "%")
		row.Note = "want no less than after, less 0.5: no lock at all"
		s.add(row)
	}
	c.overlap, c.records = 0, 16
	for _, pol := range []commitPolicy{commitAfter, commitNoLock} {
		row := band("gain", label(c, pol), value(0), s.gain(c, pol), -0.5, 0.5, "%")
		row.Note += "; a strictly synchronous writer never meets its own COMMIT"
		s.add(row)
	}
}

// threads turns the number of nfsd at p = 0.25: most of the gain is nfsd threads that starve.
func (s *commitReport) threads() {
	last := math.Inf(1)
	for _, n := range []int{16, 32, 64, 128, 400} {
		c := commitBase(commitInitial, commitAfter)
		c.overlap, c.nfsd, c.records = 0.25, n, 24
		g := s.gain(c, commitAfter)
		row := band("gain", c.label(), nil, g, 1, inf, "%")
		if n > 32 {
			row = band("gain", c.label(), nil, g, -inf, last, "%")
			row.Note = "want less than with fewer threads"
		}
		s.add(row)
		last = g
	}
	few, many := commitBase(commitInitial, commitBefore), commitBase(commitInitial, commitBefore)
	few.overlap, many.overlap = 0.25, 0.25
	few.records, many.records, many.nfsd = 24, 24, 400
	row := band("400 nfsd over 64", map[string]string{"phase": "initial", "policy": "before", "p": "0.25"}, nil, s.children(many)/s.children(few), 1.2, inf, "")
	row.Note = "want at least 1.2: threads are what is short"
	s.add(row)
}

// knobs shows what other settings give.
func (s *commitReport) knobs() {
	for _, ws := range []int{4096, 16384} {
		c := commitBase(commitInitial, commitAfter)
		c.wsize = ws
		row := band("children", c.label(), nil, s.children(c), 0, inf, "kB/s")
		row.Verdict, row.Note = Info, ""
		s.add(row)
	}
	for _, n := range []int{1, 6} {
		c := commitBase(commitInitial, commitAfter)
		c.procs = n
		row := band("children", c.label(), nil, s.children(c), 0, inf, "kB/s")
		row.Verdict, row.Note = Info, ""
		s.add(row)
	}
}

// perturbed changes each constant by 20 % either way: the direction does not hang on the fit.
func (s *commitReport) perturbed() {
	change := map[string]func(c *commitCell, by float64){
		"write": func(c *commitCell, by float64) { c.write = by },
		"data":  func(c *commitCell, by float64) { c.data = by },
		"log":   func(c *commitCell, by float64) { c.log = by },
		"p":     func(c *commitCell, by float64) { c.overlap = commitOverlap * by },
	}
	for _, k := range []struct {
		phase *commitPhase
		name  string
	}{{commitInitial, "write"}, {commitInitial, "data"}, {commitInitial, "log"}, {commitInitial, "p"}, {commitRewrite, "log"}} {
		for _, by := range []float64{0.8, 1.2} {
			c := commitBase(k.phase, commitAfter)
			c.records = 50
			if k.name == "p" {
				c.records = 100
			}
			change[k.name](&c, by)
			row := band("gain, perturbed", c.label(), nil, s.gain(c, commitAfter), 0.3, 15, "%")
			row.Note = fmt.Sprintf("%s x %g: want 0.3 to 15, the direction holds", k.name, by)
			s.add(row)
		}
	}
}
