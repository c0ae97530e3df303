package vfstest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/nfsserver/vfs"
)

var dataTests = map[string]Test{
	"data/round trip":    testRoundTrip,
	"data/overwrite":     testOverwrite,
	"data/sparse":        testSparse,
	"data/truncate":      testTruncate,
	"data/no old bytes":  testNoOldBytes,
	"data/used":          testUsed,
	"read/end":           testReadEnd,
	"read/types":         testDataTypes,
	"write/wcc":          testWriteWCC,
	"write/many offsets": testWriteOffsets,
	"commit":             testCommit,
}

// Sizes around the units that file systems are made of.
var sizes = []int{1, 100, 4095, 4096, 4097, 8192, 65535, 65536, 65537, 131072, 200000, 1 << 20}

func testRoundTrip(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	for k, n := range sizes {
		f := h.create(h.root(), string(rune('a'+k)))
		want := pattern(k, n)
		h.write(f, 0, want)
		require.Equal(t, want, h.read(f, 0, n))
		require.Equal(t, want, h.read(f, 0, n+10))
		require.Equal(t, want[n/2:], h.read(f, uint64(n/2), n))
	}
}

func testOverwrite(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	f := h.create(h.root(), "f")
	want := pattern(0, 300000)
	h.write(f, 0, want)
	for k, off := range []int{0, 1, 4096, 65530, 65536, 131072, 299999} {
		n := min(70000, len(want)-off)
		part := pattern(k+1, n)
		copy(want[off:], part)
		h.write(f, uint64(off), part)
		require.Equal(t, want, h.read(f, 0, len(want)))
	}
}

func testSparse(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	f := h.create(h.root(), "f")
	const far = 1 << 32
	h.write(f, far+5, []byte("far"))
	h.write(f, 200000, []byte("near"))
	require.Equal(t, uint64(far+8), h.attr(f).Size)
	want := make([]byte, 1<<20)
	copy(want[200000:], "near")
	require.Equal(t, want, h.read(f, 0, len(want)))
	require.Equal(t, append(make([]byte, 5), "far"...), h.read(f, far, 100))
	require.Equal(t, make([]byte, 1000), h.read(f, far/2, 1000))
	require.Less(t, h.attr(f).Used, uint64(1<<20))
}

func testTruncate(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	for k, n := range sizes {
		f := h.create(h.root(), string(rune('a'+k)))
		h.write(f, 0, pattern(k, 1<<20))
		h.truncate(f, uint64(n))
		want := pattern(k, 1<<20)[:n]
		require.Equal(t, want, h.read(f, 0, 2<<20))
		h.truncate(f, 1<<20)
		want = append(want, make([]byte, 1<<20-n)...)
		require.Equal(t, want, h.read(f, 0, 2<<20))
		h.truncate(f, uint64(n/2))
		h.write(f, uint64(n)+3, []byte{1, 2, 3})
		want = append(append(want[:n/2:n/2], make([]byte, n-n/2+3)...), 1, 2, 3)
		require.Equal(t, want, h.read(f, 0, 2<<20))
	}
}

func testNoOldBytes(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	for range 3 {
		f := h.create(h.root(), "secret")
		h.write(f, 0, pattern(3, 1<<20))
		require.NoError(t, fs.Remove(h.ctx, h.root(), "secret", &vfs.WCC{}))
		g := h.create(h.root(), "g")
		for off := 0; off < 1<<20; off += 50000 {
			h.write(g, uint64(off), []byte{0})
		}
		h.truncate(g, 1<<20)
		require.Equal(t, make([]byte, 1<<20), h.read(g, 0, 1<<20))
		require.NoError(t, fs.Remove(h.ctx, h.root(), "g", &vfs.WCC{}))
	}
}

func testUsed(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	free := func() uint64 {
		s, err := fs.Stat(h.ctx)
		require.NoError(t, err)
		return s.FreeBytes
	}
	start := free()
	f := h.create(h.root(), "f")
	h.write(f, 0, pattern(0, 1<<20))
	require.GreaterOrEqual(t, h.attr(f).Used, uint64(1<<20))
	require.Equal(t, start-h.attr(f).Used, free())
	h.write(f, 0, pattern(1, 1<<20))
	require.Equal(t, start-h.attr(f).Used, free())
	h.truncate(f, 100000)
	require.Less(t, h.attr(f).Used, uint64(1<<18))
	require.Equal(t, start-h.attr(f).Used, free())
	require.NoError(t, fs.Remove(h.ctx, h.root(), "f", &vfs.WCC{}))
	require.Equal(t, start, free())
}

func testReadEnd(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	f := h.create(h.root(), "f")
	require.Empty(t, h.read(f, 0, 10))
	h.write(f, 0, pattern(0, 100))
	require.Len(t, h.read(f, 0, 99), 99)
	require.Len(t, h.read(f, 1, 99), 99)
	require.Len(t, h.read(f, 99, 10), 1)
	require.Empty(t, h.read(f, 100, 10))
	require.Empty(t, h.read(f, 1<<40, 10))
	require.Empty(t, h.read(f, 50, 0))
}

func testDataTypes(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	link := h.symlink(h.root(), "l", "x")
	for id, want := range map[vfs.ID]error{h.root(): vfs.ErrIsDir, link: vfs.ErrInval} {
		_, _, err := fs.Read(h.ctx, id, 0, make([]byte, 1), &vfs.Attr{})
		require.ErrorIs(t, err, want)
		var w vfs.WCC
		require.ErrorIs(t, fs.Write(h.ctx, id, 0, []byte{1}, false, &w), want)
		require.Equal(t, h.attr(id), w.After)
		require.ErrorIs(t, fs.Commit(h.ctx, id, 0, 0, &w), want)
	}
}

func testWriteWCC(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	f := h.create(h.root(), "f")
	before := h.attr(f)
	var w vfs.WCC
	require.NoError(t, fs.Write(h.ctx, f, 10, pattern(0, 90), true, &w))
	require.Equal(t, vfs.WCC{Before: before, After: h.attr(f)}, w)
	require.EqualValues(t, 100, w.After.Size)
	before = w.After
	require.NoError(t, fs.Write(h.ctx, f, 0, pattern(0, 10), false, &w))
	require.Equal(t, vfs.WCC{Before: before, After: h.attr(f)}, w)
	require.EqualValues(t, 100, w.After.Size)
	require.NotEqual(t, before.Ctime, w.After.Ctime)
}

func testWriteOffsets(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	f := h.create(h.root(), "f")
	size := uint64(0)
	for k := range 100 {
		off := uint64(k*k) * 1000
		h.write(f, off, pattern(k, 3000))
		size = max(size, off+3000)
		require.Equal(t, size, h.attr(f).Size)
	}
}

func testCommit(t *testing.T, fs vfs.FS) {
	h := newHarness(t, fs)
	f := h.create(h.root(), "f")
	h.write(f, 0, pattern(0, 100000))
	for _, r := range [][2]uint64{{0, 0}, {0, 10}, {50000, 100000}, {1 << 40, 5}, {1<<64 - 1, 1<<64 - 1}} {
		before := h.attr(f)
		var w vfs.WCC
		require.NoError(t, fs.Commit(h.ctx, f, r[0], r[1], &w))
		require.Equal(t, vfs.WCC{Before: before, After: before}, w)
	}
}
