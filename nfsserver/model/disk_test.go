package model

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/sched"
)

func newTestDisk(t *testing.T, cfg DiskConfig) (*rig, *Disk) {
	t.Helper()
	r := newTestRig(t)
	d, err := NewDisk(r.s, cfg)
	require.NoError(t, err)
	return r, d
}

// io is a transfer that must succeed.
func io(t *testing.T, d *Disk, write bool, owner, addr uint64, n int) func() {
	return func() { assert.NoError(t, d.IO(bg, write, owner, addr, n)) }
}

// A request that follows its predecessor takes the transfer only, another one the seek too.
func TestDiskSeek(t *testing.T) {
	r, d := newTestDisk(t, DiskConfig{PerRequest: time.Millisecond, SeekTrack: 2 * time.Millisecond, SeekFull: 10 * time.Millisecond,
		PerByte: 10_000, Capacity: 1 << 30, Chunk: 1 << 20})
	const transfer = 64 << 10 * 10_000
	assert.Equal(t, ms+transfer, r.took(io(t, d, false, 0, 0, 64<<10)), "the head is there")
	assert.Equal(t, ms+transfer, r.took(io(t, d, false, 0, 64<<10, 64<<10)), "sequential")
	// A quarter of the disk is half of the way from SeekTrack to SeekFull.
	took := r.took(io(t, d, false, 0, 128<<10+1<<28, 64<<10))
	assert.Equal(t, ms+transfer+6*ms, took)
	assert.Zero(t, r.took(io(t, d, false, 0, 0, 0)))
	st := d.Stats()
	assert.EqualValues(t, 3, st.Reads)
	assert.EqualValues(t, 1, st.Seeks)
	assert.Equal(t, 3*(ms+transfer)+6*ms, st.Busy)
	assert.Equal(t, st.Busy, r.usage("spindle 0 of disk").Busy)
}

// Half a turn on average.
func TestDiskRotation(t *testing.T) {
	r, d := newTestDisk(t, DiskConfig{RPM: 6000})
	const n = 500
	took := r.took(func() {
		for i := range n {
			io(t, d, false, 0, uint64(i%2)<<30, 4096)()
		}
	})
	assert.InDelta(t, n*0.005, took.Seconds(), n*0.0005)
}

// Chunks lie on the spindles in turn, and a transfer uses all of them.
func TestDiskStripes(t *testing.T) {
	r, d := newTestDisk(t, DiskConfig{Spindles: 4, Chunk: 64 << 10, PerByte: 1000})
	const chunk = 64 << 10 * 1000
	assert.EqualValues(t, chunk, r.took(io(t, d, true, 0, 0, 256<<10)), "four spindles at once")
	assert.EqualValues(t, 2*chunk, r.together(io(t, d, true, 0, 0, 64<<10), io(t, d, true, 0, 256<<10, 64<<10)), "one spindle for both")
	assert.EqualValues(t, chunk, r.together(io(t, d, true, 0, 0, 64<<10), io(t, d, true, 0, 64<<10, 64<<10)))
	st := d.Stats()
	assert.EqualValues(t, 8, st.Writes)
	assert.EqualValues(t, 512<<10, st.Bytes)
	assert.EqualValues(t, chunk, st.Waited)
	// On one spindle, pieces up to MaxRequest are one request.
	r, d = newTestDisk(t, DiskConfig{MaxRequest: 128 << 10, PerRequest: time.Millisecond})
	assert.Equal(t, 3*ms, r.took(io(t, d, true, 0, 0, 384<<10)))
}

// order is in which order requests are served that wait while the disk is busy.
func order(t *testing.T, cfg DiskConfig, reqs ...request) []int {
	t.Helper()
	cfg.PerRequest = time.Millisecond
	r, d := newTestDisk(t, cfg)
	var served []int
	f := []func(){io(t, d, false, 99, 0, 4096)}
	for i, q := range reqs {
		f = append(f, func() {
			assert.NoError(t, r.s.Sleep(bg, sched.Duration(q.at)))
			io(t, d, q.write, q.owner, q.addr, q.n)()
			served = append(served, i)
		})
	}
	r.together(f...)
	return served
}

func TestElevators(t *testing.T) {
	at := func(owner, addr uint64, write bool) request {
		return request{owner: owner, addr: addr << 20, n: 4096, write: write, at: 1}
	}
	mixed := []request{at(1, 9, false), at(2, 3, true), at(1, 5, false), at(2, 7, false), at(2, 1, true)}
	assert.Equal(t, []int{0, 1, 2, 3, 4}, order(t, DiskConfig{Elevator: Noop}, mixed...))
	assert.Equal(t, []int{2, 3, 0, 4, 1}, order(t, DiskConfig{Elevator: Deadline}, mixed...), "reads by place, then writes")
	assert.Equal(t, []int{0, 1, 2, 3, 4}, order(t, DiskConfig{Elevator: Deadline, FIFOBatch: 1, ReadExpire: 1, WriteExpire: 1},
		at(1, 9, false), at(1, 8, false), at(1, 7, false), at(1, 6, false), at(1, 5, false)), "too old: by age")
	assert.Equal(t, []int{0, 2, 1, 3, 4}, order(t, DiskConfig{Elevator: CFQ, SliceIdle: -1}, mixed...), "owners in turn")
	assert.Equal(t, []int{0, 1, 2, 3, 4}, order(t, DiskConfig{Elevator: CFQ, Quantum: 1, SliceIdle: -1},
		at(1, 9, false), at(2, 8, false), at(3, 7, false), at(1, 6, false), at(2, 5, false)))
	// Writes that wait go after two batches of reads.
	var list []request
	for i := range 6 {
		list = append(list, at(1, uint64(10+i), false))
	}
	list = append(list, at(1, 1, true))
	assert.Equal(t, []int{0, 1, 6, 2, 3, 4, 5}, order(t, DiskConfig{Elevator: Deadline, FIFOBatch: 1}, list...))
}

// CFQ waits for the next request of the owner whose turn it is, so that it need not seek to another's place and back.
func TestCFQAnticipates(t *testing.T) {
	run := func(e Elevator, idle time.Duration) (sched.Duration, DiskStats) {
		r, d := newTestDisk(t, DiskConfig{Elevator: e, SliceIdle: idle, Quantum: 8, SeekTrack: 5 * time.Millisecond,
			SeekFull: 5 * time.Millisecond, PerRequest: 100 * time.Microsecond})
		var f []func()
		for owner := range uint64(2) {
			f = append(f, func() { // one request after the other, with a thought between
				for i := range uint64(32) {
					io(t, d, false, owner, owner<<30+i*4096, 4096)()
					assert.NoError(t, r.s.Sleep(bg, 50*sched.Microsecond))
				}
			})
		}
		return r.together(f...), d.Stats()
	}
	noop, _ := run(Noop, 0)
	cfq, st := run(CFQ, 2*time.Millisecond)
	blind, _ := run(CFQ, -1)
	assert.Less(t, cfq, noop/4, "eight requests a seek")
	assert.Greater(t, blind, 3*cfq)
	assert.Positive(t, st.Idled)
}

// A transfer whose caller gave up is still made.
func TestDiskCancelled(t *testing.T) {
	r, d := newTestDisk(t, DiskConfig{PerRequest: 10 * time.Millisecond})
	ctx, cancel := r.s.WithTimeout(bg, ms)
	defer cancel()
	assert.ErrorIs(t, d.IO(ctx, true, 0, 0, 4096), context.DeadlineExceeded)
	assert.Equal(t, 19*ms, r.took(io(t, d, true, 0, 0, 4096)))
	assert.EqualValues(t, 2, d.Stats().Writes)
}

// Random places and times are those of the seed.
func TestDiskIsRepeatable(t *testing.T) {
	run := func() (sched.Duration, DiskStats) {
		r, d := newTestDisk(t, DiskConfig{Spindles: 4, Random: true, Exponential: true, PerByte: 1000, RPM: 7200})
		var f []func()
		for i := range uint64(16) {
			f = append(f, io(t, d, i%2 == 0, i, i<<24, 256<<10))
		}
		return r.together(f...), d.Stats()
	}
	a, sa := run()
	b, sb := run()
	assert.Equal(t, a, b)
	assert.Equal(t, sa, sb)
	assert.Greater(t, sa.MaxQueue, 1)
}

func TestBadDisk(t *testing.T) {
	s := sched.NewVirtual(1)
	defer s.Close()
	for want, cfg := range map[string]DiskConfig{
		"Spindles": {Spindles: -1}, "md chunk": {Chunk: 100}, "max_sectors_kb": {MaxRequest: 1}, "PerByte": {PerByte: -1},
		"SeekFull": {SeekTrack: 2, SeekFull: 1}, "RPM": {RPM: -5}, "Elevator": {Elevator: 7}, "cfq_quantum": {Quantum: -1},
		"fifo_batch": {FIFOBatch: -1},
	} {
		_, err := NewDisk(s, cfg)
		assert.ErrorContains(t, err, want)
	}
}
