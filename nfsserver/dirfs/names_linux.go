package dirfs

import (
	"context"
	"strings"

	"golang.org/x/sys/unix"

	"example.org/nfsrdma/nfsserver/vfs"
)

func isDot(name string) bool { return name == "." || name == ".." }

// checkName checks a name to look up.
func (fs *FS) checkName(name string) error {
	switch {
	case name == "":
		return vfs.ErrInval
	case len(name) > int(fs.info.MaxName):
		return vfs.ErrNameTooLong
	case strings.ContainsAny(name, "/\x00"):
		return vfs.ErrInval
	}
	return nil
}

// hidden is the error for a name that another file system is mounted on.
func hidden(err error) error {
	if err == unix.EXDEV { //nolint:errorlint // a bare errno
		return vfs.ErrAccess
	}
	return vfsErr(err)
}

// openDir finds a directory to look into. The caller closes h if there is no error.
func (fs *FS) openDir(ctx context.Context, id vfs.ID, h *handle) (*node, error) {
	n, err := fs.node(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := fs.open(n, false, h); err != nil {
		return nil, vfsErr(err)
	}
	if n.typ != vfs.Directory {
		h.close()
		return nil, vfs.ErrNotDir
	}
	return n, nil
}

// Lookup finds name in dir and fills a. A name on which another file system is mounted gives
// ErrAccess, unless CrossMounts.
func (fs *FS) Lookup(ctx context.Context, dir vfs.ID, name string, a *vfs.Attr) error {
	if err := fs.enter(); err != nil {
		return err
	}
	defer fs.exit()
	var d handle
	n, err := fs.openDir(ctx, dir, &d)
	if err != nil {
		return err
	}
	defer d.close()
	if err := fs.checkName(name); err != nil {
		return err
	}
	switch name {
	case ".":
		n.attr(&d.st, a)
		return nil
	case "..":
		var h handle
		p := fs.parent(n)
		if err := fs.open(p, false, &h); err != nil {
			return vfsErr(err)
		}
		h.close()
		p.attr(&h.st, a)
		return nil
	}
	var h handle
	c, err := fs.childNode(n, d.fd, name, &h)
	if err != nil {
		return hidden(err)
	}
	c.attr(&h.st, a)
	return nil
}

// childNode finds a name in a directory, and closes h, where its attributes are.
func (fs *FS) childNode(dir *node, fd int, name string, h *handle) (*node, error) {
	dir.mu.RLock()
	defer dir.mu.RUnlock()
	if err := fs.child(fd, name, h); err != nil {
		return nil, err
	}
	defer h.close()
	return fs.know(h, dir, name), nil
}

// parent is the directory that holds n, a directory that was just opened.
func (fs *FS) parent(n *node) *node {
	if p := fs.places(n); len(p) > 0 {
		return p[0].dir
	}
	return fs.root
}

// ReadLink returns the target of a symbolic link.
func (fs *FS) ReadLink(ctx context.Context, id vfs.ID) (string, error) {
	if err := fs.enter(); err != nil {
		return "", err
	}
	defer fs.exit()
	n, err := fs.node(ctx, id)
	if err != nil {
		return "", err
	}
	var h handle
	if err := fs.open(n, false, &h); err != nil {
		return "", vfsErr(err)
	}
	defer h.close()
	if n.typ != vfs.Symlink {
		return "", vfs.ErrInval
	}
	target, err := fs.readlink(h.fd, "")
	return target, vfsErr(err)
}

// dirToChange finds and locks a directory, and fills w for the case that nothing changes. The
// caller ends with doneDir if there is no error.
func (fs *FS) dirToChange(ctx context.Context, id vfs.ID, h *handle, w *vfs.WCC) (*node, error) {
	n, err := fs.node(ctx, id)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	if err := fs.openToChange(n, h, w); err != nil {
		n.mu.Unlock()
		return nil, err
	}
	return n, nil
}

// openToChange is dirToChange of a node that is locked.
func (fs *FS) openToChange(n *node, h *handle, w *vfs.WCC) error {
	if err := fs.open(n, false, h); err != nil {
		return vfsErr(err)
	}
	n.before(h, w)
	switch {
	case n.typ != vfs.Directory:
		h.close()
		return vfs.ErrNotDir
	case fs.info.ReadOnly:
		h.close()
		return vfs.ErrReadOnly
	}
	return nil
}

// doneDir ends what dirToChange began. If names changed, that is made durable, outside the lock so
// that changes of several threads go to disk together.
func (fs *FS) doneDir(n *node, h *handle, changed *bool, err *error, w *vfs.WCC) {
	if *changed {
		n.after(h.fd, w)
	}
	n.mu.Unlock()
	if *changed && *err == nil {
		*err = vfsErr(fs.syncMeta(vfs.Directory, h.fd))
	}
	h.close()
}

// Remove takes away a name that is not a directory.
func (fs *FS) Remove(ctx context.Context, dir vfs.ID, name string, w *vfs.WCC) error {
	return fs.remove(ctx, dir, name, false, w)
}

// Rmdir takes away an empty directory.
func (fs *FS) Rmdir(ctx context.Context, dir vfs.ID, name string, w *vfs.WCC) error {
	return fs.remove(ctx, dir, name, true, w)
}

func (fs *FS) remove(ctx context.Context, dir vfs.ID, name string, rmdir bool, w *vfs.WCC) (err error) {
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
	defer fs.doneDir(n, &d, &changed, &err, w)
	if err := fs.checkName(name); err != nil {
		return err
	}
	if isDot(name) {
		return vfs.ErrInval
	}
	if err := fs.child(d.fd, name, &h); err != nil {
		return hidden(err)
	}
	defer h.close()
	flags := 0
	switch {
	case rmdir && !h.isDir():
		return vfs.ErrNotDir
	case rmdir:
		flags = unix.AT_REMOVEDIR
	case h.isDir():
		return vfs.ErrIsDir
	}
	key := fs.identify(&h)
	fs.moves.RLock()
	err = retry(func() error { return unix.Unlinkat(d.fd, name, flags) })
	if err == nil {
		fs.unlinked(key, n, name, lastName(&h))
	}
	fs.moves.RUnlock()
	if rmdir && err == unix.EEXIST { //nolint:errorlint // a bare errno
		err = vfs.ErrNotEmpty
	}
	changed = err == nil
	return vfsErr(err)
}

// lastName says whether an object has lost its last name.
func lastName(h *handle) bool {
	var st unix.Statx_t
	return statx(h.fd, &st) == nil && (st.Nlink == 0 || h.isDir())
}

// Link adds a name for a file that is not a directory.
func (fs *FS) Link(ctx context.Context, id, dir vfs.ID, name string, a *vfs.Attr, w *vfs.WCC) (err error) {
	if w != nil {
		*w = vfs.WCC{}
	}
	if err := fs.enter(); err != nil {
		return err
	}
	defer fs.exit()
	var d, h handle
	n, err2 := fs.node(ctx, id)
	dn, err := fs.dirToChange(ctx, dir, &d, w)
	if err != nil {
		return err
	}
	changed := false
	defer fs.doneDir(dn, &d, &changed, &err, w)
	switch {
	case err2 != nil:
		return err2
	case n.typ != vfs.Directory: // directories are locked in an order, and only to say ErrIsDir
		n.mu.Lock()
		defer n.mu.Unlock()
	}
	if err := fs.open(n, false, &h); err != nil {
		return vfsErr(err)
	}
	defer h.close()
	if n.typ == vfs.Directory {
		return vfs.ErrIsDir
	}
	n.attr(&h.st, a)
	if err := fs.checkName(name); err != nil {
		return err
	}
	if isDot(name) {
		return vfs.ErrExist
	}
	// From the descriptor, so that it is this object whatever has its name now.
	err = retry(func() error {
		return unix.Linkat(fs.proc, procName(h.fd), d.fd, name, unix.AT_SYMLINK_FOLLOW)
	})
	if err != nil {
		return vfsErr(err)
	}
	changed = true
	fs.table.mu.Lock()
	n.addPlace(dn, name)
	fs.table.mu.Unlock()
	if err := statx(h.fd, &h.st); err != nil {
		return vfsErr(err)
	}
	n.attr(&h.st, a)
	return nil
}
