package scenarios

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/nfsserver"
)

// sendbufCell is one run: a file read in order, so many READs at a time.
type sendbufCell struct {
	policy nfsserver.SendPolicy
	disks  *sendbufDisks
	nfsd   int
	sndbuf int // 0: the policy's
	count  int // of READ, bytes
	calls  int

	disk, link, cpu, slots float64 // factors on the constants; 0: 1
}

// sendbufRun is what it gave.
type sendbufRun struct {
	rate   float64 // KB/s (1024 bytes), as iozone prints it
	active float64 // most calls in work at once
	bound  string
	hang   string // the report of a run that hung; "" it did not
}

func (c sendbufCell) label() map[string]string {
	m := map[string]string{"policy": c.policy.String(), "elevator": c.disks.name, "nfsd": strconv.Itoa(c.nfsd), "count": strconv.Itoa(c.count)}
	if c.sndbuf != 0 {
		m["sndbuf"] = strconv.Itoa(c.sndbuf)
	}
	for _, x := range []struct {
		name string
		by   float64
	}{{"disk", c.disk}, {"link", c.link}, {"cpu", c.cpu}, {"slots", c.slots}} {
		if x.by != 0 {
			m[x.name] = "x" + number(x.by)
		}
	}
	return m
}

func (c sendbufCell) depth() int { return int(sendbufSlots * factor(c.slots)) }

func (c sendbufCell) params(seed uint64) fabric.Params {
	link := fabric.Link{
		Name: "GbE1", BitsPerSecond: int64(sendbufWire * 8 * factor(c.link)), MTU: sendbufMTU, Delay: sendbufRTT / 2,
	}
	disk := fabric.Disk{
		Spindles: c.disks.spindles, Chunk: c.count, MaxRequest: c.count, Random: true, Exponential: true,
		PerByte: int(float64(c.disks.mib) / float64(time.Nanosecond) * 1000 * factor(c.disk) / (1 << 20)),
	}
	return fabric.Params{
		Seed: seed, Device: fabric.Softroce, Proto: fabric.TCP, Link: &link, SndPolicy: c.policy, SndBuf: c.sndbuf,
		Threads: c.nfsd, Credits: c.depth(), ServerCredits: 2 * c.depth(), RSize: c.count, TCPWindow: sendbufWindow, DRCEntries: -1,
		Storage: fabric.Sink().WithDisk(disk, fabric.PageCache{Size: -1}).
			WithReadTime(0, int(float64(sendbufCPU)/float64(time.Nanosecond)*1000*factor(c.cpu)/(1<<20))),
		Client: func(c *nfsclient.Config) { c.Timeout = -1 }, // a hang is a hang, not a connection that is made again and again
	}
}

// run measures the cell in a fabric of its own.
func (c sendbufCell) run(ctx context.Context, seed uint64) (out sendbufRun, err error) {
	if err := ctx.Err(); err != nil {
		return out, err
	}
	f, err := fabric.Start(c.params(seed))
	if err != nil {
		return out, err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			err = fmt.Errorf("scenarios: sendbuf %v: %w", c.label(), err)
		}
	}()
	r, err := f.RunLoad(ctx, fabric.Load{
		Op: fabric.Read, Size: c.count, Depth: c.depth(), Warm: int64(c.depth()), Calls: int64(c.calls), FileSize: sendbufFile,
	})
	var hang *fabric.DeadlockError
	if errors.As(err, &hang) {
		out.hang = hang.Error()
		return out, nil
	}
	if err != nil {
		return out, err
	}
	most, _ := f.Server().Counters().Get("tcp_active_max")
	out.rate, out.active = r.Throughput()/1024, float64(most)
	out.bound = r.Bound().Resource
	return out, nil
}
