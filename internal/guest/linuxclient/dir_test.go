package linuxclient

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/nfsserver/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// readNames lists a directory, in the server's order.
func readNames(t *testing.T, dir string) []string {
	t.Helper()
	f, err := os.Open(dir)
	require.NoError(t, err)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	require.NoError(t, err)
	return names
}

func wantNames(t *testing.T, want, got []string) {
	t.Helper()
	want, got = slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got))
	require.Equal(t, len(want), len(got))
	require.True(t, slices.Equal(want, got))
}

// fill makes n files with long names in a new directory, not over the wire.
func fill(t *testing.T, fs *memfs.FS, dir string, n int) []string {
	t.Helper()
	var a vfs.Attr
	s := vfs.SetAttr{}
	require.NoError(t, fs.Mkdir(context.Background(), fs.Root(), dir, &s, &a, nil))
	id := a.ID
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%05d-", i) + strings.Repeat("long", 62)[:200+i%49]
		require.NoError(t, fs.Create(context.Background(), id, names[i], vfs.Unchecked, 0, &s, &a, nil))
	}
	return names
}

// TestDirectory lists 5,000 names, each once: over the wire, again from the kernel's cache, without attributes, and while
// entries go away and come.
func TestDirectory(t *testing.T) {
	const entries = 5000
	fs := newMemFS()
	r := newRig(t, fs)
	names := fill(t, fs, "dir", entries)
	dir := filepath.Join(mnt, "dir")
	t.Run("readdirplus", func(t *testing.T) {
		r.mount("noacl")
		wantNames(t, names, readNames(t, dir))
		wantNames(t, names, readNames(t, dir))
		dropCaches(t)
		list, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, list, entries)
		for _, e := range list[:50] { // with attributes
			info, err := e.Info()
			require.NoError(t, err)
			assert.True(t, info.Mode().IsRegular())
		}
		st := r.stats()
		assert.NotZero(t, st.Procs[17], "READDIRPLUS")
	})
	t.Run("readdir", func(t *testing.T) {
		r.remount("noacl,nordirplus,rsize=4096")
		wantNames(t, names, readNames(t, dir))
		st := r.stats()
		assert.NotZero(t, st.Procs[16], "READDIR")
	})
	t.Run("removed meanwhile", func(t *testing.T) {
		r.remount("noacl")
		f := open(t, dir, os.O_RDONLY)
		var seen, kept []string
		for i := 0; ; i++ {
			batch, err := f.Readdirnames(250)
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
			seen = append(seen, batch...)
			for j, name := range batch {
				if j%4 != 0 {
					kept = append(kept, name)
					continue
				}
				require.NoError(t, os.Remove(filepath.Join(dir, name)))
			}
			if i%4 == 0 {
				dropCaches(t)
			}
		}
		wantNames(t, names, seen)
		dropCaches(t)
		wantNames(t, kept, readNames(t, dir))
		names = kept
	})
	t.Run("added meanwhile", func(t *testing.T) {
		f := open(t, dir, os.O_RDONLY)
		first, err := f.Readdirnames(1000)
		require.NoError(t, err)
		var added []string
		for i := range 200 {
			added = append(added, fmt.Sprintf("added-%03d", i))
			write(t, filepath.Join(dir, added[i]), nil)
		}
		dropCaches(t)
		rest, err := f.Readdirnames(-1)
		require.NoError(t, err)
		old := slices.DeleteFunc(append(first, rest...), func(n string) bool { return strings.HasPrefix(n, "added-") })
		wantNames(t, names, old) // of the new ones, each may be seen or not
		wantNames(t, append(names[:len(names):len(names)], added...), readNames(t, dir))
	})
}
