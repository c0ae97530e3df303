package model

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsserver/vfs"
)

const ms = sched.Millisecond

// newTestCommit takes 10 ms to write data back and 20 ms for the log.
func newTestCommit(t *testing.T, cfg CommitConfig) (*rig, *CommitLock, *Journal) {
	t.Helper()
	r := newTestRig(t)
	var j *Journal
	var m *CommitLock
	var err error
	r.fs, j = NewJournal(r.s, r.fs, JournalConfig{Force: 20 * time.Millisecond})
	r.fs, _, err = NewPageCache(r.s, r.fs, NewFixed(r.s, 10*time.Millisecond, 0), PageCacheConfig{})
	require.NoError(t, err)
	r.fs, m = NewCommitLock(r.s, r.fs, cfg)
	return r, m, j
}

// A WRITE that meets a COMMIT waits for all of it, for the sync, or not at all.
func TestCommitPolicies(t *testing.T) {
	for _, k := range []struct {
		policy      CommitPolicy
		early, late sched.Duration // when WRITEs are done that begin 1 ms and 11 ms after the COMMIT
		blocked     uint64
	}{
		{CommitLockAll, 30 * ms, 30 * ms, 2},
		{CommitLockSync, 1 * ms, 40 * ms, 1}, // what was written meanwhile is synced too
		{CommitNoLock, 1 * ms, 11 * ms, 0},
	} {
		t.Run(k.policy.String(), func(t *testing.T) {
			r, m, _ := newTestCommit(t, CommitConfig{Policy: k.policy})
			id := r.create("a")
			r.write(id, 0, 4096)
			begin := r.s.Now()
			var early, late sched.Duration
			after := func(d sched.Duration, done *sched.Duration) func() {
				return func() {
					assert.NoError(t, r.s.Sleep(bg, d))
					r.write(id, 8192, 4096)
					*done = r.s.Now().Sub(begin)
				}
			}
			r.together(func() { r.commit(id, 0, 0) }, after(ms, &early), after(11*ms, &late))
			assert.Equal(t, k.early, early)
			assert.Equal(t, k.late, late)
			assert.Equal(t, CommitStats{Commits: 1, Blocked: k.blocked}, m.Stats())
			if k.policy == CommitLockAll {
				u := r.usage("the COMMIT lock (nf_rwsem) of /a")
				assert.Equal(t, 30*ms, u.Busy)
				assert.EqualValues(t, 2, u.Waits)
				assert.Equal(t, (29+19)*ms, u.Waited)
			}
		})
	}
}

// WRITEs share the lock, files do not share it unless it is the server's.
func TestCommitLockScope(t *testing.T) {
	for _, wide := range []bool{false, true} {
		r, _, _ := newTestCommit(t, CommitConfig{ServerWide: wide})
		a, b := r.create("a"), r.create("b")
		r.write(a, 0, 4096)
		took := r.together(func() { r.commit(a, 0, 0) }, func() {
			assert.NoError(t, r.s.Sleep(bg, ms))
			d := r.took(func() { r.write(b, 0, 10) })
			want := sched.Duration(0)
			if wide {
				want = 29 * ms
			}
			assert.Equal(t, want, d)
		})
		assert.Equal(t, 30*ms, took)
	}
}

// COMMIT writes back what was asked for, or all of the file.
func TestCommitRange(t *testing.T) {
	for _, whole := range []bool{false, true} {
		r, m, _ := newTestCommit(t, CommitConfig{WholeFile: whole})
		id := r.create("a")
		r.write(id, 0, 4096)
		r.write(id, 1<<20, 4096)
		r.commit(id, 0, 4096)
		st := m.below.(*pageDecorator).g.(*PageCache).Stats()
		if whole {
			assert.EqualValues(t, 0, st.Dirty)
		} else {
			assert.EqualValues(t, 4096, st.Dirty)
		}
	}
}

// COMMITs that come together are one.
func TestCommitGather(t *testing.T) {
	r, m, j := newTestCommit(t, CommitConfig{Gather: 5 * time.Millisecond})
	id := r.create("a")
	r.write(id, 0, 4096)
	var w [4]vfs.WCC
	var f []func()
	for i := range w {
		f = append(f, func() {
			assert.NoError(t, r.s.Sleep(bg, sched.Duration(i)*ms))
			assert.NoError(t, r.fs.Commit(bg, id, 0, 100, &w[i]))
		})
	}
	assert.Equal(t, 35*ms, r.together(f...))
	assert.Equal(t, CommitStats{Commits: 4, Joined: 3}, m.Stats())
	assert.EqualValues(t, 1, j.Forces())
	for i := range w {
		assert.Equal(t, w[0], w[i])
		assert.EqualValues(t, 4096, w[i].After.Size)
	}
	r.mem.Crash()
	var a vfs.Attr
	require.NoError(t, r.mem.Attr(bg, id, &a))
	assert.EqualValues(t, 4096, a.Size)
}

// A COMMIT that fails gives its lock back, and those who joined it its error.
func TestCommitFails(t *testing.T) {
	r, _, _ := newTestCommit(t, CommitConfig{Gather: time.Millisecond})
	stale := vfs.ID{Ino: 99, Gen: 7}
	r.together(func() {
		assert.ErrorIs(t, r.fs.Commit(bg, stale, 0, 0, nil), vfs.ErrStale)
	}, func() {
		assert.ErrorIs(t, r.fs.Commit(bg, stale, 0, 0, nil), vfs.ErrStale)
	})
	id := r.create("a")
	ctx, cancel := r.s.WithTimeout(bg, 3*ms)
	defer cancel()
	assert.Error(t, r.fs.Commit(ctx, id, 0, 0, nil))
	r.write(id, 0, 1)
	r.commit(id, 0, 0)
}

// A serial journal forces one log at a time.
func TestJournal(t *testing.T) {
	for _, serial := range []bool{false, true} {
		r := newTestRig(t)
		var j *Journal
		r.fs, j = NewJournal(r.s, r.fs, JournalConfig{Force: 20 * time.Millisecond, Serial: serial})
		a, b := r.create("a"), r.create("b")
		took := r.together(func() { r.commit(a, 0, 0) }, func() { r.commit(b, 0, 0) })
		want := 20 * ms
		if serial {
			want = 40 * ms
			assert.Equal(t, 40*ms, r.usage("the journal").Busy)
			assert.Equal(t, 20*ms, r.usage("the journal").Waited)
		}
		assert.Equal(t, want, took)
		assert.Equal(t, 20*ms, r.took(func() { assert.NoError(t, r.fs.Write(bg, a, 0, []byte("x"), true, nil)) }), "a stable WRITE")
		assert.Zero(t, r.took(func() { r.write(a, 0, 1) }))
		assert.EqualValues(t, 3, j.Forces())
	}
	// With a spread, one seed gives one sequence of times.
	times := func() (out []sched.Duration) {
		r := newTestRig(t)
		r.fs, _ = NewJournal(r.s, r.fs, JournalConfig{Force: 20 * time.Millisecond, Spread: 0.5})
		id := r.create("a")
		for range 20 {
			out = append(out, r.took(func() { r.commit(id, 0, 0) }))
		}
		return out
	}
	l := times()
	assert.Equal(t, l, times())
	for _, d := range l {
		assert.InDelta(t, float64(20*ms), float64(d), float64(10*ms))
	}
	assert.NotEqual(t, l[0], l[1])
}

// An async export acknowledges at once and loses everything.
func TestAsync(t *testing.T) {
	r, _, j := newTestCommit(t, CommitConfig{})
	r.fs = NewAsync(r.s, r.fs)
	id := r.create("a")
	assert.Zero(t, r.took(func() {
		assert.NoError(t, r.fs.Write(bg, id, 0, []byte("stable"), true, nil))
		r.commit(id, 0, 0)
	}))
	assert.Zero(t, j.Forces())
	assert.ErrorIs(t, r.fs.Commit(bg, r.fs.Root(), 0, 0, nil), vfs.ErrIsDir)
	assert.ErrorIs(t, r.fs.Commit(bg, vfs.ID{Ino: 77}, 0, 0, nil), vfs.ErrStale)
	r.fs.(Crasher).Crash()
	var a vfs.Attr
	require.NoError(t, r.fs.Attr(bg, id, &a))
	assert.Zero(t, a.Size)
	assert.NoError(t, r.mem.CheckConsistent())
}
