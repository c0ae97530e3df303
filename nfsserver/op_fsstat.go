package nfsserver

import "example.org/nfsrdma/internal/nfs3"

func (t *thread) fsstat(args, b []byte) ([]byte, bool) {
	var a nfs3.FsstatArgs
	if _, err := nfs3.ConsumeFsstatArgs(args, &a); err != nil {
		return b, false
	}
	var res nfs3.FsstatRes
	e, id, st := t.resolve(&a.Root)
	if st == nfs3.NFS3_OK {
		if st = status(e.FS.Attr(t.ctx, id, &t.attr)); st == nfs3.NFS3_OK {
			e.postOp(&res.ObjAttr, &t.attr)
			s, err := e.FS.Stat(t.ctx)
			st = status(err)
			res.TotalBytes, res.FreeBytes, res.AvailBytes = s.TotalBytes, s.FreeBytes, s.AvailBytes
			res.TotalFiles, res.FreeFiles, res.AvailFiles = s.TotalFiles, s.FreeFiles, s.AvailFiles
		}
	}
	res.Status = st
	return nfs3.AppendFsstatRes(b, &res), true
}
