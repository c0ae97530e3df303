package dirfs

import (
	"bytes"
	"context"
	"encoding/binary"
	"sync"

	"golang.org/x/sys/unix"

	"example.org/nfsrdma/nfsserver/vfs"
)

// rawEntry is a struct linux_dirent64; the name lies in the buffer.
type rawEntry struct {
	ino  uint64
	off  uint64 // d_off: where the next entry is
	name []byte
}

// Offsets in a struct linux_dirent64.
const (
	direntOff    = 8
	direntReclen = 16
	direntName   = 19
)

type direntBuf [32 << 10]byte

var direntPool = sync.Pool{New: func() any { return new(direntBuf) }}

// entries gives the entries of a directory from d_off start on, until f returns false.
func (fs *FS) entries(dir int, start uint64, f func(*rawEntry) bool) error {
	fd, err := fs.reopen(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if start != 0 {
		if _, err := unix.Seek(fd, int64(start), unix.SEEK_SET); err != nil {
			return vfs.ErrBadCookie
		}
	}
	buf := direntPool.Get().(*direntBuf)
	defer direntPool.Put(buf)
	for {
		n, err := unix.Getdents(fd, buf[:])
		if err == unix.EINTR { //nolint:errorlint // a bare errno
			continue
		}
		if err != nil || n == 0 {
			return err
		}
		for b := buf[:n]; len(b) > direntName; {
			size := int(binary.NativeEndian.Uint16(b[direntReclen:]))
			if size <= direntName || size > len(b) {
				return unix.EIO
			}
			name, _, _ := bytes.Cut(b[direntName:size], []byte{0})
			e := rawEntry{ino: binary.NativeEndian.Uint64(b), off: binary.NativeEndian.Uint64(b[direntOff:]), name: name}
			if !f(&e) {
				return nil
			}
			b = b[size:]
		}
	}
}

// ReadDir lists dir in the order of the file system, whose directory offsets are the
// cookies. Names on which another file system is mounted are left out, unless CrossMounts.
func (fs *FS) ReadDir(ctx context.Context, dir vfs.ID, cookie, verf uint64, emit func(*vfs.DirEntry) bool) (newVerf uint64, eof bool, err error) {
	if err := fs.enter(); err != nil {
		return 0, false, err
	}
	defer fs.exit()
	var d handle
	n, err := fs.openDir(ctx, dir, &d)
	if err != nil {
		return 0, false, err
	}
	defer d.close()
	newVerf = n.id.Gen | 1
	if verf != 0 && verf != newVerf {
		return 0, false, vfs.ErrBadCookie
	}
	full := false
	err = fs.entries(d.fd, cookie, func(e *rawEntry) bool {
		out := vfs.DirEntry{Name: string(e.name), Cookie: e.off}
		var ok bool
		if out.ID, ok = fs.entryID(n, &d, out.Name, e.ino); !ok {
			return true
		}
		full = !emit(&out)
		return !full
	})
	if err != nil {
		return 0, false, vfsErr(err)
	}
	return newVerf, !full, nil
}

// entryID gives the ID of an entry; not ok is an entry that is gone or hidden.
func (fs *FS) entryID(dir *node, d *handle, name string, ino uint64) (vfs.ID, bool) {
	switch name {
	case ".":
		return dir.id, true
	case "..":
		return fs.parent(dir).id, true
	}
	// What was seen under this name with this number is taken for it; if it is
	// another since, its ID is stale, and the client looks the name up.
	if id, ok := fs.seen(dir, name, inode{dir.ident.dev, ino}); ok {
		return id, true
	}
	var h handle
	n, err := fs.childNode(dir, d.fd, name, &h)
	switch {
	case err == unix.EACCES: //nolint:errorlint // a bare errno
		return vfs.ID{Ino: ino}, true // the number is all that may be known
	case err != nil:
		return vfs.ID{}, false
	}
	return n.id, true
}

func (fs *FS) seen(dir *node, name string, key inode) (vfs.ID, bool) {
	fs.table.mu.RLock()
	defer fs.table.mu.RUnlock()
	n := fs.table.byIno[key]
	if n == nil {
		return vfs.ID{}, false
	}
	for _, p := range n.at {
		if p.dir == dir && p.name == name {
			return n.id, true
		}
	}
	return vfs.ID{}, false
}
