// Command nfsrdma reproduces reported limits of NFS over RDMA, and measures the
// fabric against the bounds of this machine.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"

	"github.com/alecthomas/kong"
)

// cli is the command line; kong prints the help of its tags.
type cli struct {
	List    listCmd        `cmd:"" help:"List the scenarios."`
	Run     runCmd         `cmd:"" help:"Run a scenario, or all, and print reported against measured."`
	Bench   benchCmd       `cmd:"" help:"Measure live throughput beside the bounds of this machine."`
	Sweep   sweepCmd       `cmd:"" help:"Run all combinations of the values of knobs, in virtual time."`
	Merge   mergeCmd       `cmd:"" help:"Join the results of a sweep's shards."`
	Serve   serveCmd       `cmd:"" help:"Serve NFS over RDMA and TCP to real clients, such as Linux."`
	Probe   probeCmd       `cmd:"" help:"Say what an NFS server over RDMA or TCP negotiates, and check its data."`
	Conform conformanceCmd `cmd:"" name:"conformance" help:"Check the rules of the RFCs, of the embedded ends or of another server."`
	Fuzz    fuzzCmd        `cmd:"" help:"Send hostile calls to the embedded server or another, and judge what comes."`
	Chaos   chaosCmd       `cmd:"" help:"Mix faults at random under a load whose every byte is checked."`
	Devices devicesCmd     `cmd:"" help:"List the RDMA devices: those that softroce plays, and this machine's."`
}

const description = `NFS over RDMA in one process: an embedded client and server joined by a verbs layer.

  nfsrdma list                          what can be reproduced
  nfsrdma run segments                  a report's figures beside measured ones, in virtual time
  nfsrdma run segments --format json    the same for a program; equal seeds give equal bytes
  nfsrdma run segments --explain        what was reported, why it happens, what to look at
  nfsrdma bench                         how fast the fabric is on this machine, live
  nfsrdma serve -d rxe0 -e /=DIR        a server that Linux can mount, over RDMA; -tcp for TCP
  nfsrdma probe tcp://server/path       what a server negotiates, and whether its data is right
  nfsrdma fuzz                          hostile chunk lists against a server
  nfsrdma chaos                         faults at random under a load that is checked
  nfsrdma conformance                   the rules of the RFCs, and the checks that prove them

Flags may be written with one dash or two.`

// env is what commands write to.
type env struct {
	ctx context.Context
	out io.Writer
	err io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(env{ctx, os.Stdout, os.Stderr}, os.Args[1:]))
}

// run is main with everything given; it returns the exit status: 1 a miss or failure, 2 usage.
func run(e env, args []string) (status int) {
	var c cli
	exited := -1
	k, err := kong.New(&c, kong.Name("nfsrdma"), kong.Description(description), kong.UsageOnError(),
		kong.Writers(e.out, e.err), kong.Exit(func(n int) { exited = n; panic(exitNow{}) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}))
	if err != nil {
		panic(err) // the tags above are wrong
	}
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(exitNow); !ok {
				panic(r)
			}
			status = exited
		}
	}()
	if len(args) == 0 || args[0] == "help" {
		args = append(slices.Clone(args[min(1, len(args)):]), "--help")
	}
	p, err := k.Parse(longFlags(args))
	if err != nil {
		fmt.Fprintf(e.err, "nfsrdma: %v\nTry nfsrdma --help.\n", err)
		return 2
	}
	if err := p.Run(e); err != nil {
		if e.ctx.Err() != nil {
			fmt.Fprintln(e.err, "nfsrdma: interrupted")
			return 130
		}
		fmt.Fprintf(e.err, "nfsrdma: %v\n", err)
		return 1
	}
	return 0
}

// exitNow ends run from within kong, after help.
type exitNow struct{}

// longFlags lets -seed mean --seed, as Go's own commands do.
func longFlags(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		if len(a) > 2 && a[0] == '-' && a[1] != '-' {
			a = "-" + a
		}
		out[i] = a
	}
	return out
}
