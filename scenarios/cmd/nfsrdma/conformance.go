package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/scenarios/conformance"
)

type conformanceCmd struct {
	Rows      string   `arg:"" optional:"" help:"Rows to check: IDs with commas between, such as C14,C29. Default all."`
	Server    string   `help:"Check a server that is there, rdma://HOST[:PORT][/PATH], over an RDMA device of this machine. PATH must be writable."`
	Known     string   `help:"With --server, what is known of it: linux-6.1. Its differences are told with their reasons and are no failures."`
	Deadly    bool     `help:"With --server, send what would end a machine with Linux, too. Not to a server that others use."`
	Embedded  bool     `help:"With --server or --column, a column of the embedded ends besides."`
	Column    []string `placeholder:"NAME=FILE" sep:"none" help:"Set a run beside this one that --format json saved. Several may be given; without --server and --embedded nothing is run."`
	Device    string   `short:"d" help:"With --server, the local RDMA device. Default the first that is active."`
	Mountport int      `help:"With --server, ask MOUNT over TCP on this port, 20048 for Linux. Default over the connection itself."`
	UID       uint32   `name:"uid" help:"With --server, user of AUTH_SYS; default root."`
	GID       uint32   `name:"gid" help:"With --server, group of AUTH_SYS."`
	Faults    bool     `help:"Check the reported faults too: F01 to F22."`
	Seed      uint64   `default:"1" help:"Seed of all randomness."`
	Format    string   `default:"text" enum:"text,json,markdown" help:"Output: text, json (one run) or markdown."`
}

// Help is printed by -h.
func (conformanceCmd) Help() string {
	return `Checks what the RFCs ask of the two ends of NFS over RDMA, and prints a line for each rule: its section, whom it binds, and whether
the checks prove it. Without --server both ends are the embedded ones, in virtual time. With it the server is sent legal and
illegal messages over connections of their own; files that it needs for this are made in PATH and removed. Exits with 1 if a rule is broken.

  nfsrdma conformance                                    all rules
  nfsrdma conformance C14,C23 -format json               two of them, for a program
  nfsrdma conformance -server rdma://192.168.1.2/srv     another server
  nfsrdma conformance -server rdma://192.168.1.2/srv -mountport 20048 -known linux-6.1 -embedded
                                                         Linux and the embedded ends beside each other`
}

// Run checks.
func (c *conformanceCmd) Run(e env) (err error) {
	o := conformance.Options{Seed: c.Seed, Only: c.Rows, Faults: c.Faults, Deadly: c.Deadly}
	if c.Known != "" {
		if o.Known = conformance.ServerNamed(c.Known); o.Known == nil {
			return fmt.Errorf("--known %s: nothing is known of it", c.Known)
		}
	}
	var cols []conformance.Column
	if c.Embedded || c.Server == "" && len(c.Column) == 0 {
		cols, err = c.add(e, cols, "embedded", conformance.Options{Seed: c.Seed, Only: c.Rows, Faults: c.Faults})
		if err != nil {
			return err
		}
	}
	if c.Server != "" {
		done, err := c.target(&o)
		if err != nil {
			return err
		}
		cols, err = c.add(e, cols, strings.TrimPrefix(c.Server, "rdma://"), o)
		if err := errors.Join(err, done()); err != nil {
			return err
		}
	}
	for _, s := range c.Column {
		col, err := readColumn(s)
		if err != nil {
			return err
		}
		if o.Known != nil {
			col.Reexplain(o.Known)
		}
		cols = append(cols, col)
	}
	switch {
	case c.Format == "markdown":
		err = conformance.WriteMarkdown(e.out, cols)
	case c.Format == "json" && len(cols) > 1:
		err = errors.New("--format json is of one run: save each, and set them beside each other with --column")
	case c.Format == "json":
		err = conformance.WriteJSON(e.out, cols[0].Rows)
	case len(cols) > 1:
		err = conformance.WriteColumns(e.out, cols)
	default:
		err = conformance.WriteText(e.out, cols[0].Rows)
	}
	n := 0
	for i := range cols {
		n += conformance.Failures(cols[i].Rows)
	}
	if err == nil && n > 0 {
		err = fmt.Errorf("%d rules are broken", n)
	}
	return err
}

func (c *conformanceCmd) add(e env, cols []conformance.Column, name string, o conformance.Options) ([]conformance.Column, error) {
	l, err := conformance.Run(e.ctx, o)
	return append(cols, conformance.Column{Name: name, Rows: l}), err
}

// target opens the device to --server; done closes it.
func (c *conformanceCmd) target(o *conformance.Options) (done func() error, err error) {
	t, err := parseTarget(c.Server)
	if err != nil {
		return nil, err
	}
	if t.proto != nfsclient.RDMA {
		return nil, fmt.Errorf("--server %s: the checks are of RDMA", c.Server)
	}
	if t.port == 0 {
		t.port = nfsserver.Port
	}
	dev, err := openDeviceOrFirst(c.Device)
	if err != nil {
		return nil, err
	}
	s := sched.NewLive(c.Seed)
	o.Target = &conformance.Target{Device: dev, Sched: s, Addr: net.JoinHostPort(t.host, strconv.Itoa(t.port)), Export: t.path, UID: c.UID, GID: c.GID}
	if c.Mountport != 0 {
		o.Target.MountAddr = net.JoinHostPort(t.host, strconv.Itoa(c.Mountport))
	}
	return func() error { return errors.Join(s.Close(), dev.Close()) }, nil
}

// readColumn reads NAME=FILE.
func readColumn(s string) (col conformance.Column, err error) {
	name, file, ok := strings.Cut(s, "=")
	if !ok {
		return col, fmt.Errorf("--column %s: want NAME=FILE", s)
	}
	f, err := os.Open(file)
	if err != nil {
		return col, err
	}
	defer func() { _ = f.Close() }()
	l, err := conformance.ReadJSON(f)
	if err != nil {
		return col, fmt.Errorf("--column %s: %w", s, err)
	}
	return conformance.Column{Name: name, Rows: l}, nil
}
