package linuxclient

import (
	"bytes"
	"context"
	"crypto/md5"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/nfsserver/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// faultFS says when so many writes have come.
type faultFS struct {
	*memfs.FS
	writes atomic.Int64
	at     atomic.Int64
	now    chan struct{}
}

func newFaultFS() *faultFS { return &faultFS{FS: newMemFS(), now: make(chan struct{}, 1)} }

func (f *faultFS) wrote() {
	if f.writes.Add(1) == f.at.Load() {
		select {
		case f.now <- struct{}{}:
		default:
		}
	}
}

func (f *faultFS) Write(ctx context.Context, id vfs.ID, off uint64, src []byte, stable bool, w *vfs.WCC) error {
	f.wrote()
	return f.FS.Write(ctx, id, off, src, stable, w)
}

func (f *faultFS) WritePages(ctx context.Context, id vfs.ID, off uint64, p *vfs.Pages, stable bool, w *vfs.WCC) error {
	f.wrote()
	return f.FS.WritePages(ctx, id, off, p, stable, w)
}

// waitWrites waits for n more writes.
func (f *faultFS) waitWrites(t *testing.T, n int64) {
	t.Helper()
	f.at.Store(f.writes.Load() + n)
	select {
	case <-f.now:
	case <-time.After(time.Minute):
		require.Fail(t, "nothing is written")
	}
}

// load is a file that another process writes: a program that this one starts closes copies of its files, which would wait
// for a server that does not answer.
type load struct {
	name string
	data []byte
	done chan error
}

const (
	loadSize  = 20 << 20
	loadBlock = 128 << 10
	loadEnv   = "LINUXCLIENT_LOAD" // name of a file to write, and -direct behind a space
)

// startLoad writes, buffered and with an fsync now and then, or past the page cache.
func startLoad(t *testing.T, name string, direct bool) *load {
	t.Helper()
	l := &load{name: filepath.Join(mnt, name), data: pattern(name[0], loadSize), done: make(chan error, 1)}
	spec := l.name
	if direct {
		spec += " -direct"
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), loadEnv+"="+spec)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	go func() {
		err := cmd.Wait()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, &out)
		}
		l.done <- err
	}()
	return l
}

// writeLoad is that process.
func writeLoad(spec string) error {
	name, direct := strings.CutSuffix(spec, " -direct")
	flags := os.O_WRONLY | os.O_CREATE
	if direct {
		flags |= unix.O_DIRECT
	}
	data, err := unix.Mmap(-1, 0, loadSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	copy(data, pattern(filepath.Base(name)[0], loadSize))
	f, err := os.OpenFile(name, flags, 0o644)
	for off := 0; off < loadSize && err == nil; off += loadBlock {
		if _, err = f.WriteAt(data[off:off+loadBlock], int64(off)); err == nil && off/loadBlock%16 == 15 {
			err = f.Sync()
		}
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// want waits for the writer and compares what the server has, over the wire.
func (l *load) want(t *testing.T) {
	t.Helper()
	select {
	case err := <-l.done:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		require.Fail(t, "the writer hangs")
	}
	wantFile(t, l.name, l.data)
}

// underLoad runs fault when both writers of some 40 MiB are at work, times times, and compares the data then.
func underLoad(t *testing.T, r *rig, fs *faultFS, times int, fault func(i int)) {
	t.Helper()
	buffered, direct := startLoad(t, "buffered", false), startLoad(t, "direct", true)
	for i := range times {
		fs.waitWrites(t, 20)
		fault(i)
	}
	buffered.want(t)
	direct.want(t)
	x := xprtStats(t)
	assert.Greater(t, x["connect_count"], int64(1))
	r.remount("noacl,wsize=65536")
	for _, l := range []*load{buffered, direct} {
		got, err := os.ReadFile(l.name)
		require.NoError(t, err)
		assert.Equal(t, md5.Sum(l.data), md5.Sum(got))
	}
}

// TestServerRestart has our server die under load and lose what was not committed: the kernel sees another verifier
// and writes it again.
func TestServerRestart(t *testing.T) {
	fs := newFaultFS()
	r := newRig(t, fs)
	r.mount("noacl,wsize=65536")
	underLoad(t, r, fs, 2, func(int) {
		r.stop()
		fs.Crash()
		r.start()
	})
}

// TestDisconnect has our server end the connection under load.
func TestDisconnect(t *testing.T) {
	fs := newFaultFS()
	r := newRig(t, fs)
	r.mount("noacl,wsize=65536")
	underLoad(t, r, fs, 3, func(int) { r.srv.Disconnect() })
}

// TestLinkDown takes the network device down under load. A server whose sends fail cannot tell the client that it has
// given the connection up; a client that waits for replies only sees it when it sends again, after timeo (0.1 s).
func TestLinkDown(t *testing.T) {
	if dev, _ := inGuest(t); dev == "rxe0" {
		// So it is with rping too. TestDeviceRemoved has what helps: a new device.
		t.Skip("rxe of Linux 6.1 connects no more after its management QP (QP1) found no route for a message")
	}
	fs := newFaultFS()
	r := newRig(t, fs)
	r.log.allow(`infiniband (rxe|siw)0: set (down|active)`)
	r.mount("noacl,wsize=65536,timeo=100")
	underLoad(t, r, fs, 1, func(int) {
		sh(t, "ip", "link", "set", "dummy0", "down")
		sh(t, "sleep", "2") // no packet passes for so long
		sh(t, "ip", "link", "set", "dummy0", "up")
	})
}
