package vfstest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/nfsserver/vfs"
)

var pageTests = map[string]Test{
	"data/pages read":      testPagesRead,
	"data/pages write":     testPagesWrite,
	"data/pages stay":      testPagesStay,
	"data/pages and bytes": testPagesAndBytes,
	"data/pages clean":     testPagesClean,
	"pages/sizes":          testPagesSizes,
	"pages/types":          testPagesTypes,
	"pages/give back":      testPagesGiveBack,
	"pages/apart":          testPagesApart,
}

const unit = 1 << 20 // suits every file system's chunks

func pageWriter(t *testing.T, fs vfs.FS) vfs.PageWriter {
	w, ok := fs.(vfs.PageWriter)
	if !ok {
		t.Skip("lends no pages")
	}
	return w
}

func testPagesRead(t *testing.T, fs vfs.FS) {
	r := pageWriter(t, fs)
	h := newHarness(t, fs)
	f := h.create(h.root(), "f")
	want := make([]byte, 3*unit)
	copy(want[100:], pattern(1, 5000))
	copy(want[unit-10:], pattern(2, 300000))
	h.write(f, 100, pattern(1, 5000))
	h.write(f, unit-10, pattern(2, 300000))
	h.truncate(f, 3*unit)
	for _, off := range []int{0, 1, 4095, 65536, unit - 10, unit + 12345, 3*unit - 1, 3 * unit, 4 * unit} {
		for _, n := range []int{0, 1, 4096, 65536, 100000, unit, 4 * unit} {
			from := min(off, len(want))
			part := want[from:min(from+n, len(want))]
			require.Equal(t, part, h.readPages(r, f, uint64(off), n), "%d at %d", n, off)
			require.Equal(t, part, h.read(f, uint64(off), n), "%d at %d", n, off)
		}
	}
}

func testPagesWrite(t *testing.T, fs vfs.FS) {
	w := pageWriter(t, fs)
	h := newHarness(t, fs)
	f := h.create(h.root(), "f")
	var want []byte
	for k, n := range []int{unit, 2 * unit, 100, 5000, unit + 1} {
		off := uint64(k%3) * unit
		data := pattern(k, n)
		end := int(off) + n
		want = append(want, make([]byte, max(0, end-len(want)))...)
		copy(want[off:], data)
		if !h.writePages(w, f, off, data) {
			h.write(f, off, data)
		}
		require.Equal(t, want, h.read(f, 0, 4*unit))
	}
	require.True(t, h.writePages(w, f, 0, pattern(9, unit)), "aligned range")
	require.True(t, h.writePages(w, f, 8*unit, pattern(9, 5000)), "past the end")
}

// Lent pages keep their bytes whatever happens to the file.
func testPagesStay(t *testing.T, fs vfs.FS) {
	w := pageWriter(t, fs)
	h := newHarness(t, fs)
	change := map[string]func(f vfs.ID){
		"write":       func(f vfs.ID) { h.write(f, 0, pattern(8, 2*unit)) },
		"small write": func(f vfs.ID) { h.write(f, 7, []byte{1}); h.write(f, unit+7, []byte{1}) },
		"truncate":    func(f vfs.ID) { h.truncate(f, 10); h.truncate(f, 2*unit) },
		"pages":       func(f vfs.ID) { require.True(t, h.writePages(w, f, 0, pattern(8, 2*unit))) },
		"remove":      func(vfs.ID) { require.NoError(t, fs.Remove(h.ctx, h.root(), "f", &vfs.WCC{})) },
	}
	for name, change := range change {
		f := h.create(h.root(), "f")
		want := pattern(1, 2*unit)
		h.write(f, 0, want)
		var p vfs.Pages
		_, err := w.ReadPages(h.ctx, f, 0, 2*unit, &p, &vfs.Attr{})
		require.NoError(t, err)
		change(f)
		// Whatever became free is taken and filled.
		g := h.create(h.root(), "g")
		h.write(g, 0, pattern(5, 4*unit))
		require.Equal(t, want, join(&p), name)
		w.ReleasePages(&p)
		require.NoError(t, fs.Remove(h.ctx, h.root(), "g", &vfs.WCC{}))
		if name != "remove" {
			require.NoError(t, fs.Remove(h.ctx, h.root(), "f", &vfs.WCC{}))
		}
	}
}

// The file changes between GrabPages and WritePages.
func testPagesAndBytes(t *testing.T, fs vfs.FS) {
	w := pageWriter(t, fs)
	h := newHarness(t, fs)
	for _, n := range []int{100, 5000, 70000} {
		f := h.create(h.root(), "f")
		var p vfs.Pages
		require.True(t, w.GrabPages(f, 0, n, &p))
		spread(&p, pattern(1, n))
		want := pattern(2, 2*unit)
		h.write(f, 0, want)
		copy(want, pattern(1, n))
		require.NoError(t, w.WritePages(h.ctx, f, 0, &p, false, &vfs.WCC{}))
		require.Equal(t, want, h.read(f, 0, 3*unit))

		require.True(t, w.GrabPages(f, unit, unit, &p))
		spread(&p, pattern(3, unit))
		h.truncate(f, 10)
		require.NoError(t, w.WritePages(h.ctx, f, unit, &p, false, &vfs.WCC{}))
		want = append(append(want[:10:10], make([]byte, unit-10)...), pattern(3, unit)...)
		require.Equal(t, want, h.read(f, 0, 3*unit))
		require.NoError(t, fs.Remove(h.ctx, h.root(), "f", &vfs.WCC{}))
	}
}

// The rest of a page that was written in part is zero, whatever was there.
func testPagesClean(t *testing.T, fs vfs.FS) {
	w := pageWriter(t, fs)
	h := newHarness(t, fs)
	old := h.create(h.root(), "old")
	h.write(old, 0, pattern(1, unit))
	require.NoError(t, fs.Remove(h.ctx, h.root(), "old", &vfs.WCC{}))
	for _, n := range []int{1, 5000, 100001} {
		f := h.create(h.root(), "f")
		require.True(t, h.writePages(w, f, 0, pattern(2, n)))
		h.truncate(f, unit)
		require.Equal(t, append(pattern(2, n), make([]byte, unit-n)...), h.read(f, 0, unit))
		require.NoError(t, fs.Remove(h.ctx, h.root(), "f", &vfs.WCC{}))
	}
}

func testPagesSizes(t *testing.T, fs vfs.FS) {
	w := pageWriter(t, fs)
	h := newHarness(t, fs)
	f := h.create(h.root(), "f")
	for _, n := range append(sizes, 10<<20) {
		var p vfs.Pages
		require.True(t, w.GrabPages(f, 0, n, &p))
		require.Equal(t, n, p.Len())
		require.NoError(t, w.WritePages(h.ctx, f, 0, &p, false, &vfs.WCC{}))
		require.EqualValues(t, n, h.attr(f).Size)
		require.Len(t, h.readPages(w, f, 0, n+1), n)
	}
}

func testPagesTypes(t *testing.T, fs vfs.FS) {
	w := pageWriter(t, fs)
	h := newHarness(t, fs)
	f := h.create(h.root(), "f")
	l := h.symlink(h.root(), "l", "x")
	require.NoError(t, fs.Remove(h.ctx, h.root(), "f", &vfs.WCC{}))
	for id, want := range map[vfs.ID]error{h.root(): vfs.ErrIsDir, l: vfs.ErrInval, f: vfs.ErrStale} {
		var p vfs.Pages
		_, err := w.ReadPages(h.ctx, id, 0, 10, &p, &vfs.Attr{})
		require.ErrorIs(t, err, want)
		require.False(t, w.GrabPages(id, 0, unit, &p))
		require.Empty(t, p.List)
		require.ErrorIs(t, w.WritePages(h.ctx, id, 0, &p, false, &vfs.WCC{}), want)
	}
}

func testPagesGiveBack(t *testing.T, fs vfs.FS) {
	w := pageWriter(t, fs)
	h := newHarness(t, fs)
	f := h.create(h.root(), "f")
	before := h.attr(f)
	var p vfs.Pages
	require.True(t, w.GrabPages(f, 0, unit, &p))
	w.ReleasePages(&p)
	w.ReleasePages(&p)
	require.Equal(t, before, h.attr(f))

	require.True(t, w.GrabPages(f, 0, unit, &p))
	require.NoError(t, fs.Remove(h.ctx, h.root(), "f", &vfs.WCC{}))
	require.ErrorIs(t, w.WritePages(h.ctx, f, 0, &p, false, &vfs.WCC{}), vfs.ErrStale)
	require.Empty(t, p.List)
}

// Pages lent for writes at one time do not overlap.
func testPagesApart(t *testing.T, fs vfs.FS) {
	w := pageWriter(t, fs)
	h := newHarness(t, fs)
	f := h.create(h.root(), "f")
	var p vfs.Pages
	for k := range 20 {
		require.True(t, w.GrabPages(f, uint64(k)*unit, unit/4, &p))
	}
	require.Equal(t, 5*unit, p.Len())
	for i := range p.List {
		p.List[i].Bytes()[0] = byte(i)
		p.List[i].Bytes()[p.List[i].Len-1] = byte(i)
	}
	for i := range p.List {
		b := p.List[i].Bytes()
		require.Equal(t, [2]byte{byte(i), byte(i)}, [2]byte{b[0], b[len(b)-1]})
	}
	w.ReleasePages(&p)
}
