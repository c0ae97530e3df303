package memfs

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/nfsserver/vfs"
)

func TestChunkLen(t *testing.T) {
	for end, want := range map[uint32]uint32{1: 4096, 4096: 4096, 4097: 8192, 8192: 8192, 16385: 32768, 32768: 32768, 32769: 65536, 65536: 65536} {
		require.Equal(t, want, chunkLen(0, end), "end %d", end)
		require.EqualValues(t, ChunkSize, chunkLen(1, end))
		require.Equal(t, want, uint32(minChunk)<<class(end))
	}
}

func TestReleaseTwicePanics(t *testing.T) {
	fs := New(Options{})
	f := newFile(t, fs, "f")
	writeFile(t, fs, f, 0, filled(100, 1), false)
	var p vfs.Pages
	_, err := fs.ReadPages(t.Context(), f, 0, 100, &p, nil)
	require.NoError(t, err)
	again := vfs.Pages{List: append([]vfs.Page(nil), p.List...)}
	fs.ReleasePages(&p)
	require.Panics(t, func() { fs.ReleasePages(&again) })
}

func TestWritePagesOfOthers(t *testing.T) {
	fs := New(Options{})
	f := newFile(t, fs, "f")
	writeFile(t, fs, f, 0, filled(twoChunks, 1), false)
	var p vfs.Pages
	// Pages that were read are not to be written.
	_, err := fs.ReadPages(t.Context(), f, 0, ChunkSize, &p, nil)
	require.NoError(t, err)
	require.ErrorIs(t, fs.WritePages(t.Context(), f, 0, &p, false, nil), vfs.ErrInval)
	// Nor is another offset than the one asked for.
	require.True(t, fs.GrabPages(f, 0, ChunkSize, &p))
	require.ErrorIs(t, fs.WritePages(t.Context(), f, 1, &p, false, nil), vfs.ErrInval)
	wantData(t, fs, f, filled(twoChunks, 1))
	wantConsistent(t, fs, 0)
}

func TestFilemap(t *testing.T) {
	var m filemap
	want := make(map[uint64]*chunk)
	rnd := rand.New(rand.NewPCG(3, 4))
	index := func() uint64 {
		if rnd.IntN(3) == 0 {
			return rnd.Uint64() >> (rnd.IntN(48) + 16)
		}
		return rnd.Uint64N(1000)
	}
	for range 5000 {
		if i := index(); rnd.IntN(200) > 0 {
			want[i] = &chunk{}
			m.set(i, want[i])
		} else {
			dropped := make(map[*chunk]bool)
			m.truncate(i, func(c *chunk) { dropped[c] = true })
			for k, c := range want {
				require.Equal(t, k >= i, dropped[c])
				if k >= i {
					delete(want, k)
				}
			}
		}
		i := index()
		require.Same(t, want[i], m.get(i))
	}
	n := 0
	last := uint64(0)
	m.each(func(i uint64, c *chunk) {
		require.Same(t, want[i], c)
		require.True(t, n == 0 || i > last)
		n++
		last = i
	})
	require.Equal(t, len(want), n)
	m.truncate(0, func(*chunk) {})
	require.Nil(t, m.head)
	require.Empty(t, m.leaves)
}

// CheckConsistent finds what is broken.
func TestCheckConsistent(t *testing.T) {
	for name, spoil := range map[string]func(fs *FS, in *inode){
		"nlink":       func(_ *FS, in *inode) { in.nlink++ },
		"used":        func(_ *FS, in *inode) { in.used++ },
		"fs used":     func(fs *FS, _ *inode) { fs.used.Add(1) },
		"count":       func(fs *FS, _ *inode) { fs.inodes.count++ },
		"root nlink":  func(fs *FS, _ *inode) { fs.root.nlink-- },
		"leak":        func(fs *FS, _ *inode) { fs.pool.get(minChunk) },
		"holder":      func(_ *FS, in *inode) { in.data.head.refs.Add(held) },
		"tail":        func(_ *FS, in *inode) { in.data.head.bytes()[2000] = 1 },
		"past end":    func(_ *FS, in *inode) { in.size = 0 },
		"lost object": func(fs *FS, in *inode) { fs.inodes.remove(in) },
		"cookie":      func(fs *FS, _ *inode) { fs.root.dir.order[0].cookie = 100 },
		"name":        func(fs *FS, _ *inode) { fs.root.dir.order[0].name = "g" },
	} {
		fs := New(Options{})
		f := newFile(t, fs, "f")
		writeFile(t, fs, f, 0, filled(1000, 1), false)
		require.NoError(t, fs.CheckConsistent())
		spoil(fs, fs.inodes.get(f))
		require.Error(t, fs.CheckConsistent(), name)
	}
}
