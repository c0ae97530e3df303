package scenarios

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/tcpsim"
	"example.org/nfsrdma/nfsserver"
)

// whyRun is what a run gave, in any unit, and what its resources were used for.
type whyRun struct {
	rate float64
	uses []fabric.Use
}

func (r whyRun) result() *fabric.Result { return &fabric.Result{Uses: r.uses} }

// whyCase is a run whose bound is known: turning knob moves the rate, and turning any of not does not.
type whyCase[C any] struct {
	name string
	cell C
	want string // part of the resource's name
	knob func(*C)
	gain float64 // at least
	not  map[string]func(*C)
}

// checkBounds says whether the resource that a run names is the one that limits it.
func checkBounds[C any](t *testing.T, run func(*testing.T, C) whyRun, cases []whyCase[C]) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			base := run(t, c.cell)
			why := base.result().Why()
			require.Contains(t, base.result().Bound().Resource, c.want, why)
			turned := c.cell
			c.knob(&turned)
			more := run(t, turned)
			assert.Greater(t, more.rate, c.gain*base.rate, "turned: %s\n%s", why, more.result().Why())
			for name, turn := range c.not {
				turned := c.cell
				turn(&turned)
				same := run(t, turned)
				assert.InEpsilon(t, base.rate, same.rate, 0.04, "%s turned: %s\n%s", name, why, same.result().Why())
			}
		})
	}
}

// knobs are a cell's Params and Load, to be turned.
type whyKnobs struct {
	p fabric.Params
	l fabric.Load
}

func runKnobs(t *testing.T, k whyKnobs) whyRun {
	r := fabric.New(t, k.p).Run(t, k.l)
	return whyRun{r.OpsPerSecond() * float64(r.Load.Size), r.Uses}
}

func threads(k *whyKnobs) { k.p.Threads *= 2 }
func credits(k *whyKnobs) { k.p.Credits *= 2; k.p.ServerCredits *= 2 }
func ord(k *whyKnobs)     { k.p.ORD *= 2; k.p.IRD *= 2 }
func deeper(k *whyKnobs)  { k.l.Depth *= 2 }
func faster(k *whyKnobs) {
	l := *k.p.Link
	l.BitsPerSecond *= 2
	k.p.Link = &l
}

func TestSegmentsBound(t *testing.T) {
	knobs := func(c segCell) whyKnobs {
		p := c.params(1)
		calls := int64(segCalls)
		if c.sink {
			calls *= 5 // the last ones weigh less
		}
		return whyKnobs{p, fabric.Load{Op: fabric.Write, Size: min(c.wsize, c.segs*4096), Depth: segDepth, Warm: segWarm, Calls: calls, FileSize: 64 << 20}}
	}
	ib, iwarp := segTransports[0], segTransports[1]
	half := func(c segCell) func(*whyKnobs) {
		c.scaleO, c.scaleS = 0.5, 0.5
		return func(k *whyKnobs) { k.p.Storage = c.params(1).Storage }
	}
	far := ib.base(16)
	far.sink, far.rtt, far.ord, far.ird = true, 100*time.Microsecond, 4, 4
	wire := iwarp.base(16)
	wire.sink = true
	transport := map[string]func(*whyKnobs){"threads": threads, "credits": credits, "ORD": ord, "rate": faster, "depth": deeper}
	without := func(name string) map[string]func(*whyKnobs) {
		m := map[string]func(*whyKnobs){}
		for k, f := range transport {
			if k != name {
				m[k] = f
			}
		}
		return m
	}
	checkBounds(t, runKnobs, []whyCase[whyKnobs]{
		{"ib, SEGS 8", knobs(ib.base(8)), "the inode lock of", half(ib.base(8)), 1.5, transport},
		{"ib, SEGS 16", knobs(ib.base(16)), "the inode lock of", half(ib.base(16)), 1.5, transport},
		{"iwarp, SEGS 16", knobs(iwarp.base(16)), "the inode lock of", half(iwarp.base(16)), 1.5, transport},
		{"ib, sink, far", knobs(far), "the ORD window", ord, 1.7, without("ORD")},
		{"iwarp, sink", knobs(wire), "the link client->server", faster, 1.1, without("rate")},
	})
}

func TestWakeupBound(t *testing.T) {
	knobs := func(st wakeupState) whyKnobs {
		c := wakeupBase(st).few()
		return whyKnobs{c.params(1), c.load()}
	}
	not := map[string]func(*whyKnobs){"threads": threads, "rate": faster, "depth": deeper,
		"ServerCredits": func(k *whyKnobs) { k.p.ServerCredits *= 2 }, "ClientSQDepth": func(k *whyKnobs) { k.p.ClientSQDepth = 4096 }}
	var cases []whyCase[whyKnobs]
	for _, st := range []wakeupState{wakeupStock, wakeupFour, wakeupFive} {
		cases = append(cases, whyCase[whyKnobs]{st.name, knobs(st), "the client's slots", credits, 1.8, not})
	}
	checkBounds(t, runKnobs, cases)
}

func TestCommitBound(t *testing.T) {
	run := func(t *testing.T, c commitCell) whyRun {
		ctx := context.Background()
		f := fabric.New(t, c.params(1))
		m := f.Mount(t, "/")
		a := f.Account()
		var out commitRun
		l := &commitLoad{f: f, m: m.NFS(), c: c, out: &out, data: make([]byte, c.wsize)}
		require.NoError(t, l.do(ctx, 1))
		var calls time.Duration
		for _, o := range m.NFS().OpStats() {
			calls += o.Execute
		}
		sum, _, _ := out.children()
		return whyRun{sum, a.Uses(calls, c.procs)}
	}
	// Synchronous writers wait for their own log forces: more of them write more.
	sync := commitBase(commitInitial, commitAfter)
	sync.overlap, sync.records = 0, 12
	// Overlaps at 64 nfsd: WRITEs that block hold the threads.
	starved := commitBase(commitInitial, commitBefore)
	starved.overlap, starved.records, starved.nfsd = 0.25, 16, 32
	checkBounds(t, run, []whyCase[commitCell]{
		{"synchronous", sync, "the load's depth", func(c *commitCell) { c.procs *= 2 }, 1.8,
			map[string]func(*commitCell){"nfsd": func(c *commitCell) { c.nfsd *= 2 }, "policy": func(c *commitCell) { c.policy = commitNoLock }}},
		{"p = 0.25", starved, "the nfsd threads", func(c *commitCell) { c.nfsd = 400 }, 1.2,
			map[string]func(*commitCell){"procs": func(c *commitCell) { c.procs *= 2 }}},
	})
}

func TestSpliceBound(t *testing.T) {
	run := func(t *testing.T, c spliceCell) whyRun {
		ctx := context.Background()
		s := sched.NewVirtual(1)
		defer func() { require.NoError(t, s.Close()) }()
		conn, err := tcpsim.New(s, c.config())
		require.NoError(t, err)
		conn.Measure(s.NewMeter(sched.Usage{Name: "the send buffer", Level: sched.LevelServerSQ, Units: 1}),
			s.NewMeter(sched.Usage{Name: "the TCP window", Level: sched.LevelORD, Units: 1}))
		s.Go("reader", func() {
			for {
				if _, err := conn.Receive(ctx); err != nil {
					return
				}
			}
		})
		a := fabric.NewAccount(s)
		for left := c.stream; left > 0; left -= c.pipe {
			require.NoError(t, conn.Splice(ctx, min(left, c.pipe), c.total, c.more))
		}
		took := sched.Duration(s.Now()).Std()
		return whyRun{float64(c.stream) / took.Seconds(), a.Uses(took, 1)}
	}
	checkBounds(t, run, []whyCase[spliceCell]{
		{"small buffer", spliceBase(spliceNotLast).small(), "the send buffer", func(c *spliceCell) { c.sndbuf = 0 }, 100,
			map[string]func(*spliceCell){"window": func(c *spliceCell) { c.window = 4 << 20 }, "pipe": func(c *spliceCell) { c.pipe *= 2 }, "CPU": func(c *spliceCell) { c.page, c.segment = 0.5, 0.5 }}},
	})
}

func TestSendbufBound(t *testing.T) {
	run := func(t *testing.T, c sendbufCell) whyRun {
		c.calls = 400
		r := fabric.New(t, c.params(1)).Run(t, fabric.Load{
			Op: fabric.Read, Size: c.count, Depth: c.depth(), Warm: int64(c.depth()), Calls: int64(c.calls), FileSize: sendbufFile,
		})
		return whyRun{r.Throughput(), r.Uses}
	}
	checkBounds(t, run, []whyCase[sendbufCell]{
		{"one thread", sendbufBase(nfsserver.Locked, 1), "the nfsd threads", func(c *sendbufCell) { c.nfsd = 2 }, 1.4,
			map[string]func(*sendbufCell){"sndbuf": func(c *sendbufCell) { c.sndbuf = 32 << 20 }, "slots": func(c *sendbufCell) { c.slots = 2 }}},
		{"auto, eight threads", sendbufBase(nfsserver.Auto, 8), "the send buffer of the server", func(c *sendbufCell) { c.sndbuf = 22 << 20 }, 1.1,
			map[string]func(*sendbufCell){"nfsd": func(c *sendbufCell) { c.nfsd = 16 }, "slots": func(c *sendbufCell) { c.slots = 2 }}},
	})
}
