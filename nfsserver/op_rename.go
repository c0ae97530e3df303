package nfsserver

import (
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/nfsserver/vfs"
)

func (t *thread) rename(args, b []byte) ([]byte, bool) {
	var a nfs3.RenameArgs
	if _, err := nfs3.ConsumeRenameArgs(args, &a); err != nil {
		return b, false
	}
	var res nfs3.RenameRes
	res.Status = t.renameTo(&a, &res)
	return nfs3.AppendRenameRes(b, &res), true
}

func (t *thread) renameTo(a *nfs3.RenameArgs, res *nfs3.RenameRes) nfs3.Status {
	from, fromDir, st := t.resolve(&a.From.Dir)
	if st != nfs3.NFS3_OK {
		return st
	}
	to, toDir, st := t.srv.decode(&a.To.Dir)
	if st != nfs3.NFS3_OK {
		return st
	}
	if from != to {
		return nfs3.NFS3ERR_XDEV
	}
	e := from
	t.wcc, t.wcc2 = vfs.WCC{}, vfs.WCC{}
	st = t.renameIn(e, fromDir, toDir, a)
	e.wccData(&res.FromDirWcc, &t.wcc)
	e.wccData(&res.ToDirWcc, &t.wcc2)
	return st
}

func (t *thread) renameIn(e *export, fromDir, toDir vfs.ID, a *nfs3.RenameArgs) nfs3.Status {
	t.attr = vfs.Attr{}
	st := t.checkDir(e, toDir, true, &t.attr)
	wccOf(&t.attr, &t.wcc2)
	if st == nfs3.NFS3_OK {
		st = e.checkName(a.To.Name)
	}
	toName := string(a.To.Name)
	if st == nfs3.NFS3_OK {
		if st = t.checkDelete(e, toDir, toName); st == nfs3.NFS3ERR_NOENT {
			st = nfs3.NFS3_OK // nothing is replaced
		}
	}
	t.attr = vfs.Attr{}
	st2 := t.checkDir(e, fromDir, true, &t.attr)
	wccOf(&t.attr, &t.wcc)
	if st == nfs3.NFS3_OK {
		st = st2
	}
	if st == nfs3.NFS3_OK {
		st = e.checkName(a.From.Name)
	}
	fromName := string(a.From.Name)
	if st == nfs3.NFS3_OK {
		st = t.checkDelete(e, fromDir, fromName)
	}
	if st == nfs3.NFS3_OK && fromDir != toDir && t.cred.uid != 0 {
		// A directory's ".." changes, which is to write it.
		if e.FS.Lookup(t.ctx, fromDir, fromName, &t.attr2) == nil && t.attr2.Type == vfs.Directory && t.cred.perms(&t.attr2)&mayWrite == 0 {
			st = nfs3.NFS3ERR_ACCES
		}
	}
	if st != nfs3.NFS3_OK {
		return st
	}
	return status(e.FS.Rename(t.ctx, fromDir, fromName, toDir, toName, &t.wcc, &t.wcc2))
}
