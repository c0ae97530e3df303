package model

import (
	"context"
	"fmt"
	"sync"
	"time"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsserver/vfs"
)

// CommitPolicy is how COMMIT excludes WRITE (nf_rwsem of the kernel's nfsd).
type CommitPolicy uint8

// WRITE holds the lock shared, COMMIT exclusively.
const (
	CommitLockAll  CommitPolicy = iota // around writing the data back and the sync; Linux before 5.14
	CommitLockSync                     // around the sync only, the data being written back before; Linux 5.14
	CommitNoLock                       // neither takes the lock; later Linux
)

func (p CommitPolicy) String() string {
	names := [...]string{"before", "after", "nolock"}
	if int(p) < len(names) {
		return names[p]
	}
	return fmt.Sprintf("CommitPolicy(%d)", uint8(p))
}

// CommitConfig says what COMMIT does. The zero value locks around all, a lock for each file.
type CommitConfig struct {
	Policy     CommitPolicy
	ServerWide bool // one lock for all files
	WholeFile  bool // COMMIT of a range writes back the whole file
	// Gather joins COMMITs of one file that come within so much time: the first waits for it and commits the whole
	// file, the others wait for the first (the wdelay of exports does so for stable WRITEs). 0: none.
	Gather time.Duration
}

// CommitLock is a file system in which COMMIT excludes WRITE.
type CommitLock struct {
	open
	cfg    CommitConfig
	locks  *fileLocks
	all    *sched.Sem // ServerWide
	joints map[vfs.ID]*joint

	mu sync.Mutex
	st CommitStats
}

// CommitStats counts COMMITs.
type CommitStats struct {
	Commits uint64 // calls
	Joined  uint64 // of these, those that joined another (Gather)
	Blocked uint64 // WRITEs that found the lock taken by a COMMIT, or one waiting for it
}

// exclusive is all units of a lock that each WRITE takes one of.
const exclusive = 1 << 20

// joint is a COMMIT that others may join.
type joint struct {
	group *sched.Group
	err   error
	after vfs.WCC
}

// NewCommitLock decorates fs, which should be a Flusher: CommitLockSync writes data back through that.
func NewCommitLock(s *sched.Sched, fs vfs.FS, cfg CommitConfig) (vfs.FS, *CommitLock) {
	const what = "the COMMIT lock (nf_rwsem)"
	u := sched.Usage{Level: levelCommitLock, Knob: "WithCommit"}
	m := &CommitLock{open: open{s, fs}, cfg: cfg, locks: newFileLocks(s, what, exclusive, u), joints: map[vfs.ID]*joint{}}
	if cfg.ServerWide {
		u.Name = what
		m.all = s.NewSem(what, exclusive).Measure(u)
	}
	return decorate(fs, m), m
}

// Stats is what was counted so far.
func (m *CommitLock) Stats() CommitStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.st
}

func (m *CommitLock) lock(id vfs.ID) *sched.Sem {
	if m.all != nil {
		return m.all
	}
	return m.locks.of(id)
}

func (m *CommitLock) named(id vfs.ID, name string) { m.locks.named(id, name) }

func (m *CommitLock) beginWrite(ctx context.Context, c call) error {
	if m.cfg.Policy == CommitNoLock {
		return nil
	}
	l := m.lock(c.id)
	if l.TryAcquire(1) {
		return nil
	}
	m.mu.Lock()
	m.st.Blocked++
	m.mu.Unlock()
	return l.Acquire(ctx, 1)
}

func (m *CommitLock) endWrite(c call, _ bool) {
	if m.cfg.Policy != CommitNoLock {
		m.lock(c.id).Release(1)
	}
}

func (m *CommitLock) commit(ctx context.Context, id vfs.ID, off, n uint64, w *vfs.WCC) error {
	m.mu.Lock()
	m.st.Commits++
	m.mu.Unlock()
	if m.cfg.Gather > 0 {
		return m.gather(ctx, id, w)
	}
	return m.one(ctx, id, off, n, w)
}

// gather commits the whole file together with others who ask for it.
func (m *CommitLock) gather(ctx context.Context, id vfs.ID, w *vfs.WCC) error {
	m.mu.Lock()
	j := m.joints[id]
	if j != nil {
		m.st.Joined++
		m.mu.Unlock()
		if err := j.group.Wait(ctx); err != nil {
			return err
		}
		if w != nil {
			*w = j.after
		}
		return j.err
	}
	j = &joint{group: m.s.NewGroup("a COMMIT that was joined"), err: vfs.ErrIO}
	j.group.Add(1)
	m.joints[id] = j
	m.mu.Unlock()
	defer j.group.Done()
	err := m.s.Sleep(ctx, sched.FromStd(m.cfg.Gather))
	// Who comes later finds its data maybe not written back.
	m.mu.Lock()
	delete(m.joints, id)
	m.mu.Unlock()
	if err == nil {
		err = m.one(ctx, id, 0, 0, w)
	}
	j.err = err
	if w != nil {
		j.after = *w
	}
	return err
}

func (m *CommitLock) one(ctx context.Context, id vfs.ID, off, n uint64, w *vfs.WCC) error {
	if m.cfg.WholeFile {
		off, n = 0, 0
	}
	switch m.cfg.Policy {
	case CommitLockSync:
		if err := m.flush(ctx, id, off, n); err != nil {
			return err
		}
		fallthrough
	case CommitLockAll:
		l := m.lock(id)
		if err := l.Acquire(ctx, exclusive); err != nil {
			return err
		}
		defer l.Release(exclusive)
	}
	return m.below.Commit(ctx, id, off, n, w)
}

// Async is a file system exported with the option async: COMMIT and stable WRITEs return at once and nothing
// is made durable. What a crash loses has been acknowledged.
type Async struct{ open }

// NewAsync decorates fs.
func NewAsync(s *sched.Sched, fs vfs.FS) vfs.FS {
	d := decorate(fs, &Async{open{s, fs}})
	if p, ok := d.(*pageDecorator); ok {
		return &asyncPages{p}
	}
	return &asyncPlain{d.(*decorator)}
}

func (m *Async) commit(ctx context.Context, id vfs.ID, _, _ uint64, w *vfs.WCC) error {
	var a vfs.Attr
	if err := m.below.Attr(ctx, id, &a); err != nil {
		return err
	}
	if a.Type == vfs.Directory {
		return vfs.ErrIsDir
	}
	if a.Type != vfs.Regular {
		return vfs.ErrInval
	}
	if w != nil {
		w.Before, w.After = a, a
	}
	return nil
}

type asyncPlain struct{ *decorator }

func (d *asyncPlain) Write(ctx context.Context, id vfs.ID, off uint64, src []byte, _ bool, w *vfs.WCC) error {
	return d.decorator.Write(ctx, id, off, src, false, w)
}

type asyncPages struct{ *pageDecorator }

func (d *asyncPages) Write(ctx context.Context, id vfs.ID, off uint64, src []byte, _ bool, w *vfs.WCC) error {
	return d.pageDecorator.Write(ctx, id, off, src, false, w)
}

func (d *asyncPages) WritePages(ctx context.Context, id vfs.ID, off uint64, p *vfs.Pages, _ bool, w *vfs.WCC) error {
	return d.pageDecorator.WritePages(ctx, id, off, p, false, w)
}
