package nfsclient

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"example.org/nfsrdma/internal/nfs3"
)

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// Stat follows a path and gives the attributes of what it leads to; its Sys is a *Fattr.
func (m *Mount) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	return m.stat(ctx, "stat", name, true)
}

// Lstat is Stat that does not follow a symbolic link at the end.
func (m *Mount) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	return m.stat(ctx, "lstat", name, false)
}

func (m *Mount) stat(ctx context.Context, op, name string, follow bool) (fs.FileInfo, error) {
	n, err := m.resolve(ctx, clean(name), follow)
	if err != nil {
		return nil, pathError(op, name, err)
	}
	return newInfo(clean(name), &n.attr), nil
}

// ReadFile gives all of a file.
func (m *Mount) ReadFile(ctx context.Context, name string) ([]byte, error) {
	n, err := m.resolve(ctx, clean(name), true)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	if n.attr.Type == nfs3.NF3DIR {
		return nil, pathError("read", name, nfs3.NFS3ERR_ISDIR)
	}
	// The size is the server's word: memory grows with what really comes.
	const step = 64 << 20
	var b []byte
	for {
		want := max(min(int(min(n.attr.Size, 1<<40))-len(b), step), 512)
		b = append(b, make([]byte, want)...)
		got, eof, err := m.readAll(ctx, n.fh, uint64(len(b)-want), b[len(b)-want:])
		b = b[:len(b)-want+got]
		if err != nil {
			return b, pathError("read", name, err)
		}
		if eof {
			return b, nil
		}
	}
}

// WriteFile makes or truncates a file, writes data, and commits it.
func (m *Mount) WriteFile(ctx context.Context, name string, data []byte, perm fs.FileMode) error {
	n, err := m.open(ctx, clean(name), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return pathError("open", name, err)
	}
	return pathError("write", name, m.writeStable(ctx, n.fh, 0, data))
}

// MkdirAll makes a directory and its parents; it is no error if they are there.
func (m *Mount) MkdirAll(ctx context.Context, name string, perm fs.FileMode) error {
	_, err := m.mkdirAll(ctx, clean(name), perm)
	return pathError("mkdir", name, err)
}

func (m *Mount) mkdirAll(ctx context.Context, name string, perm fs.FileMode) (node, error) {
	n, err := m.resolve(ctx, name, true)
	switch {
	case err == nil && n.attr.Type == nfs3.NF3DIR:
		return n, nil
	case err == nil:
		return n, nfs3.NFS3ERR_NOTDIR
	case !isNotExist(err):
		return n, err
	}
	dir, base := path.Split(name)
	up, err := m.mkdirAll(ctx, clean(dir), perm)
	if err != nil {
		return up, err
	}
	set := setMode(perm)
	c, err := m.Mkdir(ctx, up.fh, base, &set)
	if errors.Is(err, fs.ErrExist) {
		return m.resolve(ctx, name, true)
	}
	if err != nil {
		return node{}, err
	}
	return m.made(ctx, up.fh, base, c)
}

// RemoveAll removes a name and all that is below it; it is no error if it is not there.
func (m *Mount) RemoveAll(ctx context.Context, name string) error {
	dir, base, err := m.parent(ctx, name)
	if err == nil {
		var n node
		if n, err = m.child(ctx, dir, base); err == nil {
			err = m.removeAll(ctx, dir, base, n)
		}
	}
	if isNotExist(err) {
		return nil
	}
	return pathError("removeall", name, err)
}

func (m *Mount) removeAll(ctx context.Context, dir FH, name string, n node) error {
	if n.attr.Type != nfs3.NF3DIR {
		_, err := m.Remove(ctx, dir, name)
		return err
	}
	list, err := m.readDir(ctx, n.fh)
	if err != nil {
		return err
	}
	for _, e := range list {
		if err := m.removeAll(ctx, n.fh, e.name, node{e.fh, e.attr}); err != nil && !isNotExist(err) {
			return err
		}
	}
	_, err = m.Rmdir(ctx, dir, name)
	return err
}

// CopyIn copies a tree into directory dir of the mount, which is made if need be: directories, files and
// symbolic links with their permissions. Other kinds are left out.
func (m *Mount) CopyIn(ctx context.Context, src fs.FS, dir string) error {
	return fs.WalkDir(src, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := path.Join(clean(dir), name)
		i, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			return m.MkdirAll(ctx, to, i.Mode()|0o700)
		case i.Mode()&fs.ModeSymlink != 0:
			target, err := fs.ReadLink(src, name)
			if err != nil {
				return err
			}
			parent, base, err := m.parent(ctx, to)
			if err == nil {
				_, err = m.Symlink(ctx, parent, base, target, &Sattr{})
			}
			return pathError("symlink", to, err)
		case i.Mode().IsRegular():
			return m.copyFileIn(ctx, src, name, to, i.Mode())
		}
		return nil
	})
}

// copyChunk is how much of a file is in memory while it is copied, bytes.
const copyChunk = 8 << 20

func (m *Mount) copyFileIn(ctx context.Context, src fs.FS, name, to string, mode fs.FileMode) error {
	in, err := src.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	n, err := m.open(ctx, to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return pathError("open", to, err)
	}
	i, err := in.Stat()
	if err != nil {
		return err
	}
	buf := make([]byte, max(min(i.Size()+1, copyChunk), 512))
	var off uint64
	for {
		k, rerr := io.ReadFull(in, buf)
		if k > 0 {
			if err := m.writeStable(ctx, n.fh, off, buf[:k]); err != nil {
				return pathError("write", to, err)
			}
			off += uint64(k)
		}
		switch rerr {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			return nil
		default:
			return rerr
		}
	}
}

// CopyOut copies the tree below dir of the mount into the local directory to, which is made if need be.
func (m *Mount) CopyOut(ctx context.Context, dir, to string) error {
	n, err := m.resolve(ctx, clean(dir), true)
	if err != nil {
		return pathError("copyout", dir, err)
	}
	root, err := openRoot(to)
	if err != nil {
		return err
	}
	defer root.Close()
	return m.copyDirOut(ctx, n.fh, ".", root)
}

func openRoot(dir string) (*os.Root, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return os.OpenRoot(dir)
}

// copyDirOut stays below root whatever names and links the server comes up with.
func (m *Mount) copyDirOut(ctx context.Context, fh FH, dir string, root *os.Root) error {
	list, err := m.readDir(ctx, fh)
	if err != nil {
		return pathError("readdir", dir, err)
	}
	for _, e := range list {
		if !localName(e.name) {
			return pathError("copyout", path.Join(dir, e.name), fs.ErrInvalid)
		}
		to := path.Join(dir, e.name)
		switch e.attr.Type {
		case nfs3.NF3DIR:
			if err := root.MkdirAll(to, e.Mode().Perm()|0o700); err != nil {
				return err
			}
			err = m.copyDirOut(ctx, e.fh, to, root)
		case nfs3.NF3LNK:
			var target string
			if target, err = m.ReadLink(ctx, e.fh); err == nil {
				err = root.Symlink(target, to)
			}
		case nfs3.NF3REG:
			err = m.copyFileOut(ctx, &e, to, root)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// localName says whether a name from the server can name something in a local directory.
func localName(name string) bool {
	return name != "." && filepath.IsLocal(name) && filepath.Base(name) == name
}

func (m *Mount) copyFileOut(ctx context.Context, e *dirent, to string, root *os.Root) (err error) {
	out, err := root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, e.Mode().Perm())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	buf := make([]byte, max(min(e.attr.Size+1, copyChunk), 512))
	var off uint64
	for {
		n, eof, err := m.readAll(ctx, e.fh, off, buf)
		if err != nil {
			return pathError("read", to, err)
		}
		if _, err := out.Write(buf[:n]); err != nil {
			return err
		}
		if eof {
			return nil
		}
		off += uint64(n)
	}
}
