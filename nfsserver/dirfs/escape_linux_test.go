package dirfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"example.org/nfsrdma/nfsserver/vfs"
)

func eachWay(t *testing.T, f func(t *testing.T, tr *tree)) {
	for name, without := range ways {
		t.Run(name, func(t *testing.T) { f(t, newTree(t, Options{}, without)) })
	}
}

func TestDotDotEndsAtTheRoot(t *testing.T) {
	eachWay(t, func(t *testing.T, tr *tree) {
		require.Equal(t, tr.Root(), tr.lookup(".."))
		require.Equal(t, tr.Root(), tr.lookup("..", "..", "..", ".."))
		require.Equal(t, tr.Root(), tr.lookup("d", "e", "..", "..", ".."))
		for _, name := range []string{"../secret", "d/../../secret", "d/g", "/etc/passwd"} {
			_, err := walkTo(t, tr, name)
			require.ErrorIs(t, err, vfs.ErrInval, name)
		}
		_, _, err := tr.ReadDir(t.Context(), tr.Root(), 0, 0, func(e *vfs.DirEntry) bool {
			if e.Name == ".." {
				assert.Equal(t, tr.Root(), e.ID)
			}
			return true
		})
		require.NoError(t, err)
	})
}

func TestSymlinksAreNotFollowed(t *testing.T) {
	eachWay(t, func(t *testing.T, tr *tree) {
		for name, target := range map[string]string{
			"abs": filepath.Join(tr.top, "outside"), "up": "../outside", "file": filepath.Join(tr.top, "secret"), "in": "d", "proc": "/proc/self/root",
		} {
			require.NoError(t, os.Symlink(target, filepath.Join(tr.root, name)))
			id := tr.lookup(name)
			var a vfs.Attr
			require.NoError(t, tr.Attr(t.Context(), id, &a))
			require.Equal(t, vfs.Symlink, a.Type)
			got, err := tr.ReadLink(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, target, got)
			require.ErrorIs(t, tr.Lookup(t.Context(), id, "secret", &a), vfs.ErrNotDir)
			_, err = tr.read(id)
			require.ErrorIs(t, err, vfs.ErrInval)
			// Attributes are the link's own.
			require.NoError(t, tr.SetAttr(t.Context(), id, &vfs.SetAttr{SetMode: true, Mode: 0o600, MtimeHow: vfs.TimeClient, Mtime: vfs.Time{Sec: 5}}, nil, nil))
			require.ErrorIs(t, tr.Create(t.Context(), tr.Root(), name, vfs.Unchecked, 0, &vfs.SetAttr{SetSize: true}, &a, nil), vfs.ErrExist)
			require.NoError(t, tr.Link(t.Context(), id, tr.Root(), name+" 2", &a, nil))
			require.Equal(t, vfs.Symlink, a.Type)
			require.NoError(t, tr.Rename(t.Context(), tr.Root(), name, tr.Root(), name+" 3", nil, nil))
			require.NoError(t, tr.Remove(t.Context(), tr.Root(), name+" 3", nil))
		}
		for _, name := range []string{"secret", "outside", "outside/secret"} {
			st, err := os.Stat(filepath.Join(tr.top, name))
			require.NoError(t, err)
			require.NotEqual(t, int64(5), st.ModTime().Unix(), name)
			require.NotEqual(t, os.FileMode(0o600), st.Mode().Perm(), name)
		}
		data, err := os.ReadFile(filepath.Join(tr.top, "secret"))
		require.NoError(t, err)
		require.Equal(t, "secret", string(data))
	})
}

// A directory that was looked up is replaced by a link to another that has all the names.
func TestSymlinkSwappedIn(t *testing.T) {
	eachWay(t, func(t *testing.T, tr *tree) {
		d, g, e := tr.lookup("d"), tr.lookup("d", "g"), tr.lookup("d", "e")
		tr.wantData(g, "deep") // open now
		tr.mv("export/d", "outside/d")
		for _, target := range []string{filepath.Join(tr.top, "outside/d"), "../outside/d", "/"} {
			require.NoError(t, os.Symlink(target, filepath.Join(tr.root, "d")))
			for _, id := range []vfs.ID{d, g, e} {
				tr.wantStale(id)
			}
			require.NoError(t, os.Remove(filepath.Join(tr.root, "d")))
		}
		require.NoFileExists(t, filepath.Join(tr.top, "outside/d/x"))
		st, err := os.Stat(filepath.Join(tr.top, "outside/d/g"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o644), st.Mode().Perm())
		// Back in its place, it is what it was.
		tr.mv("outside/d", "export/d")
		tr.lookup("d", "g")
		tr.wantData(g, "deep")
	})
}

// What leaves the export cannot be reached by the ID that it had, whether its own name moves or that of a
// directory above, open or not.
func TestMovedOut(t *testing.T) {
	for _, from := range []string{"d", "d/e", "f", "d/g"} {
		eachWay(t, func(t *testing.T, tr *tree) {
			ids := []vfs.ID{tr.lookup("f"), tr.lookup("d"), tr.lookup("d", "g"), tr.lookup("d", "e")}
			out := map[string][]vfs.ID{"d": ids[1:], "d/e": ids[3:], "f": ids[:1], "d/g": ids[2:3]}[from]
			tr.wantData(ids[0], "file")
			tr.wantData(ids[2], "deep")
			tr.mv("export/"+from, "outside/x")
			for _, id := range out {
				tr.wantStale(id)
			}
			tr.cache.dropAll()
			for _, id := range out {
				tr.wantStale(id)
			}
		})
	}
}

// A hard link outside does not keep an object in the export.
func TestHardLinkOut(t *testing.T) {
	eachWay(t, func(t *testing.T, tr *tree) {
		f := tr.lookup("f")
		tr.wantData(f, "file")
		require.NoError(t, os.Link(filepath.Join(tr.root, "f"), filepath.Join(tr.top, "outside/f")))
		tr.wantData(f, "file")
		require.NoError(t, tr.Remove(t.Context(), tr.Root(), "f", nil))
		tr.wantStale(f)
	})
	eachWay(t, func(t *testing.T, tr *tree) {
		f := tr.lookup("f")
		tr.wantData(f, "file")
		require.NoError(t, os.Link(filepath.Join(tr.root, "f"), filepath.Join(tr.top, "outside/f")))
		require.NoError(t, os.Remove(filepath.Join(tr.root, "f")))
		tr.wantStale(f)
		// And one inside is enough.
		require.NoError(t, os.Link(filepath.Join(tr.top, "outside/f"), filepath.Join(tr.root, "again")))
		require.Equal(t, f, tr.lookup("again"))
		tr.wantData(f, "file")
	})
}

// IDs of objects outside are worth nothing, even with the right MAC.
func TestForgedIDs(t *testing.T) {
	for name, without := range ways {
		t.Run(name, func(t *testing.T) {
			tr := newTree(t, Options{Key: []byte("key")}, without)
			// An FS of all, with the same key, gives IDs that ours would have made too.
			all := newTestFS(t, tr.top, Options{Key: []byte("key")}, without)
			for _, path := range [][]string{{}, {"secret"}, {"outside"}, {"outside", "secret"}} {
				id, err := walkTo(t, all, path...)
				require.NoError(t, err)
				require.True(t, tr.authentic(id))
				tr.wantStale(id)
			}
			// Those of objects inside are good although this FS has not seen them.
			id, err := walkTo(t, all, "export", "d", "g")
			require.NoError(t, err)
			if name == "weak" {
				return
			}
			tr.wantData(id, "deep")
			for bit := range 64 {
				for _, bad := range []vfs.ID{{Ino: id.Ino ^ 1<<bit, Gen: id.Gen}, {Ino: id.Ino, Gen: id.Gen ^ 1<<bit}} {
					require.ErrorIs(t, tr.Attr(t.Context(), bad, nil), vfs.ErrStale)
				}
			}
		})
	}
}

// While a local process moves a directory out and in, and a link takes its place, a reader sees the
// file or nothing.
func TestSwapRace(t *testing.T) {
	for name, without := range map[string]lacks{"all": {}, "no openat2": {openat2: true}} {
		t.Run(name, func(t *testing.T) {
			tr := newTree(t, Options{}, without)
			require.NoError(t, os.WriteFile(filepath.Join(tr.top, "outside/g"), []byte("secret"), 0o644))
			stop, done := make(chan struct{}), make(chan struct{})
			d, err := unix.Open(tr.top, unix.O_PATH, 0)
			require.NoError(t, err)
			defer unix.Close(d)
			require.NoError(t, os.Symlink(filepath.Join(tr.top, "outside"), filepath.Join(tr.top, "link")))
			go func() {
				defer close(done)
				for {
					select {
					case <-stop:
						return
					default:
						_ = unix.Renameat2(d, "export/d", d, "link", unix.RENAME_EXCHANGE)
					}
				}
			}()
			read := 0
			for range 3000 {
				id, err := walkTo(t, tr, "d", "g")
				if err != nil {
					continue
				}
				got, err := tr.read(id)
				if err == nil {
					read++
					assert.Equal(t, "deep", got)
				}
			}
			close(stop)
			<-done
			t.Logf("read %d times", read)
		})
	}
}

func TestMountsAreHidden(t *testing.T) {
	var dev, shm unix.Stat_t
	require.NoError(t, unix.Stat("/dev", &dev))
	if err := unix.Stat("/dev/shm", &shm); err != nil || dev.Dev == shm.Dev {
		t.Skip("nothing is mounted on /dev/shm")
	}
	for _, without := range []lacks{{}, {openat2: true}} {
		for _, cross := range []bool{false, true} {
			fs := newTestFS(t, "/dev", Options{ReadOnly: true, CrossMounts: cross}, without)
			seen := false
			_, _, err := fs.ReadDir(t.Context(), fs.Root(), 0, 0, func(e *vfs.DirEntry) bool {
				seen = seen || e.Name == "shm"
				return true
			})
			require.NoError(t, err)
			require.Equal(t, cross, seen)
			id, err := walkTo(t, fs, "shm")
			if !cross {
				require.ErrorIs(t, err, vfs.ErrAccess)
				continue
			}
			require.NoError(t, err)
			require.NotZero(t, id.Ino>>63, "numbers of other devices are apart")
			up, err := walkTo(t, fs, "shm", "..")
			require.NoError(t, err)
			require.Equal(t, fs.Root(), up)
			// A device is looked at, never opened.
			id, err = walkTo(t, fs, "null")
			require.NoError(t, err)
			_, _, err = fs.Read(t.Context(), id, 0, make([]byte, 1), nil)
			require.ErrorIs(t, err, vfs.ErrInval)
		}
	}
}
