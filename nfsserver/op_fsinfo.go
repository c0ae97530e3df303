package nfsserver

import "example.org/nfsrdma/internal/nfs3"

func (t *thread) fsinfo(args, b []byte) ([]byte, bool) {
	var a nfs3.FsinfoArgs
	if _, err := nfs3.ConsumeFsinfoArgs(args, &a); err != nil {
		return b, false
	}
	var res nfs3.FsinfoRes
	e, id, st := t.resolve(&a.Root)
	if st == nfs3.NFS3_OK {
		if st = status(e.FS.Attr(t.ctx, id, &t.attr)); st == nfs3.NFS3_OK {
			e.postOp(&res.ObjAttr, &t.attr)
			t.srv.limits(e, &res)
		}
	}
	res.Status = st
	return nfs3.AppendFsinfoRes(b, &res), true
}

func (s *Server) limits(e *export, res *nfs3.FsinfoRes) {
	most := uint32(s.cfg.MaxPayload)
	res.RtMax, res.RtPref, res.RtMult = most, most, 4096
	res.WtMax, res.WtPref, res.WtMult = most, most, 4096
	res.DtPref = most
	res.MaxFileSize = e.info.MaxFileSize
	res.TimeDelta = nfs3.Time(e.info.TimeDelta)
	res.Properties = nfs3.FSF3_HOMOGENEOUS | nfs3.FSF3_CANSETTIME
	if e.info.HasHardLinks {
		res.Properties |= nfs3.FSF3_LINK
	}
	if e.info.HasSymlinks {
		res.Properties |= nfs3.FSF3_SYMLINK
	}
}
