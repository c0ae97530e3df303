package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

const usage = `usage: guest setup
       guest exec   [-dev rxe|siw|none] [-timeout D] [-mem MiB] [-kernel-nfsd] PROGRAM [ARG...]
       guest shell  [-dev rxe|siw|none] [-mem MiB]
       guest test   [-dev rxe,siw] [-suite A,B] [-run REGEXP] [-v]
       guest direct -dev NAME [-suite A,B] [-run REGEXP] [-v]`

// exitStatus is an error that only carries the exit status to return.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	var status exitStatus
	switch {
	case err == nil:
	case errors.As(err, &status):
		os.Exit(int(status))
	default:
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(2)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("no command\n" + usage)
	}
	cmd, args := args[0], args[1:]
	fs := flag.NewFlagSet(cmd, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	dev := fs.String("dev", "", "device")
	switch cmd {
	case "setup":
		if err := parse(fs, args, 0); err != nil {
			return err
		}
		g, err := setup(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, "kernel", g.release, "in", g.dir)
		return nil
	case "exec":
		timeout := fs.Duration("timeout", 5*time.Minute, "")
		mem := fs.Int("mem", 0, "")
		nfsd := fs.Bool("kernel-nfsd", false, "")
		if err := parse(fs, args, -1); err != nil {
			return err
		}
		return execCommand(ctx, out, execOptions{dev: *dev, timeout: *timeout, mem: *mem, nfsd: *nfsd, argv: fs.Args()})
	case "shell":
		mem := fs.Int("mem", 0, "")
		if err := parse(fs, args, 0); err != nil {
			return err
		}
		return shell(ctx, *dev, *mem)
	case "test", "direct":
		o := testOptions{out: out}
		fs.StringVar(&o.run, "run", "", "")
		fs.BoolVar(&o.verbose, "v", false, "")
		names := fs.String("suite", "", "")
		if err := parse(fs, args, 0); err != nil {
			return err
		}
		o.suites = list(*names)
		if cmd == "direct" {
			return testDirect(ctx, *dev, o)
		}
		return testGuests(ctx, list(*dev), o)
	}
	return fmt.Errorf("unknown command %q\n%s", cmd, usage)
}

// parse takes flags up to the first argument; want is the number of arguments after them, -1 for one or more.
func parse(fs *flag.FlagSet, args []string, want int) error {
	if err := fs.Parse(args); err != nil {
		return fmt.Errorf("%w\n%s", err, usage)
	}
	if n := fs.NArg(); (want >= 0 && n != want) || (want < 0 && n == 0) {
		return fmt.Errorf("%s: %d arguments\n%s", fs.Name(), n, usage)
	}
	return nil
}

func list(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}
