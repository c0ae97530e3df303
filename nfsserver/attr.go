package nfsserver

import (
	"encoding/binary"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/nfsserver/vfs"
)

// fattr converts attributes.
func (e *export) fattr(f *nfs3.Fattr3, a *vfs.Attr) {
	f.Type = nfs3.FType(a.Type) // the values are the same
	f.Mode, f.Nlink, f.UID, f.GID = a.Mode, a.Nlink, a.UID, a.GID
	f.Size, f.Used = a.Size, a.Used
	f.Rdev = nfs3.Spec{Major: a.RdevMajor, Minor: a.RdevMinor}
	f.FSID, f.FileID = uint64(e.FSID), a.ID.Ino
	f.Atime, f.Mtime, f.Ctime = nfs3.Time(a.Atime), nfs3.Time(a.Mtime), nfs3.Time(a.Ctime)
}

// postOp fills p unless a is of no object.
func (e *export) postOp(p *nfs3.PostOpAttr, a *vfs.Attr) {
	if p.Present = a.Type != 0; p.Present {
		e.fattr(&p.Attr, a)
	}
}

// postOpOf fills p with the attributes of id if they are to be had.
func (t *thread) postOpOf(e *export, id vfs.ID, p *nfs3.PostOpAttr) {
	if e == nil {
		return
	}
	t.attr2 = vfs.Attr{}
	if e.FS.Attr(t.ctx, id, &t.attr2) == nil {
		e.postOp(p, &t.attr2)
	}
}

// wccData fills d with what the file system noted.
func (e *export) wccData(d *nfs3.WccData, w *vfs.WCC) {
	if e == nil {
		return
	}
	if d.Before.Present = w.Before.Type != 0; d.Before.Present {
		d.Before.Size = w.Before.Size
		d.Before.Mtime, d.Before.Ctime = nfs3.Time(w.Before.Mtime), nfs3.Time(w.Before.Ctime)
	}
	e.postOp(&d.After, &w.After)
}

// wccOf notes the attributes of an object on which nothing was done.
func wccOf(a *vfs.Attr, w *vfs.WCC) { w.Before, w.After = *a, *a }

// setAttr converts attributes to set.
func setAttr(s *vfs.SetAttr, a *nfs3.Sattr3) {
	*s = vfs.SetAttr{
		SetMode: a.SetMode, SetUID: a.SetUID, SetGID: a.SetGID, SetSize: a.SetSize,
		Mode: a.Mode & 0o7777, UID: a.UID, GID: a.GID, Size: a.Size,
		AtimeHow: vfs.TimeHow(a.AtimeHow), MtimeHow: vfs.TimeHow(a.MtimeHow), // the values are the same
		Atime: vfs.Time(a.Atime), Mtime: vfs.Time(a.Mtime),
	}
}

// own makes the caller the owner of what s will create in dir. Only root gives files away; others get the rest
// of what they ask for.
func (c *cred) own(s *vfs.SetAttr, dir *vfs.Attr, isDir bool) {
	if c.uid != 0 || !s.SetUID {
		s.SetUID, s.UID = true, c.uid
	}
	inherit := dir.Mode&modeSetGID != 0
	if c.uid != 0 && s.SetGID && !c.inGroup(s.GID) {
		s.SetGID = false
	}
	if !s.SetGID {
		s.SetGID, s.GID = true, c.gid
		if inherit {
			s.GID = dir.GID
		}
	}
	switch {
	case isDir && inherit && s.SetMode:
		s.Mode |= modeSetGID
	case !isDir && s.SetMode && c.uid != 0 && !c.inGroup(s.GID):
		s.Mode &^= modeSetGID
	}
}

func putVerf(v *nfs3.Verf, n uint64) { binary.BigEndian.PutUint64(v[:], n) }
func verfOf(v *nfs3.Verf) uint64     { return binary.BigEndian.Uint64(v[:]) }
func (s *Server) writeVerf(e *export) (v nfs3.Verf) {
	n := s.verf
	if e.verf != nil {
		n += e.verf()
	}
	putVerf(&v, n)
	return v
}
