package dirfs

import (
	"context"

	"golang.org/x/sys/unix"

	"example.org/nfsrdma/nfsserver/vfs"
)

// openFile gives the open file of n, with a reference, and its attributes in h, whose
// descriptor is closed. They are there also if n is no regular file.
func (fs *FS) openFile(n *node, write bool, h *handle) (*file, error) {
	f := fs.cache.get(n, write)
	if err := fs.open(n, f != nil, h); err != nil {
		if f != nil {
			fs.cache.release(f)
		}
		return nil, err
	}
	defer h.close()
	switch {
	case f != nil:
		return f, nil
	case n.typ == vfs.Directory:
		return nil, vfs.ErrIsDir
	case n.typ != vfs.Regular:
		return nil, vfs.ErrInval
	case write && fs.info.ReadOnly:
		return nil, vfs.ErrReadOnly
	}
	return fs.openData(n, h, write)
}

// openData opens a regular file for data, with a reference.
func (fs *FS) openData(n *node, h *handle, write bool) (*file, error) {
	flags := unix.O_RDONLY
	if write {
		flags = unix.O_RDWR
	}
	fd, err := fs.reopen(h.fd, flags)
	if write && err == unix.EACCES { //nolint:errorlint // a bare errno
		if fd, err = fs.reopen(h.fd, unix.O_WRONLY); err == nil {
			return &file{fd: fd, write: true, refs: 1}, nil // for this call alone, as READ cannot use it
		}
	}
	if err != nil {
		return nil, err
	}
	return fs.cache.put(n, fd, write), nil
}

// Read copies data out.
func (fs *FS) Read(ctx context.Context, id vfs.ID, off uint64, dst []byte, a *vfs.Attr) (got int, eof bool, err error) {
	if err := fs.enter(); err != nil {
		return 0, false, err
	}
	defer fs.exit()
	n, err := fs.node(ctx, id)
	if err != nil {
		return 0, false, err
	}
	var h handle
	f, err := fs.openFile(n, false, &h)
	if err != nil {
		return 0, false, vfsErr(err)
	}
	defer fs.cache.release(f)
	want := dst[:min(uint64(len(dst)), fs.info.MaxFileSize-min(fs.info.MaxFileSize, off))]
	for got < len(want) {
		k, err := unix.Pread(f.fd, want[got:], int64(off)+int64(got))
		if err == unix.EINTR { //nolint:errorlint // a bare errno
			continue
		}
		if err != nil {
			return 0, false, vfsErr(err)
		}
		if k == 0 {
			break
		}
		got += k
	}
	if err := statx(f.fd, &h.st); err != nil {
		return 0, false, vfsErr(err)
	}
	n.attr(&h.st, a)
	return got, off >= h.st.Size || uint64(got) >= h.st.Size-off, nil
}

// Write stores src, or on an error perhaps some of it.
func (fs *FS) Write(ctx context.Context, id vfs.ID, off uint64, src []byte, stable bool, w *vfs.WCC) error {
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
	f, err := fs.write(n, off, src, w)
	if f == nil {
		return vfsErr(err)
	}
	defer fs.cache.release(f)
	if err == nil && stable && len(src) > 0 {
		err = fs.fsync(f.fd)
	}
	return vfsErr(err)
}

// write returns the file too if it was opened.
func (fs *FS) write(n *node, off uint64, src []byte, w *vfs.WCC) (*file, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var h handle
	f, err := fs.openFile(n, true, &h)
	if h.st.Mask != 0 {
		n.before(&h, w)
	}
	if err != nil {
		return nil, err
	}
	if len(src) == 0 {
		return f, nil
	}
	if limit := fs.info.MaxFileSize; off > limit || uint64(len(src)) > limit-off {
		return f, vfs.ErrFBig
	}
	for err == nil && len(src) > 0 {
		var k int
		k, err = unix.Pwrite(f.fd, src, int64(off))
		switch {
		case err == unix.EINTR: //nolint:errorlint // a bare errno
			err = nil
		case err == nil && k == 0:
			err = unix.EIO
		case err == nil:
			src = src[k:]
			off += uint64(k)
		}
	}
	n.after(f.fd, w)
	return f, err
}

// Commit makes the whole file durable, which is more than was asked for.
func (fs *FS) Commit(ctx context.Context, id vfs.ID, _, _ uint64, w *vfs.WCC) error {
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
	f, err := fs.openFile(n, false, &h)
	if err == unix.EACCES { //nolint:errorlint // a bare errno
		f, err = fs.openFile(n, true, &h)
	}
	if h.st.Mask != 0 {
		n.before(&h, w)
	}
	if err != nil {
		return vfsErr(err)
	}
	defer fs.cache.release(f)
	return vfsErr(fs.fsync(f.fd))
}
