package dirfs

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"example.org/nfsrdma/nfsserver/vfs"
)

// FS is a directory in service. Its methods may be called by several threads
// at once; calls after Close fail.
type FS struct {
	opt      Options
	key      []byte
	rootPath int // O_PATH
	rootDir  int // for reading; -1 if that is not permitted
	proc     int // /proc/self/fd
	dev      uint64
	mount    uint64
	info     vfs.Info
	root     *node

	resolveFlags uint64
	noOpenat2    bool
	noHandles    bool // no name_to_handle_at; set by tests
	noByHandle   bool // no open_by_handle_at
	noBirth      bool // no birth times; set by tests
	weak         bool // neither handles nor birth times
	chown        bool // the process may give files away
	layout       layout

	life   sync.RWMutex // held for reading by each call
	closed bool

	// moves is held for reading while a name is taken away or moved, until the table says
	// so too; for writing by who searches an object that is not where the table says.
	moves    sync.RWMutex
	recovery sync.Mutex // one recovery at a time; guards walked
	walked   bool

	table  table
	cache  cache
	verf   atomic.Uint64
	syncFD func(fd int) error // fsync(2); tests let it fail
}

var (
	_ vfs.FS       = (*FS)(nil)
	_ vfs.Verifier = (*FS)(nil)
)

// lacks is what a kernel or a container may not allow.
type lacks struct{ openat2, handles, byHandle, birth bool }

// New exports root, a directory; it follows symbolic links in root itself, once. It
// needs /proc.
func New(root string, opts Options) (*FS, error) { return newFS(root, opts, lacks{}) }

func newFS(root string, opts Options, without lacks) (_ *FS, err error) {
	fs := &FS{
		opt: opts, rootPath: -1, rootDir: -1, proc: -1, table: newTable(), syncFD: unix.Fsync,
		noOpenat2: without.openat2, noHandles: without.handles, noByHandle: without.byHandle, noBirth: without.birth,
	}
	defer func() {
		if err != nil {
			fs.closeFDs()
			err = fmt.Errorf("dirfs: %s: %w", root, err)
		}
	}()
	if fs.opt.MaxOpen == 0 {
		fs.opt.MaxOpen = defaultMaxOpen
	}
	if fs.opt.MaxOpen < 0 {
		return nil, fmt.Errorf("MaxOpen is %d, must be positive", fs.opt.MaxOpen)
	}
	fs.cache.init(fs.opt.MaxOpen)
	if fs.key = slices.Clone(opts.Key); len(fs.key) == 0 {
		fs.key = random(32)
	}
	if fs.verf.Store(opts.Boot); opts.Boot == 0 {
		fs.verf.Store(binary.BigEndian.Uint64(random(8)))
	}
	if err := fs.openRoot(root); err != nil {
		return nil, err
	}
	return fs, nil
}

// random never fails.
func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

func (fs *FS) openRoot(root string) (err error) {
	if fs.proc, err = unix.Open("/proc/self/fd", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("/proc/self/fd: %w", err)
	}
	var sf unix.Statfs_t
	if err := unix.Fstatfs(fs.proc, &sf); err != nil || sf.Type != unix.PROC_SUPER_MAGIC {
		return errors.New("/proc is no procfs")
	}
	if fs.rootPath, err = unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return err
	}
	if fd, err := fs.reopen(fs.rootPath, unix.O_RDONLY|unix.O_DIRECTORY); err == nil {
		fs.rootDir = fd
	}
	h := handle{fd: fs.rootPath}
	if err := statx(h.fd, &h.st); err != nil {
		return err
	}
	fs.dev = devOf(&h.st)
	if h.st.Mask&unix.STATX_MNT_ID != 0 {
		fs.mount = h.st.Mnt_id
	}
	fs.probe(&h)
	fs.root = fs.know(&h, nil, "")
	return fs.limits()
}

// probe finds out what the kernel and the file system can do.
func (fs *FS) probe(h *handle) {
	fs.resolveFlags = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS
	if !fs.opt.CrossMounts {
		fs.resolveFlags |= unix.RESOLVE_NO_XDEV
	}
	if !fs.noOpenat2 {
		fd, err := openat2(fs.rootPath, []byte(".\x00"), openPath, fs.resolveFlags)
		fs.noOpenat2 = err != nil
		if err == nil {
			_ = unix.Close(fd)
		}
	}
	var k kernelHandle
	if !fs.noHandles && nameToHandle(h.fd, &k) == nil {
		fs.layout = layoutOf(&k, h.st.Ino)
	} else {
		fs.weak = h.st.Mask&unix.STATX_BTIME == 0 || fs.noBirth
	}
	gen, _ := fs.layout.generation(&k, h.st.Ino)
	fd, err := fs.openHandle(h.st.Ino, gen)
	fs.noByHandle = err != nil
	if err == nil {
		_ = unix.Close(fd)
	}
	fs.chown = mayChown()
}

// mayChown says whether the process has CAP_CHOWN.
func mayChown() bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return os.Geteuid() == 0
	}
	return data[0].Effective&(1<<unix.CAP_CHOWN) != 0
}

// Magic numbers of statfs(2) with their link limits, as pathconf(3) has them.
var maxLinks = map[int64]uint32{
	unix.EXT4_SUPER_MAGIC:  65000,
	unix.XFS_SUPER_MAGIC:   math.MaxInt32,
	unix.BTRFS_SUPER_MAGIC: 65535,
	unix.TMPFS_MAGIC:       math.MaxInt32,
	unix.F2FS_SUPER_MAGIC:  32000,
}

func (fs *FS) limits() error {
	var sf unix.Statfs_t
	if err := unix.Fstatfs(fs.rootPath, &sf); err != nil {
		return err
	}
	links := maxLinks[int64(sf.Type)] //nolint:unconvert // its type differs by architecture
	if links == 0 {
		links = 127 // glibc's LINUX_LINK_MAX
	}
	fs.info = vfs.Info{
		MaxFileSize:  math.MaxInt64,
		TimeDelta:    vfs.Time{Nsec: 1},
		MaxName:      uint32(min(max(sf.Namelen, 1), 255)),
		MaxLink:      links,
		HasHardLinks: true,
		HasSymlinks:  true,
		ReadOnly:     fs.opt.ReadOnly || sf.Flags&unix.ST_RDONLY != 0,
	}
	if !fs.info.ReadOnly {
		fs.info.MaxFileSize = fs.maxFileSize()
	}
	return nil
}

// maxFileSize asks an unnamed file: a seek beyond the limit fails.
func (fs *FS) maxFileSize() uint64 {
	fd, err := unix.Openat(fs.rootPath, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return math.MaxInt64
	}
	defer unix.Close(fd)
	lo, hi := int64(0), int64(math.MaxInt64)
	for lo < hi {
		mid := hi - (hi-lo)/2
		if _, err := unix.Seek(fd, mid, unix.SEEK_SET); err == nil {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return uint64(lo)
}

// Close ends service, when the calls in progress have returned.
func (fs *FS) Close() error {
	fs.life.Lock()
	defer fs.life.Unlock()
	if fs.closed {
		return nil
	}
	fs.closed = true
	fs.cache.dropAll()
	fs.closeFDs()
	return nil
}

func (fs *FS) closeFDs() {
	for _, fd := range []*int{&fs.rootPath, &fs.rootDir, &fs.proc} {
		if *fd >= 0 {
			_ = unix.Close(*fd)
		}
		*fd = -1
	}
}

// enter begins a call; exit ends it.
func (fs *FS) enter() error {
	fs.life.RLock()
	if fs.closed {
		fs.life.RUnlock()
		return errClosed
	}
	return nil
}

func (fs *FS) exit() { fs.life.RUnlock() }

// Root is the exported directory.
func (fs *FS) Root() vfs.ID { return fs.root.id }

// Info returns the limits (FSINFO, PATHCONF).
func (fs *FS) Info() vfs.Info { return fs.info }

// WriteVerf changes when a failed fsync says that data may be lost.
func (fs *FS) WriteVerf() uint64 { return fs.verf.Load() }

// Stat returns the space of the root's file system (FSSTAT).
func (fs *FS) Stat(context.Context) (vfs.Stat, error) {
	if err := fs.enter(); err != nil {
		return vfs.Stat{}, err
	}
	defer fs.exit()
	var s unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(fs.rootPath, &s) }); err != nil {
		return vfs.Stat{}, vfsErr(err)
	}
	unit := uint64(max(s.Frsize, s.Bsize, 1)) //nolint:unconvert // its type differs by architecture
	if s.Frsize > 0 {
		unit = uint64(s.Frsize) //nolint:unconvert // same
	}
	return vfs.Stat{
		TotalBytes: s.Blocks * unit, FreeBytes: s.Bfree * unit, AvailBytes: s.Bavail * unit,
		TotalFiles: s.Files, FreeFiles: s.Ffree, AvailFiles: s.Ffree,
	}, nil
}
