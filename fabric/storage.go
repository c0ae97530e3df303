package fabric

import (
	"errors"
	"fmt"
	"time"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/nfsserver/model"
	"example.org/nfsrdma/nfsserver/sinkfs"
	"example.org/nfsrdma/nfsserver/vfs"
)

// Storage says what file system the server exports. The zero value is Memory. Its With methods add
// what decides the speed of a real one, each outside what is there already:
//
//	fabric.Memory().
//		WithInodeLock(25*time.Microsecond, 0).
//		WithJournal(fabric.Journal{Force: 4 * time.Millisecond}).
//		WithDisk(fabric.Disk{Spindles: 4, SeekTrack: time.Millisecond, SeekFull: 15 * time.Millisecond, RPM: 7200, PerByte: 10_000}, fabric.PageCache{}).
//		WithCommit(fabric.Commit{Policy: fabric.CommitLockSync}).
//		Crashable()
type Storage struct {
	name      string
	crashable bool
	build     func(e storageEnv) (built, error)
}

// storageEnv is what a storage is built in.
type storageEnv struct {
	s         *sched.Sched
	now       func() vfs.Time
	crashable bool
}

// built is a file system, and what is below its delays: where the fabric
// prepares and checks files.
type built struct {
	fs, raw vfs.FS
	mem     *memfs.FS // nil: the user's own
	parts   StorageParts
}

// StorageParts are the models that a Storage was made of, to ask what they did; nil are those that it has not.
type StorageParts struct {
	InodeLock *model.InodeLock
	Journal   *model.Journal
	Disk      *model.Disk
	PageCache *model.PageCache
	Commit    *model.CommitLock
}

// What the models take; the zero value of each is the default that its fields say.
type (
	Disk      = model.DiskConfig      // spindles, seek, elevator
	PageCache = model.PageCacheConfig // dirty limits, writeback
	Journal   = model.JournalConfig   // log force of COMMIT
	Commit    = model.CommitConfig    // how COMMIT excludes WRITE
)

// Elevators of Disk.
const (
	Noop     = model.Noop
	Deadline = model.Deadline
	CFQ      = model.CFQ
)

// Policies of Commit.
const (
	CommitLockAll  = model.CommitLockAll  // Linux before 5.14
	CommitLockSync = model.CommitLockSync // Linux 5.14
	CommitNoLock   = model.CommitNoLock   // later Linux
)

func (st Storage) String() string {
	if st.build == nil {
		return "memfs"
	}
	return st.name
}

func (st Storage) make(s *sched.Sched, now func() vfs.Time) (built, error) {
	b, err := st.in(storageEnv{s, now, st.crashable})
	if err != nil {
		return b, fmt.Errorf("fabric: Storage: %w", err)
	}
	return b, nil
}

func (st Storage) in(e storageEnv) (built, error) {
	if st.build == nil {
		st = Memory()
	}
	return st.build(e)
}

// Memory is a file system in memory (memfs), the default.
func Memory() Storage {
	return Storage{name: "memfs", build: func(e storageEnv) (built, error) {
		m := memfs.New(memfs.Options{Now: e.now, RootMode: 0o777, Capacity: 64 << 30, TrackUnstable: e.crashable})
		return built{fs: m, raw: m, mem: m}, nil
	}}
}

// Sink drops what is written and reads zeros (sinkfs): the transport alone.
func Sink() Storage {
	return Storage{name: "sink", build: func(e storageEnv) (built, error) {
		m := sinkfs.New(memfs.Options{Now: e.now, RootMode: 0o777, Capacity: 1 << 50})
		return built{fs: m, raw: m, mem: m.FS}, nil
	}}
}

// FileSystem exports fs. The fabric does not close it. If it has the methods Pinned and CheckConsistent of
// memfs, they are asked when the fabric closes: no page may be lent then. An fs that embeds memfs and changes Write
// or Read must hide its pages (vfs.Plain) or change WritePages and ReadPages too. In virtual time fs waits
// with Fabric.Sleep.
func FileSystem(name string, fs vfs.FS) Storage {
	return Storage{name: name, build: func(storageEnv) (built, error) { return built{fs: fs, raw: fs}, nil }}
}

// with is st and a decorator of its file system.
func (st Storage) with(name string, add func(s *sched.Sched, b *built) error) Storage {
	return Storage{name: st.String() + "+" + name, crashable: st.crashable, build: func(e storageEnv) (built, error) {
		b, err := st.in(e)
		if err == nil {
			err = add(e.s, &b)
		}
		return b, err
	}}
}

// Crashable makes Memory keep what unstable WRITEs replace until COMMIT, so that Fabric.CrashServer can lose
// them. A file system of FileSystem does so if it has the method Crash.
func (st Storage) Crashable() Storage {
	if st.build == nil {
		st = Memory()
	}
	st.crashable = true
	return st
}

// WithInodeLock adds the time of a copy under the file's lock to each WRITE:
// perCall, and perByte picoseconds for each byte.
func (st Storage) WithInodeLock(perCall time.Duration, perByte int) Storage {
	return st.with("inodelock", func(s *sched.Sched, b *built) error {
		if perCall < 0 || perByte < 0 {
			return errors.New("the times of WithInodeLock must not be negative")
		}
		b.fs, b.parts.InodeLock = model.NewInodeLock(s, b.fs, model.InodeLockConfig{
			Write: model.Cost{PerCall: sched.FromStd(perCall), PerByte: sched.Duration(perByte)},
		})
		return nil
	})
}

// WithReadTime adds the server's own time to each READ, such as its CPU's: perCall, and perByte picoseconds for each byte.
func (st Storage) WithReadTime(perCall time.Duration, perByte int) Storage {
	return st.with("readtime", func(s *sched.Sched, b *built) error {
		if perCall < 0 || perByte < 0 {
			return errors.New("the times of WithReadTime must not be negative")
		}
		b.fs, _ = model.NewInodeLock(s, b.fs, model.InodeLockConfig{
			Read: model.Cost{PerCall: sched.FromStd(perCall), PerByte: sched.Duration(perByte)},
		})
		return nil
	})
}

// WithJournal adds a log force to each COMMIT and stable WRITE.
func (st Storage) WithJournal(j Journal) Storage {
	return st.with("journal", func(s *sched.Sched, b *built) error {
		if j.Force < 0 || !(j.Spread >= 0 && j.Spread <= 1) {
			return fmt.Errorf("Journal is %+v, must have a Force that is not negative and a Spread of 0 to 1", j)
		}
		b.fs, b.parts.Journal = model.NewJournal(s, b.fs, j)
		return nil
	})
}

// WithDisk adds an array of disks behind a page cache: data is written back when COMMIT or a stable WRITE asks for
// it, or as the cache's knobs say, and READ waits for what is not in the cache.
func (st Storage) WithDisk(d Disk, c PageCache) Storage {
	return st.with("disk", func(s *sched.Sched, b *built) (err error) {
		if b.parts.Disk, err = model.NewDisk(s, d); err != nil {
			return err
		}
		b.fs, b.parts.PageCache, err = model.NewPageCache(s, b.fs, b.parts.Disk, c)
		return err
	})
}

// WithFlash is WithDisk with a device that has no queue: each transfer takes perRequest and perByte picoseconds
// for each byte, whatever else is under way.
func (st Storage) WithFlash(perRequest time.Duration, perByte int, c PageCache) Storage {
	return st.WithVaryingFlash(perRequest, perByte, 0, c)
}

// WithVaryingFlash is WithFlash with times that vary evenly by the share spread of them, 0 to 1, either way.
func (st Storage) WithVaryingFlash(perRequest time.Duration, perByte int, spread float64, c PageCache) Storage {
	return st.with("flash", func(s *sched.Sched, b *built) (err error) {
		if perRequest < 0 || perByte < 0 || !(spread >= 0 && spread <= 1) {
			return errors.New("the times of WithFlash must not be negative, and vary by a share of 0 to 1")
		}
		b.fs, b.parts.PageCache, err = model.NewPageCache(s, b.fs, model.NewFixed(s, perRequest, perByte).Vary(spread), c)
		return err
	})
}

// WithCommit lets COMMIT exclude WRITE.
func (st Storage) WithCommit(c Commit) Storage {
	return st.with("commit", func(s *sched.Sched, b *built) error {
		if c.Policy > CommitNoLock || c.Gather < 0 {
			return fmt.Errorf("Commit is %+v, must have a policy of this package and a Gather that is not negative", c)
		}
		b.fs, b.parts.Commit = model.NewCommitLock(s, b.fs, c)
		return nil
	})
}

// WithAsync is the export option async: COMMIT and stable WRITEs return at once, and a crash loses what
// they acknowledged.
func (st Storage) WithAsync() Storage {
	return st.with("async", func(s *sched.Sched, b *built) error {
		b.fs = model.NewAsync(s, b.fs)
		return nil
	})
}
