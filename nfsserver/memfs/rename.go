package memfs

import (
	"context"

	"example.org/nfsrdma/nfsserver/vfs"
)

// Rename moves an object. The name of a replaced target keeps its cookie. Where source and
// target do not fit, the error says how (ErrIsDir, ErrNotDir, ErrNotEmpty), as rename(2)
// does, and is not ErrExist, which RFC 1813 section 3.3.14 recommends.
func (fs *FS) Rename(_ context.Context, from vfs.ID, fromName string, to vfs.ID, toName string, wfrom, wto *vfs.WCC) error {
	fs.tree.Lock()
	defer fs.tree.Unlock()
	fd, err := fs.dirToChange(from, wfrom)
	td, err2 := fs.dirToChange(to, wto)
	if err == nil {
		err = err2
	}
	if err != nil {
		return err
	}
	src, err := fd.entry(fromName)
	if err != nil {
		return err
	}
	dst, err := td.entry(toName)
	if err != nil && err != vfs.ErrNoEnt {
		return err
	}
	in := src.in
	if in.dir != nil && td.below(in) {
		return vfs.ErrInval
	}
	if dst != nil {
		if dst.in == in {
			return nil // two links of one object: no action (RFC 1813 section 3.3.14)
		}
		if err := checkReplace(in, dst.in); err != nil {
			return err
		}
	}

	fromLinks, toLinks := 0, 0
	if in.dir != nil {
		fromLinks, toLinks = -1, 1
		in.dir.parent = td
	}
	fd.dir.remove(src)
	if dst != nil {
		old := dst.in
		dst.in = in
		if old.dir != nil {
			toLinks--
		}
		fs.unlinked(old)
	} else {
		td.dir.add(toName, in)
	}
	in.mu.Lock()
	in.changed(fs.opt.Now())
	in.mu.Unlock()

	if fd == td {
		w := wto
		if w == nil {
			w = wfrom
		}
		fs.dirChanged(fd, fromLinks+toLinks, w)
		if wfrom != nil {
			*wfrom = *w
		}
		return nil
	}
	fs.dirChanged(fd, fromLinks, wfrom)
	fs.dirChanged(td, toLinks, wto)
	return nil
}

// below reports whether in is top or lies below it. tree is held.
func (in *inode) below(top *inode) bool {
	for in != top {
		if in.dir.parent == in {
			return false
		}
		in = in.dir.parent
	}
	return true
}

func checkReplace(in, old *inode) error {
	switch {
	case in.dir == nil && old.dir != nil:
		return vfs.ErrIsDir
	case in.dir != nil && old.dir == nil:
		return vfs.ErrNotDir
	case old.dir != nil && len(old.dir.names) > 0:
		return vfs.ErrNotEmpty
	}
	return nil
}
