package dirfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"example.org/nfsrdma/nfsserver/vfs"
)

func TestSymlinkTargets(t *testing.T) {
	tr := newTree(t, Options{}, lacks{})
	for name, target := range map[string]string{"l": "../a b/c", "m": strings.Repeat("x", 1000), "n": strings.Repeat("x", 4095)} {
		var a vfs.Attr
		err := tr.Symlink(t.Context(), tr.Root(), name, target, nil, &a, nil)
		if name == "n" && err != nil { // xfs takes 1023 bytes
			require.ErrorIs(t, err, vfs.ErrNameTooLong)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, vfs.Symlink, a.Type)
		require.EqualValues(t, len(target), a.Size)
		got, err := tr.ReadLink(t.Context(), a.ID)
		require.NoError(t, err)
		require.Equal(t, target, got)
	}
	err := tr.Symlink(t.Context(), tr.Root(), "o", strings.Repeat("x", 4096), nil, nil, nil)
	require.ErrorIs(t, err, vfs.ErrNameTooLong)
	_, err = tr.ReadLink(t.Context(), tr.Root())
	require.ErrorIs(t, err, vfs.ErrInval)
}

// What is made belongs to whom the server says, with the mode it says, whatever the umask.
func TestOwnersAndModes(t *testing.T) {
	needRoot(t)
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	tr := newTree(t, Options{}, lacks{})
	s := &vfs.SetAttr{SetUID: true, UID: 1234, SetGID: true, GID: 567, SetMode: true, Mode: 0o666}
	makers := map[string]func(name string, s *vfs.SetAttr, a *vfs.Attr) error{
		"file": func(name string, s *vfs.SetAttr, a *vfs.Attr) error {
			return tr.Create(t.Context(), tr.Root(), name, vfs.Guarded, 0, s, a, nil)
		},
		"dir": func(name string, s *vfs.SetAttr, a *vfs.Attr) error {
			return tr.Mkdir(t.Context(), tr.Root(), name, s, a, nil)
		},
		"symlink": func(name string, s *vfs.SetAttr, a *vfs.Attr) error {
			return tr.Symlink(t.Context(), tr.Root(), name, "/x", s, a, nil)
		},
		"fifo": func(name string, s *vfs.SetAttr, a *vfs.Attr) error {
			return tr.Mknod(t.Context(), tr.Root(), name, vfs.MknodSpec{Type: vfs.FIFO}, s, a, nil)
		},
	}
	defaults := map[string]uint32{"file": 0o644, "dir": 0o755, "fifo": 0o644}
	for name, f := range makers {
		var a vfs.Attr
		require.NoError(t, f(name, s, &a), name)
		var st unix.Stat_t
		require.NoError(t, unix.Lstat(filepath.Join(tr.root, name), &st))
		require.Equal(t, [2]uint32{1234, 567}, [2]uint32{st.Uid, st.Gid}, name)
		require.Equal(t, [2]uint32{1234, 567}, [2]uint32{a.UID, a.GID}, name)
		if name == "symlink" {
			continue
		}
		require.EqualValues(t, 0o666, st.Mode&0o7777, name)
		require.NoError(t, f(name+"2", nil, &a), name)
		require.Equal(t, defaults[name], a.Mode, name)
	}
	// Set-ID bits outlive the change of owner that comes with them.
	var w vfs.WCC
	id := tr.lookup("file")
	require.NoError(t, tr.SetAttr(t.Context(), id, &vfs.SetAttr{SetUID: true, UID: 7, SetMode: true, Mode: 0o6755}, nil, &w))
	require.EqualValues(t, 0o6755, w.After.Mode)
	require.EqualValues(t, 7, w.After.UID)
	// A directory with the set-group-ID bit hands it on.
	require.NoError(t, tr.SetAttr(t.Context(), tr.Root(), &vfs.SetAttr{SetMode: true, Mode: 0o2777, SetGID: true, GID: 99}, nil, nil))
	var a vfs.Attr
	require.NoError(t, tr.Mkdir(t.Context(), tr.Root(), "heir", nil, &a, nil))
	require.EqualValues(t, 0o2755, a.Mode)
	require.EqualValues(t, 99, a.GID)
}

func TestDevicesOnlyIfPermitted(t *testing.T) {
	tr := newTree(t, Options{}, lacks{})
	for _, typ := range []vfs.Type{vfs.Block, vfs.Char} {
		err := tr.Mknod(t.Context(), tr.Root(), "dev", vfs.MknodSpec{Type: typ, RdevMajor: 1, RdevMinor: 3}, nil, nil, nil)
		require.ErrorIs(t, err, vfs.ErrPerm)
		require.NoFileExists(t, filepath.Join(tr.root, "dev"))
	}
	require.NoError(t, tr.Mknod(t.Context(), tr.Root(), "sock", vfs.MknodSpec{Type: vfs.Socket}, nil, nil, nil))
}

// The verifier of an exclusive create is in the file, so that a retry after a restart finds it.
func TestExclusiveCreateAcrossRestart(t *testing.T) {
	tr := newTree(t, Options{Key: []byte("key")}, lacks{})
	const verf = 0xfedcba9876543210
	var a, b vfs.Attr
	require.NoError(t, tr.Create(t.Context(), tr.Root(), "x", vfs.Exclusive, verf, &vfs.SetAttr{SetMode: true, Mode: 0o777}, &a, nil))
	require.EqualValues(t, 0o600, a.Mode, "only the owner is taken")
	again := newTestFS(t, tr.root, Options{Key: []byte("key")}, lacks{})
	require.NoError(t, again.Create(t.Context(), again.Root(), "x", vfs.Exclusive, verf, nil, &b, nil))
	require.Equal(t, a.ID, b.ID)
	require.ErrorIs(t, again.Create(t.Context(), again.Root(), "x", vfs.Exclusive, verf+1, nil, &b, nil), vfs.ErrExist)
	require.ErrorIs(t, again.Create(t.Context(), again.Root(), "f", vfs.Exclusive, 0, nil, &b, nil), vfs.ErrExist)
}

func TestReadOnly(t *testing.T) {
	fds := map[string]func(t *testing.T) *tree{
		"option": func(t *testing.T) *tree { return newTree(t, Options{ReadOnly: true}, lacks{}) },
		"mount": func(t *testing.T) *tree {
			root := newTmpfs(t, nil, unix.MOUNT_ATTR_RDONLY)
			return &tree{newTestFS(t, root, Options{}, lacks{}), t, "", root}
		},
	}
	for name, open := range fds {
		t.Run(name, func(t *testing.T) {
			tr := open(t)
			require.True(t, tr.Info().ReadOnly)
			ctx, r := t.Context(), tr.Root()
			var w vfs.WCC
			for call, err := range map[string]error{
				"setattr": tr.SetAttr(ctx, r, &vfs.SetAttr{SetMode: true, Mode: 0o777}, nil, &w),
				"create":  tr.Create(ctx, r, "f", vfs.Unchecked, 0, &vfs.SetAttr{SetSize: true}, nil, &w),
				"mkdir":   tr.Mkdir(ctx, r, "x", nil, nil, &w),
				"symlink": tr.Symlink(ctx, r, "x", "y", nil, nil, &w),
				"mknod":   tr.Mknod(ctx, r, "x", vfs.MknodSpec{Type: vfs.FIFO}, nil, nil, &w),
				"remove":  tr.Remove(ctx, r, "f", &w),
				"rmdir":   tr.Rmdir(ctx, r, "d", &w),
				"rename":  tr.Rename(ctx, r, "f", r, "z", &w, nil),
			} {
				require.ErrorIs(t, err, vfs.ErrReadOnly, call)
			}
			require.Equal(t, w.Before, w.After)
			require.Equal(t, r, w.After.ID)
			if name == "option" {
				f := tr.lookup("f")
				tr.wantData(f, "file")
				require.ErrorIs(t, tr.Write(ctx, f, 0, []byte{1}, false, nil), vfs.ErrReadOnly)
				require.ErrorIs(t, tr.Link(ctx, f, r, "x", nil, nil), vfs.ErrReadOnly)
				require.NoError(t, tr.Commit(ctx, f, 0, 0, nil))
			}
		})
	}
}

// A full file system says so, and what fails leaves nothing behind.
func TestNoSpace(t *testing.T) {
	fs := newTestFS(t, newTmpfs(t, map[string]string{"size": "256k", "nr_inodes": "4"}, 0), Options{}, lacks{})
	ctx := t.Context()
	var a vfs.Attr
	require.NoError(t, fs.Create(ctx, fs.Root(), "f", vfs.Guarded, 0, nil, &a, nil))
	var w vfs.WCC
	require.ErrorIs(t, fs.Write(ctx, a.ID, 0, make([]byte, 512<<10), false, &w), vfs.ErrNoSpace)
	require.NoError(t, fs.Attr(ctx, a.ID, &a))
	require.Equal(t, a, w.After)
	st, err := fs.Stat(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 256<<10, st.TotalBytes)
	require.Zero(t, st.FreeBytes)
	var made []string
	for _, name := range []string{"1", "2", "3", "4"} {
		if err := fs.Mkdir(ctx, fs.Root(), name, nil, nil, nil); err != nil {
			require.ErrorIs(t, err, vfs.ErrNoSpace)
			break
		}
		made = append(made, name)
	}
	require.Len(t, made, 2)
	require.NoError(t, fs.SetAttr(ctx, a.ID, &vfs.SetAttr{SetSize: true}, nil, nil))
	require.NoError(t, fs.Write(ctx, a.ID, 0, make([]byte, 200<<10), true, nil))
}

// A failed fsync is told, and changes the write verifier.
func TestFailedFsync(t *testing.T) {
	tr := newTree(t, Options{Boot: 41}, lacks{})
	ctx, f := t.Context(), tr.lookup("f")
	require.EqualValues(t, 41, tr.WriteVerf())
	synced := 0
	tr.syncFD = func(int) error { synced++; return nil }
	require.NoError(t, tr.Write(ctx, f, 0, []byte("x"), false, nil))
	require.Zero(t, synced, "an unstable WRITE waits for no disk")
	require.NoError(t, tr.Write(ctx, f, 0, []byte("x"), true, nil))
	require.NoError(t, tr.Commit(ctx, f, 0, 0, nil))
	require.Equal(t, 2, synced)
	require.EqualValues(t, 41, tr.WriteVerf())
	for _, call := range []func() error{
		func() error { return tr.Commit(ctx, f, 0, 0, nil) },
		func() error { return tr.Write(ctx, f, 0, []byte("y"), true, nil) },
	} {
		for no, want := range map[error]error{unix.EIO: vfs.ErrIO, unix.ENOSPC: vfs.ErrNoSpace, unix.EDQUOT: vfs.ErrDQuot} {
			verf := tr.WriteVerf()
			tr.syncFD = func(int) error { return no }
			require.ErrorIs(t, call(), want)
			require.NotEqual(t, verf, tr.WriteVerf())
		}
	}
	other := newTestFS(t, tr.root, Options{}, lacks{})
	third := newTestFS(t, tr.root, Options{}, lacks{})
	require.NotEqual(t, other.WriteVerf(), third.WriteVerf(), "each start has a verifier")
}

// Without AsyncMeta each change goes to disk before the call returns: the directory's and the object's own.
func TestMetadataIsDurable(t *testing.T) {
	tr := newTree(t, Options{}, lacks{})
	tr.opt.AsyncMeta = false
	ctx, r := t.Context(), tr.Root()
	d := tr.lookup("d")
	var synced []string
	tr.syncFD = func(fd int) error {
		name, err := os.Readlink("/proc/self/fd/" + procName(fd))
		require.NoError(t, err)
		rel, err := filepath.Rel(tr.root, name)
		require.NoError(t, err)
		synced = append(synced, rel)
		return nil
	}
	for _, c := range []struct {
		call string
		err  error
		want []string
	}{
		{"create", tr.Create(ctx, r, "new", vfs.Guarded, 0, nil, nil, nil), []string{".", "new"}},
		{"create over", tr.Create(ctx, r, "new", vfs.Unchecked, 0, nil, nil, nil), nil},
		{"truncate", tr.Create(ctx, r, "new", vfs.Unchecked, 0, &vfs.SetAttr{SetSize: true}, nil, nil), []string{"new"}},
		{"mkdir", tr.Mkdir(ctx, d, "dir", nil, nil, nil), []string{"d", "d/dir"}},
		{"symlink", tr.Symlink(ctx, r, "l", "x", nil, nil, nil), []string{"."}},
		{"link", tr.Link(ctx, tr.lookup("f"), d, "f", nil, nil), []string{"d"}},
		{"rename", tr.Rename(ctx, r, "f", d, "f2", nil, nil), []string{".", "d"}},
		{"no rename", tr.Rename(ctx, d, "f", d, "f2", nil, nil), nil},
		{"remove", tr.Remove(ctx, d, "f2", nil), []string{"d"}},
		{"rmdir", tr.Rmdir(ctx, d, "dir", nil), []string{"d"}},
		{"setattr", tr.SetAttr(ctx, d, &vfs.SetAttr{SetMode: true, Mode: 0o700}, nil, nil), []string{"d"}},
		{"fail", tr.Remove(ctx, d, "none", nil), nil},
	} {
		if c.call == "fail" {
			require.ErrorIs(t, c.err, vfs.ErrNoEnt)
		} else {
			require.NoError(t, c.err, c.call)
		}
	}
	require.Equal(t, []string{".", "new", "new", "d", "d/dir", ".", "d", ".", "d", "d", "d", "d"}, synced)
}

// The owner may write a file that nobody may, since he may have made it so; files are opened once for all that.
func TestModeAfterOpen(t *testing.T) {
	tr := newTree(t, Options{}, lacks{})
	var a vfs.Attr
	require.NoError(t, tr.Create(t.Context(), tr.Root(), "x", vfs.Guarded, 0, &vfs.SetAttr{SetMode: true}, &a, nil))
	require.Zero(t, a.Mode)
	require.NoError(t, tr.Write(t.Context(), a.ID, 0, []byte("data"), true, nil))
	tr.wantData(a.ID, "data")
}

// READ and WRITE of an open file allocate nothing.
func TestHotPathDoesNotAllocate(t *testing.T) {
	for name, without := range ways {
		t.Run(name, func(t *testing.T) {
			tr := newTree(t, Options{}, without)
			id := tr.lookup("d", "g")
			buf := make([]byte, 4096)
			var a vfs.Attr
			var w vfs.WCC
			ctx := t.Context()
			require.NoError(t, tr.Write(ctx, id, 0, buf, false, &w))
			n := testing.AllocsPerRun(100, func() {
				_, _, _ = tr.Read(ctx, id, 0, buf, &a)
				_ = tr.Write(ctx, id, 0, buf, false, &w)
			})
			if !raceEnabled {
				require.Zero(t, n)
			}
		})
	}
}

func BenchmarkRead4K(b *testing.B)  { benchmark(b, 4096, false) }
func BenchmarkRead1M(b *testing.B)  { benchmark(b, 1<<20, false) }
func BenchmarkWrite4K(b *testing.B) { benchmark(b, 4096, true) }
func BenchmarkWrite1M(b *testing.B) { benchmark(b, 1<<20, true) }

func benchmark(b *testing.B, n int, write bool) {
	fs, err := New(b.TempDir(), Options{AsyncMeta: true})
	require.NoError(b, err)
	defer fs.Close()
	var a vfs.Attr
	require.NoError(b, fs.Create(b.Context(), fs.Root(), "f", vfs.Guarded, 0, nil, &a, nil))
	buf := make([]byte, n)
	require.NoError(b, fs.Write(b.Context(), a.ID, 0, buf, false, nil))
	b.SetBytes(int64(n))
	b.ReportAllocs()
	var w vfs.WCC
	for b.Loop() {
		if write {
			_ = fs.Write(b.Context(), a.ID, 0, buf, false, &w)
		} else {
			_, _, _ = fs.Read(b.Context(), a.ID, 0, buf, &a)
		}
	}
}
