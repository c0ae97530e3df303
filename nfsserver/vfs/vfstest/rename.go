package vfstest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/nfsserver/vfs"
)

var renameTests = map[string]Test{
	"rename":            testRename,
	"rename/types":      testRenameTypes,
	"rename/same":       testRenameSame,
	"rename/own tree":   testRenameOwnTree,
	"rename/dirs nlink": testRenameNlink,
	"rename/wcc":        testRenameWCC,
}

func testRename(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	d := h.mkdir(h.root(), "d")
	f := h.create(h.root(), "f")
	ctime := h.attr(f).Ctime
	require.NoError(t, h.rename(h.root(), "f", d, "g"))
	h.wantNoName(h.root(), "f")
	h.wantLookup(d, "g", f)
	require.NotEqual(t, ctime, h.attr(f).Ctime)
	require.NoError(t, h.rename(d, "g", d, "h"))
	h.wantNoName(d, "g")
	h.wantLookup(d, "h", f)
	require.ErrorIs(t, h.rename(d, "g", d, "h"), vfs.ErrNoEnt)
	require.ErrorIs(t, h.rename(f, "g", d, "h"), vfs.ErrNotDir)
	require.ErrorIs(t, h.rename(d, "h", f, "h"), vfs.ErrNotDir)
	h.wantNlink(f, 1)
}

func testRenameTypes(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	mk := map[string]func(dir vfs.ID, name string) vfs.ID{
		"file":    h.create,
		"symlink": func(dir vfs.ID, name string) vfs.ID { return h.symlink(dir, name, "x") },
		"dir":     h.mkdir,
		"full": func(dir vfs.ID, name string) vfs.ID {
			d := h.mkdir(dir, name)
			h.create(d, "in")
			return d
		},
	}
	isDir := map[string]bool{"dir": true, "full": true}
	for from, mkFrom := range mk {
		for to, mkTo := range mk {
			dir := h.mkdir(h.root(), from+" over "+to)
			src, dst := mkFrom(dir, "a"), mkTo(dir, "b")
			err := h.rename(dir, "a", dir, "b")
			var want error
			switch {
			case !isDir[from] && isDir[to]:
				want = vfs.ErrIsDir
			case isDir[from] && !isDir[to]:
				want = vfs.ErrNotDir
			case to == "full":
				want = vfs.ErrNotEmpty
			}
			require.ErrorIs(t, err, want, "%s over %s", from, to)
			if want != nil {
				h.wantLookup(dir, "a", src)
				h.wantLookup(dir, "b", dst)
				continue
			}
			h.wantNoName(dir, "a")
			h.wantLookup(dir, "b", src)
			h.wantStale(dst)
		}
	}
}

func testRenameSame(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	f := h.create(h.root(), "f")
	d := h.mkdir(h.root(), "d")
	require.NoError(t, fs.Link(h.ctx, f, h.root(), "g", &vfs.Attr{}, &vfs.WCC{}))
	before, root := h.attr(f), h.attr(h.root())
	require.NoError(t, h.rename(h.root(), "f", h.root(), "g"))
	require.NoError(t, h.rename(h.root(), "f", h.root(), "f"))
	require.NoError(t, h.rename(h.root(), "d", h.root(), "d"))
	h.wantLookup(h.root(), "f", f)
	h.wantLookup(h.root(), "g", f)
	h.wantLookup(h.root(), "d", d)
	require.Equal(t, before, h.attr(f))
	require.Equal(t, root, h.attr(h.root()))
}

func testRenameOwnTree(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	a := h.mkdir(h.root(), "a")
	b := h.mkdir(a, "b")
	c := h.mkdir(b, "c")
	for _, to := range []vfs.ID{a, b, c} {
		require.ErrorIs(t, h.rename(h.root(), "a", to, "x"), vfs.ErrInval)
	}
	require.ErrorIs(t, h.rename(h.root(), "a", b, "c"), vfs.ErrInval)
	require.ErrorIs(t, h.rename(a, "b", h.root(), "a"), vfs.ErrNotEmpty)
	require.NoError(t, h.rename(b, "c", h.root(), "c"))
	h.wantLookup(c, "..", h.root())
	require.NoError(t, h.rename(h.root(), "a", c, "a"))
	h.wantLookup(a, "..", c)
}

func testRenameNlink(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	p, q := h.mkdir(h.root(), "p"), h.mkdir(h.root(), "q")
	d := h.mkdir(p, "d")
	require.NoError(t, h.rename(p, "d", q, "d"))
	h.wantNlink(p, 2)
	h.wantNlink(q, 3)
	h.mkdir(p, "e")
	require.NoError(t, h.rename(p, "e", q, "d"))
	h.wantStale(d)
	h.wantNlink(p, 2)
	h.wantNlink(q, 3)
	h.mkdir(q, "e")
	require.NoError(t, h.rename(q, "e", q, "d"))
	h.wantNlink(q, 3)
}

func testRenameWCC(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	d := h.mkdir(h.root(), "d")
	h.create(h.root(), "f")
	r0, d0 := h.attr(h.root()), h.attr(d)
	var from, to vfs.WCC
	require.NoError(t, fs.Rename(h.ctx, h.root(), "f", d, "g", &from, &to))
	require.Equal(t, vfs.WCC{Before: r0, After: h.attr(h.root())}, from)
	require.Equal(t, vfs.WCC{Before: d0, After: h.attr(d)}, to)
	require.NotEqual(t, r0.Mtime, from.After.Mtime)
	require.NotEqual(t, d0.Mtime, to.After.Mtime)

	d0 = h.attr(d)
	require.NoError(t, fs.Rename(h.ctx, d, "g", d, "h", &from, &to))
	require.Equal(t, vfs.WCC{Before: d0, After: h.attr(d)}, to)
	require.Equal(t, to, from)
}
