package linuxclient

import (
	"context"
	"crypto/md5"
	"os"
	"path/filepath"
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

// load is a file being written.
type load struct {
	name string
	data []byte
	done chan error
}

// startLoad writes n bytes, buffered and with an fsync now and then, or past the page cache.
func startLoad(t *testing.T, name string, seed byte, n int, direct bool) *load {
	t.Helper()
	l := &load{name: filepath.Join(mnt, name), done: make(chan error, 1)}
	flags := os.O_WRONLY | os.O_CREATE
	if direct {
		flags |= unix.O_DIRECT
	}
	l.data = aligned(t, n)
	copy(l.data, pattern(seed, n))
	f, err := os.OpenFile(l.name, flags, 0o644)
	require.NoError(t, err)
	go func() {
		const block = 128 << 10
		var err error
		for off := 0; off < n && err == nil; off += block {
			if _, err = f.WriteAt(l.data[off:off+block], int64(off)); err == nil && off/block%16 == 15 {
				err = f.Sync()
			}
		}
		if e := f.Close(); err == nil {
			err = e
		}
		l.done <- err
	}()
	return l
}

// want waits for the writer and compares what the server has, over the wire.
func (l *load) want(t *testing.T) {
	t.Helper()
	select {
	case err := <-l.done:
		require.NoError(t, err)
	case <-time.After(2 * time.Minute):
		require.Fail(t, "the writer hangs")
	}
	wantFile(t, l.name, l.data)
}

// underLoad runs fault when both writers of some 40 MiB are at work, times times, and compares the data then.
func underLoad(t *testing.T, r *rig, fs *faultFS, times int, fault func(i int)) {
	t.Helper()
	const size = 20 << 20
	buffered := startLoad(t, "buffered", 1, size, false)
	direct := startLoad(t, "direct", 2, size, true)
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
