package faults

import (
	"context"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsserver/model"
	"example.org/nfsrdma/nfsserver/vfs"
)

// FS decorates a file system. It lends pages, has a write verifier, flushes and crashes if the one below does.
func (x *Injector) FS(below vfs.FS) vfs.FS {
	f := &fileSystem{FS: below, x: x}
	p, pages := below.(vfs.PageWriter)
	_, verf := below.(vfs.Verifier)
	pf := &pageFS{f, p}
	switch {
	case pages && verf:
		return struct {
			*pageFS
			verifier
		}{pf, verifier{below}}
	case pages:
		return pf
	case verf:
		return struct {
			*fileSystem
			verifier
		}{f, verifier{below}}
	}
	return f
}

type verifier struct{ below vfs.FS }

// WriteVerf implements vfs.Verifier.
func (v verifier) WriteVerf() uint64 { return v.below.(vfs.Verifier).WriteVerf() }

// fileSystem is a file system whose calls may fail or wait.
type fileSystem struct {
	vfs.FS
	x *Injector
}

// call waits as the faults of an operation ask, or fails.
func (f *fileSystem) call(ctx context.Context, op string) error {
	var out error
	var wait sched.Duration
	f.x.at(onFS, event{op: op}, func(st *state) {
		err := vfs.ErrIO
		switch st.Kind {
		case Slow:
			wait += sched.FromStd(st.by())
			return
		case ENOSPC:
			err = vfs.ErrNoSpace
		case Jukebox:
			err = vfs.ErrJukebox
		}
		if out == nil {
			out = &Error{st.Fault, err}
		}
	})
	if wait > 0 {
		if err := f.x.s.Sleep(ctx, wait); err != nil {
			return err
		}
	}
	return out
}

// changes is call for what fills in w.
func (f *fileSystem) changes(ctx context.Context, op string, ws ...*vfs.WCC) error {
	err := f.call(ctx, op)
	if err != nil {
		for _, w := range ws {
			if w != nil {
				*w = vfs.WCC{}
			}
		}
	}
	return err
}

// Attr implements vfs.FS.
func (f *fileSystem) Attr(ctx context.Context, id vfs.ID, a *vfs.Attr) error {
	if err := f.call(ctx, "GETATTR"); err != nil {
		return err
	}
	return f.FS.Attr(ctx, id, a)
}

// SetAttr implements vfs.FS.
func (f *fileSystem) SetAttr(ctx context.Context, id vfs.ID, s *vfs.SetAttr, guard *vfs.Time, w *vfs.WCC) error {
	if err := f.changes(ctx, "SETATTR", w); err != nil {
		return err
	}
	return f.FS.SetAttr(ctx, id, s, guard, w)
}

// Lookup implements vfs.FS.
func (f *fileSystem) Lookup(ctx context.Context, dir vfs.ID, name string, a *vfs.Attr) error {
	if err := f.call(ctx, "LOOKUP"); err != nil {
		return err
	}
	return f.FS.Lookup(ctx, dir, name, a)
}

// ReadLink implements vfs.FS.
func (f *fileSystem) ReadLink(ctx context.Context, id vfs.ID) (string, error) {
	if err := f.call(ctx, "READLINK"); err != nil {
		return "", err
	}
	return f.FS.ReadLink(ctx, id)
}

// Read implements vfs.FS.
func (f *fileSystem) Read(ctx context.Context, id vfs.ID, off uint64, dst []byte, a *vfs.Attr) (int, bool, error) {
	if err := f.call(ctx, "READ"); err != nil {
		return 0, false, err
	}
	return f.FS.Read(ctx, id, off, dst, a)
}

// Write implements vfs.FS.
func (f *fileSystem) Write(ctx context.Context, id vfs.ID, off uint64, src []byte, stable bool, w *vfs.WCC) error {
	if err := f.changes(ctx, "WRITE", w); err != nil {
		return err
	}
	return f.FS.Write(ctx, id, off, src, stable, w)
}

// Commit implements vfs.FS.
func (f *fileSystem) Commit(ctx context.Context, id vfs.ID, off, n uint64, w *vfs.WCC) error {
	if err := f.changes(ctx, "COMMIT", w); err != nil {
		return err
	}
	return f.FS.Commit(ctx, id, off, n, w)
}

// Create implements vfs.FS.
func (f *fileSystem) Create(ctx context.Context, dir vfs.ID, name string, mode vfs.CreateMode, verf uint64, s *vfs.SetAttr, a *vfs.Attr, w *vfs.WCC) error {
	if err := f.changes(ctx, "CREATE", w); err != nil {
		return err
	}
	return f.FS.Create(ctx, dir, name, mode, verf, s, a, w)
}

// Mkdir implements vfs.FS.
func (f *fileSystem) Mkdir(ctx context.Context, dir vfs.ID, name string, s *vfs.SetAttr, a *vfs.Attr, w *vfs.WCC) error {
	if err := f.changes(ctx, "MKDIR", w); err != nil {
		return err
	}
	return f.FS.Mkdir(ctx, dir, name, s, a, w)
}

// Symlink implements vfs.FS.
func (f *fileSystem) Symlink(ctx context.Context, dir vfs.ID, name, target string, s *vfs.SetAttr, a *vfs.Attr, w *vfs.WCC) error {
	if err := f.changes(ctx, "SYMLINK", w); err != nil {
		return err
	}
	return f.FS.Symlink(ctx, dir, name, target, s, a, w)
}

// Mknod implements vfs.FS.
func (f *fileSystem) Mknod(ctx context.Context, dir vfs.ID, name string, spec vfs.MknodSpec, s *vfs.SetAttr, a *vfs.Attr, w *vfs.WCC) error {
	if err := f.changes(ctx, "MKNOD", w); err != nil {
		return err
	}
	return f.FS.Mknod(ctx, dir, name, spec, s, a, w)
}

// Remove implements vfs.FS.
func (f *fileSystem) Remove(ctx context.Context, dir vfs.ID, name string, w *vfs.WCC) error {
	if err := f.changes(ctx, "REMOVE", w); err != nil {
		return err
	}
	return f.FS.Remove(ctx, dir, name, w)
}

// Rmdir implements vfs.FS.
func (f *fileSystem) Rmdir(ctx context.Context, dir vfs.ID, name string, w *vfs.WCC) error {
	if err := f.changes(ctx, "RMDIR", w); err != nil {
		return err
	}
	return f.FS.Rmdir(ctx, dir, name, w)
}

// Rename implements vfs.FS.
func (f *fileSystem) Rename(ctx context.Context, from vfs.ID, fromName string, to vfs.ID, toName string, wfrom, wto *vfs.WCC) error {
	if err := f.changes(ctx, "RENAME", wfrom, wto); err != nil {
		return err
	}
	return f.FS.Rename(ctx, from, fromName, to, toName, wfrom, wto)
}

// Link implements vfs.FS.
func (f *fileSystem) Link(ctx context.Context, id, dir vfs.ID, name string, a *vfs.Attr, w *vfs.WCC) error {
	if err := f.changes(ctx, "LINK", w); err != nil {
		return err
	}
	return f.FS.Link(ctx, id, dir, name, a, w)
}

// ReadDir implements vfs.FS.
func (f *fileSystem) ReadDir(ctx context.Context, dir vfs.ID, cookie, verf uint64, emit func(*vfs.DirEntry) bool) (uint64, bool, error) {
	if err := f.call(ctx, "READDIR"); err != nil {
		return 0, false, err
	}
	return f.FS.ReadDir(ctx, dir, cookie, verf, emit)
}

// Stat implements vfs.FS.
func (f *fileSystem) Stat(ctx context.Context) (vfs.Stat, error) {
	if err := f.call(ctx, "FSSTAT"); err != nil {
		return vfs.Stat{}, err
	}
	return f.FS.Stat(ctx)
}

// Flush implements model.Flusher.
func (f *fileSystem) Flush(ctx context.Context, id vfs.ID, off, n uint64) error {
	if b, ok := f.FS.(model.Flusher); ok {
		return b.Flush(ctx, id, off, n)
	}
	return nil
}

// Crash implements model.Crasher.
func (f *fileSystem) Crash() {
	if c, ok := f.FS.(model.Crasher); ok {
		c.Crash()
	}
}

// pageFS adds the lent pages of the file system below.
type pageFS struct {
	*fileSystem
	pages vfs.PageWriter
}

// ReadPages implements vfs.PageReader.
func (f *pageFS) ReadPages(ctx context.Context, id vfs.ID, off uint64, n int, out *vfs.Pages, a *vfs.Attr) (bool, error) {
	if err := f.call(ctx, "READ"); err != nil {
		return false, err
	}
	return f.pages.ReadPages(ctx, id, off, n, out, a)
}

// ReleasePages implements vfs.PageReader.
func (f *pageFS) ReleasePages(p *vfs.Pages) { f.pages.ReleasePages(p) }

// GrabPages implements vfs.PageWriter.
func (f *pageFS) GrabPages(id vfs.ID, off uint64, n int, out *vfs.Pages) bool {
	return f.pages.GrabPages(id, off, n, out)
}

// WritePages implements vfs.PageWriter. A call that fails takes the pages over, too.
func (f *pageFS) WritePages(ctx context.Context, id vfs.ID, off uint64, p *vfs.Pages, stable bool, w *vfs.WCC) error {
	if err := f.changes(ctx, "WRITE", w); err != nil {
		f.pages.ReleasePages(p)
		return err
	}
	return f.pages.WritePages(ctx, id, off, p, stable, w)
}
