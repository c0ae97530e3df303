package dirfs

import (
	"context"

	"golang.org/x/sys/unix"

	"example.org/nfsrdma/nfsserver/vfs"
)

// Rename moves an object, replacing a compatible target. Where source and target do not fit, the
// error says how, as rename(2) does.
func (fs *FS) Rename(ctx context.Context, from vfs.ID, fromName string, to vfs.ID, toName string, wfrom, wto *vfs.WCC) error {
	for _, w := range []*vfs.WCC{wfrom, wto} {
		if w != nil {
			*w = vfs.WCC{}
		}
	}
	if err := fs.enter(); err != nil {
		return err
	}
	defer fs.exit()
	fn, err := fs.node(ctx, from)
	tn, err2 := fs.node(ctx, to)
	var fd, td handle
	defer fd.close()
	defer td.close()
	unlock := lockBoth(fn, tn)
	if err == nil {
		err = fs.openToChange(fn, &fd, wfrom)
	}
	if err2 == nil {
		err2 = fs.openToChange(tn, &td, wto)
	}
	if err == nil {
		err = err2
	}
	moved := false
	if err == nil {
		moved, err = fs.rename(fn, &fd, fromName, tn, &td, toName)
	}
	if moved {
		fn.after(fd.fd, wfrom)
		tn.after(td.fd, wto)
	}
	unlock()
	if moved {
		err = fs.syncMeta(vfs.Directory, fd.fd)
		if err == nil && fn != tn {
			err = fs.syncMeta(vfs.Directory, td.fd)
		}
	}
	return vfsErr(err)
}

// lockBoth locks two nodes, which may be nil or one, in the order of their IDs.
func lockBoth(a, b *node) (unlock func()) {
	if a == b {
		b = nil
	}
	if a == nil {
		a, b = b, nil
	}
	if a != nil && b != nil && (b.id.Ino < a.id.Ino || b.id.Ino == a.id.Ino && b.id.Gen < a.id.Gen) {
		a, b = b, a
	}
	if a != nil {
		a.mu.Lock()
	}
	if b != nil {
		b.mu.Lock()
	}
	return func() {
		if b != nil {
			b.mu.Unlock()
		}
		if a != nil {
			a.mu.Unlock()
		}
	}
}

// rename says whether anything changed.
func (fs *FS) rename(from *node, fd *handle, fromName string, to *node, td *handle, toName string) (bool, error) {
	if err := fs.checkName(fromName); err != nil {
		return false, err
	}
	if isDot(fromName) {
		return false, vfs.ErrInval
	}
	var src, dst handle
	if err := fs.child(fd.fd, fromName, &src); err != nil {
		return false, err
	}
	defer src.close()
	if err := fs.checkName(toName); err != nil {
		return false, err
	}
	if isDot(toName) {
		return false, vfs.ErrInval
	}
	n := fs.know(&src, from, fromName)
	err := fs.child(td.fd, toName, &dst)
	replace := err == nil
	if replace {
		defer dst.close()
	} else if err != unix.ENOENT { //nolint:errorlint // a bare errno
		return false, err
	}
	var old ident
	if replace {
		if old = fs.identify(&dst); old == n.ident {
			return false, nil // two names of one object: no action (RFC 1813 section 3.3.14)
		}
		// The kernel says ENOTEMPTY of a target that holds the source, whatever that is.
		if dst.isDir() && !src.isDir() {
			return false, vfs.ErrIsDir
		}
	}
	fs.moves.RLock()
	defer fs.moves.RUnlock()
	err = retry(func() error { return unix.Renameat(fd.fd, fromName, td.fd, toName) })
	if err == unix.EEXIST { //nolint:errorlint // a bare errno
		err = unix.ENOTEMPTY
	}
	if err != nil {
		return false, err
	}
	if replace {
		fs.unlinked(old, to, toName, lastName(&dst))
	}
	fs.table.mu.Lock()
	n.dropPlace(from, fromName)
	n.addPlace(to, toName)
	fs.table.mu.Unlock()
	return true, nil
}
