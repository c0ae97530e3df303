package memfs

import (
	"context"
	"strings"

	"example.org/nfsrdma/nfsserver/vfs"
)

// dirToChange finds a directory and fills w, for the case that nothing changes. tree is held.
func (fs *FS) dirToChange(id vfs.ID, w *vfs.WCC) (*inode, error) {
	if w != nil {
		*w = vfs.WCC{}
	}
	d, err := fs.findDir(id)
	if d == nil {
		d = fs.inodes.get(id)
	}
	if d != nil {
		d.mu.RLock()
		d.before(w)
		d.mu.RUnlock()
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// dirChanged updates the attributes of d after its entries changed, and fills
// w. links is the change of its nlink. tree is held.
func (fs *FS) dirChanged(d *inode, links int, w *vfs.WCC) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.before(w)
	d.nlink += uint32(links)
	d.size = uint64(len(d.dir.names)) * direntSize
	d.modified(fs.opt.Now())
	d.after(w)
}

// object is what make needs to know.
type object struct {
	typ       vfs.Type
	mode      uint32 // unless set gives one
	set       *vfs.SetAttr
	target    string
	rdev      [2]uint32
	exclusive bool
	verf      uint64
}

// Create makes a regular file. Of an exclusive create's s only the owner counts.
// Unchecked on an existing file truncates it if s says size 0, and changes
// nothing else.
func (fs *FS) Create(_ context.Context, dir vfs.ID, name string, mode vfs.CreateMode, verf uint64, s *vfs.SetAttr, a *vfs.Attr, w *vfs.WCC) error {
	fs.tree.Lock()
	defer fs.tree.Unlock()
	d, err := fs.dirToChange(dir, w)
	if err != nil {
		return err
	}
	o := object{typ: vfs.Regular, mode: 0o644, set: s}
	if mode == vfs.Exclusive {
		o = object{typ: vfs.Regular, mode: 0o600, exclusive: true, verf: verf}
		if s != nil {
			o.set = &vfs.SetAttr{SetUID: s.SetUID, UID: s.UID, SetGID: s.SetGID, GID: s.GID}
		}
	}
	if e := d.dir.names[name]; e != nil {
		return fs.createOver(e.in, mode, &o, a)
	}
	return fs.make(d, name, &o, a, w)
}

// createOver is Create of a name that exists. tree is held.
func (fs *FS) createOver(in *inode, mode vfs.CreateMode, o *object, a *vfs.Attr) error {
	switch {
	case in.typ != vfs.Regular, mode == vfs.Guarded:
		return vfs.ErrExist
	case mode == vfs.Exclusive && (!in.exclusive || in.verf != o.verf):
		return vfs.ErrExist
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if mode == vfs.Unchecked && o.set != nil && o.set.SetSize && o.set.Size == 0 {
		fs.setAttr(in, &vfs.SetAttr{SetSize: true})
	}
	in.attr(a)
	return nil
}

// Mkdir makes a directory.
func (fs *FS) Mkdir(_ context.Context, dir vfs.ID, name string, s *vfs.SetAttr, a *vfs.Attr, w *vfs.WCC) error {
	return fs.makeIn(dir, name, &object{typ: vfs.Directory, mode: 0o755, set: s}, a, w)
}

// Symlink makes a symbolic link.
func (fs *FS) Symlink(_ context.Context, dir vfs.ID, name, target string, s *vfs.SetAttr, a *vfs.Attr, w *vfs.WCC) error {
	return fs.makeIn(dir, name, &object{typ: vfs.Symlink, mode: 0o777, set: s, target: target}, a, w)
}

// Mknod makes a FIFO, a socket or a device.
func (fs *FS) Mknod(_ context.Context, dir vfs.ID, name string, spec vfs.MknodSpec, s *vfs.SetAttr, a *vfs.Attr, w *vfs.WCC) error {
	o := &object{typ: spec.Type, mode: 0o644, set: s}
	switch spec.Type {
	case vfs.Block, vfs.Char:
		o.rdev = [2]uint32{spec.RdevMajor, spec.RdevMinor}
	case vfs.FIFO, vfs.Socket:
	default:
		return vfs.ErrBadType
	}
	return fs.makeIn(dir, name, o, a, w)
}

func (fs *FS) makeIn(dir vfs.ID, name string, o *object, a *vfs.Attr, w *vfs.WCC) error {
	fs.tree.Lock()
	defer fs.tree.Unlock()
	d, err := fs.dirToChange(dir, w)
	if err != nil {
		return err
	}
	return fs.make(d, name, o, a, w)
}

// make adds a new object to d. tree is held.
func (fs *FS) make(d *inode, name string, o *object, a *vfs.Attr, w *vfs.WCC) error {
	if err := d.checkFree(name); err != nil {
		return err
	}
	if o.typ == vfs.Symlink {
		if err := checkTarget(o.target); err != nil {
			return err
		}
	}
	var set vfs.SetAttr
	if o.set != nil {
		set = *o.set
	}
	if o.typ != vfs.Regular {
		set.SetSize = false
	}
	if err := fs.checkSetAttr(o.typ, &set); err != nil {
		return err
	}
	if fs.inodes.count >= fs.opt.MaxFiles {
		return vfs.ErrNoSpace
	}

	in := fs.newInode(o.typ, o.mode)
	in.rdev = o.rdev
	in.exclusive, in.verf = o.exclusive, o.verf
	in.target = strings.Clone(o.target)
	in.size = uint64(len(in.target))
	if set != (vfs.SetAttr{}) {
		fs.setAttr(in, &set)
	}
	fs.inodes.add(in)
	in.rlockAttr(a)

	links := 0
	if in.dir != nil {
		in.dir.parent = d
		links = 1
	}
	d.dir.add(name, in)
	fs.dirChanged(d, links, w)
	return nil
}

func checkTarget(target string) error {
	switch {
	case target == "" || strings.Contains(target, "\x00"):
		return vfs.ErrInval
	case len(target) > MaxTarget:
		return vfs.ErrNameTooLong
	}
	return nil
}

// checkFree checks a name to add to a directory. tree is held.
func (in *inode) checkFree(name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	if isDot(name) || in.dir.names[name] != nil {
		return vfs.ErrExist
	}
	return nil
}

// entry finds the entry of a name to take away. tree is held.
func (in *inode) entry(name string) (*dirent, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if isDot(name) {
		return nil, vfs.ErrInval
	}
	e := in.dir.names[name]
	if e == nil {
		return nil, vfs.ErrNoEnt
	}
	return e, nil
}

// ReadLink returns the target of a symbolic link.
func (fs *FS) ReadLink(_ context.Context, id vfs.ID) (string, error) {
	in := fs.inodes.get(id)
	switch {
	case in == nil:
		return "", vfs.ErrStale
	case in.typ != vfs.Symlink:
		return "", vfs.ErrInval
	}
	return in.target, nil
}

// Remove takes away a name that is not a directory.
func (fs *FS) Remove(_ context.Context, dir vfs.ID, name string, w *vfs.WCC) error {
	fs.tree.Lock()
	defer fs.tree.Unlock()
	d, err := fs.dirToChange(dir, w)
	if err != nil {
		return err
	}
	e, err := d.entry(name)
	if err != nil {
		return err
	}
	in := e.in
	if in.dir != nil {
		return vfs.ErrIsDir
	}
	d.dir.remove(e)
	fs.unlinked(in)
	fs.dirChanged(d, 0, w)
	return nil
}

// Rmdir takes away an empty directory.
func (fs *FS) Rmdir(_ context.Context, dir vfs.ID, name string, w *vfs.WCC) error {
	fs.tree.Lock()
	defer fs.tree.Unlock()
	d, err := fs.dirToChange(dir, w)
	if err != nil {
		return err
	}
	e, err := d.entry(name)
	if err != nil {
		return err
	}
	in := e.in
	if in.dir == nil {
		return vfs.ErrNotDir
	}
	if len(in.dir.names) > 0 {
		return vfs.ErrNotEmpty
	}
	d.dir.remove(e)
	fs.unlinked(in)
	fs.dirChanged(d, -1, w)
	return nil
}

// Link adds a name for a file that is not a directory.
func (fs *FS) Link(_ context.Context, id, dir vfs.ID, name string, a *vfs.Attr, w *vfs.WCC) error {
	fs.tree.Lock()
	defer fs.tree.Unlock()
	d, err := fs.dirToChange(dir, w)
	if err != nil {
		return err
	}
	in := fs.inodes.get(id)
	switch {
	case in == nil:
		return vfs.ErrStale
	case in.dir != nil:
		return vfs.ErrIsDir
	}
	in.rlockAttr(a)
	if err := d.checkFree(name); err != nil {
		return err
	}
	in.mu.Lock()
	if in.nlink >= fs.opt.MaxLink {
		in.mu.Unlock()
		return vfs.ErrMLink
	}
	in.nlink++
	in.changed(fs.opt.Now())
	in.attr(a)
	in.mu.Unlock()
	d.dir.add(name, in)
	fs.dirChanged(d, 0, w)
	return nil
}
