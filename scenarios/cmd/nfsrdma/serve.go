package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/rdmacore"
)

type serveCmd struct {
	Export     []string      `short:"e" placeholder:"PATH=DIR" sep:"none" help:"Export directory DIR, or memfs:SIZE for a file system in memory, under PATH. exports(5) options may follow: /data=/srv/data,ro,root_squash. Repeatable; default /=memfs:1G."`
	Device     string        `short:"d" help:"Serve over this RDMA device: its name, a network interface on it, or an IP address of it."`
	RDMAPort   int           `name:"rdma-port" default:"20049" help:"Port of NFS over RDMA."`
	TCP        []string      `name:"tcp" sep:"none" placeholder:"[HOST]:PORT" help:"Serve NFS over TCP there too; repeatable. Without --device the default is :2049."`
	Mount      string        `default:":20048" placeholder:"[HOST]:PORT" help:"Serve MOUNT over TCP there, which a mount command asks first; none is for clients that ask over RDMA. Default ${default}."`
	RO         bool          `name:"ro" help:"All exports are read-only."`
	RootSquash bool          `help:"User 0 of a client is nobody, in all exports."`
	Key        string        `placeholder:"FILE" help:"Keep the key of directory exports' file handles in this file, made if need be, so that mounts outlive a restart."`
	Threads    int           `default:"8" help:"nfsd threads."`
	BlockSize  string        `default:"1M" help:"Largest READ and WRITE, bytes (max_block_size)."`
	Credits    int           `default:"64" help:"Calls of a connection that are served at once (max_requests)."`
	Inline     int           `default:"4096" help:"Inline threshold of RDMA, bytes (max_req_size)."`
	For        time.Duration `help:"Stop after so long."`
	Grace      time.Duration `default:"10s" help:"How long calls may take to end once it stops."`
	Interval   time.Duration `default:"1s" help:"Time between status lines; 0 is none."`
	Metrics    string        `placeholder:"[HOST]:PORT" help:"Serve counters to Prometheus there, at /metrics."`
	Trace      bool          `help:"Print a line for each message and connection."`
}

// Help is printed by -h.
func (serveCmd) Help() string {
	return `An NFSv3 server for real clients, over RDMA, TCP or both at once, until interrupted (Ctrl-C, SIGTERM): it then ends the calls
that it has; a second signal does not wait for them.

  nfsrdma serve                                          1 GiB in memory, over TCP
  nfsrdma serve -d rxe0 -e /data=/srv/data,ro            a directory over RDMA, read-only
  nfsrdma serve -d eth0 -tcp :2049 -e /=memfs:8G         over RDMA and TCP, the same files
  nfsrdma serve -tcp 127.0.0.1:0 -mount none -for 1m     for a script: a free port, and an end

It prints the command with which Linux mounts it: no rpcbind is needed, since the ports are given. MOUNT is served over TCP on
the port of --mount, and on every NFS address besides.

Each status line is of the time since the last one:

  calls/s 1200  read 75.0 MB/s  write 0.0 MB/s  connections 1 rdma 1 tcp  errors 0

errors are messages that were refused: bad records, headers, credentials or arguments.

Options of an export, behind commas: ro rw root_squash no_root_squash all_squash anonuid=N anongid=N. Who is not root serves a
directory as one user: all_squash to the user who runs the server. To make a software RDMA device on any Ethernet interface:

  modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0`
}

// openDevice is replaced by tests.
var openDevice = rdmacore.Open

// Run serves until the context ends.
func (c *serveCmd) Run(e env) (err error) {
	cfg, closeAll, err := c.config()
	defer func() { err = errors.Join(err, closeAll()) }()
	if err != nil {
		return err
	}
	out := newLineWriter(e.out)
	e.out = out
	if c.Trace {
		cfg.Trace = func(line string) { fmt.Fprintln(e.out, line) }
	}
	srv, err := nfsserver.New(cfg)
	if err != nil {
		return c.explain(err)
	}
	defer func() { err = errors.Join(err, srv.Close()) }()
	// The first signal ends e.ctx, or this; the second ends hurry.
	ctx, stop := signal.NotifyContext(e.ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	stopMetrics, err := serveMetrics(e, c.Metrics, srv, cfg.Device)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopMetrics()) }()
	c.greet(e, &cfg, srv)
	if c.For > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.For)
		defer cancel()
	}
	status := newStatus(out, srv)
	status.run(ctx, c.Interval)

	hurry, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	grace, cancel := context.WithTimeout(hurry, c.Grace)
	defer cancel()
	if n := srv.Outstanding(); n > 0 {
		fmt.Fprintf(e.out, "stopping: %d calls end within %v; again does not wait for them\n", n, c.Grace)
	}
	err = srv.Shutdown(grace)
	status.total()
	return err
}

// config makes the server's configuration. The function closes what it opened, whatever the error.
func (c *serveCmd) config() (cfg nfsserver.Config, closeAll func() error, err error) {
	var closers []func() error
	closeAll = func() error {
		var errs []error
		for _, f := range closers {
			errs = append(errs, f())
		}
		return errors.Join(errs...)
	}
	cfg = nfsserver.Config{Threads: c.Threads, Credits: c.Credits, InlineSend: c.Inline, InlineRecv: c.Inline}
	size, err := parseSize(c.BlockSize)
	if err != nil || size < 4096 || size > 1<<30 || size%4096 != 0 {
		return cfg, closeAll, fmt.Errorf("block size %s: want 4096 to 1G, a multiple of 4096", c.BlockSize)
	}
	cfg.MaxPayload = int(size)
	if c.Threads < 1 || c.Credits < 1 {
		return cfg, closeAll, fmt.Errorf("%d threads and %d credits: want at least 1 of each", c.Threads, c.Credits)
	}
	cfg.TCP = c.addrs()
	exports := c.Export
	if len(exports) == 0 {
		exports = []string{"/=memfs:1G"}
	}
	for _, s := range exports {
		x, f, err := c.export(s)
		if err != nil {
			return cfg, closeAll, fmt.Errorf("export %s: %w", s, err)
		}
		closers = append(closers, f)
		cfg.Exports = append(cfg.Exports, x)
	}
	if c.Device != "" {
		dev, err := openDevice(c.Device)
		if err != nil {
			return cfg, closeAll, err
		}
		closers = append(closers, dev.Close)
		cfg.Device, cfg.Addr = dev, net.JoinHostPort(deviceAddr(dev), strconv.Itoa(c.RDMAPort))
	}
	return cfg, closeAll, nil
}

// deviceAddr is the host part of the device's own address.
func deviceAddr(dev verbs.Device) string {
	if d, ok := dev.(interface{ Addr() string }); ok {
		return d.Addr()
	}
	return dev.Name()
}

// addrs are the TCP addresses: those of NFS, and that of MOUNT behind them.
func (c *serveCmd) addrs() []string {
	tcp := append([]string(nil), c.TCP...)
	if len(tcp) == 0 && c.Device == "" {
		tcp = append(tcp, ":"+strconv.Itoa(nfsserver.PortTCP))
	}
	if c.Mount != "none" && c.Mount != "" {
		tcp = append(tcp, c.Mount)
	}
	return tcp
}

// explain adds what to do about an address that is in use.
func (c *serveCmd) explain(err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w\nanother server has the port; choose others with --tcp, --rdma-port and --mount ([HOST]:PORT, or none)", err)
	}
	return err
}

// greet says where the server is and how it is mounted.
func (c *serveCmd) greet(e env, cfg *nfsserver.Config, srv *nfsserver.Server) {
	tcp := srv.TCPAddrs()
	mountport := ""
	if len(tcp) > 0 {
		_, mountport, _ = net.SplitHostPort(tcp[len(tcp)-1])
	}
	nfsTCP := tcp
	if c.Mount != "none" && c.Mount != "" {
		nfsTCP = tcp[:len(tcp)-1]
	}
	for _, x := range cfg.Exports {
		fmt.Fprintf(e.out, "export %s\n", describe(&x))
	}
	path := cfg.Exports[0].Path
	if cfg.Device != nil {
		fmt.Fprintf(e.out, "rdma   %s on %s, %d threads, %d credits\n", srv.Addr(), cfg.Device.Name(), cfg.Threads, cfg.Credits)
		host, port, _ := net.SplitHostPort(srv.Addr())
		mountHint(e, "rdma", host, port, mountport, path)
	}
	for _, a := range nfsTCP {
		fmt.Fprintf(e.out, "tcp    %s, %d threads\n", a, cfg.Threads)
		host, port, _ := net.SplitHostPort(a)
		mountHint(e, "proto=tcp", host, port, mountport, path)
	}
	if len(tcp) > len(nfsTCP) {
		fmt.Fprintf(e.out, "mount  %s\n", tcp[len(tcp)-1])
	}
}

// mountHint prints the commands that reach the server from Linux.
func mountHint(e env, proto, host, port, mountport, path string) {
	host = reachable(host)
	scheme := strings.TrimPrefix(proto, "proto=")
	if mountport != "" {
		fmt.Fprintf(e.out, "  mount -t nfs -o %s,port=%s,vers=3,nolock,mountproto=tcp,mountport=%s,mountvers=3,noacl %s:%s /mnt\n",
			proto, port, mountport, bracket(host), path)
	}
	fmt.Fprintf(e.out, "  nfsrdma probe %s://%s%s\n", scheme, net.JoinHostPort(host, port), path)
}

// bracket puts an IPv6 address as mount wants it.
func bracket(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// reachable is a name for where a server listens: of a wildcard, the machine's first address.
func reachable(host string) string {
	ip := net.ParseIP(host)
	if host != "" && (ip == nil || !ip.IsUnspecified()) {
		return host
	}
	list, _ := net.InterfaceAddrs()
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			return n.IP.String()
		}
	}
	return "127.0.0.1"
}
