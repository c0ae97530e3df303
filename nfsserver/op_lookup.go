package nfsserver

import (
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/nfsserver/vfs"
)

func (t *thread) lookup(args, b []byte) ([]byte, bool) {
	var a nfs3.LookupArgs
	if _, err := nfs3.ConsumeLookupArgs(args, &a); err != nil {
		return b, false
	}
	var res nfs3.LookupRes
	e, dir, st := t.resolve(&a.What.Dir)
	if st == nfs3.NFS3_OK {
		st = t.lookupIn(e, dir, a.What.Name, &res)
	}
	res.Status = st
	return nfs3.AppendLookupRes(b, &res), true
}

func (t *thread) lookupIn(e *export, dir vfs.ID, name []byte, res *nfs3.LookupRes) nfs3.Status {
	t.attr = vfs.Attr{}
	st := t.checkDir(e, dir, false, &t.attr)
	e.postOp(&res.DirAttr, &t.attr)
	if st != nfs3.NFS3_OK {
		return st
	}
	if st := e.checkName(name); st != nfs3.NFS3_OK {
		return st
	}
	if err := e.FS.Lookup(t.ctx, dir, string(name), &t.attr2); err != nil {
		return status(err)
	}
	res.Object = e.handle(t.attr2.ID)
	e.postOp(&res.ObjAttr, &t.attr2)
	return nfs3.NFS3_OK
}
