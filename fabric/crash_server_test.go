package fabric_test

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/fabric"
)

// modelled is a storage of all models, which can lose data.
func modelled(c fabric.Commit) fabric.Storage {
	return fabric.Memory().
		WithInodeLock(25*time.Microsecond, 0).
		WithJournal(fabric.Journal{Force: time.Millisecond}).
		WithDisk(fabric.Disk{Spindles: 2, SeekTrack: time.Millisecond, SeekFull: 5 * time.Millisecond, PerByte: 1000}, fabric.PageCache{}).
		WithCommit(c).
		Crashable()
}

// What COMMIT acknowledged is there after a crash, and what it did not is written again by the client.
func TestCrashServer(t *testing.T) {
	eachTime(t, func(t *testing.T, p fabric.Params) {
		p.Storage = modelled(fabric.Commit{Policy: fabric.CommitLockSync})
		f := fabric.New(t, p)
		m := f.Mount(t, "/").NFS()
		fl, err := m.OpenFile(bg, "a", os.O_RDWR|os.O_CREATE, 0o644)
		require.NoError(t, err)
		first, second := data(200_000, 1), data(100_000, 2)
		_, err = fl.WriteAt(first, 0)
		require.NoError(t, err)
		require.NoError(t, fl.Sync())
		_, err = fl.WriteAt(second, 150_000)
		require.NoError(t, err)

		require.NoError(t, f.CrashServer(bg, time.Millisecond))
		got := stored(t, f.FS(), "a")
		require.Equal(t, string(first), got, "the unstable data is lost, the stable is there")

		require.NoError(t, fl.Sync())
		want := append(bytes.Clone(first[:150_000]), second...)
		require.NoError(t, f.CrashServer(bg, 0))
		assert.Equal(t, string(want), stored(t, f.FS(), "a"))
		require.NoError(t, fl.Close())
		f.Server().Counters().Want(t, "nfs3_COMMIT>=3 conn_accepted>=2 threads=8")
	})
}

// A storage that cannot lose anything is no test of a crash.
func TestCrashServerNeedsCrashable(t *testing.T) {
	f := fabric.New(t, fabric.Params{})
	assert.ErrorContains(t, f.CrashServer(bg, 0), "Crashable")
}

// An async export loses what it has acknowledged.
func TestAsyncExportLoses(t *testing.T) {
	f := fabric.New(t, fabric.Params{Storage: modelled(fabric.Commit{}).WithAsync()})
	m := f.Mount(t, "/")
	m.WriteFile(t, "a", []byte("acknowledged"))
	require.NoError(t, f.CrashServer(bg, 0))
	assert.Empty(t, stored(t, f.FS(), "a"))
}

func TestBadStorage(t *testing.T) {
	for want, st := range map[string]fabric.Storage{
		"Spindles":    fabric.Memory().WithDisk(fabric.Disk{Spindles: -1}, fabric.PageCache{}),
		"dirty_bytes": fabric.Memory().WithDisk(fabric.Disk{}, fabric.PageCache{Dirty: -1}),
		"policy":      fabric.Memory().WithCommit(fabric.Commit{Policy: 9}),
		"Force":       fabric.Memory().WithJournal(fabric.Journal{Force: -1}),
		"InodeLock":   fabric.Memory().WithInodeLock(-1, 0),
	} {
		_, err := fabric.Start(fabric.Params{Storage: st})
		assert.ErrorContains(t, err, want)
	}
}
