package vfstest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/nfsserver/vfs"
)

var attrTests = map[string]Test{
	"attr/root":      testRootAttr,
	"setattr":        testSetAttr,
	"setattr/guard":  testSetAttrGuard,
	"setattr/size":   testSetAttrSize,
	"setattr/atomic": testSetAttrAtomic,
	"attr/times":     testTimes,
	"stat":           testStat,
	"info":           testInfo,
}

func testRootAttr(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	a := h.attr(h.root())
	require.Equal(t, vfs.Directory, a.Type)
	require.Equal(t, h.root(), a.ID)
	require.EqualValues(t, 2, a.Nlink)
}

func testSetAttr(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	f := h.create(h.root(), "f")
	before := h.attr(f)
	var w vfs.WCC
	require.NoError(t, fs.SetAttr(h.ctx, f, &vfs.SetAttr{}, nil, &w))
	require.Equal(t, vfs.WCC{Before: before, After: before}, w)

	s := vfs.SetAttr{SetMode: true, Mode: 0o1002, SetUID: true, UID: 3, SetGID: true, GID: 4}
	require.NoError(t, fs.SetAttr(h.ctx, f, &s, nil, &w))
	require.Equal(t, vfs.WCC{Before: before, After: h.attr(f)}, w)
	want := before
	want.Mode, want.UID, want.GID, want.Ctime = 0o1002, 3, 4, w.After.Ctime
	require.Equal(t, want, w.After)
	require.NotEqual(t, before.Ctime, want.Ctime)

	s = vfs.SetAttr{AtimeHow: vfs.TimeClient, Atime: vfs.Time{Sec: 1, Nsec: 2}, MtimeHow: vfs.TimeServer}
	require.NoError(t, fs.SetAttr(h.ctx, f, &s, nil, &w))
	require.Equal(t, s.Atime, w.After.Atime)
	require.NotEqual(t, before.Mtime, w.After.Mtime)

	s = vfs.SetAttr{MtimeHow: vfs.TimeClient, Mtime: vfs.Time{Nsec: 1e9}}
	require.ErrorIs(t, fs.SetAttr(h.ctx, f, &s, nil, &w), vfs.ErrInval)
}

func testSetAttrGuard(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	f := h.create(h.root(), "f")
	guard := h.attr(f).Ctime
	s := &vfs.SetAttr{SetMode: true, Mode: 0o600}
	var w vfs.WCC
	require.NoError(t, fs.SetAttr(h.ctx, f, s, &guard, &w))
	// However short the time between two changes, the guard sees the second.
	for range 10 {
		require.ErrorIs(t, fs.SetAttr(h.ctx, f, s, &guard, &w), vfs.ErrNotSync)
		require.Equal(t, h.attr(f), w.After)
		guard = w.After.Ctime
		require.NoError(t, fs.SetAttr(h.ctx, f, s, &guard, &w))
	}
	guard = w.After.Ctime
	h.write(f, 0, []byte{1})
	require.ErrorIs(t, fs.SetAttr(h.ctx, f, s, &guard, &w), vfs.ErrNotSync)
}

func testSetAttrSize(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	f := h.create(h.root(), "f")
	before := h.attr(f)
	h.truncate(f, 12345)
	require.NotEqual(t, before.Mtime, h.attr(f).Mtime)
	h.truncate(f, 0)
	size := &vfs.SetAttr{SetSize: true, Size: 1}
	require.ErrorIs(t, fs.SetAttr(h.ctx, h.root(), size, nil, &vfs.WCC{}), vfs.ErrIsDir)
	require.ErrorIs(t, fs.SetAttr(h.ctx, h.symlink(h.root(), "l", "x"), size, nil, &vfs.WCC{}), vfs.ErrInval)
}

func testSetAttrAtomic(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	f := h.create(h.root(), "f")
	before := h.attr(f)
	s := &vfs.SetAttr{SetMode: true, Mode: 0o111, SetSize: true, Size: math.MaxUint64}
	var w vfs.WCC
	require.ErrorIs(t, fs.SetAttr(h.ctx, f, s, nil, &w), vfs.ErrFBig)
	require.Equal(t, vfs.WCC{Before: before, After: before}, w)
	require.Equal(t, before, h.attr(f))
}

func testTimes(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	f := h.create(h.root(), "f")
	a := h.attr(f)
	h.write(f, 0, []byte{1})
	b := h.attr(f)
	require.NotEqual(t, a.Mtime, b.Mtime)
	require.NotEqual(t, a.Ctime, b.Ctime)
	h.write(f, 0, nil)
	require.Equal(t, b, h.attr(f), "an empty WRITE changes nothing")
	h.read(f, 0, 1)
	c := h.attr(f)
	require.Equal(t, b.Mtime, c.Mtime)
	require.Equal(t, b.Ctime, c.Ctime)
	require.NotEqual(t, b.Atime, c.Atime, "the first read after a change")
}

func testStat(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	s, err := fs.Stat(h.ctx)
	require.NoError(t, err)
	require.LessOrEqual(t, s.FreeBytes, s.TotalBytes)
	require.LessOrEqual(t, s.AvailBytes, s.FreeBytes)
	require.LessOrEqual(t, s.FreeFiles, s.TotalFiles)
	h.create(h.root(), "f")
	after, err := fs.Stat(h.ctx)
	require.NoError(t, err)
	require.Equal(t, s.FreeFiles-1, after.FreeFiles)
	require.NoError(t, fs.Remove(h.ctx, h.root(), "f", &vfs.WCC{}))
	after, err = fs.Stat(h.ctx)
	require.NoError(t, err)
	require.Equal(t, s, after)
}

func testInfo(t *testing.T, fs vfs.FS) {
	i := fs.Info()
	require.Positive(t, i.MaxName)
	require.Positive(t, i.MaxLink)
	require.Greater(t, i.MaxFileSize, uint64(4<<30))
	require.NotZero(t, i.TimeDelta)
}
