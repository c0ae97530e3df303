package nfsserver

import (
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/nfsserver/vfs"
)

func (t *thread) remove(args, b []byte) ([]byte, bool) {
	var a nfs3.RemoveArgs
	if _, err := nfs3.ConsumeRemoveArgs(args, &a); err != nil {
		return b, false
	}
	var res nfs3.RemoveRes
	res.Status = t.unlink(&a.Object, &res.DirWcc, func(e *export, dir vfs.ID, name string) error {
		return e.FS.Remove(t.ctx, dir, name, &t.wcc)
	})
	return nfs3.AppendRemoveRes(b, &res), true
}

// unlink does what REMOVE and RMDIR have in common. f removes the name and fills t.wcc.
func (t *thread) unlink(what *nfs3.DirOp, dirWcc *nfs3.WccData, f func(e *export, dir vfs.ID, name string) error) nfs3.Status {
	e, dir, st := t.resolve(&what.Dir)
	if st != nfs3.NFS3_OK {
		return st
	}
	t.wcc, t.attr = vfs.WCC{}, vfs.Attr{}
	st = t.checkDir(e, dir, true, &t.attr)
	if st == nfs3.NFS3_OK {
		st = e.checkName(what.Name)
	}
	wccOf(&t.attr, &t.wcc)
	if st == nfs3.NFS3_OK {
		name := string(what.Name)
		if st = t.checkDelete(e, dir, name); st == nfs3.NFS3_OK {
			st = status(f(e, dir, name))
		}
	}
	e.wccData(dirWcc, &t.wcc)
	return st
}

// checkDelete checks the sticky bit of dir, whose attributes are in t.attr.
func (t *thread) checkDelete(e *export, dir vfs.ID, name string) nfs3.Status {
	if t.attr.Mode&modeSticky == 0 || t.cred.uid == 0 || isDots([]byte(name)) {
		return nfs3.NFS3_OK
	}
	if err := e.FS.Lookup(t.ctx, dir, name, &t.attr2); err != nil {
		return status(err)
	}
	if !t.cred.mayDelete(&t.attr, &t.attr2) {
		return nfs3.NFS3ERR_PERM
	}
	return nfs3.NFS3_OK
}
