package nfsserver

import "example.org/nfsrdma/internal/nfs3"

func (t *thread) getattr(args, b []byte) ([]byte, bool) {
	var a nfs3.GetattrArgs
	if _, err := nfs3.ConsumeGetattrArgs(args, &a); err != nil {
		return b, false
	}
	var res nfs3.GetattrRes
	e, id, st := t.resolve(&a.Object)
	if st == nfs3.NFS3_OK {
		if st = status(e.FS.Attr(t.ctx, id, &t.attr)); st == nfs3.NFS3_OK {
			e.fattr(&res.Attr, &t.attr)
		}
	}
	res.Status = st
	return nfs3.AppendGetattrRes(b, &res), true
}
