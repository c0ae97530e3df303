package nfsserver

import (
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/nfsserver/vfs"
)

// Permission bits, as in one class of a mode.
const (
	mayExec  = 1
	mayWrite = 2
	mayRead  = 4

	modeSetUID = 0o4000
	modeSetGID = 0o2000
	modeSticky = 0o1000
)

// perms gives what the caller may do with an object. Root may do all, but execute only what somebody may.
func (c *cred) perms(a *vfs.Attr) uint32 {
	switch {
	case c.uid == 0:
		if a.Type != vfs.Directory && a.Mode&0o111 == 0 {
			return mayRead | mayWrite
		}
		return mayRead | mayWrite | mayExec
	case c.uid == a.UID:
		return a.Mode >> 6 & 7
	case c.inGroup(a.GID):
		return a.Mode >> 3 & 7
	}
	return a.Mode & 7
}

// mayReadFile allows also the owner, who may have opened the file before its mode changed, and who may execute it,
// since that means reading it (RFC 1813 section 4.4).
func (c *cred) mayReadFile(a *vfs.Attr) bool {
	return c.uid == a.UID || c.perms(a)&(mayRead|mayExec) != 0
}

// mayWriteFile allows also the owner.
func (c *cred) mayWriteFile(a *vfs.Attr) bool {
	return c.uid == a.UID || c.perms(a)&mayWrite != 0
}

// mayDelete checks the sticky bit of a directory that the caller may write.
func (c *cred) mayDelete(dir, victim *vfs.Attr) bool {
	return dir.Mode&modeSticky == 0 || c.uid == 0 || c.uid == dir.UID || c.uid == victim.UID
}

// checkDir fills a and says whether the caller may search dir, and change it if change is set.
func (t *thread) checkDir(e *export, dir vfs.ID, change bool, a *vfs.Attr) nfs3.Status {
	if err := e.FS.Attr(t.ctx, dir, a); err != nil {
		return status(err)
	}
	want := uint32(mayExec)
	if change {
		want |= mayWrite
	}
	switch {
	case a.Type != vfs.Directory:
		return nfs3.NFS3ERR_NOTDIR
	case t.cred.perms(a)&want != want:
		return nfs3.NFS3ERR_ACCES
	case change && e.ro:
		return nfs3.NFS3ERR_ROFS
	}
	return nfs3.NFS3_OK
}

// checkName checks a name that may stand in a directory.
func (e *export) checkName(name []byte) nfs3.Status {
	switch {
	case len(name) == 0:
		return nfs3.NFS3ERR_ACCES
	case uint64(len(name)) > uint64(e.maxLen):
		return nfs3.NFS3ERR_NAMETOOLONG
	}
	for _, b := range name {
		if b == 0 || b == '/' {
			return nfs3.NFS3ERR_ACCES
		}
	}
	return nfs3.NFS3_OK
}

func isDots(name []byte) bool { return string(name) == "." || string(name) == ".." }
