package model

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/nfsserver/vfs"
	"example.org/nfsrdma/nfsserver/vfs/vfstest"
)

// stack is every decorator over fs.
func stack(t *testing.T, s *sched.Sched, fs vfs.FS, commit CommitConfig) vfs.FS {
	t.Helper()
	fs, _ = NewInodeLock(s, fs, InodeLockConfig{Write: Cost{PerCall: sched.Nanosecond}, Read: Cost{PerByte: 1}})
	fs, _ = NewJournal(s, fs, JournalConfig{Force: time.Microsecond, Serial: true})
	d, err := NewDisk(s, DiskConfig{Spindles: 3, SeekTrack: time.Nanosecond, SeekFull: time.Microsecond, PerByte: 1, Elevator: Deadline})
	require.NoError(t, err)
	fs, _, err = NewPageCache(s, fs, d, PageCacheConfig{Dirty: 256 << 10, Size: 1 << 20})
	require.NoError(t, err)
	fs, _ = NewCommitLock(s, fs, commit)
	return fs
}

// checkedFS lets vfstest see what memfs says of itself.
type checkedFS struct {
	vfs.PageWriter
	vfs.FS
	mem *memfs.FS
}

func (c *checkedFS) CheckConsistent() error { return c.mem.CheckConsistent() }
func (c *checkedFS) Pinned() int            { return c.mem.Pinned() }

// A stack of decorators is a file system like the one below.
func TestConformance(t *testing.T) {
	for _, c := range []CommitConfig{{}, {Policy: CommitLockSync, WholeFile: true}, {Policy: CommitNoLock, Gather: time.Microsecond}} {
		t.Run(c.Policy.String(), func(t *testing.T) {
			vfstest.Run(t, func(t *testing.T) vfs.FS {
				s := sched.NewLive(1)
				t.Cleanup(func() { require.NoError(t, s.Close()) })
				mem := memfs.New(memfs.Options{TrackUnstable: true})
				fs := stack(t, s, mem, c)
				return &checkedFS{fs.(vfs.PageWriter), fs, mem}
			})
		})
	}
	t.Run("without pages", func(t *testing.T) {
		vfstest.Run(t, func(t *testing.T) vfs.FS {
			s := sched.NewLive(1)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			return stack(t, s, vfs.Plain(memfs.New(memfs.Options{})), CommitConfig{ServerWide: true})
		})
	})
}
