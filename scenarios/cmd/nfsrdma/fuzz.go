package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"example.org/nfsrdma/fabric/chunkfuzz"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/verbs"
)

type fuzzCmd struct {
	Addr   string `arg:"" optional:"" help:"HOST:PORT of a server over RDMA. Default the embedded server, in virtual time."`
	Level  string `enum:"chunks,verbs,packets" default:"chunks" help:"What is hostile: chunks, the calls of an NFS client and their chunk lists; verbs, work requests; packets, those of RoCEv2. The last two are of the embedded device, in virtual time."`
	Device string `short:"d" help:"Local RDMA device: its name, a network interface on it, or an IP address of it. Default the first that is active."`
	Export string `default:"/" help:"Export to ask MOUNT for; calls are made as root, in files chunkfuzz.* of it."`

	Mountport int    `help:"Ask MOUNT over TCP on this port, 20048 for Linux. Default over the connection itself."`
	Root      string `help:"File handle of a directory to use instead, in hexadecimal."`
	Known     string `help:"What is known of the server: linux-6.1. Its differences are counted and are no failures."`
	Deadly    bool   `help:"Send what would end a machine with Linux, too. Not to a server that others use."`

	Seed    uint64        `default:"1" help:"Of the calls."`
	Calls   int           `short:"n" help:"How many calls; default 100000, or no bound if -time is given."`
	Time    time.Duration `help:"How long."`
	Input   string        `help:"Try this input alone, in hexadecimal, as a failure printed it."`
	Silence time.Duration `default:"50ms" help:"How long no answer is a drop, where one is right."`

	Most   int  `default:"5" help:"Failures after which to stop. Those that are alike count once."`
	Strict bool `help:"What the RFCs leave open must be as the embedded server has it."`
}

// Help is printed by -h.
func (fuzzCmd) Help() string {
	return `Makes calls whose chunk lists are right, nearly right or nonsense, and compares what comes back, and every byte of the memory that was
offered, with what RFC 8166, RFC 8267 and RFC 5531 ask for. A failure is made small and printed with its input. Exits with 1 if there is one.

With -level verbs two ends of a connection post work requests with rights that are missing, bounds that are passed, keys of yesterday; with
-level packets a raw peer sends and answers packets out of order, of wrong length, with a bad ICRC. What the device does is compared with the
InfiniBand specification, each completion and each byte of memory.

  nfsrdma fuzz                               the embedded server, a few seconds
  nfsrdma fuzz -level verbs -time 10s        the embedded device
  nfsrdma fuzz -d rxe0 -time 1m 10.0.0.2:20049
  nfsrdma fuzz -d rxe0 -mountport 20048 -export /srv -known linux-6.1 10.0.0.2:20049`
}

// Run fuzzes.
func (c *fuzzCmd) Run(e env) error {
	if c.Level != "chunks" {
		return c.fuzzDevice(e)
	}
	o := chunkfuzz.Options{Seed: c.Seed, Calls: c.Calls, Time: c.Time, Strict: c.Strict, Export: c.Export, Most: c.Most, Careful: !c.Deadly}
	if o.Calls == 0 && o.Time == 0 {
		o.Calls = 100_000
	}
	var err error
	switch c.Known {
	case "":
	case "linux-6.1":
		o.Known = chunkfuzz.Linux61
	default:
		return fmt.Errorf("--known %s: nothing is known of it", c.Known)
	}
	if o.Root, err = unhex("root", c.Root); err != nil {
		return err
	}
	if o.Input, err = unhex("input", c.Input); err != nil {
		return err
	}
	var rep chunkfuzz.Report
	if c.Addr == "" {
		rep, err = fuzzEmbedded(e.ctx, o)
	} else {
		rep, err = c.fuzzServer(e.ctx, o)
	}
	if rep.Calls > 0 {
		fmt.Fprintln(e.out, &rep)
	}
	return errors.Join(err, rep.Err())
}

// mountRoot asks MOUNT over TCP.
func (c *fuzzCmd) mountRoot(ctx context.Context, dev verbs.Device) ([]byte, error) {
	host, _, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return nil, err
	}
	s := sched.NewLive(c.Seed)
	m, err := nfsclient.New(ctx, nfsclient.Config{
		Device: dev, Sched: s, Addr: c.Addr, Export: c.Export, MountAddr: net.JoinHostPort(host, strconv.Itoa(c.Mountport)), ResvPort: true, Soft: true,
	})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	fh := m.Root()
	return fh.Bytes(), errors.Join(m.Close(), s.Close())
}

// unhex decodes a flag; nil if it is not given.
func unhex(flag, s string) ([]byte, error) {
	if s == "" {
		return nil, nil
	}
	b, err := hex.DecodeString(s)
	if err != nil {
		return nil, fmt.Errorf("-%s: %w", flag, err)
	}
	return b, nil
}

func fuzzEmbedded(ctx context.Context, o chunkfuzz.Options) (chunkfuzz.Report, error) {
	r, err := chunkfuzz.NewRig(chunkfuzz.RigConfig{Seed: o.Seed})
	if err != nil {
		return chunkfuzz.Report{}, err
	}
	o.Strict, o.Careful = true, false
	rep, err := chunkfuzz.Campaign(ctx, r.TryContext, o)
	return rep, errors.Join(err, r.Close())
}

func (c *fuzzCmd) fuzzServer(ctx context.Context, o chunkfuzz.Options) (rep chunkfuzz.Report, err error) {
	dev, err := openDeviceOrFirst(c.Device)
	if err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	q, err := chunkfuzz.Dial(ctx, chunkfuzz.Config{Device: dev, Addr: c.Addr, Silence: c.Silence})
	if err != nil {
		return rep, err
	}
	if c.Mountport != 0 && o.Root == nil {
		if o.Root, err = c.mountRoot(ctx, dev); err != nil {
			return rep, errors.Join(err, q.Close())
		}
	}
	s, err := chunkfuzz.NewSession(ctx, q, o.Export, o.Root)
	if err != nil {
		return rep, errors.Join(err, q.Close())
	}
	s.Careful = o.Careful
	rep, err = chunkfuzz.Campaign(ctx, s.Try, o)
	return rep, errors.Join(err, s.Close())
}
