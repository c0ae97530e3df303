package nfsserver

import (
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/nfsserver/vfs"
)

func (t *thread) mknod(args, b []byte) ([]byte, bool) {
	var a nfs3.MknodArgs
	if _, err := nfs3.ConsumeMknodArgs(args, &a); err != nil {
		return b, false
	}
	var res nfs3.MknodRes
	res.Status = t.make(&a.Where, &a.Attr, false, &res.Object, &res.ObjAttr, &res.DirWcc, func(e *export, dir vfs.ID, name string) error {
		switch a.Type {
		case nfs3.NF3CHR, nfs3.NF3BLK:
			if t.cred.uid != 0 {
				return vfs.ErrPerm
			}
		case nfs3.NF3SOCK, nfs3.NF3FIFO:
		default:
			return vfs.ErrBadType
		}
		spec := vfs.MknodSpec{Type: vfs.Type(a.Type), RdevMajor: a.Spec.Major, RdevMinor: a.Spec.Minor}
		return e.FS.Mknod(t.ctx, dir, name, spec, &t.set, &t.attr2, &t.wcc)
	})
	return nfs3.AppendMknodRes(b, &res), true
}
