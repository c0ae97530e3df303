package memfs

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/nfsserver/vfs"
)

func TestOptions(t *testing.T) {
	now := vfs.Time{Sec: 100, Nsec: 5}
	fs := New(Options{
		Now: func() vfs.Time { return now }, RootUID: 7, RootGID: 8, RootMode: 0o1777, FSID: 9,
		MaxFileSize: 1 << 20, MaxLink: 3, Capacity: 1 << 20, MaxFiles: 10,
	})
	var a vfs.Attr
	require.NoError(t, fs.Attr(t.Context(), fs.Root(), &a))
	require.Equal(t, [3]uint32{7, 8, 0o1777}, [3]uint32{a.UID, a.GID, a.Mode})
	require.Equal(t, [3]vfs.Time{now, now, now}, [3]vfs.Time{a.Atime, a.Mtime, a.Ctime})
	require.EqualValues(t, 9, fs.FSID())
	require.EqualValues(t, 1<<20, fs.Info().MaxFileSize)
	require.EqualValues(t, 3, fs.Info().MaxLink)
	s, err := fs.Stat(t.Context())
	require.NoError(t, err)
	require.Equal(t, vfs.Stat{TotalBytes: 1 << 20, FreeBytes: 1 << 20, AvailBytes: 1 << 20, TotalFiles: 10, FreeFiles: 9, AvailFiles: 9}, s)
}

func TestCapacity(t *testing.T) {
	fs := New(Options{Capacity: 4 * ChunkSize})
	f := newFile(t, fs, "f")
	writeFile(t, fs, f, 0, filled(3*ChunkSize, 1), false)

	var w vfs.WCC
	require.ErrorIs(t, fs.Write(t.Context(), f, 3*ChunkSize-1, filled(2*ChunkSize, 2), false, &w), vfs.ErrNoSpace)
	require.Equal(t, w.Before, w.After)
	require.EqualValues(t, 3*ChunkSize, w.After.Size)
	var p vfs.Pages
	require.True(t, fs.GrabPages(f, 2*ChunkSize, 3*ChunkSize, &p))
	require.ErrorIs(t, fs.WritePages(t.Context(), f, 2*ChunkSize, &p, false, &w), vfs.ErrNoSpace)
	wantData(t, fs, f, filled(3*ChunkSize, 1))
	wantConsistent(t, fs, 0)

	// A full file system can be written over, in both ways, while it is read.
	writeFile(t, fs, f, 3*ChunkSize, filled(ChunkSize, 1), false)
	var lent vfs.Pages
	_, err := fs.ReadPages(t.Context(), f, 0, 4*ChunkSize, &lent, nil)
	require.NoError(t, err)
	writeFile(t, fs, f, 0, filled(4*ChunkSize, 3), false)
	require.True(t, fs.GrabPages(f, 0, 4*ChunkSize, &p))
	require.NoError(t, fs.WritePages(t.Context(), f, 0, &p, false, nil))
	g := newFile(t, fs, "g")
	require.ErrorIs(t, fs.Write(t.Context(), g, 0, []byte{1}, false, nil), vfs.ErrNoSpace)
	fs.ReleasePages(&lent)

	removeFile(t, fs, "f")
	writeFile(t, fs, g, 0, filled(4*ChunkSize, 4), false)
	wantConsistent(t, fs, 0)
}

func TestMaxFiles(t *testing.T) {
	fs := New(Options{MaxFiles: 3})
	newFile(t, fs, "a")
	f := newFile(t, fs, "b")
	var a vfs.Attr
	var w vfs.WCC
	require.ErrorIs(t, fs.Create(t.Context(), fs.Root(), "c", vfs.Unchecked, 0, nil, &a, &w), vfs.ErrNoSpace)
	require.ErrorIs(t, fs.Mkdir(t.Context(), fs.Root(), "c", nil, &a, &w), vfs.ErrNoSpace)
	require.ErrorIs(t, fs.Symlink(t.Context(), fs.Root(), "c", "x", nil, &a, &w), vfs.ErrNoSpace)
	require.Equal(t, w.Before, w.After)
	require.NoError(t, fs.Create(t.Context(), fs.Root(), "b", vfs.Unchecked, 0, nil, &a, &w))
	require.NoError(t, fs.Link(t.Context(), f, fs.Root(), "d", &a, &w))
	removeFile(t, fs, "a")
	newFile(t, fs, "c")
	wantConsistent(t, fs, 0)
}

func TestMaxLink(t *testing.T) {
	fs := New(Options{MaxLink: 2})
	f := newFile(t, fs, "a")
	require.NoError(t, fs.Link(t.Context(), f, fs.Root(), "b", nil, nil))
	require.ErrorIs(t, fs.Link(t.Context(), f, fs.Root(), "c", nil, nil), vfs.ErrMLink)
	removeFile(t, fs, "a")
	require.NoError(t, fs.Link(t.Context(), f, fs.Root(), "c", nil, nil))
	wantConsistent(t, fs, 0)
}

// Small files must not cost a whole chunk each.
func TestSmallFilesAreCheap(t *testing.T) {
	fs := New(Options{})
	const n = 2000
	for k := range n {
		f := newFile(t, fs, fmt.Sprint("f", k))
		writeFile(t, fs, f, 0, filled(100, byte(k)), false)
	}
	s, err := fs.Stat(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, n*minChunk, s.TotalBytes-s.FreeBytes)
	slabs := 0
	for _, s := range fs.pool.slabs {
		slabs += len(s.Mem)
	}
	require.LessOrEqual(t, slabs, n*minChunk+maxSlab)

	f := newFile(t, fs, "grows")
	for n := 1000; n < 3*ChunkSize; n += 1000 {
		writeFile(t, fs, f, uint64(n-1000), filled(1000, byte(n)), false)
		var a vfs.Attr
		require.NoError(t, fs.Attr(t.Context(), f, &a))
		require.Less(t, a.Used, max(2*a.Size, minChunk+1)+ChunkSize/2)
	}
	wantConsistent(t, fs, 0)
}

// A name may lie in a buffer that is used again.
func TestNamesAreCopied(t *testing.T) {
	fs := New(Options{})
	buf := []byte("name")
	newFile(t, fs, unsafe.String(&buf[0], len(buf)))
	target := []byte("target")
	var a vfs.Attr
	require.NoError(t, fs.Symlink(t.Context(), fs.Root(), "l", unsafe.String(&target[0], len(target)), nil, &a, nil))
	clear(buf)
	clear(target)
	require.NoError(t, fs.Lookup(t.Context(), fs.Root(), "name", nil))
	got, err := fs.ReadLink(t.Context(), a.ID)
	require.NoError(t, err)
	require.Equal(t, "target", got)
	require.NoError(t, fs.SetAttr(t.Context(), a.ID, nil, nil, nil))
}

// Equal calls give equal numbers, cookies and places in memory.
func TestDeterministic(t *testing.T) {
	run := func() []string {
		fs := New(Options{TrackUnstable: true})
		rnd := rand.New(rand.NewPCG(1, 2))
		var log []string
		for range 2000 {
			name := fmt.Sprint("f", rnd.IntN(40))
			var a vfs.Attr
			if rnd.IntN(4) == 0 {
				_ = fs.Remove(t.Context(), fs.Root(), name, nil)
				continue
			}
			require.NoError(t, fs.Create(t.Context(), fs.Root(), name, vfs.Unchecked, 0, nil, &a, nil))
			for range 3 {
				writeFile(t, fs, a.ID, uint64(rnd.IntN(1<<18)), filled(100, 1), false)
			}
			if rnd.IntN(100) == 0 {
				fs.Crash()
			}
			var p vfs.Pages
			_, err := fs.ReadPages(t.Context(), a.ID, 0, 1<<18, &p, &a)
			require.NoError(t, err)
			for i := range p.List {
				log = append(log, fmt.Sprint(a, p.List[i].Off, p.List[i].Len, p.List[i].Slab.ID-fs.zero.slab.ID))
			}
			fs.ReleasePages(&p)
		}
		_, _, err := fs.ReadDir(t.Context(), fs.Root(), 0, 0, func(e *vfs.DirEntry) bool {
			log = append(log, fmt.Sprint(*e))
			return true
		})
		require.NoError(t, err)
		return log
	}
	require.Equal(t, run(), run())
}
