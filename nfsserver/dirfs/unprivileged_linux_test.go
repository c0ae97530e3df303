package dirfs

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/nfsserver/vfs"
	"example.org/nfsrdma/nfsserver/vfs/vfstest"
)

// TestUnprivileged runs the suite as nobody: in a process of its own, if this one is root.
func TestUnprivileged(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Run("suite", func(t *testing.T) {
			vfstest.Run(t, func(t *testing.T) vfs.FS {
				return newTestFS(t, t.TempDir(), Options{AsyncMeta: true}, lacks{})
			}, slices.Compact(slices.Sorted(slices.Values(append(skips(false), "setattr", "create/attributes", "mknod"))))...)
		})
		t.Run("owners", testUnprivilegedOwners)
		return
	}
	dir, err := os.MkdirTemp("", "dirfs")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.Chmod(dir, 0o777))
	bin := filepath.Join(dir, "test")
	self, err := os.Open("/proc/self/exe")
	require.NoError(t, err)
	defer self.Close()
	to, err := os.OpenFile(bin, os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(to, self)
	require.NoError(t, err)
	require.NoError(t, to.Chmod(0o755))
	require.NoError(t, to.Close())
	cmd := exec.Command(bin, "-test.run=^TestUnprivileged$", "-test.timeout=60s", "-test.v")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: TestUnprivileged/owners")
}

func testUnprivilegedOwners(t *testing.T) {
	tr := newTree(t, Options{}, lacks{})
	require.True(t, tr.noByHandle)
	ctx := t.Context()
	var a vfs.Attr
	s := &vfs.SetAttr{SetUID: true, UID: 1, SetGID: true, GID: 1, SetMode: true, Mode: 0o400}
	require.NoError(t, tr.Create(ctx, tr.Root(), "x", vfs.Guarded, 0, s, &a, nil))
	require.EqualValues(t, os.Geteuid(), a.UID, "the process's, since it may not give it away")
	require.NoError(t, tr.Write(ctx, a.ID, 0, []byte("open since it was made"), false, nil))
	tr.cache.dropAll()
	require.ErrorIs(t, tr.Write(ctx, a.ID, 0, []byte("x"), false, nil), vfs.ErrAccess)
	require.ErrorIs(t, tr.SetAttr(ctx, a.ID, &vfs.SetAttr{SetUID: true, UID: 1}, nil, nil), vfs.ErrPerm)
	tr.wantData(a.ID, "open since it was made")
	require.NoError(t, tr.SetAttr(ctx, a.ID, &vfs.SetAttr{SetMode: true, Mode: 0o200}, nil, nil))
	tr.cache.dropAll()
	require.NoError(t, tr.Write(ctx, a.ID, 0, []byte("X"), true, nil))
	require.NoError(t, tr.Commit(ctx, a.ID, 0, 0, nil))
	_, err := tr.read(a.ID)
	require.ErrorIs(t, err, vfs.ErrAccess)

	// Of a directory that may be read but not searched, only names and numbers are known.
	require.NoError(t, os.Chmod(filepath.Join(tr.root, "d"), 0o600))
	defer os.Chmod(filepath.Join(tr.root, "d"), 0o700)
	names := map[string]vfs.ID{}
	_, eof, err := tr.ReadDir(ctx, tr.lookup("d"), 0, 0, func(e *vfs.DirEntry) bool { names[e.Name] = e.ID; return true })
	require.NoError(t, err)
	require.True(t, eof)
	require.Contains(t, names, "g")
	require.NotZero(t, names["g"].Ino)
	require.ErrorIs(t, tr.Attr(ctx, names["g"], nil), vfs.ErrStale)
}
