package sinkfs_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/nfsserver/sinkfs"
	"example.org/nfsrdma/nfsserver/vfs"
	"example.org/nfsrdma/nfsserver/vfs/vfstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	vfstest.Run(t, func(*testing.T) vfs.FS { return sinkfs.New(memfs.Options{}) }, "data/*")
}

func newFile(t testing.TB, fs vfs.FS) vfs.ID {
	t.Helper()
	var a vfs.Attr
	require.NoError(t, fs.Create(t.Context(), fs.Root(), "f", vfs.Guarded, 0, nil, &a, nil))
	return a.ID
}

func TestDataIsDropped(t *testing.T) {
	fs := sinkfs.New(memfs.Options{Capacity: 1 << 20})
	f := newFile(t, fs)
	data := make([]byte, 4<<20)
	for i := range data {
		data[i] = 1
	}
	// More than the capacity, at any offset.
	var w vfs.WCC
	require.NoError(t, fs.Write(t.Context(), f, 12345, data, true, &w))
	require.EqualValues(t, 12345+4<<20, w.After.Size)
	require.Zero(t, w.After.Used)

	var p vfs.Pages
	require.True(t, fs.GrabPages(f, 777, 1<<20, &p))
	for i := range p.List {
		copy(p.List[i].Bytes(), data)
	}
	require.NoError(t, fs.WritePages(t.Context(), f, 777, &p, false, &w))

	n, eof, err := fs.Read(t.Context(), f, 0, data, nil)
	require.NoError(t, err)
	require.False(t, eof)
	require.Equal(t, make([]byte, 4<<20), data[:n])

	var a vfs.Attr
	eof, err = fs.ReadPages(t.Context(), f, 4<<20, 1<<20, &p, &a)
	require.NoError(t, err)
	require.True(t, eof)
	require.Equal(t, 12345, p.Len())
	require.Len(t, p.List, 1, "zeros are lent in one piece")
	require.Equal(t, make([]byte, 12345), p.List[0].Bytes())
	require.Equal(t, 1, fs.Pinned())
	fs.ReleasePages(&p)
	require.NoError(t, fs.CheckConsistent())
}

// Writes one after another use the same chunks.
func TestChunksAreUsedAgain(t *testing.T) {
	fs := sinkfs.New(memfs.Options{})
	f := newFile(t, fs)
	slabs := make(map[*vfs.Slab]bool)
	for k := range 64 {
		var p vfs.Pages
		require.True(t, fs.GrabPages(f, uint64(k)<<20, 1<<20, &p))
		for i := range p.List {
			slabs[p.List[i].Slab] = true
		}
		require.NoError(t, fs.WritePages(t.Context(), f, uint64(k)<<20, &p, false, nil))
	}
	require.Len(t, slabs, 1)
}

func BenchmarkRead1M(b *testing.B) {
	fs := sinkfs.New(memfs.Options{})
	f := newFile(b, fs)
	require.NoError(b, fs.SetAttr(b.Context(), f, &vfs.SetAttr{SetSize: true, Size: 64 << 20}, nil, nil))
	ctx := b.Context()
	var p vfs.Pages
	var a vfs.Attr
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	for k := 0; b.Loop(); k++ {
		_, _ = fs.ReadPages(ctx, f, uint64(k%64)<<20, 1<<20, &p, &a)
		fs.ReleasePages(&p)
	}
}

func BenchmarkWrite1M(b *testing.B) {
	fs := sinkfs.New(memfs.Options{})
	f := newFile(b, fs)
	ctx := b.Context()
	var p vfs.Pages
	var w vfs.WCC
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	for k := 0; b.Loop(); k++ {
		fs.GrabPages(f, uint64(k%64)<<20, 1<<20, &p)
		_ = fs.WritePages(ctx, f, uint64(k%64)<<20, &p, false, &w)
	}
}
