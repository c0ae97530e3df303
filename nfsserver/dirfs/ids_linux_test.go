package dirfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"example.org/nfsrdma/nfsserver/vfs"
)

// IDs are those of a later FS with the same key, by file handle or by a walk; without the key they are not.
func TestIDsOutliveTheServer(t *testing.T) {
	for name, without := range ways {
		if name == "weak" {
			continue // nothing tells objects with one number apart
		}
		t.Run(name, func(t *testing.T) {
			tr := newTree(t, Options{Key: []byte("key")}, without)
			want := map[string]vfs.ID{"": tr.Root()}
			for _, path := range []string{"f", "d", "d/g", "d/e"} {
				want[path] = tr.lookup(strings.Split(path, "/")...)
			}
			gone := want["d/e"]
			delete(want, "d/e")
			require.NoError(t, tr.Rmdir(t.Context(), want["d"], "e", nil))
			tr.mv("export/d/g", "export/h")
			require.NoError(t, tr.Close())

			again := &tree{newTestFS(t, tr.root, Options{Key: []byte("key"), AsyncMeta: true}, without), t, tr.top, tr.root}
			again.wantData(want["d/g"], "deep")
			again.wantData(want["f"], "file")
			if again.layout != noLayout && os.Geteuid() == 0 && !without.byHandle {
				require.False(t, again.walked, "a file handle leads to the object")
			}
			var a vfs.Attr
			require.NoError(t, again.Lookup(t.Context(), want["d"], "..", &a))
			require.Equal(t, again.Root(), a.ID)
			require.Equal(t, want["d"], again.lookup("d"))
			require.Equal(t, want[""], again.Root())
			again.wantStale(gone)

			other := &tree{newTestFS(t, tr.root, Options{AsyncMeta: true}, without), t, tr.top, tr.root}
			other.wantStale(want["f"])
			other.wantStale(want[""])
		})
	}
}

// The file handles of the usual file systems are understood.
func TestLayout(t *testing.T) {
	var s unix.Statfs_t
	require.NoError(t, unix.Statfs(os.TempDir(), &s))
	if typ := int64(s.Type); typ != unix.EXT4_SUPER_MAGIC && typ != unix.XFS_SUPER_MAGIC && typ != unix.TMPFS_MAGIC {
		t.Skip("tests are not on ext4, xfs or tmpfs")
	}
	tr := newTree(t, Options{}, lacks{})
	require.NotEqual(t, noLayout, tr.layout)
	for _, path := range []string{"f", "d", "d/g"} {
		fd, err := unix.Open(filepath.Join(tr.root, path), unix.O_PATH|unix.O_NOFOLLOW, 0)
		require.NoError(t, err)
		var k kernelHandle
		h := handle{fd: fd, owned: true}
		require.NoError(t, nameToHandle(fd, &k))
		require.NoError(t, statx(fd, &h.st))
		gen, ok := tr.layout.generation(&k, h.st.Ino)
		require.True(t, ok)
		made := tr.layout.handle(h.st.Ino, gen)
		require.Equal(t, k.bytes(), made.Bytes())
		require.Equal(t, k.typ, made.Type())
		h.close()
	}
}

// Objects are found again when other processes rename them; without file handles, if they are open or stay in
// their directory.
func TestOthersRename(t *testing.T) {
	eachWay(t, func(t *testing.T, tr *tree) {
		f, d, g, e := tr.lookup("f"), tr.lookup("d"), tr.lookup("d", "g"), tr.lookup("d", "e")
		tr.mv("export/f", "export/f2")
		tr.wantData(f, "file")
		tr.mv("export/d", "export/d2")
		tr.wantData(g, "deep")
		var a vfs.Attr
		require.NoError(t, tr.Attr(t.Context(), e, &a))
		require.NoError(t, tr.Lookup(t.Context(), e, "..", &a))
		require.Equal(t, d, a.ID)
		tr.mv("export/d2/g", "export/g2") // open
		tr.wantData(g, "deep")
		tr.mv("export/f2", "export/d2/e/f3") // open
		tr.wantData(f, "file")
		if !tr.noByHandle {
			tr.cache.dropAll()
			tr.mv("export/d2/e/f3", "export/f4")
			tr.wantData(f, "file")
			tr.mv("export/d2/e", "export/e2")
			require.NoError(t, tr.Lookup(t.Context(), e, "..", &a))
			require.Equal(t, tr.Root(), a.ID)
		}
	})
}

// Another process removes an object and makes one of the same name, perhaps with the same number.
func TestOthersReplace(t *testing.T) {
	for name, without := range ways {
		if name == "weak" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			tr := newTree(t, Options{}, without)
			seen := map[vfs.ID]bool{tr.lookup("f"): true}
			same := false
			for range 20 {
				var ino uint64
				for id := range seen {
					ino = id.Ino
				}
				require.NoError(t, os.Remove(filepath.Join(tr.root, "f")))
				require.NoError(t, os.WriteFile(filepath.Join(tr.root, "f"), []byte("new"), 0o644))
				for id := range seen {
					tr.wantStale(id)
				}
				id := tr.lookup("f")
				require.False(t, seen[id], "an ID was used again")
				same = same || id.Ino == ino
				seen[id] = true
				tr.wantData(id, "new")
				tr.cache.dropAll()
			}
			t.Logf("numbers are used again: %t", same)
		})
	}
}

func TestFileWithManyNames(t *testing.T) {
	eachWay(t, func(t *testing.T, tr *tree) {
		f, d := tr.lookup("f"), tr.lookup("d")
		for k := range 100 {
			require.NoError(t, tr.Link(t.Context(), f, d, fmt.Sprint("l", k), nil, nil))
		}
		require.NoError(t, tr.Remove(t.Context(), tr.Root(), "f", nil))
		for k := 99; k > 0; k-- {
			require.NoError(t, tr.Remove(t.Context(), d, fmt.Sprint("l", k), nil))
			tr.wantData(f, "file")
		}
		require.NoError(t, tr.Remove(t.Context(), d, "l0", nil))
		tr.wantStale(f)
	})
}

// Paths longer than PATH_MAX are walked in pieces.
func TestDeepTree(t *testing.T) {
	eachWay(t, func(t *testing.T, tr *tree) {
		name := strings.Repeat("n", 250)
		ids := []vfs.ID{tr.Root()}
		for range 40 {
			var a vfs.Attr
			require.NoError(t, tr.Mkdir(t.Context(), ids[len(ids)-1], name, nil, &a, nil))
			ids = append(ids, a.ID)
		}
		var a vfs.Attr
		require.NoError(t, tr.Create(t.Context(), ids[40], "f", vfs.Guarded, 0, nil, &a, nil))
		require.NoError(t, tr.Write(t.Context(), a.ID, 0, []byte("far down"), false, nil))
		tr.cache.dropAll()
		tr.wantData(a.ID, "far down")
		require.NoError(t, tr.Rename(t.Context(), tr.Root(), name, tr.Root(), "short", nil, nil))
		tr.wantData(a.ID, "far down")
		for k := 40; k > 0; k-- {
			require.NoError(t, tr.Lookup(t.Context(), ids[k], "..", &a))
			require.Equal(t, ids[k-1], a.ID)
		}
		require.NoError(t, tr.Remove(t.Context(), ids[40], "f", nil))
		for k := 40; k > 1; k-- {
			require.NoError(t, tr.Rmdir(t.Context(), ids[k-1], name, nil))
		}
		require.NoError(t, tr.Rmdir(t.Context(), tr.Root(), "short", nil))
	})
}

// Descriptors are bounded while files are used, and closed when they are removed and at the end.
func TestDescriptors(t *testing.T) {
	before := openFDs(t)
	fs, err := New(t.TempDir(), Options{MaxOpen: 10, AsyncMeta: true})
	require.NoError(t, err)
	idle := openFDs(t)
	var ids []vfs.ID
	for k := range 50 {
		var a vfs.Attr
		require.NoError(t, fs.Create(t.Context(), fs.Root(), fmt.Sprint(k), vfs.Guarded, 0, nil, &a, nil))
		require.NoError(t, fs.Write(t.Context(), a.ID, 0, []byte{byte(k)}, false, nil))
		ids = append(ids, a.ID)
		require.LessOrEqual(t, openFDs(t), idle+10)
	}
	for k, id := range ids {
		b := make([]byte, 2)
		n, eof, err := fs.Read(t.Context(), id, 0, b, nil)
		require.NoError(t, err)
		require.True(t, eof)
		require.Equal(t, []byte{byte(k)}, b[:n])
	}
	require.Equal(t, idle+10, openFDs(t))
	for k := range ids {
		require.NoError(t, fs.Remove(t.Context(), fs.Root(), fmt.Sprint(k), nil))
	}
	require.Equal(t, idle, openFDs(t))
	// Calls that fail leave nothing open.
	for _, id := range ids {
		_ = fs.Attr(t.Context(), id, nil)
		_ = fs.Write(t.Context(), id, 0, []byte{1}, false, nil)
		_ = fs.Lookup(t.Context(), fs.Root(), "none", nil)
		_ = fs.Mkdir(t.Context(), fs.Root(), "a/b", nil, nil, nil)
		_ = fs.Symlink(t.Context(), fs.Root(), "l", "", nil, nil, nil)
		_, _, _ = fs.ReadDir(t.Context(), fs.Root(), 1<<63, 0, func(*vfs.DirEntry) bool { return true })
	}
	require.Equal(t, idle, openFDs(t))
	require.NoError(t, fs.Close())
	require.NoError(t, fs.Close())
	require.Equal(t, before, openFDs(t))
	assert.ErrorIs(t, fs.Attr(t.Context(), fs.Root(), nil), vfs.ErrIO)

	_, err = New(filepath.Join(t.TempDir(), "none"), Options{})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = New("/dev/null", Options{})
	require.Error(t, err)
	_, err = New(t.TempDir(), Options{MaxOpen: -1})
	require.ErrorContains(t, err, "MaxOpen")
	require.Equal(t, before, openFDs(t))
}
