package dirfs

import (
	"context"
	"strings"

	"golang.org/x/sys/unix"

	"example.org/nfsrdma/nfsserver/vfs"
)

// object is what make needs to know.
type object struct {
	typ       vfs.Type
	mode      uint32 // unless set gives one
	set       vfs.SetAttr
	target    string
	rdev      uint64
	exclusive bool
	verf      uint64
}

// Create makes a regular file. Unchecked on an existing file truncates it if s says size 0, and
// changes nothing else. The verifier of an exclusive create is kept in the
// seconds of mtime and atime, less their highest bits, as nfsd does, so that it outlives the server.
func (fs *FS) Create(ctx context.Context, dir vfs.ID, name string, mode vfs.CreateMode, verf uint64, s *vfs.SetAttr, a *vfs.Attr, w *vfs.WCC) error {
	o := object{typ: vfs.Regular, mode: 0o644}
	if s != nil {
		o.set = *s
	}
	if mode == vfs.Exclusive {
		o.mode, o.exclusive, o.verf = 0o600, true, verf
		o.set = vfs.SetAttr{
			SetUID: o.set.SetUID, UID: o.set.UID, SetGID: o.set.SetGID, GID: o.set.GID,
			AtimeHow: vfs.TimeClient, MtimeHow: vfs.TimeClient,
		}
		o.set.Mtime, o.set.Atime = verfTimes(verf)
	}
	return fs.makeIn(ctx, dir, name, mode, &o, a, w)
}

func verfTimes(verf uint64) (mtime, atime vfs.Time) {
	const mask = 1<<31 - 1
	return vfs.Time{Sec: uint32(verf>>32) & mask}, vfs.Time{Sec: uint32(verf) & mask}
}

// Mkdir makes a directory.
func (fs *FS) Mkdir(ctx context.Context, dir vfs.ID, name string, s *vfs.SetAttr, a *vfs.Attr, w *vfs.WCC) error {
	return fs.makeIn(ctx, dir, name, vfs.Guarded, newObject(vfs.Directory, 0o755, s), a, w)
}

// Symlink makes a symbolic link. The longest target is 4095 bytes, on some file systems less.
func (fs *FS) Symlink(ctx context.Context, dir vfs.ID, name, target string, s *vfs.SetAttr, a *vfs.Attr, w *vfs.WCC) error {
	o := newObject(vfs.Symlink, 0o777, s)
	o.target = target
	return fs.makeIn(ctx, dir, name, vfs.Guarded, o, a, w)
}

// Mknod makes a FIFO, a socket or, with Options.Devices, a device.
func (fs *FS) Mknod(ctx context.Context, dir vfs.ID, name string, spec vfs.MknodSpec, s *vfs.SetAttr, a *vfs.Attr, w *vfs.WCC) error {
	o := newObject(spec.Type, 0o644, s)
	switch spec.Type {
	case vfs.FIFO, vfs.Socket:
	case vfs.Block, vfs.Char:
		o.rdev = unix.Mkdev(spec.RdevMajor, spec.RdevMinor)
	default:
		o.typ = 0
	}
	return fs.makeIn(ctx, dir, name, vfs.Guarded, o, a, w)
}

func newObject(typ vfs.Type, mode uint32, s *vfs.SetAttr) *object {
	o := &object{typ: typ, mode: mode}
	if s != nil {
		o.set = *s
		o.set.SetSize = false
	}
	return o
}

// checkObject says whether o can be made at all.
func (fs *FS) checkObject(o *object) error {
	switch o.typ {
	case vfs.Regular, vfs.Directory, vfs.FIFO, vfs.Socket:
	case vfs.Block, vfs.Char:
		if !fs.opt.Devices {
			return vfs.ErrPerm
		}
	case vfs.Symlink:
		switch {
		case o.target == "" || strings.Contains(o.target, "\x00"):
			return vfs.ErrInval
		case len(o.target) >= unix.PathMax:
			return vfs.ErrNameTooLong
		}
	default:
		return vfs.ErrBadType
	}
	return fs.checkSetAttr(o.typ, &o.set)
}

func (fs *FS) makeIn(ctx context.Context, dir vfs.ID, name string, mode vfs.CreateMode, o *object, a *vfs.Attr, w *vfs.WCC) (err error) {
	if w != nil {
		*w = vfs.WCC{}
	}
	if err := fs.enter(); err != nil {
		return err
	}
	defer fs.exit()
	var d, h handle
	n, err := fs.dirToChange(ctx, dir, &d, w)
	if err != nil {
		return err
	}
	changed := false
	// Last of all, what was made or truncated is made durable itself.
	defer func() {
		if h.owned && err == nil {
			err = vfsErr(fs.syncMeta(o.typ, h.fd))
		}
		h.close()
	}()
	defer fs.doneDir(n, &d, &changed, &err, w)
	if err := fs.checkName(name); err != nil {
		return err
	}
	if isDot(name) {
		return vfs.ErrExist
	}
	if err := fs.checkObject(o); err != nil {
		// That the name exists is the better answer, except to what is never right.
		if err == vfs.ErrBadType || fs.child(d.fd, name, &h) != nil {
			return err
		}
		h.close()
		if mode == vfs.Guarded {
			return vfs.ErrExist
		}
		return fs.createOver(n, &d, name, o, &h, a)
	}
	err = fs.make(n, &d, name, o, &h, a)
	if err == unix.EEXIST && mode != vfs.Guarded { //nolint:errorlint // a bare errno
		return fs.createOver(n, &d, name, o, &h, a)
	}
	changed = err == nil
	return vfsErr(err)
}

// make adds a new object to d, with rights for the process alone until all attributes are set.
func (fs *FS) make(dir *node, d *handle, name string, o *object, h *handle, a *vfs.Attr) error {
	data := -1
	var err error
	switch o.typ {
	case vfs.Regular:
		const flags = unix.O_CREAT | unix.O_EXCL | unix.O_RDWR | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NOCTTY | unix.O_NONBLOCK
		err = retry(func() (err error) {
			data, err = unix.Openat(d.fd, name, flags, 0o600)
			return err
		})
	case vfs.Directory:
		err = unix.Mkdirat(d.fd, name, 0o700)
	case vfs.Symlink:
		err = unix.Symlinkat(o.target, d.fd, name)
	default:
		err = unix.Mknodat(d.fd, name, fileType[o.typ]|0o600, int(o.rdev))
	}
	if err != nil {
		return err
	}
	n, err := fs.finish(dir, d, name, o, data, h, a)
	if err != nil {
		if data >= 0 {
			_ = unix.Close(data)
		}
		return err
	}
	if data >= 0 {
		fs.cache.release(fs.cache.put(n, data, true))
	}
	return nil
}

var fileType = map[vfs.Type]uint32{
	vfs.Block: unix.S_IFBLK, vfs.Char: unix.S_IFCHR, vfs.FIFO: unix.S_IFIFO, vfs.Socket: unix.S_IFSOCK,
}

// finish gives a new object its attributes and its node, or takes its name away. data is open
// for a regular file.
func (fs *FS) finish(dir *node, d *handle, name string, o *object, data int, h *handle, a *vfs.Attr) (*node, error) {
	if err := fs.child(d.fd, name, h); err != nil {
		return nil, err
	}
	var st unix.Statx_t
	if h.typ() != o.typ || data >= 0 && (statx(data, &st) != nil || st.Ino != h.st.Ino) {
		h.close()
		return nil, unix.EEXIST // somebody was faster
	}
	if err := fs.setNew(o, data, h); err != nil {
		h.close()
		flags := 0
		if o.typ == vfs.Directory {
			flags = unix.AT_REMOVEDIR
		}
		_ = unix.Unlinkat(d.fd, name, flags)
		return nil, err
	}
	n := fs.know(h, dir, name)
	if o.exclusive {
		n.mu.Lock()
		n.exclusive, n.verf = true, o.verf
		n.mu.Unlock()
	}
	n.attr(&h.st, a)
	return n, nil
}

// setNew sets the attributes of a new object, and takes them.
func (fs *FS) setNew(o *object, data int, h *handle) error {
	if o.set.SetSize && o.set.Size > 0 {
		if err := unix.Ftruncate(data, int64(o.set.Size)); err != nil {
			return err
		}
	}
	owner := o.set
	if !fs.chown {
		owner.SetUID = false
	}
	err := fs.setOwner(h, &owner)
	if err == unix.EPERM && !fs.chown { //nolint:errorlint // a bare errno
		err = nil // a group that the process is not in
	}
	if err != nil {
		return err
	}
	if !h.isSymlink() {
		mode := o.mode | uint32(h.st.Mode)&unix.S_ISGID // as inherited
		if o.set.SetMode {
			mode = o.set.Mode
		}
		if err := fs.chmod(h, mode); err != nil {
			return err
		}
	}
	if err := fs.setTimes(h, &o.set); err != nil {
		return err
	}
	return statx(h.fd, &h.st)
}

// createOver is Create of a name that exists. h is left open if its size changed.
func (fs *FS) createOver(dir *node, d *handle, name string, o *object, h *handle, a *vfs.Attr) error {
	if err := fs.child(d.fd, name, h); err != nil {
		return hidden(err)
	}
	keep := false
	defer func() {
		if !keep {
			h.close()
		}
	}()
	if h.typ() != vfs.Regular {
		return vfs.ErrExist
	}
	n := fs.know(h, dir, name)
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case o.exclusive:
		if !n.madeBy(h, o) {
			return vfs.ErrExist
		}
	case o.set.SetSize && o.set.Size == 0:
		if err := fs.truncate(n, h, 0); err != nil {
			return vfsErr(err)
		}
		if err := statx(h.fd, &h.st); err != nil {
			return vfsErr(err)
		}
		keep = true
	}
	n.attr(&h.st, a)
	return nil
}

// madeBy says whether an exclusive create with the same verifier made a file. mu is held.
func (n *node) madeBy(h *handle, o *object) bool {
	if n.exclusive {
		return n.verf == o.verf
	}
	// By an FS before this one, perhaps.
	mtime, atime := verfTimes(o.verf)
	return h.st.Size == 0 && timeOf(h.st.Mtime) == mtime && timeOf(h.st.Atime) == atime
}
