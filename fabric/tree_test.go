package fabric_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/nfsclient"
)

// TestTree copies the sources of Go into a mount and out again, and compares every byte. By default it takes a
// part of them, the tree of encoding and of the others every tenth file, and writes them to disk only once;
// NFSRDMA_FULL_TREE=1 takes all, always to disk.
func TestTree(t *testing.T) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skipf("no go command: %v", err)
	}
	src := os.DirFS(filepath.Join(strings.TrimSpace(string(out)), "src"))
	full := long("NFSRDMA_FULL_TREE")
	if !full {
		every := 10
		if raceEnabled {
			every = 80
		}
		src = part(t, src, "encoding", every)
	}
	eachMode(t, func(t *testing.T, p fabric.Params) {
		f := fabric.New(t, p)
		m := f.Mount(t, "/")
		t0 := time.Now()
		copyTree(t, f, m, src, "src")
		t1 := time.Now()
		got, err := fs.Sub(m.NFS().FS(bg), "src")
		require.NoError(t, err)
		if full || !p.Live && p.RegMode == nfsclient.FastReg {
			to := t.TempDir()
			require.NoError(t, m.NFS().CopyOut(bg, "src", to))
			got = os.DirFS(to)
		}
		t2 := time.Now()
		files, size := compareTrees(t, src, got)
		t.Logf("%d files, %d bytes: in %v, out %v, compared in %v; %v of the fabric's time",
			files, size, t1.Sub(t0), t2.Sub(t1), time.Since(t2), f.Now())
		require.Greater(t, files, 300)
	})
}

// part is a tree in memory: what is below dir, and every n-th other file.
func part(t *testing.T, src fs.FS, dir string, n int) fs.FS {
	m := fstest.MapFS{}
	i := 0
	require.NoError(t, fs.WalkDir(src, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if i++; i%n != 0 && !strings.HasPrefix(name, dir+"/") {
			return nil
		}
		b, err := fs.ReadFile(src, name)
		if err != nil {
			return err
		}
		info, err := d.Info()
		m[name] = &fstest.MapFile{Data: b, Mode: info.Mode()}
		return err
	}))
	return m
}

// copyTree copies in with four tasks, each taking its share of what is at the top.
func copyTree(t *testing.T, f *fabric.Fabric, m *fabric.Mount, src fs.FS, dir string) {
	t.Helper()
	top, err := fs.ReadDir(src, ".")
	require.NoError(t, err)
	m.Mkdir(t, dir)
	const tasks = 4
	var waits []func(context.Context) error
	for i := range tasks {
		waits = append(waits, f.Go(fmt.Sprintf("copy %d", i), func() {
			for k := i; k < len(top); k += tasks {
				if err := copyOne(m, src, top[k], dir); err != nil {
					t.Errorf("copy in %s: %v", top[k].Name(), err)
					return
				}
			}
		}))
	}
	waitAll(t, waits)
}

func copyOne(m *fabric.Mount, src fs.FS, e fs.DirEntry, dir string) error {
	name := e.Name()
	if !e.IsDir() {
		b, err := fs.ReadFile(src, name)
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		return m.NFS().WriteFile(bg, dir+"/"+name, b, info.Mode())
	}
	sub, err := fs.Sub(src, name)
	if err != nil {
		return err
	}
	return m.NFS().CopyIn(bg, sub, dir+"/"+name)
}

// compareTrees wants the same names, permissions and bytes on both sides.
func compareTrees(t *testing.T, want, got fs.FS) (files int, size int64) {
	t.Helper()
	names := map[string]fs.FileMode{}
	require.NoError(t, fs.WalkDir(want, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			names[name] = fs.ModeDir
			return err
		}
		a, err := fs.ReadFile(want, name)
		if err != nil {
			return err
		}
		b, err := fs.ReadFile(got, name)
		if err != nil {
			return err
		}
		if !bytes.Equal(a, b) {
			return fmt.Errorf("%s: %d bytes went in, and %d others came out", name, len(a), len(b))
		}
		info, err := d.Info()
		names[name] = info.Mode()
		files++
		size += int64(len(a))
		return err
	}))
	require.NoError(t, fs.WalkDir(got, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode, ok := names[name]
		if !ok {
			return fmt.Errorf("%s came out and never went in", name)
		}
		info, err := d.Info()
		if err == nil && (d.IsDir() != mode.IsDir() || !d.IsDir() && info.Mode() != mode) {
			return fmt.Errorf("%s: mode %v went in, %v came out", name, mode, info.Mode())
		}
		return err
	}))
	return files, size
}
