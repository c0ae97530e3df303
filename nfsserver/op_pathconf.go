package nfsserver

import "example.org/nfsrdma/internal/nfs3"

func (t *thread) pathconf(args, b []byte) ([]byte, bool) {
	var a nfs3.PathconfArgs
	if _, err := nfs3.ConsumePathconfArgs(args, &a); err != nil {
		return b, false
	}
	var res nfs3.PathconfRes
	e, id, st := t.resolve(&a.Object)
	if st == nfs3.NFS3_OK {
		if st = status(e.FS.Attr(t.ctx, id, &t.attr)); st == nfs3.NFS3_OK {
			e.postOp(&res.ObjAttr, &t.attr)
			res.LinkMax, res.NameMax = e.info.MaxLink, e.maxLen
			res.NoTrunc, res.ChownRestricted = true, true
			res.CaseInsensitive, res.CasePreserving = e.info.CaseFold, true
		}
	}
	res.Status = st
	return nfs3.AppendPathconfRes(b, &res), true
}
