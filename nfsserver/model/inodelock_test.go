package model

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/nfsserver/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var bg = context.Background()

// plainFS hides that memfs lends pages.
type plainFS struct{ vfs.FS }

func newTestLock(t *testing.T, hide bool) (*sched.Sched, vfs.FS, *InodeLock, []vfs.ID) {
	t.Helper()
	s := sched.NewVirtual(1)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	var below vfs.FS = memfs.New(memfs.Options{})
	if hide {
		below = plainFS{below}
	}
	fs, lock := NewInodeLock(s, below, InodeLockConfig{
		Write: Cost{PerCall: 100 * sched.Microsecond, PerByte: 2500},
		Read:  Cost{PerCall: sched.Microsecond},
	})
	var ids []vfs.ID
	for _, name := range []string{"a", "b"} {
		var a vfs.Attr
		var w vfs.WCC
		require.NoError(t, fs.Create(bg, fs.Root(), name, vfs.Guarded, 0, &vfs.SetAttr{}, &a, &w))
		ids = append(ids, a.ID)
	}
	return s, fs, lock, ids
}

func TestWritesToOneFileExclude(t *testing.T) {
	s, fs, lock, ids := newTestLock(t, true)
	g := s.NewGroup("writers")
	write := func(id vfs.ID, off uint64) {
		g.Go("writer", func() {
			var w vfs.WCC
			assert.NoError(t, fs.Write(bg, id, off, make([]byte, 4000), false, &w))
		})
	}
	for i := range 10 {
		write(ids[0], uint64(i)*4000)
	}
	write(ids[1], 0)
	require.NoError(t, g.Wait(bg))
	// 100 us + 4000 x 2.5 ns a call, one after the other; the other file goes beside.
	assert.Equal(t, sched.Time(10*110*sched.Microsecond), s.Now())
	busy, calls := lock.Busy()
	assert.Equal(t, 11*110*sched.Microsecond, busy)
	assert.EqualValues(t, 11, calls)
	_, pages := fs.(vfs.PageReader)
	assert.False(t, pages, "a plain file system does not come to lend pages")

	dst := make([]byte, 4000)
	var a vfs.Attr
	n, _, err := fs.Read(bg, ids[0], 0, dst, &a)
	require.NoError(t, err)
	assert.Equal(t, 4000, n)
	assert.Equal(t, sched.Time(1101*sched.Microsecond), s.Now())
}

func TestPagesPassThrough(t *testing.T) {
	s, fs, _, ids := newTestLock(t, false)
	pw := fs.(vfs.PageWriter)
	var p vfs.Pages
	require.True(t, pw.GrabPages(ids[0], 0, 64<<10, &p))
	for i := range p.List {
		clear(p.List[i].Bytes())
		p.List[i].Bytes()[0] = 7
	}
	var w vfs.WCC
	require.NoError(t, pw.WritePages(bg, ids[0], 0, &p, true, &w))
	assert.EqualValues(t, 64<<10, w.After.Size)
	assert.Equal(t, sched.Time(100*sched.Microsecond+65536*2500), s.Now())
	var out vfs.Pages
	var a vfs.Attr
	_, err := pw.ReadPages(bg, ids[0], 0, 10, &out, &a)
	require.NoError(t, err)
	assert.EqualValues(t, 7, out.List[0].Bytes()[0])
	pw.ReleasePages(&out)
	assert.Zero(t, fs.(*pageDecorator).FS.(*memfs.FS).Pinned())
}

// A crash below shows in the verifier above.
func TestVerifierPassesThrough(t *testing.T) {
	_, fs, _, _ := newTestLock(t, false)
	before := fs.(vfs.Verifier).WriteVerf()
	fs.(*pageDecorator).FS.(*memfs.FS).Crash()
	assert.NotEqual(t, before, fs.(vfs.Verifier).WriteVerf())
	_, plain, _, _ := newTestLock(t, true)
	assert.Zero(t, plain.(vfs.Verifier).WriteVerf())
	hidden := vfs.Plain(memfs.New(memfs.Options{}))
	_, pages := hidden.(vfs.PageReader)
	assert.False(t, pages)
	_, verf := hidden.(vfs.Verifier)
	assert.True(t, verf)
}

// A writer that gives up gives its pages back.
func TestCancelledWriterReleasesPages(t *testing.T) {
	s, fs, _, ids := newTestLock(t, false)
	pw := fs.(vfs.PageWriter)
	ctx, cancel := s.WithTimeout(bg, 10*sched.Microsecond)
	defer cancel()
	var p vfs.Pages
	require.True(t, pw.GrabPages(ids[0], 0, 64<<10, &p))
	var w vfs.WCC
	require.ErrorIs(t, pw.WritePages(ctx, ids[0], 0, &p, true, &w), context.DeadlineExceeded)
	m := fs.(*pageDecorator).FS.(*memfs.FS)
	assert.Zero(t, m.Pinned())
	assert.NoError(t, m.CheckConsistent())
}

// WRITE and READ through a lock allocate nothing once warm.
func TestNoAllocation(t *testing.T) {
	if testing.CoverMode() != "" || raceEnabled {
		t.Skip("instrumented")
	}
	_, fs, _, ids := newTestLock(t, false)
	pw := fs.(vfs.PageWriter)
	var p vfs.Pages
	var w vfs.WCC
	var a vfs.Attr
	buf := make([]byte, 4096)
	run := func() {
		if err := fs.Write(bg, ids[0], 0, buf, true, &w); err != nil {
			t.Fatal(err)
		}
		if !pw.GrabPages(ids[0], 0, 64<<10, &p) {
			t.Fatal("no pages")
		}
		if err := pw.WritePages(bg, ids[0], 0, &p, true, &w); err != nil {
			t.Fatal(err)
		}
		if _, err := pw.ReadPages(bg, ids[0], 0, 4096, &p, &a); err != nil {
			t.Fatal(err)
		}
		pw.ReleasePages(&p)
	}
	run()
	assert.Zero(t, testing.AllocsPerRun(100, run))
}

// A lock is called by its file's name.
func TestLockNames(t *testing.T) {
	s, fs, _, ids := newTestLock(t, true)
	var w vfs.WCC
	require.NoError(t, fs.Write(bg, ids[1], 0, make([]byte, 4000), false, &w))
	u := s.Usage()
	require.Len(t, u, 1)
	assert.Equal(t, "the inode lock of /b", u[0].Name)
	assert.Equal(t, 110*sched.Microsecond, u[0].Busy)
}
