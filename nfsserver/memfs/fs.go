package memfs

import (
	"context"
	"math"
	"sync"
	"sync/atomic"

	"example.org/nfsrdma/nfsserver/vfs"
)

// Limits that no option changes.
const (
	MaxName   = 255  // bytes of a name
	MaxTarget = 4096 // bytes of a symbolic link's target
)

// Options are what New needs; zero values are the defaults.
type Options struct {
	// Now is the clock, called with locks held; it must not wait. Nil is a
	// counter that advances by a nanosecond a call.
	Now func() vfs.Time

	Capacity    uint64 // bytes of file data, counted in chunks; 0 is 8 GiB
	MaxFiles    uint64 // objects, the root included; 0 is 1 Mi
	MaxFileSize uint64 // bytes; 0 is 16 TiB
	MaxLink     uint32 // hard links of a file; 0 is 65000

	RootUID, RootGID uint32
	RootMode         uint32 // 0 is 0755
	FSID             uint64

	// TrackUnstable keeps what unstable writes replace until the next Commit,
	// so that Crash can bring it back.
	TrackUnstable bool
	// Discard drops what is written; sizes and times advance, reads give zeros.
	Discard bool
}

func (o *Options) setDefaults() {
	if o.Now == nil {
		var ns atomic.Uint64
		o.Now = func() vfs.Time {
			n := ns.Add(1)
			return vfs.Time{Sec: uint32(n / nsPerSec), Nsec: uint32(n % nsPerSec)}
		}
	}
	if o.Capacity == 0 {
		o.Capacity = 8 << 30
	}
	o.Capacity = min(o.Capacity, math.MaxInt64)
	if o.MaxFiles == 0 {
		o.MaxFiles = 1 << 20
	}
	if o.MaxFileSize == 0 {
		o.MaxFileSize = 16 << 40
	}
	// Below 2^63, so that offset + chunk does not wrap.
	o.MaxFileSize = min(o.MaxFileSize, math.MaxInt64)
	if o.MaxLink == 0 {
		o.MaxLink = 65000
	}
	if o.RootMode == 0 {
		o.RootMode = 0o755
	}
}

// FS is a file system in memory. All methods may be called by several threads
// at once, except where they say otherwise.
type FS struct {
	opt  Options
	root *inode
	pool pool
	zero zeroPages
	used atomic.Int64  // bytes of chunks that files hold
	verf atomic.Uint64 // write verifier

	// tree guards all directories and the set of inodes. It is taken before
	// the mutex of an inode, and no two inodes are locked at once.
	tree   sync.RWMutex
	inodes table
}

var (
	_ vfs.FS         = (*FS)(nil)
	_ vfs.PageWriter = (*FS)(nil)
)

// New makes a file system with an empty root.
func New(o Options) *FS {
	o.setDefaults()
	fs := &FS{opt: o}
	fs.zero.init()
	fs.verf.Store(1)
	fs.root = fs.newInode(vfs.Directory, o.RootMode)
	fs.root.uid, fs.root.gid = o.RootUID, o.RootGID
	fs.root.dir.parent = fs.root
	fs.inodes.add(fs.root)
	return fs
}

// Root is the ID of the top directory.
func (fs *FS) Root() vfs.ID { return fs.root.id }

// FSID is the number given in Options, for the fsid attribute.
func (fs *FS) FSID() uint64 { return fs.opt.FSID }

// Info returns the limits (FSINFO, PATHCONF).
func (fs *FS) Info() vfs.Info {
	return vfs.Info{
		MaxFileSize:  fs.opt.MaxFileSize,
		TimeDelta:    vfs.Time{Nsec: 1},
		MaxName:      MaxName,
		MaxLink:      fs.opt.MaxLink,
		HasHardLinks: true,
		HasSymlinks:  true,
	}
}

// Stat returns the space in use (FSSTAT).
func (fs *FS) Stat(context.Context) (vfs.Stat, error) {
	fs.tree.RLock()
	files := fs.opt.MaxFiles - min(fs.inodes.count, fs.opt.MaxFiles)
	fs.tree.RUnlock()
	free := fs.opt.Capacity - min(uint64(fs.used.Load()), fs.opt.Capacity)
	return vfs.Stat{
		TotalBytes: fs.opt.Capacity, FreeBytes: free, AvailBytes: free,
		TotalFiles: fs.opt.MaxFiles, FreeFiles: files, AvailFiles: files,
	}, nil
}

// charge takes n bytes of the capacity, or nothing if there is not that much.
func (fs *FS) charge(n uint64) bool {
	if n == 0 {
		return true
	}
	if n > fs.opt.Capacity {
		return false
	}
	if uint64(fs.used.Add(int64(n))) > fs.opt.Capacity {
		fs.used.Add(-int64(n))
		return false
	}
	return true
}
