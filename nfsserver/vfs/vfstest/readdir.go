package vfstest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/nfsserver/vfs"
)

var readDirTests = map[string]Test{
	"readdir":             testReadDir,
	"readdir/steps":       testReadDirSteps,
	"readdir/changes":     testReadDirChanges,
	"readdir/rename over": testReadDirRenameOver,
	"readdir/bad cookie":  testReadDirBadCookie,
}

func testReadDir(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	d := h.mkdir(h.root(), "d")
	f := h.create(d, "f")
	want := map[string]vfs.ID{".": d, "..": h.root(), "f": f}
	got := make(map[string]vfs.ID)
	cookies := make(map[uint64]bool)
	_, eof, err := fs.ReadDir(h.ctx, d, 0, 0, func(e *vfs.DirEntry) bool {
		got[e.Name] = e.ID
		cookies[e.Cookie] = true
		return true
	})
	require.NoError(t, err)
	require.True(t, eof)
	require.Equal(t, want, got)
	require.Len(t, cookies, 3)
	require.NotContains(t, cookies, uint64(0))

	_, _, err = fs.ReadDir(h.ctx, f, 0, 0, func(*vfs.DirEntry) bool { return true })
	require.ErrorIs(t, err, vfs.ErrNotDir)
}

func testReadDirSteps(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	want := []string{".", ".."}
	for k := range 50 {
		name := fmt.Sprint("f", k)
		h.create(h.root(), name)
		want = append(want, name)
	}
	slices.Sort(want)
	for _, step := range []int{1, 2, 7, 51, 52, 53, 1000} {
		got := h.list(h.root(), step)
		slices.Sort(got)
		require.Equal(t, want, got, "%d at a time", step)
	}
}

// Entries come and go between the calls; those that stay are seen once.
func testReadDirChanges(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	const n = 300
	for k := range n {
		h.create(h.root(), fmt.Sprint("f", k))
	}
	seen := make(map[string]int)
	var cookie, verf uint64
	for step := 0; ; step++ {
		left := 5
		v, eof, err := fs.ReadDir(h.ctx, h.root(), cookie, verf, func(e *vfs.DirEntry) bool {
			if left == 0 {
				return false
			}
			left--
			seen[e.Name]++
			cookie = e.Cookie
			return true
		})
		require.NoError(t, err)
		if eof {
			break
		}
		verf = v
		// Odd names go, those read and those to come; others come.
		for k := 1; k < n; k += 2 {
			if k%40 == (2*step+1)%40 {
				_ = fs.Remove(h.ctx, h.root(), fmt.Sprint("f", k), &vfs.WCC{})
			}
		}
		if step < 100 {
			h.create(h.root(), fmt.Sprint("new", step))
			require.NoError(t, h.rename(h.root(), fmt.Sprint("new", step), h.root(), fmt.Sprint("newer", step%7)))
		}
	}
	for k := 0; k < n; k += 2 {
		require.Equal(t, 1, seen[fmt.Sprint("f", k)], "f%d", k)
	}
	for name, times := range seen {
		require.Equal(t, 1, times, name)
	}
}

func testReadDirRenameOver(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	h.create(h.root(), "a")
	h.create(h.root(), "b")
	var cookie, verf uint64
	verf, _, err := fs.ReadDir(h.ctx, h.root(), 0, 0, func(e *vfs.DirEntry) bool {
		cookie = e.Cookie
		return true
	})
	require.NoError(t, err)
	h.create(h.root(), "c")
	require.NoError(t, h.rename(h.root(), "c", h.root(), "a"))
	_, eof, err := fs.ReadDir(h.ctx, h.root(), cookie, verf, func(e *vfs.DirEntry) bool {
		require.Fail(t, "seen twice", e.Name)
		return true
	})
	require.NoError(t, err)
	require.True(t, eof)
}

func testReadDirBadCookie(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	h.create(h.root(), "a")
	emit := func(*vfs.DirEntry) bool { return true }
	verf, _, err := fs.ReadDir(h.ctx, h.root(), 0, 0, emit)
	require.NoError(t, err)
	_, _, err = fs.ReadDir(h.ctx, h.root(), 1, verf+1, emit)
	require.ErrorIs(t, err, vfs.ErrBadCookie)
	_, _, err = fs.ReadDir(h.ctx, h.root(), math.MaxUint64, verf, emit)
	require.ErrorIs(t, err, vfs.ErrBadCookie)
}
