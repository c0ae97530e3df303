package link

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/sched"
)

const us = sched.Microsecond

// 8 Gb/s: a byte takes a nanosecond.
func TestArrivalTimes(t *testing.T) {
	w := newWorld(t, 1, Config{BitsPerSecond: 8e9, Delay: 5 * time.Microsecond, Overhead: 100})
	w.send(0, 900)
	w.send(1, 1900)
	w.send(2, 0)
	w.runTo(20 * us)
	w.send(3, 900) // the port is idle
	w.runTo(40 * us)
	assert.Equal(t, []arrival{
		{0, false, sched.Time(6 * us)},
		{1, false, sched.Time(8 * us)},
		{2, false, sched.Time(8*us + 100*sched.Nanosecond)},
		{3, false, sched.Time(26 * us)},
	}, w.arrived)
	assert.Equal(t, Stats{Packets: 4, Bytes: 3700, WireBytes: 4100, Busy: 4100 * sched.Nanosecond}, w.p.Stats())
}

func TestNoRateNoDelay(t *testing.T) {
	w := newWorld(t, 1, Config{})
	w.onFire = func(k *pkt) {
		if k.id < 5 {
			w.send(k.id+5, 1<<20) // from within Fire, at the same instant
			assert.Len(t, w.arrived, k.id+1, "not from within Send")
		}
	}
	for i := range 5 {
		w.send(i, 1<<20)
	}
	assert.Empty(t, w.arrived, "never from within Send")
	w.runTo(1)
	assert.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, w.ids())
	for _, a := range w.arrived {
		assert.Zero(t, a.at)
	}
	assert.Zero(t, w.p.Stats().Busy)
}

func TestQueueDropsTheTail(t *testing.T) {
	w := newWorld(t, 1, Config{BitsPerSecond: 8e9, Queue: 2})
	for i := range 5 {
		w.send(i, 1000) // 0 is being sent, 1 and 2 wait
	}
	assert.Equal(t, []int{3, 4}, w.dropped)
	w.runTo(us) // 1 is being sent, 2 waits
	w.send(5, 1000)
	w.send(6, 1000)
	w.runTo(20 * us)
	assert.Equal(t, []int{3, 4, 6}, w.dropped)
	assert.Equal(t, []int{0, 1, 2, 5}, w.ids())
	assert.Equal(t, Stats{Packets: 4, Bytes: 4000, WireBytes: 4000, Dropped: 3, Busy: 4 * us}, w.p.Stats())
}

func TestBusyIsNeverAheadOfTime(t *testing.T) {
	w := newWorld(t, 1, Config{BitsPerSecond: 8e9})
	for i := range 10 {
		w.send(i, 1000)
	}
	assert.Zero(t, w.p.Stats().Busy)
	w.runTo(5 * us / 2)
	assert.Equal(t, 5*us/2, w.p.Stats().Busy)
	w.runTo(100 * us)
	assert.Equal(t, 10*us, w.p.Stats().Busy)
}

var faulty = Config{
	BitsPerSecond: 8e9, Delay: 10 * time.Microsecond,
	Loss: 0.1, Duplicate: 0.05, Reorder: 0.2, ReorderDelay: 3500 * time.Nanosecond,
}

func runFaulty(t *testing.T, seed uint64, cfg Config, n int) *world {
	w := newWorld(t, seed, cfg)
	for i := range n {
		w.send(i, 1000)
	}
	w.runTo(sched.Second)
	return w
}

func TestFaultFrequencies(t *testing.T) {
	const n = 20000
	w := runFaulty(t, 1, faulty, n)
	st := w.p.Stats()
	// Within four standard deviations.
	assert.InDelta(t, 0.1*n, float64(st.Lost), 170)
	assert.InDelta(t, 0.9*0.05*n, float64(st.Duplicated), 120)
	assert.InDelta(t, 0.2*float64(n-st.Lost+st.Duplicated), float64(st.Reordered), 230)
	assert.EqualValues(t, n, st.Packets, "lost ones were sent")
	assert.EqualValues(t, n, st.Busy/us)
	assert.Len(t, w.dropped, int(st.Lost))
	assert.Len(t, w.arrived, int(n-st.Lost+st.Duplicated))
	lost := make(map[int]bool)
	for _, id := range w.dropped {
		lost[id] = true
	}
	plain, late, copies := 0, 0, 0
	for i, a := range w.arrived {
		if i > 0 {
			assert.GreaterOrEqual(t, a.at, w.arrived[i-1].at)
		}
		assert.False(t, lost[a.id])
		if a.copy {
			copies++
		}
		switch a.at.Sub(sched.Time(a.id+1) * sched.Time(us)) {
		case 10 * us:
			plain++
		case 10*us + 3500*sched.Nanosecond:
			late++
		default:
			t.Fatalf("%+v", a)
		}
	}
	assert.EqualValues(t, st.Reordered, late)
	assert.Equal(t, len(w.arrived)-late, plain)
	assert.EqualValues(t, st.Duplicated, copies)
}

func TestOneSeedOneFate(t *testing.T) {
	a, b, c := runFaulty(t, 7, faulty, 500), runFaulty(t, 7, faulty, 500), runFaulty(t, 8, faulty, 500)
	assert.Equal(t, a.arrived, b.arrived)
	assert.Equal(t, a.dropped, b.dropped)
	assert.NotEqual(t, a.dropped, c.dropped)
	// The other direction has numbers of its own.
	d := newWorld(t, 7, faulty)
	d.p = NewPipe(d.s, faulty, "b to a")
	defer d.p.Close()
	for i := range 500 {
		d.send(i, 1000)
	}
	d.runTo(sched.Second)
	assert.NotEqual(t, a.dropped, d.dropped)
}

func TestCertainFaults(t *testing.T) {
	w := runFaulty(t, 1, Config{Loss: 1}, 100)
	assert.Empty(t, w.arrived)
	assert.Len(t, w.dropped, 100)
	w = runFaulty(t, 1, Config{Duplicate: 1}, 100)
	assert.Len(t, w.arrived, 200)
	w = runFaulty(t, 1, Config{Reorder: 1}, 100)
	assert.Len(t, w.arrived, 100)
	assert.Equal(t, sched.Time(10*us), w.arrived[0].at, "the default ReorderDelay")
	w = runFaulty(t, 1, Config{BitsPerSecond: 1e9, MTU: 1400, Overhead: 100, Reorder: 1}, 1)
	assert.Equal(t, sched.Time(1100*8*sched.Nanosecond+48*us), w.arrived[0].at, "four packets' time")
}

func TestOrderWithoutReordering(t *testing.T) {
	cfg := faulty
	cfg.Reorder = 0
	w := runFaulty(t, 3, cfg, 5000)
	for i := 1; i < len(w.arrived); i++ {
		a, b := w.arrived[i-1], w.arrived[i]
		if a.id > b.id || a.id == b.id && a.copy == b.copy {
			t.Fatalf("%+v before %+v", a, b)
		}
	}
	assert.Positive(t, w.p.Stats().Duplicated)
}

func TestReorderedOnesArePassed(t *testing.T) {
	cfg := faulty
	cfg.Loss, cfg.Duplicate = 0, 0
	w := runFaulty(t, 3, cfg, 5000)
	passed, high := 0, -1
	for _, a := range w.arrived {
		if a.id < high {
			passed++
		}
		high = max(high, a.id)
	}
	assert.Greater(t, passed, 800, "of about 1000")
	assert.LessOrEqual(t, uint64(passed), w.p.Stats().Reordered)
}

func TestCloseDropsWhatIsOnItsWay(t *testing.T) {
	cfg := faulty
	cfg.Loss = 0
	w := newWorld(t, 1, cfg)
	for i := range 100 {
		w.send(i, 1000)
	}
	w.runTo(50 * us)
	st := w.p.Stats()
	arrived := len(w.arrived)
	require.Positive(t, arrived)
	w.p.Close()
	w.p.Close()
	w.send(100, 1000)
	w.runTo(sched.Second) // events that were in the heap find nothing
	assert.Len(t, w.arrived, arrived)
	assert.Equal(t, 101+int(st.Duplicated), arrived+len(w.dropped))
	assert.EqualValues(t, len(w.dropped), w.p.Stats().Flushed)
}

// Close by a packet that arrives, and Sends by packets that are dropped.
func TestCloseFromWithin(t *testing.T) {
	w := newWorld(t, 1, Config{BitsPerSecond: 8e9, Delay: 10 * time.Microsecond})
	w.onFire = func(k *pkt) {
		if k.id == 3 {
			w.p.Close()
			w.send(10, 1)
		}
	}
	for i := range 10 {
		w.send(i, 1000)
	}
	w.runTo(sched.Second)
	assert.Equal(t, []int{0, 1, 2, 3}, w.ids())
	assert.Equal(t, []int{4, 5, 6, 7, 8, 9, 10}, w.dropped)
}

// The scheduler forgets its events when it is closed; the pipe still owes the packets.
func TestCloseAfterScheduler(t *testing.T) {
	w := newWorld(t, 1, Config{Delay: time.Second})
	for i := range 10 {
		w.send(i, 1000)
	}
	require.NoError(t, w.s.Close())
	w.send(10, 1000)
	w.p.Close()
	assert.Empty(t, w.arrived)
	assert.Len(t, w.dropped, 11)
}

// pooled goes round without an allocation.
type pooled struct {
	p *Pipe
	w *sched.Waiter
}

func (k *pooled) Fire()         { k.w.Wake() }
func (k *pooled) Drop()         { k.w.Wake() }
func (k *pooled) Clone() Packet { return k }

func TestNoAllocationOnceWarm(t *testing.T) {
	s := sched.NewVirtual(1)
	defer s.Close()
	cfg := IBSDR
	cfg.Queue, cfg.Loss, cfg.Reorder = 1000, 0.01, 0.1
	p := NewPipe(s, cfg, "x")
	defer p.Close()
	k := &pooled{p, s.NewWaiter("the packet")}
	n := testing.AllocsPerRun(2000, func() {
		for range 8 {
			p.Send(2048, k)
		}
		_ = k.w.Wait(bg)
	})
	assert.Zero(t, n)
}

// One packet through a pipe with 64 on their way, and what the heap takes of it.
func BenchmarkPipe(b *testing.B) {
	for _, c := range []struct {
		name string
		cfg  Config
	}{
		{"plain", RoCE100G},
		{"queue", Config{BitsPerSecond: 100e9, Delay: time.Microsecond, Queue: 128}},
		{"odd rate", Config{BitsPerSecond: 56e9 + 1, Delay: time.Microsecond}},
		{"faults", Config{BitsPerSecond: 100e9, Delay: time.Microsecond, Reorder: 0.01, Duplicate: 1e-9}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := sched.NewVirtual(1)
			defer s.Close()
			p := NewPipe(s, c.cfg, "x")
			defer p.Close()
			k := &again{p: p, left: b.N, done: s.NewWaiter("the last packet")}
			for range min(64, b.N) {
				p.Send(4096, k)
			}
			b.ResetTimer()
			b.ReportAllocs()
			_ = k.done.Wait(bg)
		})
	}
}

// again is sent again each time it arrives.
type again struct {
	p    *Pipe
	left int
	done *sched.Waiter
}

func (k *again) Fire() {
	if k.left--; k.left > 0 {
		k.p.Send(4096, k)
	} else {
		k.done.Wake()
	}
}
func (k *again) Drop()         {}
func (k *again) Clone() Packet { return k }
