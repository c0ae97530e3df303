package vfs

import "errors"

// The errors of a file system, matched with errors.Is. Each has one NFSv3 status
// (RFC 1813 section 2.6); any other error is reported as an I/O error.
var (
	ErrPerm        = errors.New("operation not permitted")
	ErrNoEnt       = errors.New("no such file or directory")
	ErrIO          = errors.New("input/output error")
	ErrAccess      = errors.New("permission denied")
	ErrExist       = errors.New("file exists")
	ErrXDev        = errors.New("cross-device link")
	ErrNoDev       = errors.New("no such device")
	ErrNotDir      = errors.New("not a directory")
	ErrIsDir       = errors.New("is a directory")
	ErrInval       = errors.New("invalid argument")
	ErrFBig        = errors.New("file too large")
	ErrNoSpace     = errors.New("no space left on device")
	ErrReadOnly    = errors.New("read-only file system")
	ErrMLink       = errors.New("too many links")
	ErrNameTooLong = errors.New("file name too long")
	ErrNotEmpty    = errors.New("directory not empty")
	ErrDQuot       = errors.New("disk quota exceeded")
	ErrStale       = errors.New("stale file handle")
	ErrNotSync     = errors.New("ctime guard does not match")
	ErrBadCookie   = errors.New("stale directory cookie")
	ErrNotSupp     = errors.New("operation not supported")
	ErrBadType     = errors.New("unsupported file type")
	ErrJukebox     = errors.New("not available yet, try again later")
)
