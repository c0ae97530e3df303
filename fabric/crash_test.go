package fabric_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/nfsserver/vfs"
)

// newCrashable is a fabric over a memfs that can lose what was not committed.
func newCrashable(t *testing.T, p fabric.Params) (*fabric.Fabric, *memfs.FS, *nfsclient.Mount) {
	t.Helper()
	mem := memfs.New(memfs.Options{RootMode: 0o777, Capacity: 1 << 30, TrackUnstable: true})
	p.Storage = fabric.FileSystem("memfs", mem)
	f := fabric.New(t, p)
	return f, mem, f.Mount(t, "/").NFS()
}

func create(t *testing.T, m *nfsclient.Mount, name string) *nfsclient.File {
	t.Helper()
	fl, err := m.OpenFile(bg, name, os.O_RDWR|os.O_CREATE, 0o644)
	require.NoError(t, err)
	return fl
}

// stored is what the server's file system holds.
func stored(t *testing.T, fs vfs.FS, name string) string {
	t.Helper()
	var a vfs.Attr
	require.NoError(t, fs.Lookup(bg, fs.Root(), name, &a))
	b := make([]byte, a.Size)
	_, _, err := fs.Read(bg, a.ID, 0, b, nil)
	require.NoError(t, err)
	return string(b)
}

// What is written again after a crash must not cover what was written since.
func TestRewriteKeepsNewerData(t *testing.T) {
	_, mem, m := newCrashable(t, fabric.Params{})
	fl := create(t, m, "a")
	write := func(s string, off int64) {
		_, err := fl.WriteAt([]byte(s), off)
		require.NoError(t, err)
	}
	write("AAAAAAAAAA", 0)
	mem.Crash()
	write("BBBB", 3)
	require.NoError(t, fl.Sync())
	mem.Crash()
	assert.Equal(t, "AAABBBBAAA", stored(t, mem, "a"))
	write("CC", 0)
	write("D", 1)
	write("E", 12)
	mem.Crash()
	require.NoError(t, fl.Close())
	mem.Crash()
	assert.Equal(t, "CDABBBBAAA\x00\x00E", stored(t, mem, "a"))
}

// crashInCommit loses everything at the moment of the first COMMIT.
type crashInCommit struct {
	*memfs.FS
	done bool
}

func (c *crashInCommit) Commit(ctx context.Context, id vfs.ID, off, n uint64, w *vfs.WCC) error {
	if !c.done {
		c.done = true
		c.Crash()
	}
	return c.FS.Commit(ctx, id, off, n, w)
}

// The verifier of a COMMIT is that of the time after it: what it lost is not acknowledged.
func TestCrashDuringCommit(t *testing.T) {
	c := &crashInCommit{FS: memfs.New(memfs.Options{RootMode: 0o777, TrackUnstable: true})}
	f := fabric.New(t, fabric.Params{Storage: fabric.FileSystem("memfs", c)})
	fl := create(t, f.Mount(t, "/").NFS(), "a")
	_, err := fl.WriteAt([]byte("precious"), 0)
	require.NoError(t, err)
	require.NoError(t, fl.Close())
	assert.Equal(t, "precious", stored(t, c, "a"))
}

// A Sync returns when the data is stable, also when another task's Sync has taken it on.
func TestTwoSyncs(t *testing.T) {
	f, mem, m := newCrashable(t, fabric.Params{Link: &fabric.IBSDR})
	fl := create(t, m, "a")
	_, err := fl.WriteAt([]byte("precious"), 0)
	require.NoError(t, err)
	wait := f.Go("first", func() { assert.NoError(t, fl.Sync()) })
	require.NoError(t, f.Sleep(bg, time.Nanosecond))
	require.NoError(t, fl.Sync())
	mem.Crash()
	assert.Equal(t, "precious", stored(t, mem, "a"))
	require.NoError(t, wait(bg))
	require.NoError(t, fl.Close())
}

// onMiss does something when a LOOKUP of name has failed.
type onMiss struct {
	vfs.FS
	name string
	do   func()
}

func (o *onMiss) Lookup(ctx context.Context, dir vfs.ID, name string, a *vfs.Attr) error {
	err := o.FS.Lookup(ctx, dir, name, a)
	if err != nil && name == o.name && o.do != nil {
		do := o.do
		o.do = nil
		do()
	}
	return err
}

// A file that appears between LOOKUP and CREATE is truncated too.
func TestTruncateWhatAppears(t *testing.T) {
	mem := memfs.New(memfs.Options{RootMode: 0o777})
	o := &onMiss{FS: mem, name: "a"}
	f := fabric.New(t, fabric.Params{Storage: fabric.FileSystem("memfs", o)})
	m := f.Mount(t, "/")
	o.do = func() {
		var a vfs.Attr
		assert.NoError(t, mem.Create(bg, mem.Root(), "a", vfs.Guarded, 0, nil, &a, nil))
		assert.NoError(t, mem.Write(bg, a.ID, 0, bytes.Repeat([]byte("L"), 10), true, nil))
	}
	m.WriteFile(t, "a", []byte("s"))
	assert.Equal(t, "s", string(m.ReadFile(t, "a")))
}

// The way a file was opened counts.
func TestOpenFlags(t *testing.T) {
	_, _, m := newCrashable(t, fabric.Params{})
	require.NoError(t, create(t, m, "a").Close())
	ro, err := m.Open(bg, "a")
	require.NoError(t, err)
	_, err = ro.WriteAt([]byte("x"), 0)
	assert.ErrorIs(t, err, syscall.EBADF)
	assert.Error(t, ro.Truncate(0))
	wo, err := m.OpenFile(bg, "a", os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = wo.ReadAt(make([]byte, 1), 0)
	assert.ErrorIs(t, err, syscall.EBADF)
	_, err = wo.Write([]byte("x"))
	assert.NoError(t, err)
	require.NoError(t, ro.Close())
	require.NoError(t, wo.Close())
	_, err = m.Mkdir(bg, m.Root(), "nil attributes", nil)
	assert.NoError(t, err)
}

// A call that is sent again long after, and after many calls of others, is still executed once.
func TestReplayAfterManyCalls(t *testing.T) {
	l := fabric.RoCE100G
	l.Delay = time.Millisecond
	f := fabric.New(t, fabric.Params{Link: &l})
	a, b := f.Mount(t, "/").NFS(), f.Mount(t, "/").NFS()
	var err error
	wait := f.Go("mkdir", func() { _, err = a.Mkdir(bg, a.Root(), "mine", nil) })
	require.NoError(t, f.Sleep(bg, 1500*time.Microsecond))
	for range 30 {
		a.Disconnect()
		require.NoError(t, f.Sleep(bg, 500*time.Microsecond))
	}
	for i := range 1100 {
		_, err := b.Mkdir(bg, b.Root(), fmt.Sprint(i), nil)
		require.NoError(t, err)
	}
	require.NoError(t, wait(bg))
	assert.NoError(t, err)
	assert.Positive(t, mustGet(t, f.Server().Counters(), "drc_hits")+mustGet(t, f.Client().Counters(), "retransmissions"))
}

func mustGet(t *testing.T, c fabric.Counters, name string) uint64 {
	t.Helper()
	v, ok := c.Get(name)
	require.True(t, ok, name)
	return v
}
