package dirfs

import (
	"strconv"

	"golang.org/x/sys/unix"

	"example.org/nfsrdma/nfsserver/vfs"
)

// A handle is an object that a call has found below the root, with its
// attributes. The call that opened it closes it.
type handle struct {
	fd    int  // O_PATH
	owned bool // fd is to be closed
	st    unix.Statx_t
}

func (h *handle) close() {
	if h.owned {
		_ = unix.Close(h.fd)
	}
	h.owned = false
}

func (h *handle) isDir() bool     { return h.st.Mode&unix.S_IFMT == unix.S_IFDIR }
func (h *handle) isSymlink() bool { return h.st.Mode&unix.S_IFMT == unix.S_IFLNK }

// typ is 0 for what NFS has no type for.
func (h *handle) typ() vfs.Type {
	switch h.st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return vfs.Regular
	case unix.S_IFDIR:
		return vfs.Directory
	case unix.S_IFBLK:
		return vfs.Block
	case unix.S_IFCHR:
		return vfs.Char
	case unix.S_IFLNK:
		return vfs.Symlink
	case unix.S_IFSOCK:
		return vfs.Socket
	case unix.S_IFIFO:
		return vfs.FIFO
	}
	return 0
}

// stat takes the attributes of h.fd, and refuses what is mounted below the root.
func (fs *FS) stat(h *handle) error {
	if err := statx(h.fd, &h.st); err != nil {
		return err
	}
	if fs.opt.CrossMounts {
		return nil
	}
	// One mount may have several devices (overlayfs, subvolumes of btrfs).
	other := devOf(&h.st) != fs.dev
	if h.st.Mask&unix.STATX_MNT_ID != 0 {
		other = h.st.Mnt_id != fs.mount
	}
	if other {
		return unix.EXDEV
	}
	return nil
}

func devOf(st *unix.Statx_t) uint64 { return unix.Mkdev(st.Dev_major, st.Dev_minor) }

// below opens a path relative to dir, without leaving dir.
func (fs *FS) below(dir int, path []byte, h *handle) (err error) {
	if fs.noOpenat2 {
		h.fd, err = fs.stepwise(dir, path)
	} else {
		h.fd, err = openat2(dir, path, openPath, fs.resolveFlags)
	}
	if err != nil {
		return err
	}
	h.owned = true
	if err := fs.stat(h); err != nil {
		h.close()
		return err
	}
	return nil
}

// stepwise is below for kernels before 5.6. It changes path.
func (fs *FS) stepwise(dir int, path []byte) (int, error) {
	cur := handle{fd: dir}
	defer cur.close()
	start := 0
	for i, b := range path {
		if b != '/' && b != 0 {
			continue
		}
		name := path[start : i+1]
		if string(name[:len(name)-1]) == ".." {
			return -1, unix.EXDEV
		}
		name[len(name)-1] = 0
		start = i + 1
		next := handle{}
		var err error
		flags := openPath
		if b != 0 {
			flags |= unix.O_DIRECTORY
		}
		if next.fd, err = openat(cur.fd, name, flags); err != nil {
			return -1, err
		}
		if b == 0 {
			return next.fd, nil
		}
		next.owned = true
		if err := fs.stat(&next); err != nil {
			next.close()
			return -1, err
		}
		cur.close()
		cur = next
	}
	return -1, unix.EINVAL
}

// child opens a name in a directory.
func (fs *FS) child(dir int, name string, h *handle) error {
	buf := pathPool.Get().(*pathBuf)
	defer pathPool.Put(buf)
	if len(name) >= len(buf) {
		return unix.ENAMETOOLONG
	}
	n := copy(buf[:], name)
	buf[n] = 0
	return fs.below(dir, buf[:n+1], h)
}

// reopen opens the object of an O_PATH descriptor anew, for data; it is the same
// object whatever happened to its name.
func (fs *FS) reopen(fd, flags int) (int, error) {
	var b [24]byte
	path := append(strconv.AppendInt(b[:0], int64(fd), 10), 0)
	return openat(fs.proc, path, flags|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NONBLOCK)
}

// procName is the name of a descriptor in fs.proc.
func procName(fd int) string { return strconv.Itoa(fd) }
