package model

import (
	"context"
	"sync"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsserver/vfs"
)

// Cost is how long a call of n bytes takes: PerCall + n x PerByte.
type Cost struct {
	PerCall sched.Duration
	PerByte sched.Duration // picoseconds
}

// maxBytes bounds what one call is charged for: more cannot be lent at once.
const maxBytes = 1 << 30

// Of is the time for n bytes, at most 1 GiB.
func (c Cost) Of(n int) sched.Duration {
	return c.PerCall + sched.Duration(min(max(n, 0), maxBytes))*c.PerByte
}

// InodeLock is a file system whose WRITEs to one file exclude each other while the
// data is copied, as under the i_mutex of Linux before 3.x and the inode lock of XFS: each takes the file's lock for
// Write.Of(n). READs take Read.Of(n) without the lock.
type InodeLock struct {
	open
	cfg   InodeLockConfig
	locks *fileLocks

	mu    sync.Mutex
	busy  sched.Duration
	calls uint64
}

// InodeLockConfig holds the times. Zero takes no time.
type InodeLockConfig struct {
	Write Cost // under the file's lock
	Read  Cost
}

// NewInodeLock decorates fs. The file system that it returns lends pages if fs
// does; the InodeLock tells what happened.
func NewInodeLock(s *sched.Sched, fs vfs.FS, cfg InodeLockConfig) (vfs.FS, *InodeLock) {
	m := &InodeLock{open: open{s, fs}, cfg: cfg,
		locks: newFileLocks(s, "the inode lock", 1, sched.Usage{Level: levelInodeLock, Knob: "WithInodeLock"})}
	return decorate(fs, m), m
}

// Busy is the time that all inode locks together were held for WRITEs, and how
// many WRITEs held one.
func (m *InodeLock) Busy() (sched.Duration, uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.busy, m.calls
}

func (m *InodeLock) beginWrite(ctx context.Context, c call) error {
	l := m.locks.of(c.id)
	if err := l.Acquire(ctx, 1); err != nil {
		return err
	}
	slept := false
	defer func() {
		if !slept {
			l.Release(1)
		}
	}()
	d := m.cfg.Write.Of(c.n)
	if err := m.s.Sleep(ctx, d); err != nil {
		return err
	}
	slept = true
	m.mu.Lock()
	m.busy += d
	m.calls++
	m.mu.Unlock()
	return nil
}

func (m *InodeLock) endWrite(c call, _ bool) { m.locks.of(c.id).Release(1) }

func (m *InodeLock) beginRead(ctx context.Context, c call) error {
	if d := m.cfg.Read.Of(c.n); d > 0 {
		return m.s.Sleep(ctx, d)
	}
	return nil
}

func (m *InodeLock) named(id vfs.ID, name string) { m.locks.named(id, name) }
