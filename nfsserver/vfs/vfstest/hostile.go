package vfstest

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/nfsserver/vfs"
)

var hostileTests = map[string]Test{
	"hostile/names":   testHostileNames,
	"hostile/dots":    testHostileDots,
	"hostile/offsets": testHostileOffsets,
	"hostile/ids":     testHostileIDs,
	"hostile/targets": testHostileTargets,
}

func testHostileNames(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	f := h.create(h.root(), "f")
	for name, want := range map[string]error{
		"": vfs.ErrInval, "/": vfs.ErrInval, "a/b": vfs.ErrInval, "f/": vfs.ErrInval, "../f": vfs.ErrInval,
		"f\x00": vfs.ErrInval, "\x00": vfs.ErrInval,
		strings.Repeat("x", 256): vfs.ErrNameTooLong, strings.Repeat("/", 70000): vfs.ErrNameTooLong,
	} {
		for call, err := range h.nameCalls(f, name) {
			require.ErrorIs(t, err, want, "%s of %.10q", call, name)
		}
	}
	require.ElementsMatch(t, []string{".", "..", "f"}, h.list(h.root(), 10))
}

// nameCalls returns what each call that takes a name says to it.
func (h *harness) nameCalls(f vfs.ID, name string) map[string]error {
	s, a, w, r := &vfs.SetAttr{}, &vfs.Attr{}, &vfs.WCC{}, h.root()
	_, lookup := h.lookup(r, name)
	calls := map[string]error{
		"lookup":      lookup,
		"mkdir":       h.fs.Mkdir(h.ctx, r, name, s, a, w),
		"symlink":     h.fs.Symlink(h.ctx, r, name, "t", s, a, w),
		"mknod":       h.fs.Mknod(h.ctx, r, name, vfs.MknodSpec{Type: vfs.FIFO}, s, a, w),
		"remove":      h.fs.Remove(h.ctx, r, name, w),
		"rmdir":       h.fs.Rmdir(h.ctx, r, name, w),
		"rename from": h.rename(r, name, r, "z"),
		"rename to":   h.rename(r, "f", r, name),
		"link":        h.fs.Link(h.ctx, f, r, name, a, w),
	}
	for _, mode := range []vfs.CreateMode{vfs.Unchecked, vfs.Guarded, vfs.Exclusive} {
		calls["create "+string('0'+rune(mode))] = h.fs.Create(h.ctx, r, name, mode, 0, s, a, w)
	}
	return calls
}

func testHostileDots(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	f := h.create(h.root(), "f")
	for _, name := range []string{".", ".."} {
		for call, err := range h.nameCalls(f, name) {
			switch {
			case call == "lookup":
				require.NoError(t, err)
			case strings.HasPrefix(call, "re"), call == "rmdir":
				require.ErrorIs(t, err, vfs.ErrInval, "%s of %q", call, name)
			default:
				require.ErrorIs(t, err, vfs.ErrExist, "%s of %q", call, name)
			}
		}
	}
	require.ElementsMatch(t, []string{".", "..", "f"}, h.list(h.root(), 10))
}

func testHostileOffsets(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	f := h.create(h.root(), "f")
	h.write(f, 0, pattern(0, 10))
	h.read(f, 0, 1) // sets atime
	before := h.attr(f)
	limit := fs.Info().MaxFileSize
	data := pattern(0, 8192)
	var w vfs.WCC
	for _, off := range []uint64{limit, limit - 8191, limit + 1, math.MaxInt64 - 4096, math.MaxInt64, 1 << 63, math.MaxUint64 - 8192, math.MaxUint64 - 8191, math.MaxUint64} {
		require.ErrorIs(t, fs.Write(h.ctx, f, off, data, true, &w), vfs.ErrFBig, "offset %#x", off)
		require.Equal(t, vfs.WCC{Before: before, After: before}, w)
		require.Empty(t, h.read(f, off, 8192))
		require.NoError(t, fs.Commit(h.ctx, f, off, math.MaxUint64, &w))
		if p, ok := fs.(vfs.PageWriter); ok {
			require.Empty(t, h.readPages(p, f, off, 8192))
			var pages vfs.Pages
			require.False(t, p.GrabPages(f, off, 8192, &pages))
		}
		if off > limit {
			require.ErrorIs(t, fs.SetAttr(h.ctx, f, &vfs.SetAttr{SetSize: true, Size: off}, nil, &w), vfs.ErrFBig)
			err := fs.Create(h.ctx, h.root(), "g", vfs.Guarded, 0, &vfs.SetAttr{SetSize: true, Size: off}, &vfs.Attr{}, &w)
			require.ErrorIs(t, err, vfs.ErrFBig)
		}
	}
	if p, ok := fs.(vfs.PageWriter); ok {
		var pages vfs.Pages
		_, err := p.ReadPages(h.ctx, f, 0, -1, &pages, &vfs.Attr{})
		require.ErrorIs(t, err, vfs.ErrInval)
		for _, n := range []int{0, -1, math.MinInt, math.MaxInt} {
			require.False(t, p.GrabPages(f, 0, n, &pages), n)
		}
		require.Len(t, h.readPages(p, f, 0, math.MaxInt), 10)
	}
	// A file of the greatest size costs nothing.
	h.truncate(f, limit)
	require.Equal(t, []byte{0}, h.read(f, limit-1, 10))
	require.NoError(t, fs.Write(h.ctx, f, limit-1, []byte{1}, false, &w))
	h.truncate(f, 10)
	require.Len(t, h.read(f, 0, 100), 10)
}

func testHostileIDs(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	f := h.create(h.root(), "f")
	gone := h.create(h.root(), "gone")
	require.NoError(t, fs.Remove(h.ctx, h.root(), "gone", &vfs.WCC{}))
	ids := []vfs.ID{{}, gone, {Ino: f.Ino, Gen: f.Gen + 1}, {Ino: f.Ino}, {Ino: math.MaxUint64, Gen: f.Gen}, {Ino: 1 << 40, Gen: 1}, {Ino: f.Ino + 100, Gen: f.Gen}}
	s, a, w := &vfs.SetAttr{}, &vfs.Attr{}, &vfs.WCC{}
	for _, id := range ids {
		w.After.Size = 1
		_, _, read := fs.Read(h.ctx, id, 0, make([]byte, 1), a)
		_, readlink := fs.ReadLink(h.ctx, id)
		_, _, readdir := fs.ReadDir(h.ctx, id, 0, 0, func(*vfs.DirEntry) bool { return true })
		for call, err := range map[string]error{
			"attr":        fs.Attr(h.ctx, id, a),
			"setattr":     fs.SetAttr(h.ctx, id, s, nil, w),
			"lookup":      fs.Lookup(h.ctx, id, "f", a),
			"read":        read,
			"readlink":    readlink,
			"readdir":     readdir,
			"write":       fs.Write(h.ctx, id, 0, []byte{1}, false, w),
			"commit":      fs.Commit(h.ctx, id, 0, 0, w),
			"create":      fs.Create(h.ctx, id, "x", vfs.Unchecked, 0, s, a, w),
			"mkdir":       fs.Mkdir(h.ctx, id, "x", s, a, w),
			"symlink":     fs.Symlink(h.ctx, id, "x", "t", s, a, w),
			"mknod":       fs.Mknod(h.ctx, id, "x", vfs.MknodSpec{Type: vfs.FIFO}, s, a, w),
			"remove":      fs.Remove(h.ctx, id, "x", w),
			"rmdir":       fs.Rmdir(h.ctx, id, "x", w),
			"rename from": h.rename(id, "f", h.root(), "x"),
			"rename to":   h.rename(h.root(), "f", id, "x"),
			"link":        fs.Link(h.ctx, id, h.root(), "x", a, w),
			"link in":     fs.Link(h.ctx, f, id, "x", a, w),
		} {
			require.ErrorIs(t, err, vfs.ErrStale, "%s of %v", call, id)
		}
		require.NoError(t, fs.Attr(h.ctx, h.root(), a))
	}
	w.After.Size = 1
	require.ErrorIs(t, fs.Write(h.ctx, gone, 0, []byte{1}, false, w), vfs.ErrStale)
	require.Equal(t, vfs.WCC{}, *w)
	require.ElementsMatch(t, []string{".", "..", "f"}, h.list(h.root(), 10))
}

func testHostileTargets(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	for target, want := range map[string]error{"": vfs.ErrInval, "a\x00b": vfs.ErrInval, strings.Repeat("t", 4097): vfs.ErrNameTooLong} {
		err := fs.Symlink(h.ctx, h.root(), "l", target, &vfs.SetAttr{}, &vfs.Attr{}, &vfs.WCC{})
		require.ErrorIs(t, err, want)
	}
	h.wantNoName(h.root(), "l")
}
