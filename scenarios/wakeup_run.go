package scenarios

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/nfsclient"
)

// wakeupCell is one run.
type wakeupCell struct {
	state   wakeupState
	tcp     bool
	roce    bool // the second machine
	jobs    int  // READs that applications have under way
	credits int
	wake    time.Duration // 0: the constant

	server, softirq, workq, held float64 // factors on the constants; 0: 1
}

// wakeupRun is what it gave.
type wakeupRun struct {
	iops    float64
	execute float64 // us: mean time of a READ, as mountstats has it
	loop    float64 // us: of it, with a slot and credit
	reply   float64 // us: of that, between the reply's completion and the end of its work
	batch   float64 // replies that a run of the worker finds
	bound   string  // the resource that limited the run
	why     string
}

func (c wakeupCell) label() map[string]string {
	m := map[string]string{"state": c.state.name, "net": "ib", "jobs": strconv.Itoa(c.jobs), "credits": strconv.Itoa(c.credits)}
	if c.roce {
		m["net"] = "roce"
	}
	if c.tcp {
		m["net"] = "tcp"
		delete(m, "credits")
	}
	if c.wake != 0 {
		m["wake"] = c.wake.String()
	}
	for _, x := range []struct {
		name string
		by   float64
	}{{"server", c.server}, {"softirq", c.softirq}, {"wq", c.workq}, {"held", c.held}} {
		if x.by != 0 {
			m[x.name] = "x" + number(x.by)
		}
	}
	return m
}

func (c wakeupCell) cost() nfsclient.CPUCost {
	wake := wakeupWake
	if c.wake != 0 {
		wake = c.wake
	}
	return nfsclient.CPUCost{SoftIRQ: scaled(wakeupSoftIRQ, c.softirq), Wake: scaled(wake, c.workq),
		Held: scaled(wakeupHeld, c.held), BHLocks: c.state.locks, HighPri: c.state.high}
}

func (c wakeupCell) params(seed uint64) fabric.Params {
	link, server := wakeupIB, wakeupServer
	if c.roce {
		link, server = fabric.RoCE100G, wakeupRoCEServer
	}
	cpu := c.cost()
	p := fabric.Params{
		Seed: seed, Device: fabric.Softroce, Link: &link,
		Storage: fabric.Sink().WithVaryingFlash(scaled(server, c.server), 0, wakeupSpread, fabric.PageCache{Size: -1}),
		Threads: max(wakeupNfsd, 2*c.credits), Credits: c.credits, ServerCredits: 2 * c.credits, DRCEntries: -1,
		SoftIRQTime: cpu.SoftIRQ, WakeTime: cpu.Wake, WakeHeldTime: cpu.Held, BHLocks: cpu.BHLocks, HighPri: cpu.HighPri,
	}
	if c.tcp {
		// The slot table grows with the load (tcp_max_slot_table_entries is 65536): all READs are at the server, whose
		// threads are what is short.
		link = wakeupIPoIB
		p.Proto, p.Threads, p.ServerCredits = fabric.TCP, wakeupTCPNfsd, c.credits
	}
	return p
}

// load is fio's: every job reads at random, again and again. The first READ of each, which found the client idle, is
// not measured.
func (c wakeupCell) load() fabric.Load {
	rounds := 2
	if c.tcp {
		rounds = 8
	}
	return fabric.Load{Op: fabric.Read, Size: wakeupSize, Depth: c.jobs, Random: true, Warm: int64(c.jobs), Calls: int64(rounds * c.jobs), FileSize: 64 << 20}
}

// run measures the cell in a fabric of its own.
func (c wakeupCell) run(ctx context.Context, seed uint64) (out wakeupRun, err error) {
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
			err = fmt.Errorf("scenarios: wakeup %v: %w", c.label(), err)
		}
	}()
	m, err := f.Dial(ctx, "/")
	if err != nil {
		return out, err
	}
	r, err := f.RunLoad(ctx, c.load())
	if err != nil {
		return out, err
	}
	out.iops, out.execute = r.OpsPerSecond(), float64(r.Latency.Mean())/1e3
	for _, o := range m.NFS().OpStats() {
		if o.Op == "READ" {
			out.loop = float64(o.Execute-o.Queue) / float64(o.Ops) / 1e3
		}
	}
	runs, _ := r.Client.Get("worker_runs")
	recvs, _ := r.Client.Get("recvs")
	out.batch = float64(recvs) / float64(max(runs, 1))
	for _, u := range f.Sched().Usage() {
		if u.Name == "the client's work queue" {
			out.reply = u.Waited.Seconds() * 1e6 / float64(u.Waits)
		}
	}
	out.bound, out.why = r.Bound().Resource, r.Why()
	return out, nil
}
