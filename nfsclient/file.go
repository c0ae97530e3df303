package nfsclient

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
	"syscall"

	"example.org/nfsrdma/internal/nfs3"
)

// File is an open file. It keeps the context it was opened with. ReadAt and WriteAt may be called by several tasks
// at once. Data that was written unstable is kept until COMMIT, so that it can be written again when the server
// has lost it.
type File struct {
	m    *Mount
	ctx  context.Context
	name string
	fh   FH
	flag int

	mu     sync.Mutex
	closed bool
	off    int64 // of Read, Write and Seek
	dir    *dirReader
	dirty  unstable
}

// Open opens a file or directory for reading.
func (m *Mount) Open(ctx context.Context, name string) (*File, error) {
	return m.OpenFile(ctx, name, os.O_RDONLY, 0)
}

// OpenFile opens with flags of package os: O_RDONLY, O_WRONLY, O_RDWR, O_CREATE, O_EXCL, O_TRUNC, O_APPEND.
func (m *Mount) OpenFile(ctx context.Context, name string, flag int, perm fs.FileMode) (*File, error) {
	n, err := m.open(ctx, clean(name), flag, perm)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return &File{m: m, ctx: ctx, name: name, fh: n.fh, flag: flag}, nil
}

func (m *Mount) open(ctx context.Context, name string, flag int, perm fs.FileMode) (node, error) {
	writes := flag&(os.O_WRONLY|os.O_RDWR|os.O_TRUNC) != 0
	if flag&os.O_EXCL != 0 && flag&os.O_CREATE != 0 {
		dir, base, err := m.parent(ctx, name)
		if err != nil {
			return node{}, err
		}
		return m.create(ctx, dir, base, flag, perm)
	}
	n, err := m.resolve(ctx, name, true)
	var not *missing
	switch {
	case errors.As(err, &not) && flag&os.O_CREATE != 0:
		return m.create(ctx, not.dir, not.name, flag, perm)
	case err != nil:
		return n, err
	case writes && n.attr.Type == nfs3.NF3DIR:
		return n, nfs3.NFS3ERR_ISDIR
	case flag&os.O_TRUNC != 0 && n.attr.Size > 0:
		_, err = m.SetAttr(ctx, n.fh, &Sattr{SetSize: true}, nil)
	}
	return n, err
}

func (m *Mount) create(ctx context.Context, dir FH, base string, flag int, perm fs.FileMode) (node, error) {
	how := CreateHow{Mode: nfs3.UNCHECKED, Attr: setMode(perm)}
	if flag&os.O_EXCL != 0 {
		how.Mode = nfs3.GUARDED
	} else if flag&os.O_TRUNC != 0 {
		how.Attr.SetSize = true // of a file that appears meanwhile
	}
	c, err := m.Create(ctx, dir, base, how)
	if err != nil {
		return node{}, err
	}
	return m.made(ctx, dir, base, c)
}

// FH is the handle of the file.
func (f *File) FH() FH { return f.fh }

// Name is the path that the file was opened by.
func (f *File) Name() string { return f.name }

func (f *File) check(op string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return pathError(op, f.name, fs.ErrClosed)
	}
	return nil
}

// accessMask is O_ACCMODE.
const accessMask = os.O_RDONLY | os.O_WRONLY | os.O_RDWR

func (f *File) checkRead() error {
	if f.flag&accessMask == os.O_WRONLY {
		return pathError("read", f.name, syscall.EBADF)
	}
	return f.check("read")
}

func (f *File) checkWrite() error {
	if f.flag&accessMask == os.O_RDONLY {
		return pathError("write", f.name, syscall.EBADF)
	}
	return f.check("write")
}

// ReadAt reads with READs of at most RSize, several at once (IODepth).
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	if err := f.checkRead(); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathError("read", f.name, fs.ErrInvalid)
	}
	n, _, err := f.m.readAll(f.ctx, f.fh, uint64(off), p)
	if err == nil && n < len(p) {
		return n, io.EOF
	}
	return n, pathError("read", f.name, err)
}

// WriteAt writes with unstable WRITEs of at most WSize, several at once (IODepth).
func (f *File) WriteAt(p []byte, off int64) (int, error) {
	if err := f.checkWrite(); err != nil {
		return 0, err
	}
	if off < 0 || f.flag&os.O_APPEND != 0 {
		return 0, pathError("write", f.name, fs.ErrInvalid)
	}
	return f.writeAt(p, off)
}

func (f *File) writeAt(p []byte, off int64) (int, error) {
	n, err := f.m.writeAll(f.ctx, f.fh, uint64(off), p, &f.dirty, true)
	if err == nil && f.dirty.size() > maxUnstable {
		err = f.m.commitAll(f.ctx, f.fh, &f.dirty)
	}
	return n, pathError("write", f.name, err)
}

// Read reads at the file's offset.
func (f *File) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.off)
	f.off += int64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

// Write writes at the file's offset, with O_APPEND at the end of the file.
func (f *File) Write(p []byte) (int, error) {
	if err := f.checkWrite(); err != nil {
		return 0, err
	}
	if f.flag&os.O_APPEND != 0 {
		a, err := f.m.GetAttr(f.ctx, f.fh)
		if err != nil {
			return 0, pathError("write", f.name, err)
		}
		f.off = int64(a.Size)
	}
	n, err := f.writeAt(p, f.off)
	f.off += int64(n)
	return n, err
}

// Seek sets the offset of Read and Write.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	if err := f.check("seek"); err != nil {
		return 0, err
	}
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += f.off
	case io.SeekEnd:
		a, err := f.m.GetAttr(f.ctx, f.fh)
		if err != nil {
			return 0, pathError("seek", f.name, err)
		}
		offset += int64(a.Size)
	default:
		return 0, pathError("seek", f.name, fs.ErrInvalid)
	}
	if offset < 0 {
		return 0, pathError("seek", f.name, fs.ErrInvalid)
	}
	f.off = offset
	return offset, nil
}

// Truncate sets the size.
func (f *File) Truncate(size int64) error {
	if err := f.check("truncate"); err != nil {
		return err
	}
	if size < 0 || f.flag&accessMask == os.O_RDONLY {
		return pathError("truncate", f.name, fs.ErrInvalid)
	}
	// What was written beyond must not come back when it is written again.
	if err := f.m.commitAll(f.ctx, f.fh, &f.dirty); err != nil {
		return pathError("truncate", f.name, err)
	}
	_, err := f.m.SetAttr(f.ctx, f.fh, &Sattr{SetSize: true, Size: uint64(size)}, nil)
	return pathError("truncate", f.name, err)
}

// Sync makes what was written stable (COMMIT). When the verifier says that the server may have
// lost it, it is written again.
func (f *File) Sync() error {
	if err := f.check("sync"); err != nil {
		return err
	}
	return pathError("sync", f.name, f.m.commitAll(f.ctx, f.fh, &f.dirty))
}

// Stat asks for the attributes.
func (f *File) Stat() (fs.FileInfo, error) {
	if err := f.check("stat"); err != nil {
		return nil, err
	}
	a, err := f.m.GetAttr(f.ctx, f.fh)
	if err != nil {
		return nil, pathError("stat", f.name, err)
	}
	return newInfo(path.Clean(f.name), &a), nil
}

// ReadDir reads entries of a directory, as fs.ReadDirFile says.
func (f *File) ReadDir(n int) ([]fs.DirEntry, error) {
	if err := f.check("readdir"); err != nil {
		return nil, err
	}
	if f.dir == nil {
		f.dir = &dirReader{m: f.m, fh: f.fh}
	}
	list, err := f.dir.next(f.ctx, n)
	if err != nil && err != io.EOF {
		err = pathError("readdir", f.name, err)
	}
	return list, err
}

// Close makes what was written stable, as NFS clients do when a file is closed.
func (f *File) Close() error {
	f.mu.Lock()
	was := f.closed
	f.closed = true
	f.mu.Unlock()
	if was {
		return pathError("close", f.name, fs.ErrClosed)
	}
	return pathError("close", f.name, f.m.commitAll(f.ctx, f.fh, &f.dirty))
}
