package dirfs_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/nfsserver/dirfs"
)

// overWire exports a new directory to our client, in virtual time and live.
func overWire(t *testing.T, o dirfs.Options, test func(t *testing.T, f *fabric.Fabric, m *fabric.Mount, root string)) {
	for _, live := range []bool{false, true} {
		t.Run(fmt.Sprintf("live=%t", live), func(t *testing.T) {
			root := t.TempDir()
			export, err := dirfs.New(root, o)
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, export.Close()) })
			f := fabric.New(t, fabric.Params{Live: live, Storage: fabric.FileSystem("dirfs", export)})
			test(t, f, f.Mount(t, "/"), root)
		})
	}
}

// sources are some of this package's own files and some of all sizes.
func sources(t *testing.T) fstest.MapFS {
	tree := fstest.MapFS{"empty/dir": &fstest.MapFile{Mode: fs.ModeDir | 0o755}}
	for k, n := range []int{0, 1, 4095, 4096, 4097, 65536, 1<<20 + 3} {
		tree[fmt.Sprintf("sizes/%d", n)] = &fstest.MapFile{Data: bytes.Repeat([]byte{byte(k), 1, 2}, n/3+1)[:n], Mode: 0o644}
	}
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		tree["src/"+name] = &fstest.MapFile{Data: data, Mode: 0o600}
	}
	return tree
}

func wantTree(t *testing.T, want fstest.MapFS, got fs.FS) {
	t.Helper()
	files := 0
	require.NoError(t, fs.WalkDir(got, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		data, err := fs.ReadFile(got, name)
		require.NoError(t, err)
		require.Contains(t, want, name)
		require.True(t, bytes.Equal(want[name].Data, data), name)
		return nil
	}))
	require.Equal(t, len(want)-1, files) // one is a directory
}

// A tree is copied in, and is the same in the directory, through the client and copied out again.
func TestTreeOverTheWire(t *testing.T) {
	overWire(t, dirfs.Options{AsyncMeta: true}, func(t *testing.T, _ *fabric.Fabric, m *fabric.Mount, root string) {
		src := sources(t)
		m.CopyIn(t, src, "tree")
		wantTree(t, src, os.DirFS(filepath.Join(root, "tree")))
		view, err := fs.Sub(m.NFS().FS(t.Context()), "tree")
		require.NoError(t, err)
		wantTree(t, src, view)
		out := t.TempDir()
		require.NoError(t, m.NFS().CopyOut(t.Context(), "tree", out))
		wantTree(t, src, os.DirFS(out))
		require.DirExists(t, filepath.Join(root, "tree/empty/dir"))
		require.NoError(t, m.NFS().FS(t.Context()).RemoveAll("tree"))
		left, err := os.ReadDir(root)
		require.NoError(t, err)
		require.Empty(t, left)
	})
}

func TestLoadsOverTheWire(t *testing.T) {
	overWire(t, dirfs.Options{AsyncMeta: true}, func(t *testing.T, f *fabric.Fabric, m *fabric.Mount, root string) {
		for _, l := range []fabric.Load{
			{Op: fabric.Write, Size: 64 << 10, Depth: 8, Files: 2, FileSize: 1 << 20, Verify: true},
			{Op: fabric.Write, Size: 1 << 20, Depth: 2, FileSize: 4 << 20, Stable: true, Verify: true, Name: "stable"},
			{Op: fabric.Mix, ReadPercent: 50, Size: 4 << 10, Depth: 8, FileSize: 1 << 20, Random: true, Calls: 300, Verify: true, Name: "mix"},
		} {
			f.Run(t, l)
		}
		names, err := filepath.Glob(filepath.Join(root, "stable*"))
		require.NoError(t, err)
		require.Len(t, names, 1)
		st, err := os.Stat(names[0])
		require.NoError(t, err)
		require.EqualValues(t, 4<<20, st.Size())
	})
}

// Links stay what they are, on the server too, and a client that follows one itself stays in the export.
func TestLinksOverTheWire(t *testing.T) {
	overWire(t, dirfs.Options{AsyncMeta: true}, func(t *testing.T, _ *fabric.Fabric, m *fabric.Mount, root string) {
		secret := filepath.Join(t.TempDir(), "secret")
		require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o644))
		nfs := m.NFS().FS(t.Context())
		require.NoError(t, nfs.Symlink(secret, "abs"))
		require.NoError(t, nfs.Symlink("../../../../../../"+secret, "up"))
		for _, name := range []string{"abs", "up"} {
			_, err := nfs.ReadFile(name)
			require.Error(t, err)
			require.Error(t, nfs.WriteFile(name, []byte("x"), 0o644))
			target, err := os.Readlink(filepath.Join(root, name))
			require.NoError(t, err)
			got, err := nfs.ReadLink(name)
			require.NoError(t, err)
			require.Equal(t, target, got)
		}
		data, err := os.ReadFile(secret)
		require.NoError(t, err)
		require.Equal(t, "secret", string(data))
	})
}

// A large directory is listed once each, also while others remove what was listed.
func TestDirectoryOverTheWire(t *testing.T) {
	overWire(t, dirfs.Options{AsyncMeta: true}, func(t *testing.T, _ *fabric.Fabric, m *fabric.Mount, root string) {
		const n = 1000
		want := make(map[string]bool)
		for k := range n {
			name := fmt.Sprintf("%0100d", k)
			require.NoError(t, os.WriteFile(filepath.Join(root, name), nil, 0o644))
			want[name] = true
		}
		list, err := m.NFS().FS(t.Context()).ReadDir(".")
		require.NoError(t, err)
		require.Len(t, list, n)
		for _, d := range list {
			require.True(t, want[d.Name()])
			delete(want, d.Name())
		}
	})
}

// The client's view of a server whose FS is another, with the same key: handles hold.
func TestHandlesOverTheWire(t *testing.T) {
	root := t.TempDir()
	var fh [2]nfsclient.FH
	for k := range fh {
		export, err := dirfs.New(root, dirfs.Options{AsyncMeta: true, Key: []byte("key")})
		require.NoError(t, err)
		f := fabric.New(t, fabric.Params{Storage: fabric.FileSystem("dirfs", export)})
		m := f.Mount(t, "/")
		if k == 0 {
			m.WriteFile(t, "f", []byte("data"))
		}
		fh[k] = m.NFS().Root()
		require.Equal(t, []byte("data"), m.ReadFile(t, "f"))
		require.NoError(t, f.Close())
		require.NoError(t, export.Close())
	}
	require.Equal(t, fh[0], fh[1])
}
