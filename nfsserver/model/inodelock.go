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

// Of is the time for n bytes.
func (c Cost) Of(n int) sched.Duration { return c.PerCall + sched.Duration(n)*c.PerByte }

// InodeLock is a file system whose WRITEs to one file exclude each other while the
// data is copied, as under the i_mutex of Linux before 3.x: each takes the file's lock for Write.Of(n).
// READs take Read.Of(n) without the lock.
type InodeLock struct {
	vfs.FS
	s   *sched.Sched
	cfg InodeLockConfig

	mu    sync.Mutex
	locks map[vfs.ID]*sched.Mutex
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
	m := &InodeLock{FS: fs, s: s, cfg: cfg, locks: map[vfs.ID]*sched.Mutex{}}
	if p, ok := fs.(vfs.PageWriter); ok {
		return &inodeLockPages{m, p}, m
	}
	return m, m
}

// Busy is the time that all inode locks together were held for WRITEs, and how
// many WRITEs held one.
func (m *InodeLock) Busy() (sched.Duration, uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.busy, m.calls
}

func (m *InodeLock) lock(id vfs.ID) *sched.Mutex {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.locks[id]
	if l == nil {
		l = m.s.NewMutex("an inode lock")
		m.locks[id] = l
	}
	return l
}

// locked runs f under the file's lock, after the time that the copy takes.
func (m *InodeLock) locked(ctx context.Context, id vfs.ID, n int, f func() error) error {
	l := m.lock(id)
	if err := l.Lock(ctx); err != nil {
		return err
	}
	defer l.Unlock()
	d := m.cfg.Write.Of(n)
	if err := m.s.Sleep(ctx, d); err != nil {
		return err
	}
	m.mu.Lock()
	m.busy += d
	m.calls++
	m.mu.Unlock()
	return f()
}

// Write implements vfs.FS.
func (m *InodeLock) Write(ctx context.Context, id vfs.ID, off uint64, src []byte, stable bool, w *vfs.WCC) error {
	return m.locked(ctx, id, len(src), func() error { return m.FS.Write(ctx, id, off, src, stable, w) })
}

// Read implements vfs.FS.
func (m *InodeLock) Read(ctx context.Context, id vfs.ID, off uint64, dst []byte, a *vfs.Attr) (int, bool, error) {
	if err := m.delayRead(ctx, len(dst)); err != nil {
		return 0, false, err
	}
	return m.FS.Read(ctx, id, off, dst, a)
}

// WriteVerf implements vfs.Verifier, for a file system that has one.
func (m *InodeLock) WriteVerf() uint64 {
	if v, ok := m.FS.(vfs.Verifier); ok {
		return v.WriteVerf()
	}
	return 0
}

func (m *InodeLock) delayRead(ctx context.Context, n int) error {
	if d := m.cfg.Read.Of(n); d > 0 {
		return m.s.Sleep(ctx, d)
	}
	return nil
}

// inodeLockPages adds the lent pages of the file system below.
type inodeLockPages struct {
	*InodeLock
	pages vfs.PageWriter
}

func (m *inodeLockPages) ReadPages(ctx context.Context, id vfs.ID, off uint64, n int, out *vfs.Pages, a *vfs.Attr) (bool, error) {
	if err := m.delayRead(ctx, n); err != nil {
		return false, err
	}
	return m.pages.ReadPages(ctx, id, off, n, out, a)
}

func (m *inodeLockPages) ReleasePages(p *vfs.Pages) { m.pages.ReleasePages(p) }

func (m *inodeLockPages) GrabPages(id vfs.ID, off uint64, n int, out *vfs.Pages) bool {
	return m.pages.GrabPages(id, off, n, out)
}

// WritePages takes the pages over also when the lock is not got.
func (m *inodeLockPages) WritePages(ctx context.Context, id vfs.ID, off uint64, p *vfs.Pages, stable bool, w *vfs.WCC) error {
	ran := false
	err := m.locked(ctx, id, p.Len(), func() error {
		ran = true
		return m.pages.WritePages(ctx, id, off, p, stable, w)
	})
	if !ran {
		m.pages.ReleasePages(p)
	}
	return err
}
