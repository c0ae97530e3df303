package fabric

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/nfsserver/vfs"
)

// chaosTask makes one call after another in a directory of its own, and knows what must come of them.
type chaosTask struct {
	c     *chaos
	r     *rand.Rand
	dir   string
	fh    nfsclient.FH
	names chaosNames

	data    *chaosFile // cells
	made    bool       // the file is there
	dfh     nfsclient.FH
	file    *nfsclient.File // nil: by procedures
	pending []pendingWrite  // unstable
}

// pendingWrite is an acknowledged unstable WRITE.
type pendingWrite struct {
	v        uint32
	from, to int
	verf     nfsclient.Verf
}

func newChaosTask(c *chaos, i int) *chaosTask {
	dir := fmt.Sprintf("t%d", i)
	return &chaosTask{
		c: c, dir: dir, r: rand.New(rand.NewPCG(c.f.params.Seed, uint64(i)+1)),
		names: chaosNames{dir: dir, poss: map[string][]uint64{}, murky: map[string]bool{}, files: map[uint64]*chaosFile{}},
	}
}

// judge says what the end of a call says of its effect, and whether it is one that there may be.
func (t *chaosTask) judge(what string, err error) (settled bool) {
	c := t.c
	c.mu.Lock()
	c.rep.Calls++
	if err != nil {
		c.rep.Failed++
	}
	c.mu.Unlock()
	if err == nil {
		return true
	}
	var st *nfsclient.Error
	if !errors.As(err, &st) {
		if sched.Ended(err) {
			c.violated(fmt.Errorf("%s/%s: hang: %w", t.dir, what, err))
		}
		return false
	}
	switch st.Status {
	case nfsclient.NFS3ERR_IO, nfsclient.NFS3ERR_NOSPC: // injected
	case nfsclient.NFS3ERR_JUKEBOX: // try again later
	case nfsclient.NFS3ERR_SERVERFAULT:
		if !c.plan.serverFails {
			c.violated(fmt.Errorf("%s/%s: %w: nothing explains it", t.dir, what, err))
		}
	case nfsclient.NFS3ERR_NOENT, nfsclient.NFS3ERR_EXIST, nfsclient.NFS3ERR_STALE:
		// Retransmitted to a server that has forgotten the first call, or after one that may come late.
		if !c.plan.crash && !c.plan.soft {
			c.violated(fmt.Errorf("%s/%s: %w: nothing explains it", t.dir, what, err))
		}
	default:
		c.violated(fmt.Errorf("%s/%s: %w: nothing explains it", t.dir, what, err))
	}
	return true
}

// unknown is the outcome of a call that ended with an error.
func unknown(settled bool) outcome {
	if settled {
		return maybe
	}
	return late
}

// retry makes a call of the preparation until it succeeds: there are not faults without end.
func (t *chaosTask) retry(ctx context.Context, what string, f func() error) bool {
	for range 100 {
		err := f()
		if err == nil {
			return true
		}
		if sched.Ended(err) {
			t.judge(what, err)
			return false
		}
		if t.c.f.Sleep(ctx, 2*time.Millisecond) != nil {
			return false
		}
	}
	if !t.c.plan.remove {
		t.c.violated(fmt.Errorf("%s/%s: fails again and again", t.dir, what))
	}
	return false
}

func (t *chaosTask) run(ctx context.Context) {
	c := t.c
	if !t.retry(ctx, "MKDIR", func() error {
		if err := c.m.MkdirAll(ctx, t.dir, 0o755); err != nil {
			return err
		}
		var err error
		t.fh, _, err = c.m.LookupPath(ctx, t.dir)
		return err
	}) {
		return
	}
	n := c.m.Negotiated()
	cell := min([]int{500, 1000, 4096, 5000, 16384, 40000}[t.r.IntN(6)], n.WSize, n.RSize)
	t.data = newChaosFile(t.number(), "data", cell, 8+t.r.IntN(24), c.plan.crash)
	if !t.retry(ctx, "open", func() error {
		fl, err := c.m.OpenFile(ctx, t.dir+"/data", os.O_RDWR|os.O_CREATE, 0o644)
		if err == nil {
			t.file, t.dfh = fl, fl.FH()
		}
		return err
	}) {
		return
	}
	t.made = true
	if t.r.IntN(2) == 0 {
		t.file = nil
	}
	for range c.plan.steps {
		t.step(ctx)
		if t.r.IntN(4) == 0 && c.f.Sleep(ctx, time.Duration(t.r.IntN(500))*time.Microsecond) != nil {
			return
		}
	}
	if t.r.IntN(3) > 0 {
		t.sync(ctx)
	}
}

// number is that of a new file.
func (t *chaosTask) number() uint64 {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	t.c.files++
	return t.c.files
}

func (t *chaosTask) step(ctx context.Context) {
	switch k := t.r.IntN(20); {
	case k < 6:
		t.write(ctx, nfsclient.UNSTABLE)
	case k < 8:
		t.write(ctx, nfsclient.FILE_SYNC)
	case k < 10:
		t.sync(ctx)
	case k < 13:
		t.read(ctx)
	case k < 14:
		t.truncate(ctx)
	case k < 16:
		t.create(ctx)
	case k < 17:
		t.remove(ctx)
	case k < 19:
		t.rename(ctx)
	default:
		t.list(ctx)
	}
}

// span draws cells of one call of n bytes at most.
func (t *chaosTask) span(most int) (from, to int) {
	f := t.data
	from = t.r.IntN(len(f.cells))
	return from, min(from+1+t.r.IntN(max(most/f.cell, 1)), len(f.cells))
}

func (t *chaosTask) write(ctx context.Context, how nfsclient.StableHow) {
	f := t.data
	most := t.c.m.WSize()
	if t.file != nil {
		most *= 3
	}
	from, to := t.span(most)
	v := f.next()
	b := f.data(v, from, to)
	off := from * f.cell
	f.size = max(f.size, to*f.cell)
	// Until the answer, it may be there.
	f.note(v, from, to, maybe)
	if t.file != nil { // which must know of all writes: what a crash has lost it writes again
		n, err := t.file.WriteAt(b, int64(off))
		settled := t.judge("write", err)
		mid := from + n/f.cell
		f.note(v, from, mid, volatil)
		t.pending = append(t.pending, pendingWrite{v: v, from: from, to: mid})
		if err != nil {
			f.note(v, mid, to, unknown(settled))
		}
		if how == nfsclient.FILE_SYNC {
			t.sync(ctx)
		}
		return
	}
	res, err := t.c.m.Write(ctx, t.dfh, uint64(off), b, how)
	settled := t.judge("WRITE", err)
	if err != nil {
		f.note(v, from, to, unknown(settled))
		return
	}
	to = from + res.Count/f.cell
	if res.Committed == nfsclient.FILE_SYNC {
		f.note(v, from, to, done)
		return
	}
	f.note(v, from, to, volatil)
	t.pending = append(t.pending, pendingWrite{v, from, to, res.Verf})
}

// sync makes what is pending stable, and writes again what is lost.
func (t *chaosTask) sync(ctx context.Context) {
	f := t.data
	if t.file != nil {
		err := t.file.Sync()
		if settled := t.judge("sync", err); err != nil {
			// What it writes again may come late, too.
			for _, w := range t.pending {
				f.note(w.v, w.from, w.to, unknown(settled))
			}
			return
		}
		for _, w := range t.pending {
			f.note(w.v, w.from, w.to, done)
		}
		t.pending = t.pending[:0]
		return
	}
	verf, err := t.c.m.Commit(ctx, t.dfh, 0, 0)
	if t.judge("COMMIT", err); err != nil {
		return
	}
	list := t.pending
	t.pending = nil
	for _, w := range list {
		if w.verf == verf {
			f.note(w.v, w.from, w.to, done)
			continue
		}
		if !t.c.plan.crash {
			t.c.violated(fmt.Errorf("%s: the write verifier changed without a crash", t.dir))
		}
		// Lost, maybe: it stays uncertain. What a user would write again is written as a new version now and then.
	}
}

func (t *chaosTask) read(ctx context.Context) {
	f := t.data
	most := t.c.m.RSize()
	if t.file != nil {
		most *= 3
	}
	from, to := t.span(most)
	b := make([]byte, (to-from)*f.cell)
	for i := range b {
		b[i] = 0xfe
	}
	var n int
	var eof bool
	var err error
	if t.file != nil {
		n, err = t.file.ReadAt(b, int64(from*f.cell))
		if n < len(b) && errors.Is(err, io.EOF) {
			eof, err = true, nil
		}
	} else {
		n, eof, err = t.c.m.Read(ctx, t.dfh, uint64(from*f.cell), b)
	}
	if t.judge("READ", err); err != nil {
		return
	}
	if eof {
		clear(b[n:]) // nothing is as good as zeros
		n = len(b)
	}
	t.c.mu.Lock()
	t.c.rep.Bytes += int64(n)
	t.c.mu.Unlock()
	if err := f.check(b[:n], from*f.cell, false); err != nil {
		t.c.violated(fmt.Errorf("%s: READ: %w", t.dir, err))
	}
}

func (t *chaosTask) truncate(ctx context.Context) {
	f := t.data
	to := t.r.IntN(len(f.cells) + 1)
	v := f.next()
	f.zeros[v] = true
	f.size = max(f.size, to*f.cell)
	f.note(v, to, len(f.cells), maybe)
	var err error
	if t.file != nil {
		err = t.file.Truncate(int64(to * f.cell))
	} else {
		_, err = t.c.m.SetAttr(ctx, t.dfh, &nfsclient.Sattr{SetSize: true, Size: uint64(to * f.cell)}, nil)
	}
	settled := t.judge("SETATTR", err)
	if err != nil {
		f.note(v, to, len(f.cells), unknown(settled))
		return
	}
	f.note(v, to, len(f.cells), done)
}

// chaosNameList are the names that tasks make and remove.
var chaosNameList = []string{"a", "b", "c", "d"}

// name draws a name of which all is known: whether it is there, present.
func (t *chaosTask) name(present bool) (string, bool) {
	var fit []string
	for _, n := range chaosNameList {
		p := t.names.poss[n]
		if len(p) == 0 {
			t.names.set(n, 0)
			p = t.names.poss[n]
		}
		if !t.names.murky[n] && len(p) == 1 && (p[0] != 0) == present {
			fit = append(fit, n)
		}
	}
	if len(fit) == 0 {
		return "", false
	}
	return fit[t.r.IntN(len(fit))], true
}

// unsure says that a call on names ended with an error.
func (t *chaosTask) unsure(ctx context.Context, settled bool, names ...string) {
	for _, n := range names {
		if !settled {
			t.names.murky[n] = true
			continue
		}
		res, err := t.c.m.Lookup(ctx, t.fh, n)
		switch {
		case err == nil && res.Attr.Present:
			obj := res.Attr.Attr.FileID
			if err := t.names.check(n, obj); err != nil {
				t.c.violated(err)
			}
			t.names.set(n, obj)
		case errors.Is(err, nfsclient.NFS3ERR_NOENT):
			if err := t.names.check(n, 0); err != nil {
				t.c.violated(err)
			}
			t.names.set(n, 0)
		}
	}
}

func (t *chaosTask) create(ctx context.Context) {
	n, ok := t.name(false)
	if !ok {
		return
	}
	res, err := t.c.m.Create(ctx, t.fh, n, nfsclient.CreateHow{Mode: nfsclient.GUARDED, Attr: nfsclient.Sattr{SetMode: true, Mode: 0o644}})
	_ = t.judge("CREATE", err)
	if err != nil || !res.HasFH || !res.Attr.Present {
		// It may be there, and its number is not known.
		t.names.murky[n] = true
		return
	}
	obj := res.Attr.Attr.FileID
	t.names.set(n, obj)
	f := newChaosFile(t.number(), fmt.Sprintf("%s (object %d)", n, obj), min(700, t.c.m.WSize()), 1, t.c.plan.crash)
	t.names.files[obj] = f
	v := f.next()
	f.size = f.cell
	f.note(v, 0, 1, maybe)
	_, err = t.c.m.Write(ctx, res.FH, 0, f.data(v, 0, 1), nfsclient.FILE_SYNC)
	settled := t.judge("WRITE", err)
	if err != nil {
		f.note(v, 0, 1, unknown(settled))
		return
	}
	f.note(v, 0, 1, done)
}

func (t *chaosTask) remove(ctx context.Context) {
	n, ok := t.name(true)
	if !ok {
		return
	}
	_, err := t.c.m.Remove(ctx, t.fh, n)
	settled := t.judge("REMOVE", err)
	if err != nil {
		t.names.may(n, 0)
		t.unsure(ctx, settled, n)
		return
	}
	t.names.set(n, 0)
}

func (t *chaosTask) rename(ctx context.Context) {
	from, ok := t.name(true)
	if !ok {
		return
	}
	to, ok := t.name(t.r.IntN(2) == 0)
	if !ok || from == to {
		return
	}
	obj := t.names.poss[from][0]
	err := t.c.m.Rename(ctx, t.fh, from, t.fh, to)
	settled := t.judge("RENAME", err)
	if err != nil {
		t.names.may(from, 0)
		t.names.may(to, obj)
		t.unsure(ctx, settled, from, to)
		return
	}
	t.names.set(from, 0)
	t.names.set(to, obj)
}

// list reads the directory.
func (t *chaosTask) list(ctx context.Context) {
	res, err := t.c.m.ReadDir(ctx, t.fh, 0, nfsclient.Verf{}, 8192)
	if t.judge("READDIR", err); err != nil || !res.EOF {
		return
	}
	seen := map[string]uint64{}
	var e nfsclient.Entry
	for res.Entries.Next(&e) {
		seen[string(e.Name)] = e.FileID
	}
	t.checkNames(func(n string) uint64 { return seen[n] }, "READDIR")
}

func (t *chaosTask) checkNames(get func(string) uint64, how string) {
	for _, n := range chaosNameList {
		if len(t.names.poss[n]) == 0 {
			continue
		}
		if err := t.names.check(n, get(n)); err != nil {
			t.c.violated(fmt.Errorf("%s: %w", how, err))
		}
	}
}

// audit compares all that is stored with what may be there.
func (t *chaosTask) audit(ctx context.Context, fs vfs.FS) error {
	if t.data == nil {
		return nil
	}
	var dir vfs.Attr
	if err := fs.Lookup(ctx, fs.Root(), t.dir, &dir); err != nil {
		return fmt.Errorf("directory %s: %w", t.dir, err)
	}
	ids := map[string]vfs.ID{}
	var names []string
	if _, _, err := fs.ReadDir(ctx, dir.ID, 0, 0, func(e *vfs.DirEntry) bool {
		ids[e.Name] = e.ID
		names = append(names, e.Name)
		return true
	}); err != nil {
		return err
	}
	known := append(slices.Clone(chaosNameList), "data", ".", "..")
	for _, n := range names {
		if !slices.Contains(known, n) {
			return fmt.Errorf("directory %s has %q, which nobody made", t.dir, n)
		}
	}
	t.checkNames(func(n string) uint64 { return ids[n].Ino }, "audit")
	var errs []error
	look := func(n string, f *chaosFile) {
		b, err := readStored(ctx, fs, ids[n])
		if err == nil {
			err = f.checkAll(b, true)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", t.dir, err))
		}
	}
	if t.made {
		if _, ok := ids["data"]; !ok {
			return fmt.Errorf("file %s/data is gone", t.dir)
		}
		look("data", t.data)
	}
	for _, n := range chaosNameList {
		if f := t.names.files[ids[n].Ino]; f != nil && !t.names.murky[n] { // whose number may be an old file's
			look(n, f)
		}
	}
	return errors.Join(errs...)
}
