package model

import (
	"context"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsserver/vfs"
)

// Flusher writes back dirty data of a range, n 0 up to the end of the file, and waits for it, but does not make it
// durable as Commit does (filemap_fdatawrite_range, filemap_fdatawait_range). A decorator passes it on.
type Flusher interface {
	Flush(ctx context.Context, id vfs.ID, off, n uint64) error
}

// Crasher loses what is not durable, as the crash of a server does. A decorator passes it on.
type Crasher interface{ Crash() }

// Levels of the meters.
const (
	levelCommitLock = sched.LevelLock
	levelDirty      = sched.LevelLock + 1
	levelInodeLock  = sched.LevelLock + 2
	levelJournal    = sched.LevelDisk
	levelDisk       = sched.LevelDisk + 1
)

// maxMeters bounds how many objects of a kind, such as the locks of files, have a meter of their own.
const maxMeters = 64

// call is a READ or WRITE.
type call struct {
	id     vfs.ID
	off    uint64
	n      int
	stable bool
}

// gate is what a decorator does about a call.
type gate interface {
	// beginWrite may wait. Without an error, endWrite follows when the call below has returned, ok if it
	// succeeded; it does not wait. settleWrite follows that if ok, and may wait.
	beginWrite(ctx context.Context, c call) error
	endWrite(c call, ok bool)
	settleWrite(ctx context.Context, c call) error
	beginRead(ctx context.Context, c call) error

	commit(ctx context.Context, id vfs.ID, off, n uint64, w *vfs.WCC) error
	flush(ctx context.Context, id vfs.ID, off, n uint64) error
	truncated(id vfs.ID, size uint64)
	named(id vfs.ID, name string) // a file, by which reports call it
	crash()
}

// open is a gate that lets everything pass.
type open struct {
	s     *sched.Sched
	below vfs.FS
}

func (*open) beginWrite(context.Context, call) error  { return nil }
func (*open) endWrite(call, bool)                     {}
func (*open) settleWrite(context.Context, call) error { return nil }
func (*open) beginRead(context.Context, call) error   { return nil }
func (*open) truncated(vfs.ID, uint64)                {}
func (*open) named(vfs.ID, string)                    {}
func (*open) crash()                                  {}

func (o *open) commit(ctx context.Context, id vfs.ID, off, n uint64, w *vfs.WCC) error {
	return o.below.Commit(ctx, id, off, n, w)
}

func (o *open) flush(ctx context.Context, id vfs.ID, off, n uint64) error {
	if f, ok := o.below.(Flusher); ok {
		return f.Flush(ctx, id, off, n)
	}
	return nil
}

// decorate puts g before fs. The result lends pages if fs does.
func decorate(fs vfs.FS, g gate) vfs.FS {
	d := &decorator{FS: fs, g: g}
	if p, ok := fs.(vfs.PageWriter); ok {
		return &pageDecorator{d, p}
	}
	return d
}

// decorator is a file system behind a gate.
type decorator struct {
	vfs.FS
	g gate
}

// write runs the call below between the gate's beginning and end.
func (d *decorator) write(ctx context.Context, c call, below func() error) error {
	if err := d.g.beginWrite(ctx, c); err != nil {
		return err
	}
	if err := d.between(c, below); err != nil {
		return err
	}
	return d.g.settleWrite(ctx, c)
}

func (d *decorator) between(c call, below func() error) (err error) {
	ok := false
	defer func() { d.g.endWrite(c, ok) }()
	err = below()
	ok = err == nil
	return err
}

// Write implements vfs.FS.
func (d *decorator) Write(ctx context.Context, id vfs.ID, off uint64, src []byte, stable bool, w *vfs.WCC) error {
	return d.write(ctx, call{id, off, len(src), stable}, func() error { return d.FS.Write(ctx, id, off, src, stable, w) })
}

// Read implements vfs.FS.
func (d *decorator) Read(ctx context.Context, id vfs.ID, off uint64, dst []byte, a *vfs.Attr) (int, bool, error) {
	if err := d.g.beginRead(ctx, call{id: id, off: off, n: len(dst)}); err != nil {
		return 0, false, err
	}
	return d.FS.Read(ctx, id, off, dst, a)
}

// Lookup implements vfs.FS.
func (d *decorator) Lookup(ctx context.Context, dir vfs.ID, name string, a *vfs.Attr) error {
	err := d.FS.Lookup(ctx, dir, name, a)
	d.name(dir, name, a, err)
	return err
}

// Create implements vfs.FS.
func (d *decorator) Create(ctx context.Context, dir vfs.ID, name string, mode vfs.CreateMode, verf uint64, s *vfs.SetAttr, a *vfs.Attr, w *vfs.WCC) error {
	err := d.FS.Create(ctx, dir, name, mode, verf, s, a, w)
	d.name(dir, name, a, err)
	return err
}

func (d *decorator) name(dir vfs.ID, name string, a *vfs.Attr, err error) {
	if err != nil || a == nil || a.Type != vfs.Regular {
		return
	}
	if dir == d.FS.Root() {
		name = "/" + name
	}
	d.g.named(a.ID, name)
}

// SetAttr implements vfs.FS.
func (d *decorator) SetAttr(ctx context.Context, id vfs.ID, s *vfs.SetAttr, guard *vfs.Time, w *vfs.WCC) error {
	err := d.FS.SetAttr(ctx, id, s, guard, w)
	if err == nil && s != nil && s.SetSize {
		d.g.truncated(id, s.Size)
	}
	return err
}

// Commit implements vfs.FS.
func (d *decorator) Commit(ctx context.Context, id vfs.ID, off, n uint64, w *vfs.WCC) error {
	return d.g.commit(ctx, id, off, n, w)
}

// Flush implements Flusher.
func (d *decorator) Flush(ctx context.Context, id vfs.ID, off, n uint64) error {
	return d.g.flush(ctx, id, off, n)
}

// Crash implements Crasher.
func (d *decorator) Crash() {
	d.g.crash()
	if c, ok := d.FS.(Crasher); ok {
		c.Crash()
	}
}

// WriteVerf implements vfs.Verifier, for a file system that has one.
func (d *decorator) WriteVerf() uint64 {
	if v, ok := d.FS.(vfs.Verifier); ok {
		return v.WriteVerf()
	}
	return 0
}

// pageDecorator adds the lent pages of the file system below.
type pageDecorator struct {
	*decorator
	pages vfs.PageWriter
}

func (d *pageDecorator) ReadPages(ctx context.Context, id vfs.ID, off uint64, n int, out *vfs.Pages, a *vfs.Attr) (bool, error) {
	if err := d.g.beginRead(ctx, call{id: id, off: off, n: n}); err != nil {
		return false, err
	}
	return d.pages.ReadPages(ctx, id, off, n, out, a)
}

func (d *pageDecorator) ReleasePages(p *vfs.Pages) { d.pages.ReleasePages(p) }

func (d *pageDecorator) GrabPages(id vfs.ID, off uint64, n int, out *vfs.Pages) bool {
	return d.pages.GrabPages(id, off, n, out)
}

// WritePages takes the pages over also when the call does not get as far as the file system.
func (d *pageDecorator) WritePages(ctx context.Context, id vfs.ID, off uint64, p *vfs.Pages, stable bool, w *vfs.WCC) error {
	ran := false
	err := d.write(ctx, call{id, off, p.Len(), stable}, func() error {
		ran = true
		return d.pages.WritePages(ctx, id, off, p, stable, w)
	})
	if !ran {
		d.pages.ReleasePages(p)
	}
	return err
}
