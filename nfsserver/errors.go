package nfsserver

import (
	"context"
	"errors"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsserver/vfs"
)

// statuses is the status of each error of package vfs.
var statuses = []struct {
	err error
	st  nfs3.Status
}{
	{vfs.ErrPerm, nfs3.NFS3ERR_PERM},
	{vfs.ErrNoEnt, nfs3.NFS3ERR_NOENT},
	{vfs.ErrIO, nfs3.NFS3ERR_IO},
	{vfs.ErrAccess, nfs3.NFS3ERR_ACCES},
	{vfs.ErrExist, nfs3.NFS3ERR_EXIST},
	{vfs.ErrXDev, nfs3.NFS3ERR_XDEV},
	{vfs.ErrNoDev, nfs3.NFS3ERR_NODEV},
	{vfs.ErrNotDir, nfs3.NFS3ERR_NOTDIR},
	{vfs.ErrIsDir, nfs3.NFS3ERR_ISDIR},
	{vfs.ErrInval, nfs3.NFS3ERR_INVAL},
	{vfs.ErrFBig, nfs3.NFS3ERR_FBIG},
	{vfs.ErrNoSpace, nfs3.NFS3ERR_NOSPC},
	{vfs.ErrReadOnly, nfs3.NFS3ERR_ROFS},
	{vfs.ErrMLink, nfs3.NFS3ERR_MLINK},
	{vfs.ErrNameTooLong, nfs3.NFS3ERR_NAMETOOLONG},
	{vfs.ErrNotEmpty, nfs3.NFS3ERR_NOTEMPTY},
	{vfs.ErrDQuot, nfs3.NFS3ERR_DQUOT},
	{vfs.ErrStale, nfs3.NFS3ERR_STALE},
	{vfs.ErrNotSync, nfs3.NFS3ERR_NOT_SYNC},
	{vfs.ErrBadCookie, nfs3.NFS3ERR_BAD_COOKIE},
	{vfs.ErrNotSupp, nfs3.NFS3ERR_NOTSUPP},
	{vfs.ErrBadType, nfs3.NFS3ERR_BADTYPE},
	{vfs.ErrJukebox, nfs3.NFS3ERR_JUKEBOX},
	// A call that was cut short has not failed: the client tries again later.
	{context.Canceled, nfs3.NFS3ERR_JUKEBOX},
	{context.DeadlineExceeded, nfs3.NFS3ERR_JUKEBOX},
	{sched.ErrClosed, nfs3.NFS3ERR_JUKEBOX},
}

// status maps an error of a file system.
func status(err error) nfs3.Status {
	if err == nil {
		return nfs3.NFS3_OK
	}
	for i := range statuses {
		if err == statuses[i].err { //nolint:errorlint // the usual case, without a walk of the chain
			return statuses[i].st
		}
	}
	for i := range statuses {
		if errors.Is(err, statuses[i].err) {
			return statuses[i].st
		}
	}
	return nfs3.NFS3ERR_IO
}
