package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/fabric/faults"
	"example.org/nfsrdma/nfsclient"
)

type chaosCmd struct {
	Seeds         int           `short:"n" help:"How many seeds; default 100, or no bound if -time is given."`
	Seed          uint64        `help:"The first seed; the others follow it."`
	Time          time.Duration `help:"How long new seeds begin."`
	Mode          string        `placeholder:"MODE" help:"Registration mode of all seeds, such as fastreg. Default the seed's choice, all in turn."`
	DeviceProfile string        `placeholder:"NAME" help:"Device that softroce plays: RoCE, MT25208 or T310. Default the seed's choice."`
	Proto         string        `enum:",rdma,tcp" default:"" help:"Transport: rdma or tcp. Default the seed's choice."`
	Live          bool          `help:"Wall clock and goroutines in place of virtual time: finds races, replays nothing."`
	Faults        string        `placeholder:"TEXT" help:"These faults in place of the seed's, as a failure printed them; none for none."`
	Once          bool          `help:"Run each seed once. Otherwise it runs twice and must do the same."`
	Workers       int           `help:"Seeds at a time; default all cores. It changes no result."`
	Stop          int           `default:"3" help:"Stop after so many failures."`
	Kinds         bool          `help:"Explain the text form of faults; run nothing."`
	Format        string        `default:"text" enum:"text,json" help:"Output: text or json."`
	Quiet         bool          `short:"q" help:"No progress on standard error."`
}

// Help is printed by -h.
func (chaosCmd) Help() string {
	return `A seed chooses registration mode, device, transport, link and knobs, a load of several tasks on files, directories and links, and a few
faults that happen under it: packets and connection messages that are lost, late, doubled or corrupt, calls of the device and of the file
system that fail, queues that overflow, connections that break, devices that go away and come back, servers that crash and lose what was not
committed. Every byte that is read, and at the end all that is stored, is compared with what the replies promised. A seed fails if that is
broken, if a call ends in a way that no fault explains, if anything hangs or is left over, or if it does not do the same twice.

  nfsrdma chaos                                  100 seeds
  nfsrdma chaos -seeds 1000 -format json         for a program
  nfsrdma chaos -time 10m -seed 5000 -mode fmr   as many as there is time for, in one mode
  nfsrdma chaos -live -seeds 50                  on the wall clock
  nfsrdma chaos -seed 7 -seeds 1 -faults 'crash op=WRITE nth=40 by=5ms; drop kind=REQ nth=2'

For a seed that fails it leaves out faults as long as the seed still fails, and prints the command that runs the rest again. Exits with 1 if
a seed fails. -kinds explains the faults.`
}

// Run runs the campaign.
func (c *chaosCmd) Run(e env) error {
	if c.Kinds {
		return explainFaults(e.out)
	}
	k := fabric.ChaosCampaign{First: c.Seed, Seeds: c.Seeds, Time: c.Time, Twice: !c.Once, Workers: c.Workers, Stop: c.Stop,
		Options: fabric.ChaosOptions{Personality: c.DeviceProfile, Proto: c.Proto, Live: c.Live}}
	if k.Seeds == 0 && k.Time == 0 {
		k.Seeds = 100
	}
	var err error
	if c.Mode != "" {
		if k.Options.Mode, err = nfsclient.ParseRegMode(c.Mode); err != nil {
			return err
		}
	}
	switch c.Faults {
	case "":
	case "none":
		k.Options.NoFaults = true
	default:
		if k.Options.Faults, err = faults.Parse(c.Faults); err != nil {
			return err
		}
		k.Options.NoFaults = len(k.Options.Faults) == 0
	}
	if !c.Quiet {
		k.Progress = chaosProgress(e.err, time.Now)
	}
	s, err := fabric.RunChaosCampaign(e.ctx, k)
	if s.Seeds == 0 && err != nil {
		return err
	}
	var werr error
	if c.Format == "json" {
		enc := json.NewEncoder(e.out)
		enc.SetIndent("", "  ")
		werr = enc.Encode(s)
	} else {
		werr = writeChaos(e.out, &s)
	}
	switch n := len(s.Failures); {
	case err != nil:
		return err
	case werr != nil:
		return werr
	case n > 0:
		return fmt.Errorf("%d seeds failed", n)
	}
	return nil
}

// chaosProgress writes a line every two seconds, and the last.
func chaosProgress(w io.Writer, now func() time.Time) func(fabric.ChaosSummary) {
	last := now()
	return func(s fabric.ChaosSummary) {
		if t := now(); t.Sub(last) >= 2*time.Second || s.Seeds == s.Total {
			last = t
			of := ""
			if s.Total > 0 {
				of = fmt.Sprintf(" of %d", s.Total)
			}
			fmt.Fprintf(w, "chaos: %d%s seeds, %d combinations of faults, %d failed\n", s.Seeds, of, s.Combinations, len(s.Failures))
		}
	}
}

func writeChaos(out io.Writer, s *fabric.ChaosSummary) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	twice := ""
	if s.Twice {
		twice = ", each twice"
	}
	row := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	row("seeds", "%d from %d on%s; %d failed", s.Seeds, s.First, twice, len(s.Failures))
	row("ways", "%s", tally(s.Ways))
	row("devices", "%s", tally(s.Devices))
	row("faults", "fired in %d seeds, in %d distinct combinations", s.Fired, s.Combinations)
	row("calls", "%d; %d ended with an error that a fault explains", s.Calls, s.Failed)
	row("bytes", "%d read and compared", s.Bytes)
	row("reconnects", "%d", s.Reconnects)
	row("time", "%v of the fabric, %v here", s.Virtual.Round(time.Millisecond), s.Wall.Round(time.Millisecond))
	fmt.Fprintf(w, "\nfault\tseeds\ttimes\n")
	for _, k := range faults.Kinds() {
		if n := s.Kinds[k.String()]; n > 0 {
			fmt.Fprintf(w, "%v\t%d\t%d\n", k, n, s.Times[k.String()])
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for i := range s.Failures {
		f := &s.Failures[i]
		fmt.Fprintf(out, "\nseed %d fails: %s\n", f.Seed, indent(f.Error))
		fmt.Fprintf(out, "  its faults: %s\n", f.Faults)
		fmt.Fprintf(out, "  the least that fails: %s\n", orNone(f.Minimal))
		for _, c := range f.Counts {
			if c.Fired > 0 {
				fmt.Fprintf(out, "    %v: fired %d times\n", c.Fault, c.Fired)
			}
		}
		if f.Story != f.Error {
			fmt.Fprintf(out, "  which gives: %s\n", indent(f.Story))
		}
		fmt.Fprintf(out, "  again: %s\n", f.Replay())
	}
	return nil
}

func indent(s string) string { return strings.ReplaceAll(s, "\n", "\n    ") }

func orNone(s string) string {
	if s == "" {
		return "none at all"
	}
	return s
}

func tally(m map[string]int) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%s %d", k, m[k]))
	}
	return strings.Join(out, ", ")
}

// explainFaults prints the text form of faults.
func explainFaults(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "A fault is a kind and key=value; faults are separated by semicolons.\n\n")
	for _, g := range []struct{ kinds, of string }{
		{"drop delay duplicate corrupt reorder rnr", "a packet, or with kind= of connection management one of its messages"},
		{"regfail allocfail postfail", "a call of the device fails"},
		{"eio enospc jukebox slow", "a call of the file system fails, or waits"},
		{"qperror cqoverflow disconnect addrchange", "happens to a connection, beside what triggers it or at=TIME"},
		{"remove", "a device goes away; back after by=, else never"},
		{"crash", "the server loses what is not stable, and is back after by="},
	} {
		fmt.Fprintf(w, "%s\t%s\n", g.kinds, g.of)
	}
	fmt.Fprintln(w)
	for _, g := range []struct{ key, of string }{
		{"kind=", strings.Join(faults.PacketNames(), " ")},
		{"op=", "of actions: " + strings.Join(faults.Ops(faults.Disconnect), " ")},
		{"", "of allocfail: " + strings.Join(faults.Ops(faults.AllocFail), " ")},
		{"", "of regfail: " + strings.Join(faults.Ops(faults.RegFail), " ")},
		{"dir=", "c->s s->c"}, {"side=", "client server"},
		{"nth= every= p= max=", "which events: the nth, each nth, with a probability, so many at most"},
		{"from= to= at=", "when: a duration from the start, such as 2ms"},
		{"by=", "how long: of delay, reorder, slow, remove, crash"},
		{"optional", "it may never fire, without this that is a failure"},
	} {
		fmt.Fprintf(w, "%s\t%s\n", g.key, g.of)
	}
	return w.Flush()
}
