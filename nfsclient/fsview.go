package nfsclient

import (
	"context"
	"io/fs"
	"os"
)

// FS is a mount as an io/fs file system, with the writing operations besides, under the names
// that package os has for them. Paths are those of io/fs: relative to the root, without "..".
type FS struct {
	m   *Mount
	ctx context.Context
}

// FS gives a view of the mount whose calls all use ctx.
func (m *Mount) FS(ctx context.Context) *FS { return &FS{m, ctx} }

var _ interface {
	fs.StatFS
	fs.ReadDirFS
	fs.ReadFileFS
	fs.ReadLinkFS
} = (*FS)(nil)

func valid(op, name string) error {
	if !fs.ValidPath(name) {
		return pathError(op, name, fs.ErrInvalid)
	}
	return nil
}

// Open opens for reading.
func (f *FS) Open(name string) (fs.File, error) {
	file, err := f.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	return file, nil
}

// OpenFile opens with flags of package os.
func (f *FS) OpenFile(name string, flag int, perm fs.FileMode) (*File, error) {
	if err := valid("open", name); err != nil {
		return nil, err
	}
	return f.m.OpenFile(f.ctx, name, flag, perm)
}

// Create makes or truncates a file.
func (f *FS) Create(name string) (*File, error) {
	return f.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// Stat follows symbolic links.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	if err := valid("stat", name); err != nil {
		return nil, err
	}
	return f.m.Stat(f.ctx, name)
}

// Lstat does not follow a symbolic link at the end.
func (f *FS) Lstat(name string) (fs.FileInfo, error) {
	if err := valid("lstat", name); err != nil {
		return nil, err
	}
	return f.m.Lstat(f.ctx, name)
}

// ReadLink gives the target of a symbolic link.
func (f *FS) ReadLink(name string) (string, error) {
	if err := valid("readlink", name); err != nil {
		return "", err
	}
	n, err := f.m.resolve(f.ctx, name, false)
	if err != nil {
		return "", pathError("readlink", name, err)
	}
	target, err := f.m.ReadLink(f.ctx, n.fh)
	return target, pathError("readlink", name, err)
}

// ReadDir gives the entries of a directory by name.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := valid("readdir", name); err != nil {
		return nil, err
	}
	n, err := f.m.resolve(f.ctx, name, true)
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	list, err := f.m.readDir(f.ctx, n.fh)
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	out := make([]fs.DirEntry, len(list))
	for i := range list {
		out[i] = &list[i].info
	}
	return out, nil
}

// ReadFile gives all of a file.
func (f *FS) ReadFile(name string) ([]byte, error) {
	if err := valid("open", name); err != nil {
		return nil, err
	}
	return f.m.ReadFile(f.ctx, name)
}

// WriteFile makes or truncates a file, writes data, and commits it.
func (f *FS) WriteFile(name string, data []byte, perm fs.FileMode) error {
	if err := valid("open", name); err != nil {
		return err
	}
	return f.m.WriteFile(f.ctx, name, data, perm)
}

// Mkdir makes a directory.
func (f *FS) Mkdir(name string, perm fs.FileMode) error {
	return f.inParent("mkdir", name, func(dir FH, base string) error {
		set := setMode(perm)
		_, err := f.m.Mkdir(f.ctx, dir, base, &set)
		return err
	})
}

// MkdirAll makes a directory and its parents.
func (f *FS) MkdirAll(name string, perm fs.FileMode) error {
	if err := valid("mkdir", name); err != nil {
		return err
	}
	return f.m.MkdirAll(f.ctx, name, perm)
}

// Remove removes a file or an empty directory.
func (f *FS) Remove(name string) error {
	return f.inParent("remove", name, func(dir FH, base string) error {
		n, err := f.m.child(f.ctx, dir, base)
		switch {
		case err != nil:
		case n.attr.Type == NF3DIR:
			_, err = f.m.Rmdir(f.ctx, dir, base)
		default:
			_, err = f.m.Remove(f.ctx, dir, base)
		}
		return err
	})
}

// RemoveAll removes a name and all that is below it.
func (f *FS) RemoveAll(name string) error {
	if err := valid("removeall", name); err != nil {
		return err
	}
	return f.m.RemoveAll(f.ctx, name)
}

// Rename moves a name, over what has the new one.
func (f *FS) Rename(oldName, newName string) error {
	return f.inParent("rename", oldName, func(from FH, base string) error {
		if err := valid("rename", newName); err != nil {
			return err
		}
		to, newBase, err := f.m.parent(f.ctx, newName)
		if err != nil {
			return err
		}
		return f.m.Rename(f.ctx, from, base, to, newBase)
	})
}

// Symlink makes newName a symbolic link to oldName.
func (f *FS) Symlink(oldName, newName string) error {
	return f.inParent("symlink", newName, func(dir FH, base string) error {
		_, err := f.m.Symlink(f.ctx, dir, base, oldName, &Sattr{})
		return err
	})
}

// Link gives a file another name.
func (f *FS) Link(oldName, newName string) error {
	return f.inParent("link", newName, func(dir FH, base string) error {
		if err := valid("link", oldName); err != nil {
			return err
		}
		n, err := f.m.resolve(f.ctx, oldName, false)
		if err == nil {
			_, err = f.m.Link(f.ctx, n.fh, dir, base)
		}
		return err
	})
}

// Chmod sets permissions.
func (f *FS) Chmod(name string, perm fs.FileMode) error {
	return f.setAttr("chmod", name, setMode(perm))
}

// Truncate sets the size of a file.
func (f *FS) Truncate(name string, size int64) error {
	if size < 0 {
		return pathError("truncate", name, fs.ErrInvalid)
	}
	return f.setAttr("truncate", name, Sattr{SetSize: true, Size: uint64(size)})
}

func (f *FS) setAttr(op, name string, set Sattr) error {
	if err := valid(op, name); err != nil {
		return err
	}
	n, err := f.m.resolve(f.ctx, name, true)
	if err == nil {
		_, err = f.m.SetAttr(f.ctx, n.fh, &set, nil)
	}
	return pathError(op, name, err)
}

// inParent does something to a name in its directory.
func (f *FS) inParent(op, name string, do func(dir FH, base string) error) error {
	if err := valid(op, name); err != nil {
		return err
	}
	dir, base, err := f.m.parent(f.ctx, name)
	if err == nil {
		err = do(dir, base)
	}
	return pathError(op, name, err)
}
