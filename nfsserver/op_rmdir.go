package nfsserver

import (
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/nfsserver/vfs"
)

func (t *thread) rmdir(args, b []byte) ([]byte, bool) {
	var a nfs3.RmdirArgs
	if _, err := nfs3.ConsumeRmdirArgs(args, &a); err != nil {
		return b, false
	}
	var res nfs3.RmdirRes
	res.Status = t.unlink(&a.Object, &res.DirWcc, func(e *export, dir vfs.ID, name string) error {
		return e.FS.Rmdir(t.ctx, dir, name, &t.wcc)
	})
	return nfs3.AppendRmdirRes(b, &res), true
}
