package nfsserver

import (
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/nfsserver/vfs"
)

func (t *thread) commit(args, b []byte) ([]byte, bool) {
	var a nfs3.CommitArgs
	if _, err := nfs3.ConsumeCommitArgs(args, &a); err != nil {
		return b, false
	}
	var res nfs3.CommitRes
	e, id, st := t.resolve(&a.File)
	if st == nfs3.NFS3_OK {
		t.wcc = vfs.WCC{}
		st = t.mayWrite(e, id)
		if st == nfs3.NFS3_OK {
			st = status(e.FS.Commit(t.ctx, id, a.Offset, uint64(a.Count), &t.wcc))
		}
		// Of the time after: data lost before the file system committed must not count as committed.
		res.Verf = t.srv.writeVerf(e)
		e.wccData(&res.FileWcc, &t.wcc)
	}
	res.Status = st
	return nfs3.AppendCommitRes(b, &res), true
}
