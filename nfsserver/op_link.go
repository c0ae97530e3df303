package nfsserver

import (
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/nfsserver/vfs"
)

func (t *thread) link(args, b []byte) ([]byte, bool) {
	var a nfs3.LinkArgs
	if _, err := nfs3.ConsumeLinkArgs(args, &a); err != nil {
		return b, false
	}
	var res nfs3.LinkRes
	res.Status = t.linkTo(&a, &res)
	return nfs3.AppendLinkRes(b, &res), true
}

func (t *thread) linkTo(a *nfs3.LinkArgs, res *nfs3.LinkRes) nfs3.Status {
	e, id, st := t.resolve(&a.File)
	if st != nfs3.NFS3_OK {
		return st
	}
	to, dir, st := t.srv.decode(&a.Link.Dir)
	if st != nfs3.NFS3_OK {
		return st
	}
	if e != to {
		return nfs3.NFS3ERR_XDEV
	}
	t.wcc, t.attr, t.attr2 = vfs.WCC{}, vfs.Attr{}, vfs.Attr{}
	st = t.checkDir(e, dir, true, &t.attr)
	wccOf(&t.attr, &t.wcc)
	if st == nfs3.NFS3_OK {
		st = e.checkName(a.Link.Name)
	}
	if st == nfs3.NFS3_OK {
		st = status(e.FS.Link(t.ctx, id, dir, string(a.Link.Name), &t.attr2, &t.wcc))
	}
	e.wccData(&res.LinkDirWcc, &t.wcc)
	if st == nfs3.NFS3_OK {
		e.postOp(&res.Attr, &t.attr2)
	} else {
		t.postOpOf(e, id, &res.Attr)
	}
	return st
}
