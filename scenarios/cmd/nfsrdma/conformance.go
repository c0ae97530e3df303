package main

import (
	"fmt"
	"net"
	"strconv"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/scenarios/conformance"
)

type conformanceCmd struct {
	Rows      string `arg:"" optional:"" help:"Rows to check: IDs with commas between, such as C14,C29. Default all."`
	Server    string `help:"Check a server that is there, rdma://HOST[:PORT][/PATH], over an RDMA device of this machine. PATH must be writable."`
	Device    string `short:"d" help:"With --server, the local RDMA device. Default the first that is active."`
	Mountport int    `help:"With --server, ask MOUNT over TCP on this port. Default over the connection itself."`
	UID       uint32 `name:"uid" help:"With --server, user of AUTH_SYS; default root."`
	GID       uint32 `name:"gid" help:"With --server, group of AUTH_SYS."`
	Faults    bool   `help:"Check the reported faults too: F01 to F22."`
	Seed      uint64 `default:"1" help:"Seed of all randomness."`
	Format    string `default:"text" enum:"text,json" help:"Output: text or json."`
}

// Help is printed by -h.
func (conformanceCmd) Help() string {
	return `Checks what the RFCs ask of the two ends of NFS over RDMA, and prints a line for each rule: its section, whom it binds, and whether
the checks prove it. Without --server both ends are the embedded ones, in virtual time. With it the server is sent legal and
illegal messages over connections of their own; files that it needs for this are made in PATH and removed. Exits with 1 if a rule is broken.

  nfsrdma conformance                                    all rules
  nfsrdma conformance C14,C23 -format json               two of them, for a program
  nfsrdma conformance -server rdma://192.168.1.2/srv     another server`
}

// Run checks.
func (c *conformanceCmd) Run(e env) (err error) {
	o := conformance.Options{Seed: c.Seed, Only: c.Rows, Faults: c.Faults}
	if c.Server != "" {
		t, err := parseTarget(c.Server)
		if err != nil {
			return err
		}
		if t.proto != nfsclient.RDMA {
			return fmt.Errorf("--server %s: the checks are of RDMA", c.Server)
		}
		if t.port == 0 {
			t.port = nfsserver.Port
		}
		dev, err := openDeviceOrFirst(c.Device)
		if err != nil {
			return err
		}
		defer func() { _ = dev.Close() }()
		s := sched.NewLive(c.Seed)
		defer func() { _ = s.Close() }()
		o.Target = &conformance.Target{Device: dev, Sched: s, Addr: net.JoinHostPort(t.host, strconv.Itoa(t.port)), Export: t.path, UID: c.UID, GID: c.GID}
		if c.Mountport != 0 {
			o.Target.MountAddr = net.JoinHostPort(t.host, strconv.Itoa(c.Mountport))
		}
	}
	l, err := conformance.Run(e.ctx, o)
	if err != nil {
		return err
	}
	if c.Format == "json" {
		err = conformance.WriteJSON(e.out, l)
	} else {
		err = conformance.WriteText(e.out, l)
	}
	if n := conformance.Failures(l); err == nil && n > 0 {
		err = fmt.Errorf("%d rules are broken", n)
	}
	return err
}
