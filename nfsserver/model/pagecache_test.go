package model

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsserver/vfs"
)

// newTestCache writes a byte in 1 us.
func newTestCache(t *testing.T, cfg PageCacheConfig) (*rig, *PageCache) {
	t.Helper()
	r := newTestRig(t)
	var m *PageCache
	var err error
	r.fs, m, err = NewPageCache(r.s, r.fs, NewFixed(r.s, 0, 1_000_000), cfg)
	require.NoError(t, err)
	return r, m
}

// COMMIT writes what is dirty in its range, once, and waits for what others write.
func TestFlush(t *testing.T) {
	r, m := newTestCache(t, PageCacheConfig{})
	id := r.create("a")
	assert.Zero(t, r.took(func() { r.write(id, 0, 1000); r.write(id, 500, 1000); r.write(id, 10_000, 2000) }))
	assert.EqualValues(t, 3500, m.Stats().Dirty)
	assert.Equal(t, ms, r.took(func() { r.commit(id, 0, 1000) }))
	assert.Zero(t, r.took(func() { r.commit(id, 0, 1000) }))
	took := r.together(func() { r.commit(id, 0, 0) }, func() { r.commit(id, 0, 0) })
	assert.Equal(t, 2000*sched.Microsecond, took, "each byte once, ranges at once; the other waits")
	st := m.Stats()
	assert.EqualValues(t, 0, st.Dirty)
	assert.EqualValues(t, 3500, st.Flushed)
	assert.EqualValues(t, 3500, st.MaxDirty)
	assert.Equal(t, ms, r.took(func() { assert.NoError(t, r.fs.Write(bg, id, 0, make([]byte, 1000), true, nil)) }), "stable")
}

// Above the background limit data is written behind the back of the writers, at the limit they wait.
func TestDirtyLimits(t *testing.T) {
	r, m := newTestCache(t, PageCacheConfig{Dirty: 100_000, Background: 50_000, WriteSize: 10_000})
	a, b := r.create("a"), r.create("b")
	assert.Zero(t, r.took(func() { r.write(a, 0, 50_000) }))
	assert.Zero(t, r.took(func() { r.write(b, 0, 50_000) }))
	took := r.took(func() {
		for i := range uint64(40) {
			r.write(a, 50_000+i*10_000, 10_000)
		}
	})
	assert.InDelta(t, 0.4, took.Seconds(), 0.02, "at the speed of the device")
	st := m.Stats()
	assert.LessOrEqual(t, st.MaxDirty, int64(100_000))
	assert.EqualValues(t, 40, st.Throttled)
	u := r.usage("the limit of dirty data")
	assert.InDelta(t, 0.4, u.Waited.Seconds(), 0.02)
	require.NoError(t, r.s.Sleep(bg, sched.Second))
	assert.EqualValues(t, 50_000, m.Stats().Dirty, "down to the background limit")
	assert.EqualValues(t, 450_000, m.Stats().Background)
}

// One WRITE above the limit goes when nothing else is dirty.
func TestWriteAboveLimit(t *testing.T) {
	r, m := newTestCache(t, PageCacheConfig{Dirty: 5000})
	id := r.create("a")
	r.write(id, 0, 20_000)
	r.write(id, 20_000, 20_000)
	r.commit(id, 0, 0)
	assert.EqualValues(t, 0, m.Stats().Dirty)
}

// What is too old is written, and then no timer is left that would hide a deadlock.
func TestExpire(t *testing.T) {
	r, m := newTestCache(t, PageCacheConfig{})
	id := r.create("a")
	r.write(id, 0, 1000)
	require.NoError(t, r.s.Sleep(bg, 29*sched.Second))
	assert.EqualValues(t, 1000, m.Stats().Dirty)
	require.NoError(t, r.s.Sleep(bg, 7*sched.Second))
	assert.EqualValues(t, 0, m.Stats().Dirty)
	assert.EqualValues(t, 1000, m.Stats().Background)
	var dead *sched.DeadlockError
	assert.ErrorAs(t, r.s.NewWaiter("nothing").Wait(bg), &dead)
}

// READ waits for what is not in the cache.
func TestReadCache(t *testing.T) {
	r, m := newTestCache(t, PageCacheConfig{Size: 2 * residentBlock})
	id := r.create("a")
	require.NoError(t, r.mem.Write(bg, id, 0, make([]byte, 4*residentBlock+100), true, nil))
	read := func(block uint64) sched.Duration {
		return r.took(func() { assert.NoError(t, r.read(bg, id, block*residentBlock, residentBlock)) })
	}
	const miss = residentBlock * sched.Microsecond
	assert.EqualValues(t, miss, read(0))
	assert.Zero(t, read(0))
	assert.EqualValues(t, miss, read(1))
	assert.EqualValues(t, miss, read(2))
	assert.EqualValues(t, miss, read(0), "the least recently used has gone")
	assert.Equal(t, 100*sched.Microsecond, read(4), "the end of the file")
	assert.Zero(t, read(9), "beyond it")
	st := m.Stats()
	assert.EqualValues(t, 1, st.Hits)
	assert.EqualValues(t, 5, st.Misses)
	r.write(id, 0, residentBlock)
	assert.Zero(t, read(0), "what was written is there")
	none, _ := newTestCache(t, PageCacheConfig{Size: -1})
	id = none.create("a")
	none.write(id, 0, 100)
	assert.Equal(t, 100*sched.Microsecond, none.took(func() { assert.NoError(t, none.read(bg, id, 0, 100)) }))
}

// A crash forgets what is dirty, also under way; truncation forgets what is beyond.
func TestForget(t *testing.T) {
	r, m := newTestCache(t, PageCacheConfig{Dirty: 1 << 20, Background: 1})
	id := r.create("a")
	r.write(id, 0, 1000)
	require.NoError(t, r.s.Sleep(bg, 100*sched.Microsecond)) // writeback has begun
	r.write(id, 5000, 1000)
	r.fs.(Crasher).Crash()
	assert.EqualValues(t, 0, m.Stats().Dirty)
	require.NoError(t, r.s.Sleep(bg, sched.Second))
	assert.EqualValues(t, 0, m.Stats().Dirty)
	var a vfs.Attr
	require.NoError(t, r.fs.Attr(bg, id, &a))
	assert.Zero(t, a.Size)

	r, m = newTestCache(t, PageCacheConfig{})
	id = r.create("a")
	r.write(id, 0, 1000)
	require.NoError(t, r.fs.SetAttr(bg, id, &vfs.SetAttr{SetSize: true, Size: 300}, nil, nil))
	assert.EqualValues(t, 300, m.Stats().Dirty)
}

// A flush whose caller gave up leaves the data dirty.
func TestCancelledFlush(t *testing.T) {
	r, m := newTestCache(t, PageCacheConfig{})
	id := r.create("a")
	r.write(id, 0, 5000)
	ctx, cancel := r.s.WithTimeout(bg, ms)
	defer cancel()
	assert.ErrorIs(t, r.fs.Commit(ctx, id, 0, 0, nil), context.DeadlineExceeded)
	assert.EqualValues(t, 5000, m.Stats().Dirty)
	r.commit(id, 0, 0)
	assert.EqualValues(t, 0, m.Stats().Dirty)
}

// extents against a bitmap.
func TestExtents(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		var l extents
		var bits [100]bool
		count := func() (n int64) {
			for _, b := range bits {
				if b {
					n++
				}
			}
			return n
		}
		total := int64(0)
		for range 20 {
			off := uint64(rng.IntN(95))
			end := off + 1 + uint64(rng.IntN(5))
			if rng.IntN(3) > 0 {
				total += l.add(extent{off, end, sched.Time(rng.IntN(10))})
				for i := off; i < end; i++ {
					bits[i] = true
				}
			} else if e, ok := l.take(off, end+20, rng.IntN(6)); ok {
				total -= e.len()
				for i := e.off; i < e.end; i++ {
					require.True(t, bits[i])
					bits[i] = false
				}
				require.GreaterOrEqual(t, e.off, off)
				require.LessOrEqual(t, e.end, end+20)
			}
			require.Equal(t, count(), total)
			for i := 1; i < len(l); i++ {
				require.Less(t, l[i-1].off, l[i].off)
			}
		}
	}
}

func TestBadPageCache(t *testing.T) {
	r := newTestRig(t)
	for want, cfg := range map[string]PageCacheConfig{
		"dirty_bytes": {Dirty: -1}, "dirty_background_bytes": {Dirty: 10, Background: 11},
		"dirty_expire": {Expire: -1}, "dirty_writeback": {Interval: time.Nanosecond}, "Tasks": {Tasks: -1}, "WriteSize": {WriteSize: 1},
	} {
		_, _, err := NewPageCache(r.s, r.mem, NewFixed(r.s, 0, 0), cfg)
		assert.ErrorContains(t, err, want)
	}
}
