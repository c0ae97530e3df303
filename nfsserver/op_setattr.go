package nfsserver

import (
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/nfsserver/vfs"
)

func (t *thread) setattr(args, b []byte) ([]byte, bool) {
	var a nfs3.SetattrArgs
	if _, err := nfs3.ConsumeSetattrArgs(args, &a); err != nil {
		return b, false
	}
	var res nfs3.SetattrRes
	e, id, st := t.resolve(&a.Object)
	if st == nfs3.NFS3_OK {
		t.wcc = vfs.WCC{}
		st = t.setattrOn(e, id, &a)
		e.wccData(&res.ObjWcc, &t.wcc)
	}
	res.Status = st
	return nfs3.AppendSetattrRes(b, &res), true
}

func (t *thread) setattrOn(e *export, id vfs.ID, a *nfs3.SetattrArgs) nfs3.Status {
	if err := e.FS.Attr(t.ctx, id, &t.attr); err != nil {
		return status(err)
	}
	wccOf(&t.attr, &t.wcc)
	if e.ro {
		return nfs3.NFS3ERR_ROFS
	}
	setAttr(&t.set, &a.Attr)
	if st := t.cred.maySet(&t.attr, &t.set); st != nfs3.NFS3_OK {
		return st
	}
	var guard *vfs.Time
	if a.Guard {
		t.guard = vfs.Time(a.GuardCtime)
		guard = &t.guard
	}
	return status(e.FS.SetAttr(t.ctx, id, &t.set, guard, &t.wcc))
}

// maySet checks a change of attributes, and takes the set-ID bits away that the caller may not leave or set.
func (c *cred) maySet(a *vfs.Attr, s *vfs.SetAttr) nfs3.Status {
	if c.uid == 0 {
		return nfs3.NFS3_OK
	}
	owner := c.uid == a.UID
	chown := s.SetUID && s.UID != a.UID
	chgrp := s.SetGID && s.GID != a.GID
	switch {
	case s.SetMode && !owner,
		chown,
		chgrp && (!owner || !c.inGroup(s.GID)),
		s.AtimeHow == vfs.TimeClient && !owner, s.MtimeHow == vfs.TimeClient && !owner:
		return nfs3.NFS3ERR_PERM
	case (s.AtimeHow == vfs.TimeServer || s.MtimeHow == vfs.TimeServer) && !owner && c.perms(a)&mayWrite == 0,
		s.SetSize && !c.mayWriteFile(a):
		return nfs3.NFS3ERR_ACCES
	}
	gid := a.GID
	if s.SetGID {
		gid = s.GID
	}
	if s.SetMode && !c.inGroup(gid) && a.Type != vfs.Directory {
		s.Mode &^= modeSetGID
	}
	if (chgrp || s.SetSize) && a.Type == vfs.Regular && a.Mode&(modeSetUID|modeSetGID) != 0 {
		if !s.SetMode {
			s.SetMode, s.Mode = true, a.Mode
		}
		s.Mode &^= modeSetUID | modeSetGID
	}
	return nfs3.NFS3_OK
}
