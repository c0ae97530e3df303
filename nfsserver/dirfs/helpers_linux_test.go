package dirfs

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"example.org/nfsrdma/nfsserver/vfs"
)

// newTestFS exports root, and closes it at the end of the test.
func newTestFS(t *testing.T, root string, o Options, without lacks) *FS {
	t.Helper()
	fs, err := newFS(root, o, without)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, fs.Close()) })
	return fs
}

// ways are the ways to find objects, by what is missing.
var ways = map[string]lacks{
	"all":          {},
	"no openat2":   {openat2: true},
	"no by handle": {byHandle: true},
	"no handles":   {handles: true, byHandle: true},
	"weak":         {handles: true, byHandle: true, birth: true},
}

// tree is an export of a directory in a directory, with what must not be reached beside it.
//
//	secret  outside/secret  export/{f d/g d/e/}
type tree struct {
	*FS
	t    *testing.T
	top  string
	root string
}

func newTree(t *testing.T, o Options, without lacks) *tree {
	t.Helper()
	top := t.TempDir()
	root := filepath.Join(top, "export")
	for _, dir := range []string{"outside", "export/d/e"} {
		require.NoError(t, os.MkdirAll(filepath.Join(top, dir), 0o755))
	}
	for name, data := range map[string]string{"secret": "secret", "outside/secret": "secret", "export/f": "file", "export/d/g": "deep"} {
		require.NoError(t, os.WriteFile(filepath.Join(top, name), []byte(data), 0o644))
	}
	o.AsyncMeta = true
	return &tree{newTestFS(t, root, o, without), t, top, root}
}

// mv renames as another process would, from and to relative to the directory above the export.
func (tr *tree) mv(from, to string) {
	tr.t.Helper()
	require.NoError(tr.t, os.Rename(filepath.Join(tr.top, from), filepath.Join(tr.top, to)))
}

// lookup walks names from the root.
func (tr *tree) lookup(names ...string) vfs.ID {
	tr.t.Helper()
	id, err := walkTo(tr.t, tr.FS, names...)
	require.NoError(tr.t, err)
	return id
}

func walkTo(t testing.TB, fs vfs.FS, names ...string) (vfs.ID, error) {
	id := fs.Root()
	for _, name := range names {
		var a vfs.Attr
		if err := fs.Lookup(t.Context(), id, name, &a); err != nil {
			return vfs.ID{}, err
		}
		id = a.ID
	}
	return id, nil
}

func (tr *tree) read(id vfs.ID) (string, error) {
	b := make([]byte, 100)
	n, _, err := tr.Read(tr.t.Context(), id, 0, b, nil)
	return string(b[:n]), err
}

func (tr *tree) wantData(id vfs.ID, want string) {
	tr.t.Helper()
	got, err := tr.read(id)
	require.NoError(tr.t, err)
	require.Equal(tr.t, want, got)
}

// wantStale wants each call on id to be refused.
func (tr *tree) wantStale(id vfs.ID) {
	tr.t.Helper()
	ctx, s, a, w := tr.t.Context(), &vfs.SetAttr{}, &vfs.Attr{}, &vfs.WCC{}
	_, read := tr.read(id)
	_, readlink := tr.ReadLink(ctx, id)
	_, _, readdir := tr.ReadDir(ctx, id, 0, 0, func(*vfs.DirEntry) bool { return true })
	for call, err := range map[string]error{
		"read": read, "readlink": readlink, "readdir": readdir,
		"attr":    tr.Attr(ctx, id, a),
		"setattr": tr.SetAttr(ctx, id, &vfs.SetAttr{SetMode: true, Mode: 0o777}, nil, w),
		"lookup":  tr.Lookup(ctx, id, "secret", a),
		"write":   tr.Write(ctx, id, 0, []byte{1}, false, w),
		"commit":  tr.Commit(ctx, id, 0, 0, w),
		"create":  tr.Create(ctx, id, "x", vfs.Unchecked, 0, s, a, w),
		"mkdir":   tr.Mkdir(ctx, id, "x", s, a, w),
		"remove":  tr.Remove(ctx, id, "secret", w),
		"rename":  tr.Rename(ctx, id, "secret", tr.Root(), "x", w, w),
		"link":    tr.Link(ctx, id, tr.Root(), "x", a, nil),
		"link in": tr.Link(ctx, tr.Root(), id, "x", a, w),
	} {
		require.ErrorIs(tr.t, err, vfs.ErrStale, call)
		require.Equal(tr.t, vfs.WCC{}, *w, call)
	}
}

// fineTimes says whether two changes within a tick have different times: since Linux 6.13, where the
// file system has multigrain timestamps.
var fineTimes = sync.OnceValue(func() bool {
	f, err := os.CreateTemp("", "dirfs")
	if err != nil {
		return false
	}
	defer os.Remove(f.Name())
	defer f.Close()
	var a, b unix.Statx_t
	for range 3 {
		if statx(int(f.Fd()), &a) != nil || f.Chmod(0o600) != nil || statx(int(f.Fd()), &b) != nil || a.Ctime == b.Ctime {
			return false
		}
	}
	return true
})

// onBtrfs says whether tests are on btrfs, where directories have one link, and a name that is replaced
// gets a new place in its directory.
var onBtrfs = sync.OnceValue(func() bool {
	var s unix.Statfs_t
	return unix.Statfs(os.TempDir(), &s) == nil && s.Type == unix.BTRFS_SUPER_MAGIC
})

// mayMknod says whether all devices can be made where tests are: not without CAP_MKNOD, nor on
// overlayfs, where one of them stands for a removed name.
var mayMknod = sync.OnceValue(func() bool {
	dir, err := os.MkdirTemp("", "dirfs")
	if err != nil {
		return false
	}
	defer os.RemoveAll(dir)
	return unix.Mknod(filepath.Join(dir, "0"), unix.S_IFCHR, 0) == nil
})

func openFDs(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(list)
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// newTmpfs makes a file system that is mounted nowhere, with options of tmpfs(5), and
// returns a path to it.
func newTmpfs(t testing.TB, options map[string]string, attrs int) string {
	t.Helper()
	fd, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		t.Skipf("cannot make a tmpfs: %v", err)
	}
	defer unix.Close(fd)
	for k, v := range options {
		require.NoError(t, unix.FsconfigSetString(fd, k, v))
	}
	require.NoError(t, unix.FsconfigCreate(fd))
	m, err := unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, attrs)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(m) })
	return "/proc/self/fd/" + procName(m)
}
