package dirfs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"example.org/nfsrdma/nfsserver/vfs"
)

var errClosed = fmt.Errorf("%w: file system is closed", vfs.ErrIO)

// errChanged says that another object has the name.
var errChanged = errors.New("another object has the name")

// vfsErr maps what the kernel says; errors of package vfs pass.
func vfsErr(err error) error {
	if err == nil {
		return nil
	}
	no, ok := err.(unix.Errno) //nolint:errorlint // wrappers of this package return it bare
	if !ok {
		return err
	}
	switch no {
	case unix.EPERM:
		return vfs.ErrPerm
	case unix.ENOENT:
		return vfs.ErrNoEnt
	case unix.EACCES, unix.EBUSY, unix.ETXTBSY:
		return vfs.ErrAccess
	case unix.EEXIST:
		return vfs.ErrExist
	case unix.EXDEV:
		return vfs.ErrXDev
	case unix.ENODEV, unix.ENXIO:
		return vfs.ErrNoDev
	case unix.ENOTDIR:
		return vfs.ErrNotDir
	case unix.EISDIR:
		return vfs.ErrIsDir
	case unix.EINVAL:
		return vfs.ErrInval
	case unix.EFBIG, unix.EOVERFLOW:
		return vfs.ErrFBig
	case unix.ENOSPC:
		return vfs.ErrNoSpace
	case unix.EROFS:
		return vfs.ErrReadOnly
	case unix.EMLINK:
		return vfs.ErrMLink
	case unix.ENAMETOOLONG:
		return vfs.ErrNameTooLong
	case unix.ENOTEMPTY:
		return vfs.ErrNotEmpty
	case unix.EDQUOT:
		return vfs.ErrDQuot
	case unix.ESTALE:
		return vfs.ErrStale
	case unix.EOPNOTSUPP, unix.ENOSYS:
		return vfs.ErrNotSupp
	}
	return fmt.Errorf("%w: %w", vfs.ErrIO, no)
}

// gone says whether err means that an object is not where it was.
func gone(err error) bool {
	switch err { //nolint:errorlint // wrappers of this package return it bare
	case errChanged, unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV, unix.ESTALE, unix.ENAMETOOLONG:
		return true
	}
	return false
}
