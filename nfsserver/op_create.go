package nfsserver

import (
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/nfsserver/vfs"
)

func (t *thread) create(args, b []byte) ([]byte, bool) {
	var a nfs3.CreateArgs
	if _, err := nfs3.ConsumeCreateArgs(args, &a); err != nil {
		return b, false
	}
	var res nfs3.CreateRes
	res.Status = t.make(&a.Where, &a.Attr, false, &res.Object, &res.ObjAttr, &res.DirWcc, func(e *export, dir vfs.ID, name string) error {
		mode, verf := vfs.CreateMode(a.Mode), uint64(0) // the values are the same
		if mode == vfs.Exclusive {
			verf = verfOf(&a.Verf)
		}
		if mode == vfs.Unchecked && t.set.SetSize {
			// What exists will be truncated, which needs the right to write it.
			if e.FS.Lookup(t.ctx, dir, name, &t.attr2) == nil && t.attr2.Type == vfs.Regular && !t.cred.mayWriteFile(&t.attr2) {
				return vfs.ErrAccess
			}
		}
		return e.FS.Create(t.ctx, dir, name, mode, verf, &t.set, &t.attr2, &t.wcc)
	})
	return nfs3.AppendCreateRes(b, &res), true
}

// make does what the procedures that make an object have in common. f makes it, with t.set, and
// fills t.attr2 and t.wcc.
func (t *thread) make(where *nfs3.DirOp, attr *nfs3.Sattr3, isDir bool, fh *nfs3.PostOpFH, obj *nfs3.PostOpAttr, dirWcc *nfs3.WccData,
	f func(e *export, dir vfs.ID, name string) error) nfs3.Status {
	e, dir, st := t.resolve(&where.Dir)
	if st != nfs3.NFS3_OK {
		return st
	}
	t.wcc, t.attr, t.attr2 = vfs.WCC{}, vfs.Attr{}, vfs.Attr{}
	st = t.checkDir(e, dir, true, &t.attr)
	if st == nfs3.NFS3_OK {
		st = e.checkName(where.Name)
	}
	wccOf(&t.attr, &t.wcc)
	if st == nfs3.NFS3_OK {
		setAttr(&t.set, attr)
		t.cred.own(&t.set, &t.attr, isDir)
		st = status(f(e, dir, string(where.Name)))
	}
	e.wccData(dirWcc, &t.wcc)
	if st != nfs3.NFS3_OK {
		return st
	}
	fh.Present, fh.FH = true, e.handle(t.attr2.ID)
	e.postOp(obj, &t.attr2)
	return st
}
