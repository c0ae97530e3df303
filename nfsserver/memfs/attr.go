package memfs

import (
	"context"

	"example.org/nfsrdma/nfsserver/vfs"
)

// Attr fills a with the attributes of id.
func (fs *FS) Attr(_ context.Context, id vfs.ID, a *vfs.Attr) error {
	in := fs.inodes.get(id)
	if in == nil {
		return vfs.ErrStale
	}
	in.mu.RLock()
	defer in.mu.RUnlock()
	if in.dead {
		return vfs.ErrStale
	}
	in.attr(a)
	return nil
}

// SetAttr changes all that s lists or, on an error, nothing.
func (fs *FS) SetAttr(_ context.Context, id vfs.ID, s *vfs.SetAttr, guard *vfs.Time, w *vfs.WCC) error {
	if w != nil {
		*w = vfs.WCC{}
	}
	in := fs.inodes.get(id)
	if in == nil {
		return vfs.ErrStale
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.dead {
		return vfs.ErrStale
	}
	in.before(w)
	if guard != nil && *guard != in.ctime {
		return vfs.ErrNotSync
	}
	if s == nil || *s == (vfs.SetAttr{}) {
		return nil
	}
	if err := fs.checkSetAttr(in.typ, s); err != nil {
		return err
	}
	fs.setAttr(in, s)
	in.after(w)
	return nil
}

func (fs *FS) checkSetAttr(typ vfs.Type, s *vfs.SetAttr) error {
	switch {
	case s.SetSize && typ == vfs.Directory:
		return vfs.ErrIsDir
	case s.SetSize && typ != vfs.Regular:
		return vfs.ErrInval
	case s.SetSize && s.Size > fs.opt.MaxFileSize:
		return vfs.ErrFBig
	case s.AtimeHow == vfs.TimeClient && s.Atime.Nsec >= nsPerSec,
		s.MtimeHow == vfs.TimeClient && s.Mtime.Nsec >= nsPerSec:
		return vfs.ErrInval
	}
	return nil
}

// setAttr applies what checkSetAttr allowed. mu is held.
func (fs *FS) setAttr(in *inode, s *vfs.SetAttr) {
	now := fs.opt.Now()
	if s.SetSize {
		fs.commitAll(in)
		fs.truncate(in, s.Size)
		in.size = s.Size
		in.modified(now)
	} else {
		in.changed(now)
	}
	now = in.ctime
	if s.SetMode {
		in.mode = s.Mode & 0o7777
	}
	if s.SetUID {
		in.uid = s.UID
	}
	if s.SetGID {
		in.gid = s.GID
	}
	if t, ok := newTime(s.AtimeHow, s.Atime, now); ok {
		in.atime.Store(packTime(t))
		in.atimeDue.Store(false)
	}
	if t, ok := newTime(s.MtimeHow, s.Mtime, now); ok {
		in.mtime = t
	}
}

func newTime(how vfs.TimeHow, given, now vfs.Time) (vfs.Time, bool) {
	switch how {
	case vfs.TimeServer:
		return now, true
	case vfs.TimeClient:
		return given, true
	}
	return vfs.Time{}, false
}
