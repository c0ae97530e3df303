package link

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/sched"
)

// yard counts packets that are sent and come back, from any goroutine.
type yard struct {
	s       *sched.Sched
	group   *sched.Group // of packets that have not come back
	firing  atomic.Int32
	arrived atomic.Int64
	dropped atomic.Int64
	early   atomic.Int64
	twice   atomic.Int64
	atOnce  atomic.Int64 // two deliveries at the same time
	mu      sync.Mutex
	last    map[int]int // by sender
	wrong   int         // out of order
}

type yardPacket struct {
	y       *yard
	from, n int
	due     sched.Time // not before
	ends    atomic.Int32
}

func (k *yardPacket) end() {
	if k.ends.Add(1) != 1 {
		k.y.twice.Add(1)
		return
	}
	k.y.group.Done()
}

func (k *yardPacket) Fire() {
	y := k.y
	if y.firing.Add(1) != 1 {
		y.atOnce.Add(1)
	}
	if y.s.Now() < k.due {
		y.early.Add(1)
	}
	y.mu.Lock()
	if y.last[k.from] > k.n {
		y.wrong++
	}
	y.last[k.from] = k.n
	y.mu.Unlock()
	y.arrived.Add(1)
	y.firing.Add(-1)
	k.end()
}

func (k *yardPacket) Drop() { k.y.dropped.Add(1); k.end() }

func (k *yardPacket) Clone() Packet {
	k.y.group.Add(1)
	return &yardPacket{y: k.y, from: k.from, n: k.n, due: k.due}
}

func newYard(t *testing.T) *yard {
	s := sched.NewLive(1)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return &yard{s: s, group: s.NewGroup("packets"), last: map[int]int{}}
}

func (y *yard) send(p *Pipe, from, n, payload int) {
	y.group.Add(1)
	p.Send(payload, &yardPacket{y: y, from: from, n: n, due: y.s.Now().Add(sched.FromStd(p.cfg.Delay))})
}

func TestLiveOrderAndCounts(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no delay":   {},
		"25G":        RoCE25G,
		"long":       {BitsPerSecond: 100e9, Delay: time.Millisecond},
		"queue":      {BitsPerSecond: 10e9, Queue: 4},
		"loss, dup":  {BitsPerSecond: 100e9, Loss: 0.1, Duplicate: 0.1},
		"everything": {BitsPerSecond: 100e9, Loss: 0.1, Duplicate: 0.1, Reorder: 0.1, Queue: 100},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			p := NewPipe(y.s, cfg, "x")
			defer p.Close()
			senders := y.s.NewGroup("senders")
			const n = 500
			for from := range 4 {
				senders.Go("sender", func() {
					for i := range n {
						y.send(p, from, i, 4096)
						if i%100 == 0 {
							_ = y.s.Sleep(bg, 100*us)
						}
					}
				})
			}
			require.NoError(t, senders.Wait(bg))
			require.NoError(t, y.group.Wait(bg))
			st := p.Stats()
			assert.EqualValues(t, 4*n, st.Packets+st.Dropped)
			assert.EqualValues(t, st.Dropped+st.Lost, y.dropped.Load())
			assert.EqualValues(t, st.Packets-st.Lost+st.Duplicated, y.arrived.Load())
			assert.Zero(t, y.twice.Load())
			assert.Zero(t, y.early.Load())
			assert.Zero(t, y.atOnce.Load())
			if cfg.Reorder == 0 {
				assert.Zero(t, y.wrong)
			}
			if cfg.Queue == 4 {
				assert.Positive(t, st.Dropped)
			}
		})
	}
}

// Packets go to and fro: deliveries send, and both pipes run at the same time.
func TestLiveSendFromWithin(t *testing.T) {
	y := newYard(t)
	a, b := NewPipe(y.s, Config{}, "a to b"), NewPipe(y.s, Config{}, "b to a")
	defer a.Close()
	defer b.Close()
	done := y.s.NewWaiter("the end")
	var left atomic.Int64
	left.Store(2000)
	for range 8 {
		k := &bouncer{left: &left, done: done}
		k.there, k.back = a, b
		a.Send(4096, k)
	}
	require.NoError(t, done.Wait(bg))
}

type bouncer struct {
	there, back *Pipe
	left        *atomic.Int64
	done        *sched.Waiter
}

func (k *bouncer) Fire() {
	if k.left.Add(-1) == 0 {
		k.done.Wake()
	}
	if k.left.Load() > 0 {
		k.there, k.back = k.back, k.there
		k.there.Send(4096, k)
	}
}
func (k *bouncer) Drop()         {}
func (k *bouncer) Clone() Packet { return k }

func TestLiveClose(t *testing.T) {
	y := newYard(t)
	p := NewPipe(y.s, Config{BitsPerSecond: 1e9, Delay: 100 * time.Microsecond, Reorder: 0.1, Duplicate: 0.1}, "x")
	senders := y.s.NewGroup("senders")
	for from := range 3 {
		senders.Go("sender", func() {
			for i := range 300 {
				y.send(p, from, i, 1000)
			}
		})
	}
	_ = y.s.Sleep(bg, 500*us)
	p.Close()
	require.NoError(t, senders.Wait(bg))
	require.NoError(t, y.group.Wait(bg), "each packet comes back")
	assert.Zero(t, y.twice.Load())
	st := p.Stats()
	// A packet that is sent after Close is in Flushed only.
	assert.EqualValues(t, 900+st.Duplicated, y.arrived.Load()+y.dropped.Load())
	assert.EqualValues(t, st.Flushed, y.dropped.Load())
	assert.Positive(t, st.Flushed)
}

// Late wake-ups do not add up: a long train arrives as fast as the link allows, in its model time.
func TestLiveThroughput(t *testing.T) {
	y := newYard(t)
	cfg := Config{BitsPerSecond: 8e9, Delay: 100 * time.Microsecond}
	p := NewPipe(y.s, cfg, "x")
	defer p.Close()
	start := y.s.Now()
	for i := range 20000 {
		y.send(p, 0, i, 1000)
	}
	require.NoError(t, y.group.Wait(bg))
	took := y.s.Now().Sub(start)
	assert.GreaterOrEqual(t, took, 20*sched.Millisecond+100*us)
	assert.Less(t, took, 10*sched.Second, "only a bound against a pipe that stands still")
	t.Logf("20 ms of model time took %v", took)
}

func BenchmarkPipeLive(b *testing.B) {
	for _, cfg := range []Config{{Name: "no delay"}, RoCE100G, IBSDR.WithDelay(50 * time.Microsecond)} {
		for _, n := range []int{1, 64} {
			b.Run(cfg.Name+"/"+map[int]string{1: "one at a time", 64: "64 at a time"}[n], func(b *testing.B) {
				s := sched.NewLive(1)
				defer s.Close()
				p := NewPipe(s, cfg, "x")
				defer p.Close()
				k := &bouncer{there: p, back: p, left: new(atomic.Int64), done: s.NewWaiter("the end")}
				k.left.Store(int64(b.N))
				b.ReportAllocs()
				for range min(n, b.N) {
					p.Send(4096, k)
				}
				_ = k.done.Wait(bg)
			})
		}
	}
}
