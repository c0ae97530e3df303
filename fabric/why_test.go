package fabric_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/fabric"
)

// A resource is rightly named if more of it makes the load faster and more of others does not.
func TestBoundByTurningTheKnob(t *testing.T) {
	double := fabric.IBSDR
	double.BitsPerSecond *= 2
	type turn func(*fabric.Params, *fabric.Load)
	knobs := map[string]turn{
		"link":    func(p *fabric.Params, _ *fabric.Load) { p.Link = &double },
		"ord":     func(p *fabric.Params, _ *fabric.Load) { p.ORD = 16 },
		"credits": func(p *fabric.Params, _ *fabric.Load) { p.ServerCredits = 64 },
		"threads": func(p *fabric.Params, _ *fabric.Load) { p.Threads = 16 },
		"slots":   func(p *fabric.Params, _ *fabric.Load) { p.Credits = 128 },
		"lock":    func(p *fabric.Params, _ *fabric.Load) { p.Storage = fabric.Memory().WithInodeLock(0, 5000/4) },
		"depth":   func(_ *fabric.Params, l *fabric.Load) { l.Depth *= 2 },
	}
	slow := fabric.IBSDR.WithDelay(100 * time.Microsecond)
	for _, c := range []struct {
		name  string
		p     fabric.Params
		op    fabric.Op
		depth int
		want  string // part of the resource's name
		knob  string
		not   []string // knobs that change nothing
	}{
		{"wire, write", fabric.Params{Link: &fabric.IBSDR}, fabric.Write, 32, "the link client->server", "link", []string{"credits", "slots", "threads", "ord", "depth"}},
		{"wire, read", fabric.Params{Link: &fabric.IBSDR}, fabric.Read, 32, "the link server->client", "link", []string{"credits", "slots", "threads", "ord", "depth"}},
		{"ORD", fabric.Params{Link: &slow, ORD: 1}, fabric.Write, 16, "the ORD window of svcrdma", "ord", []string{"credits", "slots", "threads", "depth"}},
		{"credits", fabric.Params{Link: &slow, ServerCredits: 2}, fabric.Read, 16, "the credits of the server", "credits", []string{"ord", "slots", "threads", "depth"}},
		{"slots", fabric.Params{Link: &slow, Credits: 2}, fabric.Read, 16, "the client's slots", "slots", []string{"ord", "credits", "threads", "depth"}},
		{"inode lock", fabric.Params{Link: &fabric.IBSDR, Storage: fabric.Memory().WithInodeLock(0, 5000)}, fabric.Write, 16, "the inode lock of", "lock", []string{"ord", "credits", "slots", "link", "threads", "depth"}},
		{"depth", fabric.Params{Link: &slow}, fabric.Read, 2, "the load's depth of 2", "depth", []string{"ord", "credits", "slots", "threads"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			run := func(turn turn) *fabric.Result {
				p, l := c.p, fabric.Load{Op: c.op, Size: 32 << 10, Depth: c.depth, Bytes: 6 << 20, Warm: 64}
				if p.ORD == 1 {
					l.Bytes = 16 << 20 // one READ after the other: the last calls weigh more
				}
				if turn != nil {
					turn(&p, &l)
				}
				return fabric.New(t, p).Run(t, l)
			}
			base := run(nil)
			require.Contains(t, base.Bound().Resource, c.want, base.Why())
			assert.Contains(t, base.Why(), "bound by "+c.want)
			more := run(knobs[c.knob])
			assert.Greater(t, more.Throughput(), 1.1*base.Throughput(), "%s\n%s", base.Why(), more.Why())
			for _, k := range c.not {
				same := run(knobs[k])
				assert.InEpsilon(t, base.Throughput(), same.Throughput(), 0.05, "%s turned: %s\n%s", k, base.Why(), same.Why())
			}
		})
	}
}

func TestBoundLive(t *testing.T) {
	r := fabric.New(t, fabric.Params{Live: true}).Run(t, fabric.Load{Op: fabric.Read, Calls: 10, Size: 4096, FileSize: 4096})
	assert.Empty(t, r.Uses)
	assert.Zero(t, r.Bound())
	assert.Contains(t, r.Why(), "not accounted for in real time")
}

// An account of calls that are made without Run names what Run names.
func TestAccount(t *testing.T) {
	p := fabric.Params{Link: &fabric.IBSDR, Storage: fabric.Memory().WithInodeLock(100*time.Microsecond, 0), Seed: 1}
	l := fabric.Load{Op: fabric.Write, Size: 4096, Depth: 8, Calls: 200}
	f := fabric.New(t, p)
	f.Mount(t, "/")
	a := f.Account()
	r := f.Run(t, l)
	own := fabric.Result{Uses: a.Uses(r.Latency.Mean()*200, 8)}
	assert.Equal(t, r.Bound().Resource, own.Bound().Resource)
	assert.InDelta(t, r.Bound().Busy, own.Bound().Busy, 0.05)
	assert.Contains(t, own.Why(), "bound by the inode lock of /load")
	idle := fabric.Result{Uses: a.Uses(0, 3)}
	assert.NotContains(t, idle.Why(), "each call takes")

	live := fabric.New(t, fabric.Params{Live: true})
	assert.Nil(t, live.Account().Uses(time.Second, 1))
}
