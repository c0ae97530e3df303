package vfstest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/nfsserver/vfs"
)

var nameTests = map[string]Test{
	"lookup":             testLookup,
	"lookup/dots":        testLookupDots,
	"create/modes":       testCreateModes,
	"create/exclusive":   testCreateExclusive,
	"create/over others": testCreateOverOthers,
	"create/attributes":  testCreateAttributes,
	"create/wcc":         testCreateWCC,
	"mkdir/nlink":        testMkdirNlink,
	"rmdir":              testRmdir,
	"remove":             testRemove,
	"link":               testLink,
	"symlink":            testSymlink,
	"mknod":              testMknod,
	"stale/reuse":        testStaleReuse,
	"names/long":         testLongNames,
}

func testLookup(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	f := h.create(h.root(), "f")
	h.wantLookup(h.root(), "f", f)
	h.wantNoName(h.root(), "F")
	h.wantNoName(h.root(), "ff")
	_, err := h.lookup(f, "x")
	require.ErrorIs(t, err, vfs.ErrNotDir)
}

func testLookupDots(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	d := h.mkdir(h.root(), "d")
	e := h.mkdir(d, "e")
	h.wantLookup(e, ".", e)
	h.wantLookup(e, "..", d)
	h.wantLookup(d, "..", h.root())
	h.wantLookup(h.root(), "..", h.root())
}

func testCreateModes(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	var a vfs.Attr
	require.NoError(t, fs.Create(h.ctx, h.root(), "f", vfs.Unchecked, 0, &vfs.SetAttr{SetMode: true, Mode: 0o640}, &a, &vfs.WCC{}))
	f := a.ID
	h.write(f, 0, pattern(1, 100))

	require.ErrorIs(t, fs.Create(h.ctx, h.root(), "f", vfs.Guarded, 0, &vfs.SetAttr{}, &a, &vfs.WCC{}), vfs.ErrExist)
	require.NoError(t, fs.Create(h.ctx, h.root(), "f", vfs.Unchecked, 0, &vfs.SetAttr{}, &a, &vfs.WCC{}))
	require.Equal(t, f, a.ID)
	require.EqualValues(t, 100, a.Size)
	require.NoError(t, fs.Create(h.ctx, h.root(), "f", vfs.Unchecked, 0, &vfs.SetAttr{SetSize: true}, &a, &vfs.WCC{}))
	require.Equal(t, f, a.ID)
	require.Zero(t, a.Size)
	require.EqualValues(t, 0o640, a.Mode)
}

func testCreateExclusive(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	create := func(name string, verf uint64) (vfs.ID, error) {
		var a vfs.Attr
		err := fs.Create(h.ctx, h.root(), name, vfs.Exclusive, verf, nil, &a, &vfs.WCC{})
		return a.ID, err
	}
	f, err := create("f", 7)
	require.NoError(t, err)
	again, err := create("f", 7)
	require.NoError(t, err)
	require.Equal(t, f, again)
	_, err = create("f", 8)
	require.ErrorIs(t, err, vfs.ErrExist)

	// A file made in another way has no verifier, not even zero.
	h.create(h.root(), "g")
	_, err = create("g", 0)
	require.ErrorIs(t, err, vfs.ErrExist)
}

func testCreateOverOthers(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	h.mkdir(h.root(), "d")
	h.symlink(h.root(), "l", "x")
	for _, name := range []string{"d", "l"} {
		for _, mode := range []vfs.CreateMode{vfs.Unchecked, vfs.Guarded, vfs.Exclusive} {
			err := fs.Create(h.ctx, h.root(), name, mode, 0, &vfs.SetAttr{SetSize: true}, &vfs.Attr{}, &vfs.WCC{})
			require.ErrorIs(t, err, vfs.ErrExist, "%s mode %d", name, mode)
		}
		require.ErrorIs(t, fs.Mkdir(h.ctx, h.root(), name, &vfs.SetAttr{}, &vfs.Attr{}, &vfs.WCC{}), vfs.ErrExist)
		require.ErrorIs(t, fs.Symlink(h.ctx, h.root(), name, "y", &vfs.SetAttr{}, &vfs.Attr{}, &vfs.WCC{}), vfs.ErrExist)
	}
}

func testCreateAttributes(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	s := &vfs.SetAttr{
		SetMode: true, Mode: 0o4711, SetUID: true, UID: 5, SetGID: true, GID: 6, SetSize: true, Size: 9,
		MtimeHow: vfs.TimeClient, Mtime: vfs.Time{Sec: 11, Nsec: 12},
		AtimeHow: vfs.TimeClient, Atime: vfs.Time{Sec: 13, Nsec: 14},
	}
	var a vfs.Attr
	require.NoError(t, fs.Create(h.ctx, h.root(), "f", vfs.Guarded, 0, s, &a, &vfs.WCC{}))
	require.Equal(t, h.attr(a.ID), a)
	require.Equal(t, vfs.Regular, a.Type)
	require.EqualValues(t, 0o4711, a.Mode)
	require.EqualValues(t, 5, a.UID)
	require.EqualValues(t, 6, a.GID)
	require.EqualValues(t, 9, a.Size)
	require.EqualValues(t, 1, a.Nlink)
	require.Equal(t, s.Mtime, a.Mtime)
	require.Equal(t, s.Atime, a.Atime)

	require.NoError(t, fs.Mkdir(h.ctx, h.root(), "d", &vfs.SetAttr{SetMode: true, Mode: 0o711, SetUID: true, UID: 8}, &a, &vfs.WCC{}))
	require.Equal(t, h.attr(a.ID), a)
	require.Equal(t, vfs.Directory, a.Type)
	require.EqualValues(t, 0o711, a.Mode)
	require.EqualValues(t, 8, a.UID)
}

func testCreateWCC(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	before := h.attr(h.root())
	var w vfs.WCC
	require.NoError(t, fs.Create(h.ctx, h.root(), "f", vfs.Guarded, 0, &vfs.SetAttr{}, &vfs.Attr{}, &w))
	require.Equal(t, before, w.Before)
	require.Equal(t, h.attr(h.root()), w.After)
	require.NotEqual(t, w.Before.Ctime, w.After.Ctime)
	require.NotEqual(t, w.Before.Mtime, w.After.Mtime)

	require.ErrorIs(t, fs.Create(h.ctx, h.root(), "f", vfs.Guarded, 0, &vfs.SetAttr{}, &vfs.Attr{}, &w), vfs.ErrExist)
	require.Equal(t, w.Before, w.After)
	require.Equal(t, h.attr(h.root()), w.After)
}

func testMkdirNlink(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	h.wantNlink(h.root(), 2)
	d := h.mkdir(h.root(), "d")
	h.create(d, "f")
	h.wantNlink(h.root(), 3)
	h.wantNlink(d, 2)
	h.mkdir(d, "e")
	h.wantNlink(d, 3)
	require.NoError(t, fs.Rmdir(h.ctx, d, "e", &vfs.WCC{}))
	h.wantNlink(d, 2)
}

func testRmdir(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	d := h.mkdir(h.root(), "d")
	h.create(d, "f")
	h.create(h.root(), "g")
	rmdir := func(dir vfs.ID, name string) error { return fs.Rmdir(h.ctx, dir, name, &vfs.WCC{}) }
	require.ErrorIs(t, rmdir(h.root(), "d"), vfs.ErrNotEmpty)
	require.ErrorIs(t, rmdir(h.root(), "g"), vfs.ErrNotDir)
	require.ErrorIs(t, rmdir(h.root(), "x"), vfs.ErrNoEnt)
	require.NoError(t, fs.Remove(h.ctx, d, "f", &vfs.WCC{}))
	require.NoError(t, rmdir(h.root(), "d"))
	h.wantStale(d)
	_, err := h.lookup(d, "..")
	require.ErrorIs(t, err, vfs.ErrStale)
	require.ErrorIs(t, fs.Create(h.ctx, d, "f", vfs.Guarded, 0, &vfs.SetAttr{}, &vfs.Attr{}, &vfs.WCC{}), vfs.ErrStale)
	h.wantNoName(h.root(), "d")
}

func testRemove(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	f := h.create(h.root(), "f")
	h.mkdir(h.root(), "d")
	h.symlink(h.root(), "l", "f")
	remove := func(name string) error { return fs.Remove(h.ctx, h.root(), name, &vfs.WCC{}) }
	require.ErrorIs(t, remove("d"), vfs.ErrIsDir)
	require.ErrorIs(t, remove("x"), vfs.ErrNoEnt)
	require.NoError(t, remove("l"))
	h.wantLookup(h.root(), "f", f)
	require.NoError(t, remove("f"))
	h.wantNoName(h.root(), "f")
	h.wantStale(f)
	_, _, err := fs.Read(h.ctx, f, 0, make([]byte, 1), &vfs.Attr{})
	require.ErrorIs(t, err, vfs.ErrStale)
	require.ErrorIs(t, fs.Write(h.ctx, f, 0, []byte{1}, true, &vfs.WCC{}), vfs.ErrStale)
}

func testLink(t *testing.T, fs vfs.FS) {
	if !fs.Info().HasHardLinks {
		t.Skip("no hard links")
	}
	h := newHarness(t, fs)
	f := h.create(h.root(), "f")
	d := h.mkdir(h.root(), "d")
	before := h.attr(f)
	var a vfs.Attr
	var w vfs.WCC
	require.NoError(t, fs.Link(h.ctx, f, d, "g", &a, &w))
	require.EqualValues(t, 2, a.Nlink)
	require.Equal(t, h.attr(f), a)
	require.Equal(t, h.attr(d), w.After)
	require.NotEqual(t, before.Ctime, a.Ctime)
	require.Equal(t, before.Mtime, a.Mtime)
	h.wantLookup(d, "g", f)

	require.ErrorIs(t, fs.Link(h.ctx, f, d, "g", &a, &w), vfs.ErrExist)
	require.ErrorIs(t, fs.Link(h.ctx, d, d, "self", &a, &w), vfs.ErrIsDir)
	require.NoError(t, fs.Remove(h.ctx, h.root(), "f", &vfs.WCC{}))
	h.wantNlink(f, 1)
	require.NoError(t, fs.Remove(h.ctx, d, "g", &vfs.WCC{}))
	h.wantStale(f)
	require.ErrorIs(t, fs.Link(h.ctx, f, d, "h", &a, &w), vfs.ErrStale)
}

func testSymlink(t *testing.T, fs vfs.FS) {
	if !fs.Info().HasSymlinks {
		t.Skip("no symbolic links")
	}
	h := newHarness(t, fs)
	for name, target := range map[string]string{"l": "../a b/c", "m": strings.Repeat("x", 4096)} {
		l := h.symlink(h.root(), name, target)
		got, err := fs.ReadLink(h.ctx, l)
		require.NoError(t, err)
		require.Equal(t, target, got)
		a := h.attr(l)
		require.Equal(t, vfs.Symlink, a.Type)
		require.EqualValues(t, len(target), a.Size)
	}
	_, err := fs.ReadLink(h.ctx, h.create(h.root(), "f"))
	require.ErrorIs(t, err, vfs.ErrInval)
	_, err = fs.ReadLink(h.ctx, h.root())
	require.ErrorIs(t, err, vfs.ErrInval)
}

func testMknod(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	mknod := func(name string, spec vfs.MknodSpec) (vfs.Attr, error) {
		var a vfs.Attr
		err := fs.Mknod(h.ctx, h.root(), name, spec, &vfs.SetAttr{SetMode: true, Mode: 0o600}, &a, &vfs.WCC{})
		return a, err
	}
	a, err := mknod("b", vfs.MknodSpec{Type: vfs.Block, RdevMajor: 8, RdevMinor: 1})
	require.NoError(t, err)
	require.Equal(t, h.attr(a.ID), a)
	require.Equal(t, [3]uint32{uint32(vfs.Block), 8, 1}, [3]uint32{uint32(a.Type), a.RdevMajor, a.RdevMinor})
	for _, typ := range []vfs.Type{vfs.Char, vfs.FIFO, vfs.Socket} {
		a, err := mknod(string(rune('c'+typ)), vfs.MknodSpec{Type: typ})
		require.NoError(t, err)
		require.Equal(t, typ, a.Type)
		require.ErrorIs(t, fs.Write(h.ctx, a.ID, 0, []byte{1}, false, &vfs.WCC{}), vfs.ErrInval)
	}
	for _, typ := range []vfs.Type{0, vfs.Regular, vfs.Directory, vfs.Symlink, 8, 255} {
		_, err := mknod("x", vfs.MknodSpec{Type: typ})
		require.ErrorIs(t, err, vfs.ErrBadType, "type %d", typ)
	}
}

func testStaleReuse(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	seen := make(map[vfs.ID]bool)
	for range 50 {
		f := h.create(h.root(), "f")
		require.False(t, seen[f], "ID used twice")
		seen[f] = true
		require.NoError(t, fs.Remove(h.ctx, h.root(), "f", &vfs.WCC{}))
		for old := range seen {
			h.wantStale(old)
		}
	}
}

func testLongNames(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	limit := int(fs.Info().MaxName)
	name := strings.Repeat("n", limit)
	f := h.create(h.root(), name)
	h.wantLookup(h.root(), name, f)
	_, err := h.lookup(h.root(), name+"n")
	require.ErrorIs(t, err, vfs.ErrNameTooLong)
	err = fs.Create(h.ctx, h.root(), name+"n", vfs.Unchecked, 0, &vfs.SetAttr{}, &vfs.Attr{}, &vfs.WCC{})
	require.ErrorIs(t, err, vfs.ErrNameTooLong)
	require.ErrorIs(t, h.rename(h.root(), name, h.root(), name+"n"), vfs.ErrNameTooLong)

	// Any byte but '/' and NUL is good.
	for _, name := range []string{" ", "...", "a\nb", "\xff\xfe", "ä", `\`} {
		h.wantLookup(h.root(), name, h.create(h.root(), name))
	}
}
