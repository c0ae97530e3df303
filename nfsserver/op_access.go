package nfsserver

import (
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/nfsserver/vfs"
)

func (t *thread) access(args, b []byte) ([]byte, bool) {
	var a nfs3.AccessArgs
	if _, err := nfs3.ConsumeAccessArgs(args, &a); err != nil {
		return b, false
	}
	var res nfs3.AccessRes
	e, id, st := t.resolve(&a.Object)
	if st == nfs3.NFS3_OK {
		if st = status(e.FS.Attr(t.ctx, id, &t.attr)); st == nfs3.NFS3_OK {
			e.postOp(&res.ObjAttr, &t.attr)
			res.Access = a.Access & t.cred.accessBits(&t.attr, e.ro)
		}
	}
	res.Status = st
	return nfs3.AppendAccessRes(b, &res), true
}

// accessBits gives all ACCESS3 bits that the caller has.
func (c *cred) accessBits(a *vfs.Attr, ro bool) uint32 {
	p := c.perms(a)
	var bits uint32
	if p&mayRead != 0 {
		bits |= nfs3.ACCESS3_READ
	}
	if p&mayWrite != 0 && (!ro || a.Type == vfs.Block || a.Type == vfs.Char || a.Type == vfs.FIFO || a.Type == vfs.Socket) {
		bits |= nfs3.ACCESS3_MODIFY | nfs3.ACCESS3_EXTEND
		if a.Type == vfs.Directory {
			bits |= nfs3.ACCESS3_DELETE
		}
	}
	if p&mayExec != 0 {
		if a.Type == vfs.Directory {
			bits |= nfs3.ACCESS3_LOOKUP
		} else {
			bits |= nfs3.ACCESS3_EXECUTE
		}
	}
	return bits
}
