package nfsserver

import (
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/nfsserver/vfs"
)

func (t *thread) mkdir(args, b []byte) ([]byte, bool) {
	var a nfs3.MkdirArgs
	if _, err := nfs3.ConsumeMkdirArgs(args, &a); err != nil {
		return b, false
	}
	var res nfs3.MkdirRes
	res.Status = t.make(&a.Where, &a.Attr, true, &res.Object, &res.ObjAttr, &res.DirWcc, func(e *export, dir vfs.ID, name string) error {
		return e.FS.Mkdir(t.ctx, dir, name, &t.set, &t.attr2, &t.wcc)
	})
	return nfs3.AppendMkdirRes(b, &res), true
}
