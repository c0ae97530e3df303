package fabric

import (
	"time"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/nfsserver/model"
	"example.org/nfsrdma/nfsserver/sinkfs"
	"example.org/nfsrdma/nfsserver/vfs"
)

// Storage says what file system the server exports. The zero value is Memory.
type Storage struct {
	name  string
	build func(s *sched.Sched, now func() vfs.Time) built
}

// built is a file system, and what is below its delays: where the fabric
// prepares and checks files.
type built struct {
	fs, raw vfs.FS
	mem     *memfs.FS // nil: the user's own
	lock    *model.InodeLock
}

func (st Storage) String() string {
	if st.build == nil {
		return "memfs"
	}
	return st.name
}

func (st Storage) make(s *sched.Sched, now func() vfs.Time) built {
	if st.build == nil {
		st = Memory()
	}
	return st.build(s, now)
}

// Memory is a file system in memory (memfs), the default.
func Memory() Storage {
	return Storage{"memfs", func(_ *sched.Sched, now func() vfs.Time) built {
		m := memfs.New(memfs.Options{Now: now, RootMode: 0o777, Capacity: 64 << 30})
		return built{fs: m, raw: m, mem: m}
	}}
}

// Sink drops what is written and reads zeros (sinkfs): the transport alone.
func Sink() Storage {
	return Storage{"sink", func(_ *sched.Sched, now func() vfs.Time) built {
		m := sinkfs.New(memfs.Options{Now: now, RootMode: 0o777, Capacity: 1 << 50})
		return built{fs: m, raw: m, mem: m.FS}
	}}
}

// FileSystem exports fs. The fabric does not close it. If it has the methods Pinned and CheckConsistent of
// memfs, they are asked when the fabric closes: no page may be lent then. An fs that embeds memfs and changes Write
// or Read must hide its pages (vfs.Plain) or change WritePages and ReadPages too. In virtual time fs waits
// with Fabric.Sleep.
func FileSystem(name string, fs vfs.FS) Storage {
	return Storage{name, func(*sched.Sched, func() vfs.Time) built { return built{fs: fs, raw: fs} }}
}

// WithInodeLock adds the time of a copy under the file's lock to each WRITE:
// perCall, and perByte picoseconds for each byte.
func (st Storage) WithInodeLock(perCall time.Duration, perByte int) Storage {
	return Storage{st.String() + "+inodelock", func(s *sched.Sched, now func() vfs.Time) built {
		b := st.make(s, now)
		b.fs, b.lock = model.NewInodeLock(s, b.fs, model.InodeLockConfig{
			Write: model.Cost{PerCall: sched.FromStd(perCall), PerByte: sched.Duration(perByte)},
		})
		return b
	}}
}
