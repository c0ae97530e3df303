package dirfs

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls below are made for each READ and WRITE, so they take paths and results
// in memory of the caller and allocate nothing. A path ends with a NUL.

const (
	openPath  = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	statxMask = unix.STATX_BASIC_STATS | unix.STATX_BTIME | unix.STATX_MNT_ID
)

var emptyPath [1]byte

// retry repeats a call that a signal cut short.
func retry(f func() error) error {
	for {
		if err := f(); err != unix.EINTR { //nolint:errorlint // a bare errno
			return err
		}
	}
}

func openat(dir int, path []byte, flags int) (int, error) {
	for {
		fd, _, e := unix.Syscall6(unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(&path[0])), uintptr(flags), 0, 0, 0)
		switch e {
		case 0:
			return int(fd), nil
		case unix.EINTR:
			continue
		}
		return -1, e
	}
}

func openat2(dir int, path []byte, flags int, resolve uint64) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags), Resolve: resolve}
	for tries := 0; ; tries++ {
		fd, _, e := unix.Syscall6(unix.SYS_OPENAT2, uintptr(dir), uintptr(unsafe.Pointer(&path[0])),
			uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
		switch {
		case e == 0:
			return int(fd), nil
		case e == unix.EINTR, e == unix.EAGAIN && tries < 100:
			continue
		}
		return -1, e
	}
}

// statx fills st with the attributes of a descriptor, also one of O_PATH.
func statx(fd int, st *unix.Statx_t) error {
	_, _, e := unix.Syscall6(unix.SYS_STATX, uintptr(fd), uintptr(unsafe.Pointer(&emptyPath[0])),
		unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW, statxMask, uintptr(unsafe.Pointer(st)), 0)
	if e != 0 {
		return e
	}
	return nil
}

const maxHandle = 128 // MAX_HANDLE_SZ

// kernelHandle is struct file_handle with the longest f_handle.
type kernelHandle struct {
	n    uint32
	typ  int32
	data [maxHandle]byte
}

func (k *kernelHandle) bytes() []byte { return k.data[:k.n] }

func nameToHandle(fd int, k *kernelHandle) error {
	var mount int32
	k.n = uint32(len(k.data))
	_, _, e := unix.Syscall6(unix.SYS_NAME_TO_HANDLE_AT, uintptr(fd), uintptr(unsafe.Pointer(&emptyPath[0])),
		uintptr(unsafe.Pointer(k)), uintptr(unsafe.Pointer(&mount)), unix.AT_EMPTY_PATH, 0)
	if e != 0 || k.n > uint32(len(k.data)) {
		return e
	}
	return nil
}
