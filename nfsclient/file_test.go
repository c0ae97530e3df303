package nfsclient_test

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/nfsserver/memfs"
)

func TestFSIsAnIOFS(t *testing.T) {
	e := newEnv(t)
	f := e.m.FS(bg)
	require.NoError(t, f.MkdirAll("a/b/c", 0o755))
	for _, n := range []string{"top", "a/one", "a/b/two", "a/b/c/three"} {
		require.NoError(t, f.WriteFile(n, []byte(n), 0o644))
	}
	require.NoError(t, f.Symlink("two", "a/b/link"))
	require.NoError(t, fstest.TestFS(f, "top", "a/one", "a/b/two", "a/b/c/three", "a/b/link"))
}

func TestOpenFlags(t *testing.T) {
	e := newEnv(t)
	f := e.m.FS(bg)
	_, err := f.Open("none")
	assert.ErrorIs(t, err, fs.ErrNotExist)
	w, err := f.OpenFile("x", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	require.NoError(t, err)
	_, err = f.OpenFile("x", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	assert.ErrorIs(t, err, fs.ErrExist)
	n, err := io.WriteString(w, "hello, world")
	require.NoError(t, err)
	assert.Equal(t, 12, n)
	_, err = w.Seek(-5, io.SeekEnd)
	require.NoError(t, err)
	b, err := io.ReadAll(w)
	require.NoError(t, err)
	assert.Equal(t, "world", string(b))
	require.NoError(t, w.Truncate(5))
	i, err := w.Stat()
	require.NoError(t, err)
	assert.EqualValues(t, 5, i.Size())
	assert.Equal(t, fs.FileMode(0o600), i.Mode())
	require.NoError(t, w.Close())
	assert.ErrorIs(t, w.Close(), fs.ErrClosed)
	_, err = w.ReadAt(make([]byte, 1), 0)
	assert.ErrorIs(t, err, fs.ErrClosed)

	a, err := f.OpenFile("x", os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = io.WriteString(a, "!")
	require.NoError(t, err)
	_, err = a.WriteAt([]byte("?"), 0)
	assert.ErrorIs(t, err, fs.ErrInvalid)
	require.NoError(t, a.Close())
	b, err = f.ReadFile("x")
	require.NoError(t, err)
	assert.Equal(t, "hello!", string(b))

	require.NoError(t, f.Mkdir("d", 0o755))
	_, err = f.OpenFile("d", os.O_WRONLY, 0)
	assert.ErrorIs(t, err, nfsclient.NFS3ERR_ISDIR)
	_, err = f.ReadFile("d")
	assert.ErrorIs(t, err, nfsclient.NFS3ERR_ISDIR)
	assert.ErrorIs(t, f.Mkdir("d", 0o755), fs.ErrExist)
	assert.ErrorIs(t, f.MkdirAll("x/y", 0o755), nfsclient.NFS3ERR_NOTDIR)
	require.NoError(t, f.Chmod("x", fs.ModeSetuid|0o711))
	i, err = f.Stat("x")
	require.NoError(t, err)
	assert.Equal(t, fs.ModeSetuid|0o711, i.Mode())
	require.NoError(t, f.Link("x", "d/y"))
	require.NoError(t, f.Rename("d/y", "z"))
	require.NoError(t, f.Remove("d"))
	require.NoError(t, f.Truncate("z", 2))
	b, err = f.ReadFile("x")
	require.NoError(t, err)
	assert.Equal(t, "he", string(b))
	assert.ErrorIs(t, f.Remove("/x"), fs.ErrInvalid)
}

// Sparse reads and writes across the borders of rsize and wsize, with several calls in flight.
func TestReadAtWriteAt(t *testing.T) {
	for _, m := range modes {
		t.Run(m.String(), func(t *testing.T) {
			e := newEnv(t, mode(m), client(func(c *nfsclient.Config) { c.RSize, c.WSize = 3000, 2000 }))
			f, err := e.m.OpenFile(bg, "f", os.O_RDWR|os.O_CREATE, 0o644)
			require.NoError(t, err)
			want := make([]byte, 200_000)
			copy(want[100_000:], pattern(100_000, 9))
			n, err := f.WriteAt(want[100_000:], 100_000)
			require.NoError(t, err)
			assert.Equal(t, 100_000, n)
			for _, c := range []struct{ off, n int }{{0, 200_000}, {99_999, 2}, {150_000, 10_000}, {0, 1}, {199_000, 1000}} {
				got := make([]byte, c.n)
				n, err := f.ReadAt(got, int64(c.off))
				require.NoError(t, err)
				assert.True(t, bytes.Equal(want[c.off:c.off+n], got))
			}
			got := make([]byte, 50_000)
			n, err = f.ReadAt(got, 180_000)
			assert.Equal(t, io.EOF, err)
			assert.Equal(t, 20_000, n)
			assert.True(t, bytes.Equal(want[180_000:], got[:n]))
			n, err = f.ReadAt(got, 300_000)
			assert.Equal(t, io.EOF, err)
			assert.Zero(t, n)
			require.NoError(t, f.Close())
		})
	}
}

// A large read is cut into READs of rsize.
func TestReadFileIsCut(t *testing.T) {
	e := newEnv(t, client(func(c *nfsclient.Config) { c.RSize, c.IODepth = 4096, 5 }))
	require.NoError(t, e.m.WriteFile(bg, "f", make([]byte, 1<<20), 0o644))
	before := e.counter("sends")
	_, err := e.m.ReadFile(bg, "f")
	require.NoError(t, err)
	assert.Equal(t, 1+256, e.counter("sends")-before, "a LOOKUP, and no READ behind the end")
}

// Data that was acknowledged unstable is written again when the server crashed before COMMIT, and is
// there after a second crash.
func TestSyncRewritesAfterServerCrash(t *testing.T) {
	store := memfs.New(memfs.Options{RootMode: 0o777, TrackUnstable: true})
	e := newEnv(t, server(func(c *nfsserver.Config) { c.Exports = []nfsserver.Export{{FS: store}} }),
		client(func(c *nfsclient.Config) { c.WSize = 8192 }))
	f, err := e.m.OpenFile(bg, "f", os.O_RDWR|os.O_CREATE, 0o644)
	require.NoError(t, err)
	want := pattern(100_000, 5)
	p := bytes.Clone(want)
	_, err = f.WriteAt(p[:60_000], 0)
	require.NoError(t, err)
	clear(p[:60_000]) // the buffer is the caller's again
	store.Crash()
	i, err := f.Stat()
	require.NoError(t, err)
	require.Zero(t, i.Size(), "the data are lost")
	_, err = f.WriteAt(p[60_000:], 60_000)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	store.Crash()
	got, err := e.m.ReadFile(bg, "f")
	require.NoError(t, err)
	assert.True(t, bytes.Equal(want, got))
	require.NoError(t, f.Close())
}

func TestWriteFileIsCommitted(t *testing.T) {
	store := memfs.New(memfs.Options{RootMode: 0o777, TrackUnstable: true})
	e := newEnv(t, server(func(c *nfsserver.Config) { c.Exports = []nfsserver.Export{{FS: store}} }))
	for _, n := range []int{0, 100, 1 << 20, 3 << 20} { // in one WRITE, or several with COMMIT
		want := pattern(n, 5)
		require.NoError(t, e.m.WriteFile(bg, "f", want, 0o644))
		store.Crash()
		got, err := e.m.ReadFile(bg, "f")
		require.NoError(t, err)
		assert.True(t, bytes.Equal(want, got), "%d bytes", n)
	}
}

func TestSymlinksInPaths(t *testing.T) {
	e := newEnv(t)
	f := e.m.FS(bg)
	require.NoError(t, f.MkdirAll("a/b", 0o755))
	require.NoError(t, f.WriteFile("a/b/f", []byte("x"), 0o644))
	for link, target := range map[string]string{
		"abs": "/a/b", "rel": "a/b", "a/up": "../a/b", "chain": "rel", "a/b/self": ".", "out": "../../a/b",
		"loop1": "loop2", "loop2": "loop1", "dangling": "nowhere", "file": "a/b/f",
	} {
		require.NoError(t, f.Symlink(target, link))
	}
	for _, name := range []string{"abs/f", "rel/f", "a/up/f", "chain/f", "a/b/self/self/f", "out/f", "file", "a/up/../b/f"} {
		got, err := e.m.ReadFile(bg, name)
		require.NoError(t, err, name)
		assert.Equal(t, "x", string(got))
	}
	_, err := e.m.Stat(bg, "loop1")
	assert.ErrorIs(t, err, nfsclient.ErrLoop)
	_, err = e.m.Stat(bg, "dangling")
	assert.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, e.m.WriteFile(bg, "dangling", []byte("y"), 0o644))
	got, err := e.m.ReadFile(bg, "nowhere")
	require.NoError(t, err, "made where the link leads")
	assert.Equal(t, "y", string(got))
	i, err := e.m.Lstat(bg, "loop1")
	require.NoError(t, err)
	assert.Equal(t, fs.ModeSymlink, i.Mode().Type())
	require.NoError(t, e.m.RemoveAll(bg, "abs"))
	_, err = e.m.Stat(bg, "a/b/f")
	assert.NoError(t, err, "the link went, not what it led to")
	require.NoError(t, e.m.RemoveAll(bg, "a"))
	require.NoError(t, e.m.RemoveAll(bg, "a"))
	_, err = e.m.Stat(bg, "a")
	assert.ErrorIs(t, err, fs.ErrNotExist)
}

// This module's source goes in and comes out again, byte for byte, in each mode, virtual and live.
func TestCopyTree(t *testing.T) {
	src := os.DirFS("../internal")
	for _, m := range modes {
		for _, l := range []bool{false, true} {
			t.Run(fmt.Sprint(m, " live=", l), func(t *testing.T) {
				e := newEnv(t, mode(m), func(c *envConfig) { c.live = l })
				require.NoError(t, e.m.CopyIn(bg, src, "tree"))
				require.NoError(t, e.m.FS(bg).Symlink("xdr/doc.go", "tree/a-link"))
				to := filepath.Join(t.TempDir(), "out")
				require.NoError(t, e.m.CopyOut(bg, "tree", to))
				n := 0
				require.NoError(t, fs.WalkDir(src, ".", func(name string, d fs.DirEntry, err error) error {
					if err != nil || d.IsDir() {
						return err
					}
					n++
					want, err := fs.ReadFile(src, name)
					require.NoError(t, err)
					got, err := os.ReadFile(filepath.Join(to, name))
					require.NoError(t, err)
					assert.True(t, bytes.Equal(want, got), name)
					return nil
				}))
				assert.Greater(t, n, 50)
				target, err := os.Readlink(filepath.Join(to, "a-link"))
				require.NoError(t, err)
				assert.Equal(t, "xdr/doc.go", target)
				walked := 0
				require.NoError(t, e.m.Walk(bg, "tree", func(_ string, d fs.DirEntry, err error) error {
					if err == nil && d.Type().IsRegular() {
						walked++
					}
					return err
				}))
				assert.Equal(t, n, walked)
			})
		}
	}
}

// A server whose directory holds names that lead out of it does no harm.
func TestCopyOutStaysInside(t *testing.T) {
	for _, name := range []string{"..", "a/b", "/etc", ""} {
		assert.False(t, nfsclient.LocalName(name), name)
	}
	assert.True(t, nfsclient.LocalName("..."))
	assert.True(t, nfsclient.LocalName(strings.Repeat("n", 255)))
}

// Files survive what happens to the connection, and to the server, while they are read and written.
func TestFilesAcrossDisconnects(t *testing.T) {
	for _, m := range modes {
		for _, l := range []bool{false, true} {
			t.Run(fmt.Sprint(m, " live=", l), func(t *testing.T) {
				e := newEnv(t, mode(m), func(c *envConfig) { c.live = l }, client(func(c *nfsclient.Config) {
					c.RSize, c.WSize, c.ReconnectMin, c.ReconnectMax = 8192, 8192, 1e6, 2e6
				}))
				var done atomic.Bool
				g := e.s.NewGroup("drops")
				g.Go("drops", func() {
					for i := 0; !done.Load() && i < 40; i++ {
						e.s.Sleep(bg, 300*sched.Microsecond)
						if i%2 == 0 {
							e.m.Disconnect()
						} else {
							e.srv.Disconnect()
						}
					}
				})
				for i := range 10 {
					name := fmt.Sprint("f", i)
					want := pattern(100_000, byte(i))
					require.NoError(t, e.m.WriteFile(bg, name, want, 0o644))
					got, err := e.m.ReadFile(bg, name)
					require.NoError(t, err)
					require.True(t, bytes.Equal(want, got))
					e.s.Sleep(bg, 500*sched.Microsecond)
				}
				done.Store(true)
				require.NoError(t, g.Wait(bg))
				assert.Greater(t, e.counter("connect_count"), 1)
			})
		}
	}
}

// A retransmitted call that is not idempotent is answered from the server's cache: it is not done twice.
func TestNonIdempotentCallsAcrossDisconnects(t *testing.T) {
	e := newEnv(t, client(func(c *nfsclient.Config) { c.ReconnectMin, c.ReconnectMax = 1e6, 2e6 }))
	g := e.s.NewGroup("drops")
	stop := false
	g.Go("drops", func() {
		for !stop {
			e.s.Sleep(bg, 100*sched.Microsecond)
			e.srv.Disconnect()
		}
	})
	f := e.m.FS(bg)
	for i := range 200 {
		name := fmt.Sprint("f", i)
		_, err := e.m.Create(bg, e.m.Root(), name, nfsclient.CreateHow{Mode: nfsclient.GUARDED})
		require.NoError(t, err)
		require.NoError(t, f.Rename(name, name+"x"))
		_, err = e.m.Remove(bg, e.m.Root(), name+"x")
		require.NoError(t, err)
		e.s.Sleep(bg, 20*sched.Microsecond)
	}
	stop = true
	require.NoError(t, g.Wait(bg))
	assert.Greater(t, e.counter("connect_count"), 10)
}

func TestUnmount(t *testing.T) {
	e := newEnv(t)
	require.NoError(t, e.m.Unmount(bg))
	assert.ErrorIs(t, e.m.Null(bg), nfsclient.ErrClosed)
	assert.Positive(t, e.counter("sends"), "counters can be read after Close")
	require.NoError(t, e.m.Close())
}

func TestMountErrors(t *testing.T) {
	e := newEnv(t)
	_, err := nfsclient.New(bg, nfsclient.Config{Device: e.cdev, Addr: "server:20049", Sched: e.s, Export: "/nowhere"})
	assert.ErrorIs(t, err, fs.ErrNotExist)
	_, err = nfsclient.New(bg, nfsclient.Config{Device: e.cdev, Addr: "server:1", Sched: e.s})
	assert.Error(t, err)
}

func TestTraceLines(t *testing.T) {
	var lines []string
	e := newEnv(t, client(func(c *nfsclient.Config) { c.Trace = func(l string) { lines = append(lines, l) } }))
	lines = nil
	_, err := e.m.GetAttr(bg, e.m.Root())
	require.NoError(t, err)
	require.Len(t, lines, 2)
	assert.Regexp(t, `^> RDMA_MSG xid=0x[0-9a-f]{8} vers=1 credits=128 \| GETATTR object=`, lines[0])
	assert.Regexp(t, `^< RDMA_MSG xid=0x[0-9a-f]{8} vers=1 credits=\d+ \| GETATTR NFS3_OK `, lines[1])
}

// Data is no part of what is printed, whether it goes inline, in a chunk or with all of the call.
func TestTraceOfData(t *testing.T) {
	for _, how := range []struct {
		mode nfsclient.RegMode
		n    int
	}{{nfsclient.FastReg, 3}, {nfsclient.FastReg, 3000}, {nfsclient.FastReg, 20000}, {nfsclient.Bounce, 1000}} {
		var lines []string
		e := newEnv(t, mode(how.mode), client(func(c *nfsclient.Config) { c.Trace = func(l string) { lines = append(lines, l) } }))
		c, err := e.m.Create(bg, e.m.Root(), "f", nfsclient.CreateHow{})
		require.NoError(t, err)
		_, err = e.m.Write(bg, c.FH, 0, pattern(how.n, 1), nfsclient.FILE_SYNC)
		require.NoError(t, err)
		_, _, err = e.m.Read(bg, c.FH, 0, make([]byte, how.n))
		require.NoError(t, err)
		for _, n := range []int{1, 1000} {
			s, err := e.m.Symlink(bg, e.m.Root(), fmt.Sprint("l", n), strings.Repeat("t", n), &nfsclient.Sattr{})
			require.NoError(t, err)
			_, err = e.m.ReadLink(bg, s.FH)
			require.NoError(t, err)
		}
		all := strings.Join(lines, "\n")
		assert.NotContains(t, all, "bad")
		assert.Regexp(t, fmt.Sprintf(`(?m)^> .* \| WRITE file=.* count=%d .*reduced=%d$`, how.n, how.n), all)
	}
}

// Two mounts of one device make the same calls in the same order: the server does not take those of one
// for retransmissions of the other.
func TestMountsHaveXIDsOfTheirOwn(t *testing.T) {
	e := newEnv(t)
	other, err := nfsclient.New(bg, nfsclient.Config{Device: e.cdev, Addr: "server:20049", Sched: e.s})
	require.NoError(t, err)
	for _, m := range []*nfsclient.Mount{e.m, other, e.m, other} {
		_, err := m.Create(bg, m.Root(), "f", nfsclient.CreateHow{Mode: nfsclient.GUARDED})
		require.NoError(t, err)
		_, err = e.m.Lookup(bg, e.m.Root(), "f")
		require.NoError(t, err)
		_, err = m.Remove(bg, m.Root(), "f")
		require.NoError(t, err)
	}
	require.NoError(t, other.Close())
	third, err := nfsclient.New(bg, nfsclient.Config{Device: e.cdev, Addr: "server:20049", Sched: e.s})
	require.NoError(t, err)
	_, err = third.Create(bg, third.Root(), "f", nfsclient.CreateHow{Mode: nfsclient.GUARDED})
	require.NoError(t, err)
	_, err = e.m.Lookup(bg, e.m.Root(), "f")
	require.NoError(t, err)
	require.NoError(t, third.Close())
}
