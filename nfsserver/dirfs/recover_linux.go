package dirfs

import (
	"bytes"
	"context"
	"strings"

	"golang.org/x/sys/unix"

	"example.org/nfsrdma/nfsserver/vfs"
)

// follow finds n by what the kernel says of its names: through the
// descriptor that is open for its data, or through its file handle.
func (fs *FS) follow(n *node, h *handle) error {
	if f := fs.cache.get(n, false); f != nil {
		err := fs.locate(f.fd, h)
		fs.cache.release(f)
		if err == nil {
			err = fs.check(n, false, h)
		}
		if err == nil {
			return nil
		}
	}
	if n.ident.dev != fs.dev {
		return unix.ESTALE
	}
	fd, err := fs.openHandle(n.ident.ino, uint32(n.ident.tag))
	if err != nil {
		return unix.ESTALE
	}
	defer unix.Close(fd)
	if err := fs.locate(fd, h); err != nil {
		return err
	}
	return fs.check(n, false, h)
}

// locate opens the path that the kernel knows for a descriptor, if it is below the
// root, and learns all names on it. The path is a hint: it leads to what
// it leads to, from the root and without leaving it.
func (fs *FS) locate(fd int, h *handle) error {
	root, err := fs.readlink(fs.proc, procName(fs.rootPath))
	if err != nil {
		return unix.ESTALE
	}
	path, err := fs.readlink(fs.proc, procName(fd))
	if err != nil {
		return unix.ESTALE
	}
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(root, "/")+"/")
	if !ok {
		return unix.ESTALE
	}
	dir, cur := fs.root, handle{fd: fs.rootPath}
	defer func() { cur.close() }()
	for name := range strings.SplitSeq(rest, "/") {
		if name == "" || isDot(name) {
			return unix.ESTALE
		}
		var next handle
		if err := fs.child(cur.fd, name, &next); err != nil {
			return err
		}
		dir = fs.know(&next, dir, name)
		cur.close()
		cur = next
	}
	*h, cur = cur, handle{}
	return nil
}

func (fs *FS) readlink(dir int, name string) (string, error) {
	buf := make([]byte, unix.PathMax+1)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// recover finds the object of an ID that is not in the table.
func (fs *FS) recover(ctx context.Context, id vfs.ID) (*node, error) {
	if !fs.authentic(id) {
		return nil, vfs.ErrStale
	}
	fs.recovery.Lock()
	defer fs.recovery.Unlock()
	if n := fs.table.get(id); n != nil {
		return n, nil
	}
	if n := fs.recoverByHandle(id); n != nil {
		return n, nil
	}
	// Whatever our predecessor gave an ID to and was not moved since is known after one walk.
	if !fs.walked && len(fs.opt.Key) > 0 {
		if err := fs.walk(ctx); err != nil {
			return nil, err
		}
		fs.walked = true
		if n := fs.table.get(id); n != nil {
			return n, nil
		}
	}
	return nil, vfs.ErrStale
}

func (fs *FS) recoverByHandle(id vfs.ID) *node {
	fs.moves.Lock()
	defer fs.moves.Unlock()
	fd, err := fs.openHandle(id.Ino, uint32(id.Gen>>32))
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var h handle
	if fs.locate(fd, &h) == nil {
		h.close()
	}
	return fs.table.get(id)
}

// walk learns all names of the export. What cannot be read is left out.
func (fs *FS) walk(ctx context.Context) error {
	dirs := []*node{fs.root}
	for len(dirs) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		dir := dirs[len(dirs)-1]
		dirs = dirs[:len(dirs)-1]
		var h handle
		if fs.open(dir, false, &h) != nil {
			continue
		}
		_ = fs.entries(h.fd, 0, func(e *rawEntry) bool {
			if isDot(string(e.name)) {
				return true
			}
			var c handle
			n, err := fs.childNode(dir, h.fd, string(e.name), &c)
			if err == nil && n.typ == vfs.Directory {
				dirs = append(dirs, n)
			}
			return true
		})
		h.close()
	}
	return nil
}

// nameOf looks for an inode number in a directory.
func (fs *FS) nameOf(dir int, ino uint64) (name string, err error) {
	err = fs.entries(dir, 0, func(e *rawEntry) bool {
		if e.ino == ino && !bytes.Equal(e.name, []byte(".")) && !bytes.Equal(e.name, []byte("..")) {
			name = string(e.name)
		}
		return name == ""
	})
	if err == nil && name == "" {
		err = unix.ENOENT
	}
	return name, err
}
