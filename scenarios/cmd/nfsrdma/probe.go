package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/rdmacore"
)

type probeCmd struct {
	Addr      string            `arg:"" help:"rdma://HOST[:PORT][/PATH], tcp://HOST[:PORT][/PATH], or HOST:/PATH as mount has it."`
	Device    string            `short:"d" help:"Local RDMA device: its name, a network interface on it, or an IP address of it. Default the first that is active."`
	Mountport int               `help:"Ask MOUNT over TCP on this port. Default over the connection itself, and if the server has no MOUNT there, on the port that its port mapper names."`
	Write     bool              `help:"Write a file under a name of its own into PATH, read it back and remove it."`
	Size      string            `default:"8M" help:"Length of that file, at most 1G."`
	Mode      nfsclient.RegMode `default:"auto" help:"Registration mode over RDMA; auto is what suits the device."`
	Credits   int               `help:"Calls in flight at most (rdma_slot_table_entries); default 128."`
	UID       uint32            `name:"uid" help:"User of AUTH_SYS; default root."`
	GID       uint32            `name:"gid" help:"Group of AUTH_SYS."`
	Resvport  bool              `default:"true" negatable:"" help:"TCP from a port below 1024, which servers ask for; needs root, else it is not done."`
	Timeout   time.Duration     `default:"10s" help:"How long a call may take."`
	Format    string            `default:"text" enum:"text,json" help:"Output: text or json."`
	Stats     bool              `name:"mountstats" help:"Print the mount's statistics as /proc/self/mountstats has them: calls, bytes, queue, round-trip and execute times by procedure."`
	Trace     bool              `help:"Print each message on standard error."`
}

// Help is printed by -h.
func (probeCmd) Help() string {
	return `Mounts an export with the embedded client, prints what was negotiated and what the server says of itself, times NULL and GETATTR,
and checks data: with --write a file of random bytes, written and read back in several sizes; without it, what is in PATH
already, read twice. Exits with 1 if anything fails or differs.

  nfsrdma probe tcp://server/srv/data                    ports from the port mapper
  nfsrdma probe rdma://192.168.1.2:20049/srv/data        over the first RDMA device
  nfsrdma probe -d rxe0 -write -size 64M server:/srv     over rxe0, with a file of 64 MiB
  nfsrdma probe tcp://[::1]:2049/ -format json           for a program

A port that is not given is asked of the port mapper (port 111) over TCP, and else 2049; over RDMA it is 20049. Linux serves MOUNT
over TCP only, and exports to ports below 1024 unless they are "insecure".`
}

// target is what an address names.
type target struct {
	proto nfsclient.Proto
	host  string
	port  int // 0: not given
	path  string
}

func (t target) String() string {
	return fmt.Sprintf("%v://%s%s", t.proto, net.JoinHostPort(t.host, strconv.Itoa(t.port)), t.path)
}

// parseTarget reads an address.
func parseTarget(s string) (t target, err error) {
	bad := func(why string) (target, error) {
		return target{}, fmt.Errorf("address %q: %s; want rdma://HOST[:PORT][/PATH], tcp://HOST[:PORT][/PATH] or HOST:/PATH", s, why)
	}
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		host, path, ok := cutMount(s)
		if !ok {
			return bad("no scheme, and no :/PATH")
		}
		t = target{proto: nfsclient.RDMA, host: host, path: path}
	} else {
		if err := t.proto.UnmarshalText([]byte(scheme)); err != nil {
			return bad(err.Error())
		}
		hostport, path, _ := strings.Cut(rest, "/")
		t.path = "/" + path
		t.host = hostport
		if h, p, err := net.SplitHostPort(hostport); err == nil {
			n, err := strconv.ParseUint(p, 10, 16)
			if err != nil || n == 0 {
				return bad("port " + p)
			}
			t.host, t.port = h, int(n)
		}
	}
	t.host = strings.Trim(t.host, "[]")
	if t.host == "" || strings.ContainsAny(t.host, " /") {
		return bad("no host")
	}
	return t, nil
}

// cutMount cuts "host:/path".
func cutMount(s string) (host, path string, ok bool) {
	i := strings.Index(s, ":/")
	if i <= 0 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}

// Run probes.
func (c *probeCmd) Run(e env) (err error) {
	t, err := parseTarget(c.Addr)
	if err != nil {
		return err
	}
	size, err := parseSize(c.Size)
	if err != nil || size < 1 || size > 1<<30 {
		return fmt.Errorf("size %s: want 1 to 1G", c.Size)
	}
	if c.Timeout <= 0 || c.Mountport < 0 || c.Mountport > 65535 {
		return fmt.Errorf("timeout %v, mountport %d: want a positive timeout and a port", c.Timeout, c.Mountport)
	}
	cfg := nfsclient.Config{
		Proto: t.proto, Export: t.path, RegMode: c.Mode, Credits: c.Credits, Cred: nfsclient.Cred{UID: c.UID, GID: c.GID},
		ResvPort: c.Resvport && os.Geteuid() == 0, Soft: true, Timeout: c.Timeout, Retrans: -1,
	}
	if c.Trace {
		cfg.Trace = func(line string) { fmt.Fprintln(e.err, line) }
	}
	if t.proto == nfsclient.RDMA {
		dev, err := openDeviceOrFirst(c.Device)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, dev.Close()) }()
		cfg.Device = dev
	}
	r := &probeReport{}
	m, err := c.mount(e.ctx, t, cfg, r)
	if err != nil {
		return err
	}
	p := &prober{ctx: e.ctx, m: m, r: r, size: int(size)}
	err = p.run(c.Write)
	if e2 := m.Unmount(e.ctx); err == nil && e2 != nil {
		err = e2
	}
	if err != nil {
		r.Error = err.Error()
	}
	var stats strings.Builder
	if c.Stats {
		err = errors.Join(err, m.MountStats(&stats))
	}
	if c.Format == "json" {
		r.MountStats = stats.String()
		enc := json.NewEncoder(e.out)
		enc.SetIndent("", "  ")
		return errors.Join(err, enc.Encode(r))
	}
	r.print(e.out)
	_, e2 := io.WriteString(e.out, stats.String())
	return errors.Join(err, e2)
}

// openDeviceOrFirst opens a device by name, or the first that is active.
func openDeviceOrFirst(name string) (verbs.Device, error) {
	if name != "" {
		return openDevice(name)
	}
	list, err := rdmacore.Devices()
	if err != nil {
		return nil, err
	}
	for _, d := range list {
		if d.State == "ACTIVE" {
			return openDevice(d.Name)
		}
	}
	return nil, errors.New("this machine has no active RDMA device; make one with: rdma link add rxe0 type rxe netdev NETDEV, or probe tcp://")
}

// mount finds the ports that are not given, and mounts.
func (c *probeCmd) mount(ctx context.Context, t target, cfg nfsclient.Config, r *probeReport) (*nfsclient.Mount, error) {
	switch {
	case t.port != 0:
	case t.proto == nfsclient.RDMA:
		t.port = nfsserver.Port
	default:
		t.port = nfsserver.PortTCP
		if n, err := nfsclient.Portmap(ctx, nil, t.host, nfsclient.ProgramNFS); err == nil {
			t.port = n
		}
	}
	at := func(port int) string { return net.JoinHostPort(t.host, strconv.Itoa(port)) }
	cfg.Addr = at(t.port)
	r.Target, r.MountBy = t.String(), "the same connection"
	if c.Mountport != 0 {
		cfg.MountAddr = at(c.Mountport)
		r.MountBy = "tcp " + cfg.MountAddr
	}
	m, err := nfsclient.New(ctx, cfg)
	var refused *nfsclient.RPCError
	if err == nil || c.Mountport != 0 || !errors.As(err, &refused) || refused.Denied {
		return m, err
	}
	n, err2 := nfsclient.Portmap(ctx, nil, t.host, nfsclient.ProgramMount)
	if err2 != nil {
		return nil, fmt.Errorf("%w; %w; give the port of MOUNT with --mountport", err, err2)
	}
	cfg.MountAddr = at(n)
	r.MountBy = "tcp " + cfg.MountAddr + ", from the port mapper"
	return nfsclient.New(ctx, cfg)
}
