package dirfs

import (
	"context"
	"math"

	"golang.org/x/sys/unix"

	"example.org/nfsrdma/nfsserver/vfs"
)

const nsPerSec = 1_000_000_000

// attr fills a, if not nil.
func (n *node) attr(st *unix.Statx_t, a *vfs.Attr) {
	if a == nil {
		return
	}
	*a = vfs.Attr{
		ID: n.id, Type: n.typ,
		Mode: uint32(st.Mode) & 0o7777, Nlink: st.Nlink, UID: st.Uid, GID: st.Gid,
		Size: st.Size, Used: st.Blocks * 512,
		RdevMajor: st.Rdev_major, RdevMinor: st.Rdev_minor,
		Atime: timeOf(st.Atime), Mtime: timeOf(st.Mtime), Ctime: timeOf(st.Ctime),
	}
}

// timeOf cuts to what NFSv3 can say: 1970 to 2106.
func timeOf(t unix.StatxTimestamp) vfs.Time {
	switch {
	case t.Sec < 0:
		return vfs.Time{}
	case t.Sec > math.MaxUint32:
		return vfs.Time{Sec: math.MaxUint32, Nsec: t.Nsec}
	}
	return vfs.Time{Sec: uint32(t.Sec), Nsec: t.Nsec}
}

// before notes the attributes, for the case that nothing changes.
func (n *node) before(h *handle, w *vfs.WCC) {
	if w != nil {
		n.attr(&h.st, &w.Before)
		w.After = w.Before
	}
}

// after takes the attributes of fd anew.
func (n *node) after(fd int, w *vfs.WCC) {
	if w == nil {
		return
	}
	var st unix.Statx_t
	if statx(fd, &st) == nil {
		n.attr(&st, &w.After)
	}
}

// Attr fills a with the attributes of id.
func (fs *FS) Attr(ctx context.Context, id vfs.ID, a *vfs.Attr) error {
	if err := fs.enter(); err != nil {
		return err
	}
	defer fs.exit()
	n, err := fs.node(ctx, id)
	if err != nil {
		return err
	}
	var h handle
	if err := fs.open(n, false, &h); err != nil {
		return vfsErr(err)
	}
	h.close()
	n.attr(&h.st, a)
	return nil
}

// SetAttr changes all that s lists, unless the kernel refuses the second of several changes. The
// mode of a symbolic link is ignored, as nfsd does.
func (fs *FS) SetAttr(ctx context.Context, id vfs.ID, s *vfs.SetAttr, guard *vfs.Time, w *vfs.WCC) error {
	if w != nil {
		*w = vfs.WCC{}
	}
	if err := fs.enter(); err != nil {
		return err
	}
	defer fs.exit()
	n, err := fs.node(ctx, id)
	if err != nil {
		return err
	}
	var h handle
	changed, err := fs.setAttrOf(n, s, guard, w, &h)
	if err == nil && changed {
		err = fs.syncMeta(n.typ, h.fd)
	}
	h.close()
	return vfsErr(err)
}

// setAttrOf says whether anything changed. The caller closes h.
func (fs *FS) setAttrOf(n *node, s *vfs.SetAttr, guard *vfs.Time, w *vfs.WCC, h *handle) (bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := fs.open(n, false, h); err != nil {
		return false, err
	}
	n.before(h, w)
	if guard != nil && *guard != timeOf(h.st.Ctime) {
		return false, vfs.ErrNotSync
	}
	if s == nil || *s == (vfs.SetAttr{}) {
		return false, nil
	}
	if err := fs.checkSetAttr(n.typ, s); err != nil {
		return false, err
	}
	err := fs.setAttr(n, h, s)
	n.after(h.fd, w)
	return true, err
}

func (fs *FS) checkSetAttr(typ vfs.Type, s *vfs.SetAttr) error {
	switch {
	case fs.info.ReadOnly:
		return vfs.ErrReadOnly
	case s.SetSize && typ == vfs.Directory:
		return vfs.ErrIsDir
	case s.SetSize && typ != vfs.Regular:
		return vfs.ErrInval
	case s.SetSize && s.Size > fs.info.MaxFileSize:
		return vfs.ErrFBig
	case s.AtimeHow == vfs.TimeClient && s.Atime.Nsec >= nsPerSec,
		s.MtimeHow == vfs.TimeClient && s.Mtime.Nsec >= nsPerSec:
		return vfs.ErrInval
	}
	return nil
}

func (fs *FS) setAttr(n *node, h *handle, s *vfs.SetAttr) error {
	if s.SetSize {
		if err := fs.truncate(n, h, s.Size); err != nil {
			return err
		}
	}
	if err := fs.setOwner(h, s); err != nil {
		return err
	}
	// A change of owner takes set-ID bits away, so the mode comes after it.
	if s.SetMode && !h.isSymlink() {
		if err := fs.chmod(h, s.Mode); err != nil {
			return err
		}
	}
	return fs.setTimes(h, s)
}

// truncate sets the size through the file that is open for data, or becomes so.
func (fs *FS) truncate(n *node, h *handle, size uint64) error {
	f := fs.cache.get(n, true)
	if f == nil {
		var err error
		if f, err = fs.openData(n, h, true); err != nil {
			return err
		}
	}
	defer fs.cache.release(f)
	return retry(func() error { return unix.Ftruncate(f.fd, int64(size)) })
}

func (fs *FS) setOwner(h *handle, s *vfs.SetAttr) error {
	uid, gid := -1, -1
	if s.SetUID {
		uid = int(s.UID)
	}
	if s.SetGID {
		gid = int(s.GID)
	}
	if uid < 0 && gid < 0 {
		return nil
	}
	return unix.Fchownat(h.fd, "", uid, gid, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW)
}

// chmod goes by /proc, since fchmod takes no O_PATH. A link in there leads to the
// very object, and is not one that a user could make.
func (fs *FS) chmod(h *handle, mode uint32) error {
	return unix.Fchmodat(fs.proc, procName(h.fd), mode&0o7777, 0)
}

func (fs *FS) setTimes(h *handle, s *vfs.SetAttr) error {
	if s.AtimeHow == vfs.TimeKeep && s.MtimeHow == vfs.TimeKeep {
		return nil
	}
	ts := []unix.Timespec{timespec(s.AtimeHow, s.Atime), timespec(s.MtimeHow, s.Mtime)}
	return unix.UtimesNanoAt(fs.proc, procName(h.fd), ts, 0)
}

func timespec(how vfs.TimeHow, t vfs.Time) unix.Timespec {
	switch how {
	case vfs.TimeServer:
		return unix.Timespec{Nsec: unix.UTIME_NOW}
	case vfs.TimeClient:
		return unix.NsecToTimespec(int64(t.Sec)*nsPerSec + int64(t.Nsec))
	}
	return unix.Timespec{Nsec: unix.UTIME_OMIT}
}

// syncMeta puts attributes and names of a file or directory on disk, unless AsyncMeta. Other types
// cannot be opened for that; the kernel writes them in its time.
func (fs *FS) syncMeta(typ vfs.Type, fd int) error {
	if fs.opt.AsyncMeta || typ != vfs.Regular && typ != vfs.Directory {
		return nil
	}
	flags := unix.O_RDONLY
	if typ == vfs.Directory {
		flags |= unix.O_DIRECTORY
	}
	d, err := fs.reopen(fd, flags)
	if err == unix.EACCES { //nolint:errorlint // a bare errno
		return nil // of a process that is not root, an object that it may not read
	}
	if err != nil {
		return err
	}
	defer unix.Close(d)
	return fs.fsync(d)
}

// fsync changes the write verifier when it fails: the kernel says only once that data was lost.
func (fs *FS) fsync(fd int) error {
	err := retry(func() error { return fs.syncFD(fd) })
	if err == unix.EINVAL || err == unix.EROFS { //nolint:errorlint // a bare errno
		return nil // this file system has nothing to write
	}
	if err != nil {
		fs.verf.Add(1)
	}
	return err
}
