package fabric_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/nfsserver/vfs"
)

// faultFS does something wrong once armed. The fabric's own accesses are stable writes and
// reads outside the server, which it counts too.
type faultFS struct {
	vfs.FS
	mu    sync.Mutex
	armed bool
	hits  int
	fault string
	err   error // of fault "fail read", "fail write", "fail commit", "fail create"
	old   map[uint64][]byte
}

func newFaultFS(fault string) *faultFS {
	return &faultFS{FS: memfs.New(memfs.Options{RootMode: 0o777, Capacity: 1 << 30}), fault: fault, old: map[uint64][]byte{}}
}

// strike says whether this access is the one that goes wrong.
func (f *faultFS) strike(fault string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.armed || f.fault != fault {
		return false
	}
	f.hits++
	return f.hits == 5
}

func (f *faultFS) Read(ctx context.Context, id vfs.ID, off uint64, dst []byte, a *vfs.Attr) (int, bool, error) {
	if f.strike("fail read") {
		return 0, false, f.err
	}
	n, eof, err := f.FS.Read(ctx, id, off, dst, a)
	if err == nil && f.strike("flip on read") {
		dst[n/2] ^= 1
	}
	if f.fault == "stale read" {
		f.mu.Lock()
		defer f.mu.Unlock()
		if old := f.old[off]; f.armed && old != nil {
			copy(dst, old)
		}
	}
	return n, eof, err
}

func (f *faultFS) Write(ctx context.Context, id vfs.ID, off uint64, src []byte, stable bool, w *vfs.WCC) error {
	if f.fault == "stale read" {
		old := make([]byte, len(src))
		var a vfs.Attr
		if n, _, err := f.FS.Read(ctx, id, off, old, &a); err == nil && n == len(old) && !bytes.Equal(old, src) {
			f.mu.Lock()
			f.old[off] = old
			f.mu.Unlock()
		}
	}
	if !stable {
		switch {
		case f.strike("fail write"):
			return f.err
		case f.strike("lost write"):
			var a vfs.Attr
			err := f.FS.Attr(ctx, id, &a)
			*w = vfs.WCC{Before: a, After: a}
			return err
		case f.strike("flip on write"):
			src = bytes.Clone(src)
			src[len(src)-1] ^= 0x80
		case f.strike("short write"):
			src = src[:len(src)-1]
		case f.strike("misplaced write"):
			off++
		}
	}
	return f.FS.Write(ctx, id, off, src, stable, w)
}

func (f *faultFS) Commit(ctx context.Context, id vfs.ID, off, n uint64, w *vfs.WCC) error {
	if f.fault == "fail commit" && f.armed {
		return f.err
	}
	return f.FS.Commit(ctx, id, off, n, w)
}

func (f *faultFS) Create(ctx context.Context, dir vfs.ID, name string, mode vfs.CreateMode, verf uint64, s *vfs.SetAttr, a *vfs.Attr, w *vfs.WCC) error {
	if f.fault == "fail create" && f.armed {
		return f.err
	}
	return f.FS.Create(ctx, dir, name, mode, verf, s, a, w)
}

// faultPages loses a WRITE whose data lies in the file system's own pages.
type faultPages struct {
	*memfs.FS
	armed bool
	n     int
}

func (f *faultPages) WritePages(ctx context.Context, id vfs.ID, off uint64, p *vfs.Pages, stable bool, w *vfs.WCC) error {
	if f.n++; f.armed && f.n == 5 {
		f.FS.ReleasePages(p)
		return f.FS.Attr(ctx, id, &w.After)
	}
	return f.FS.WritePages(ctx, id, off, p, stable, w)
}

func TestVerifyFindsFaults(t *testing.T) {
	for _, c := range []struct {
		fault string
		op    fabric.Op
		want  string
	}{
		{"flip on read", fabric.Read, "differs at offset"},
		{"flip on read", fabric.Mix, "differs at offset"},
		{"flip on write", fabric.Write, "differs at offset"},
		{"lost write", fabric.Write, ""}, // a file that ends too early, or other data
		{"lost write", fabric.Mix, "differs at offset"},
		{"short write", fabric.Write, ""},
		{"misplaced write", fabric.Write, "differs at offset"},
		{"stale read", fabric.Mix, "differs at offset"},
	} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v/again=%v", c.fault, c.op, again), func(t *testing.T) {
				eachTime(t, func(t *testing.T, p fabric.Params) {
					fs := newFaultFS(c.fault)
					p.Storage = fabric.FileSystem(c.fault, fs)
					f := fabric.New(t, p)
					l := fabric.Load{Op: c.op, ReadPercent: 50, FileSize: 1 << 20, Size: 30_000, Depth: 3, Calls: 200, Verify: true}
					if again { // the file holds the right data beforehand
						_, err := f.RunLoad(bg, l)
						require.NoError(t, err)
					}
					fs.mu.Lock()
					fs.armed = true
					fs.mu.Unlock()
					_, err := f.RunLoad(bg, l)
					require.Error(t, err)
					assert.ErrorContains(t, err, c.want)
					assert.ErrorContains(t, err, "load0")
				})
			})
		}
	}
}

func TestVerifyFindsLostPages(t *testing.T) {
	fs := &faultPages{FS: memfs.New(memfs.Options{RootMode: 0o777, Capacity: 1 << 30})}
	f := fabric.New(t, fabric.Params{Storage: fabric.FileSystem("lost pages", fs)})
	l := fabric.Load{Op: fabric.Write, FileSize: 1 << 20, Size: 64 << 10, Verify: true}
	r := f.Run(t, l)
	r.Server.Want(t, "zero_copy_writes=16")
	fs.armed, fs.n = true, 0
	_, err := f.RunLoad(bg, l)
	assert.ErrorContains(t, err, "data of load0 differs at offset 262144")
}

// TestNoVerifyNoCompare: without Verify nobody looks.
func TestNoVerifyNoCompare(t *testing.T) {
	f := fabric.New(t, fabric.Params{Storage: fabric.Sink()})
	f.Run(t, fabric.Load{Op: fabric.Write, FileSize: 1 << 20})
	_, err := f.RunLoad(bg, fabric.Load{Op: fabric.Write, FileSize: 1 << 20, Verify: true})
	assert.ErrorContains(t, err, "data of load0 differs at offset 0: got 0x00")
}

func TestErrorsOfTheFileSystem(t *testing.T) {
	own := errors.New("the dog ate it")
	for _, c := range []struct {
		fault  string
		op     fabric.Op
		err    error
		status error
		want   string
	}{
		{"fail read", fabric.Read, vfs.ErrIO, nfsclient.NFS3ERR_IO, "fabric: load read: READ load0 at 40000, 10000 bytes: READ: NFS3ERR_IO"},
		{"fail write", fabric.Write, vfs.ErrNoSpace, nfsclient.NFS3ERR_NOSPC, "fabric: load write: WRITE load0 at 40000, 10000 bytes: WRITE: NFS3ERR_NOSPC"},
		{"fail write", fabric.Write, fmt.Errorf("quota of user 7: %w", vfs.ErrDQuot), nfsclient.NFS3ERR_DQUOT, "NFS3ERR_DQUOT"},
		{"fail write", fabric.Write, own, nfsclient.NFS3ERR_IO, "NFS3ERR_IO"},
		{"fail commit", fabric.Write, vfs.ErrIO, nfsclient.NFS3ERR_IO, "fabric: load write: commit of load0: COMMIT: NFS3ERR_IO"},
		{"fail create", fabric.Write, vfs.ErrAccess, vfs.ErrAccess, "fabric: prepare load: create load0: permission denied"},
	} {
		fs := newFaultFS(c.fault)
		fs.armed, fs.err = true, c.err
		f := fabric.New(t, fabric.Params{Storage: fabric.FileSystem(c.fault, fs)})
		_, err := f.RunLoad(bg, fabric.Load{Op: c.op, Size: 10_000, FileSize: 100_000})
		assert.ErrorIs(t, err, c.status, "%s: %v", c.fault, c.err)
		assert.ErrorContains(t, err, c.want)
	}
}
