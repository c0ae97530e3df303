package vfs

import "context"

// ID names an object of one file system for as long as it exists. Gen differs
// when Ino is used again, so that an old ID is stale (ErrStale), not wrong.
type ID struct {
	Ino uint64
	Gen uint64
}

// Type is the kind of an object.
type Type uint8

// The object types of NFSv3 (RFC 1813 section 2.6, ftype3), with its values.
const (
	Regular   Type = 1
	Directory Type = 2
	Block     Type = 3
	Char      Type = 4
	Symlink   Type = 5
	Socket    Type = 6
	FIFO      Type = 7
)

// Time is a time in seconds and nanoseconds since the epoch, as NFS stores it.
type Time struct {
	Sec  uint32
	Nsec uint32
}

// Attr holds the attributes of an object. Sizes are in bytes.
type Attr struct {
	ID                  ID
	Type                Type
	Mode                uint32 // permission bits, 07777
	Nlink               uint32
	UID, GID            uint32
	Size                uint64
	Used                uint64 // bytes of storage in use; less than Size when sparse
	RdevMajor           uint32
	RdevMinor           uint32
	Atime, Mtime, Ctime Time
}

// TimeHow says how SetAttr sets a time.
type TimeHow uint8

// A time is kept, set to the server's clock, or set to the given value.
const (
	TimeKeep TimeHow = iota
	TimeServer
	TimeClient
)

// SetAttr lists the attributes to change; zero changes nothing.
type SetAttr struct {
	SetMode, SetUID, SetGID, SetSize bool
	Mode, UID, GID                   uint32
	Size                             uint64
	AtimeHow, MtimeHow               TimeHow
	Atime, Mtime                     Time
}

// WCC holds what weak cache consistency needs of one object (RFC 1813 section
// 2.6): its attributes before and after a change, taken atomically with it. A call
// that fails fills both with the attributes as they are, or with zeros if it does
// not know the object.
type WCC struct {
	Before, After Attr
}

// CreateMode is how Create treats a name that exists.
type CreateMode uint8

// Unchecked opens an existing file, Guarded fails with ErrExist, Exclusive
// succeeds only if the existing file was made with the same verifier.
const (
	Unchecked CreateMode = iota
	Guarded
	Exclusive
)

// MknodSpec says what Mknod makes: a FIFO, a socket or a device.
type MknodSpec struct {
	Type                 Type
	RdevMajor, RdevMinor uint32
}

// DirEntry is one entry of a directory. Cookie is that of ReadDir: a later call with
// it goes on after this entry, also if entries were added or removed meanwhile.
type DirEntry struct {
	Name   string
	ID     ID
	Cookie uint64
}

// Stat describes the space of a file system, in bytes and files (FSSTAT).
type Stat struct {
	TotalBytes, FreeBytes, AvailBytes uint64
	TotalFiles, FreeFiles, AvailFiles uint64
}

// Info describes the limits of a file system (FSINFO, PATHCONF).
type Info struct {
	MaxFileSize  uint64
	TimeDelta    Time // granularity of times
	MaxName      uint32
	MaxLink      uint32
	HasHardLinks bool
	HasSymlinks  bool
	CaseFold     bool // names are matched without case
	ReadOnly     bool
}

// FS is a file system that a server exports. Every method may be called by
// several threads at once. Objects that do not exist any more give ErrStale.
// The names "." and ".." in Lookup are the directory and its parent (the
// root's parent is the root); creating or removing them is ErrInval or ErrExist.
//
// Read and Write are the plain data path. A file system that can lend its own
// memory implements PageReader and PageWriter too, and then no copy is made.
type FS interface {
	// Root is the top directory.
	Root() ID
	// Attr fills a with the attributes of id.
	Attr(ctx context.Context, id ID, a *Attr) error
	// SetAttr changes attributes; guard, if not nil, must equal the ctime or
	// the call fails with ErrNotSync. A size change truncates or extends.
	SetAttr(ctx context.Context, id ID, s *SetAttr, guard *Time, w *WCC) error
	// Lookup finds name in dir and fills a.
	Lookup(ctx context.Context, dir ID, name string, a *Attr) error
	// ReadLink returns the target of a symbolic link.
	ReadLink(ctx context.Context, id ID) (string, error)
	// Read copies up to len(dst) bytes at off into dst. n < len(dst) only at the end;
	// eof says that off+n reaches it. a is filled with the attributes after.
	Read(ctx context.Context, id ID, off uint64, dst []byte, a *Attr) (n int, eof bool, err error)
	// Write stores src at off. With stable set, data and metadata are durable
	// on return; otherwise only after Commit.
	Write(ctx context.Context, id ID, off uint64, src []byte, stable bool, w *WCC) error
	// Commit makes durable what Write stored in [off, off+n); n 0 means to the end.
	Commit(ctx context.Context, id ID, off uint64, n uint64, w *WCC) error
	// Create makes a regular file and fills a and the directory's w. For Exclusive, verf
	// is kept with the file, and of s only the owner is taken.
	Create(ctx context.Context, dir ID, name string, mode CreateMode, verf uint64, s *SetAttr, a *Attr, w *WCC) error
	Mkdir(ctx context.Context, dir ID, name string, s *SetAttr, a *Attr, w *WCC) error
	Symlink(ctx context.Context, dir ID, name, target string, s *SetAttr, a *Attr, w *WCC) error
	Mknod(ctx context.Context, dir ID, name string, spec MknodSpec, s *SetAttr, a *Attr, w *WCC) error
	// Remove takes away a name that is not a directory (ErrIsDir).
	Remove(ctx context.Context, dir ID, name string, w *WCC) error
	// Rmdir takes away an empty directory (ErrNotEmpty, ErrNotDir).
	Rmdir(ctx context.Context, dir ID, name string, w *WCC) error
	// Rename moves an object, replacing a compatible target; a directory does
	// not move below itself (ErrInval).
	Rename(ctx context.Context, from ID, fromName string, to ID, toName string, wfrom, wto *WCC) error
	// Link adds a name for a file that is not a directory; a is the file's.
	Link(ctx context.Context, id, dir ID, name string, a *Attr, w *WCC) error
	// ReadDir calls emit for each entry after cookie (0 is the start), "." and
	// ".." included, until emit returns false or the end, and says whether the end was reached.
	// verf is 0 or what an earlier call returned; ErrBadCookie if it no longer holds.
	// emit must not call into the file system, nor wait.
	ReadDir(ctx context.Context, dir ID, cookie, verf uint64, emit func(*DirEntry) bool) (newVerf uint64, eof bool, err error)
	Stat(ctx context.Context) (Stat, error)
	Info() Info
}

// Verifier is a file system that can lose what unstable writes have stored.
// WriteVerf changes when it may have, so that clients write again (RFC 1813
// section 3.3.7). A decorator passes it on.
type Verifier interface{ WriteVerf() uint64 }
