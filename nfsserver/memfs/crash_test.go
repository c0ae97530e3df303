package memfs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/nfsserver/vfs"
)

const twoChunks = 2 * ChunkSize

func TestCrashDropsUnstable(t *testing.T) {
	fs := New(Options{TrackUnstable: true})
	f := newFile(t, fs, "f")
	writeFile(t, fs, f, 0, filled(1000, 1), true)
	verf := fs.WriteVerf()
	fs.Crash()
	require.NotEqual(t, verf, fs.WriteVerf())
	wantData(t, fs, f, filled(1000, 1))

	writeFile(t, fs, f, 0, filled(twoChunks, 2), false)
	var p vfs.Pages
	require.True(t, fs.GrabPages(f, twoChunks, ChunkSize, &p))
	require.NoError(t, fs.WritePages(t.Context(), f, twoChunks, &p, false, nil))
	wantConsistent(t, fs, 0)
	fs.Crash()
	wantData(t, fs, f, filled(1000, 1))
	wantConsistent(t, fs, 0)

	writeFile(t, fs, f, 0, filled(twoChunks, 3), false)
	require.NoError(t, fs.Commit(t.Context(), f, 0, 0, nil))
	writeFile(t, fs, f, 500, filled(10, 4), false)
	fs.Crash()
	wantData(t, fs, f, filled(twoChunks, 3))
	wantConsistent(t, fs, 0)
}

func TestCrashAfterPartialCommit(t *testing.T) {
	fs := New(Options{TrackUnstable: true})
	f := newFile(t, fs, "f")
	for k := range 4 {
		writeFile(t, fs, f, uint64(k)*ChunkSize, filled(ChunkSize, byte(k+1)), false)
	}
	require.NoError(t, fs.Commit(t.Context(), f, ChunkSize+10, 20, nil))
	wantConsistent(t, fs, 0)
	fs.Crash()
	wantData(t, fs, f, append(make([]byte, ChunkSize), filled(ChunkSize, 2)...))
	wantConsistent(t, fs, 0)
}

func TestSizeChangeCommits(t *testing.T) {
	fs := New(Options{TrackUnstable: true})
	f := newFile(t, fs, "f")
	writeFile(t, fs, f, 0, filled(twoChunks, 1), false)
	setSize(t, fs, f, 1000)
	fs.Crash()
	wantData(t, fs, f, filled(1000, 1))

	writeFile(t, fs, f, 0, filled(10, 2), false)
	writeFile(t, fs, f, 10, filled(990, 2), true)
	fs.Crash()
	wantData(t, fs, f, filled(1000, 2))
	wantConsistent(t, fs, 0)
}

// Pages that are lent at a crash stay as they are.
func TestCrashWithLentPages(t *testing.T) {
	fs := New(Options{TrackUnstable: true})
	f := newFile(t, fs, "f")
	writeFile(t, fs, f, 0, filled(twoChunks, 1), false)
	var p vfs.Pages
	_, err := fs.ReadPages(t.Context(), f, 0, twoChunks, &p, nil)
	require.NoError(t, err)
	var grabbed vfs.Pages
	require.True(t, fs.GrabPages(f, 0, ChunkSize, &grabbed))
	fs.Crash()
	wantData(t, fs, f, []byte{})
	writeFile(t, fs, f, 0, filled(twoChunks, 2), false)
	for i := range p.List {
		require.Equal(t, filled(ChunkSize, 1), p.List[i].Bytes())
	}
	wantConsistent(t, fs, 3)
	fs.ReleasePages(&p)
	fs.ReleasePages(&grabbed)
	wantConsistent(t, fs, 0)
}

func TestRemoveUnstable(t *testing.T) {
	fs := New(Options{TrackUnstable: true})
	f := newFile(t, fs, "f")
	writeFile(t, fs, f, 0, filled(1000, 1), true)
	writeFile(t, fs, f, 0, filled(twoChunks, 2), false)
	removeFile(t, fs, "f")
	fs.Crash()
	require.ErrorIs(t, fs.Attr(t.Context(), f, nil), vfs.ErrStale)
	wantConsistent(t, fs, 0)
	require.Zero(t, fs.used.Load())
}

func TestCrashWithoutTracking(t *testing.T) {
	fs := New(Options{})
	f := newFile(t, fs, "f")
	writeFile(t, fs, f, 0, filled(1000, 1), false)
	verf := fs.WriteVerf()
	fs.Crash()
	require.NotEqual(t, verf, fs.WriteVerf())
	wantData(t, fs, f, filled(1000, 1))
}
