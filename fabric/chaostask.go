package fabric

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/nfsserver/vfs"
)

// chaosTask makes one call after another in directories of its own, and knows what must come of them.
type chaosTask struct {
	c     *chaos
	m     *nfsclient.Mount
	r     *rand.Rand
	dir   string
	dirs  [2]nfsclient.FH // dir, and sub in it
	names chaosNames
	data  []*chaosData
	left  []leftBuffer
}

func newChaosTask(c *chaos, i int) *chaosTask {
	dir := fmt.Sprintf("t%d", i)
	return &chaosTask{c: c, m: c.ms[i%len(c.ms)], dir: dir, r: rand.New(rand.NewPCG(c.f.params.Seed, uint64(i)+1)), names: newChaosNames(dir)}
}

// gen is the generation of the server: even while one runs, odd while one is crashing.
func (t *chaosTask) gen() uint32 { return t.c.f.crashes.Load() }

// calm says whether the server that ran in generation gen, when a call began, still does.
func (t *chaosTask) calm(gen uint32) bool { return gen%2 == 0 && t.gen() == gen }

func (t *chaosTask) violated(format string, args ...any) {
	t.c.violated(fmt.Errorf("%s: %w", t.dir, fmt.Errorf(format, args...)))
}

// judge says whether the end of a call, begun in generation gen, says that it will have no effect later, and whether it is
// an end that there may be. Want are statuses that the call must end with, if it ends with one at all.
func (t *chaosTask) judge(what string, gen uint32, err error, want ...nfsclient.Status) (settled bool) {
	c := t.c
	c.mu.Lock()
	c.rep.Calls++
	if err != nil {
		c.rep.Failed++
	}
	c.mu.Unlock()
	if err == nil {
		if len(want) > 0 {
			t.violated("%s succeeds, and must end with %v", what, want)
		}
		return true
	}
	var st *nfsclient.Error
	if !errors.As(err, &st) {
		if sched.Ended(err) {
			t.violated("%s: hang: %w", what, err)
		}
		return false
	}
	explained := slices.Contains(want, st.Status)
	switch st.Status {
	case nfsclient.NFS3ERR_IO, nfsclient.NFS3ERR_NOSPC: // injected
		explained = true
	case nfsclient.NFS3ERR_SERVERFAULT:
		explained = explained || c.plan.serverFails
	case nfsclient.NFS3ERR_NOENT, nfsclient.NFS3ERR_EXIST:
		// Made again at a server that has forgotten the first time.
		explained = explained || !t.calm(gen)
	}
	if !explained {
		t.violated("%s: %w: nothing explains it", what, err)
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
			t.violated("%s: hang: %w", what, err)
			return false
		}
		if t.c.f.Sleep(ctx, 2*time.Millisecond) != nil {
			return false
		}
	}
	if !t.c.plan.remove {
		t.violated("%s fails again and again", what)
	}
	return false
}

func (t *chaosTask) run(ctx context.Context) {
	if !t.prepare(ctx) {
		return
	}
	for range t.c.plan.steps {
		t.step(ctx)
		if t.r.IntN(4) == 0 && t.c.f.Sleep(ctx, time.Duration(t.r.IntN(500))*time.Microsecond) != nil {
			return
		}
	}
	t.checkLeft()
	for _, d := range t.data {
		if t.r.IntN(3) > 0 {
			d.sync(ctx)
		}
	}
}

// prepare makes directories and files.
func (t *chaosTask) prepare(ctx context.Context) bool {
	m := t.m
	for i, dir := range []string{t.dir, t.dir + "/sub"} {
		if !t.retry(ctx, "MKDIR", func() error {
			if err := m.MkdirAll(ctx, dir, 0o755); err != nil {
				return err
			}
			var err error
			t.dirs[i], _, err = m.LookupPath(ctx, dir)
			return err
		}) {
			return false
		}
	}
	for i := range 1 + t.r.IntN(3) {
		d := t.newData(fmt.Sprintf("data%d", i))
		if !t.retry(ctx, "open", func() error {
			fl, err := m.OpenFile(ctx, t.dir+"/"+d.f.name, os.O_RDWR|os.O_CREATE, 0o644)
			if err == nil {
				d.file, d.fh = fl, fl.FH()
			}
			return err
		}) {
			return false
		}
		if t.r.IntN(2) == 0 {
			d.file = nil
		}
		t.data = append(t.data, d)
	}
	return true
}

// number is that of a new file.
func (t *chaosTask) number() uint64 {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	t.c.files++
	return t.c.files
}

func (t *chaosTask) compared(n int) {
	t.c.mu.Lock()
	t.c.rep.Bytes += int64(n)
	t.c.mu.Unlock()
}

func (t *chaosTask) step(ctx context.Context) {
	d := t.data[t.r.IntN(len(t.data))]
	switch k := t.r.IntN(34); {
	case k < 7:
		d.write(ctx, nfsclient.UNSTABLE)
	case k < 9:
		d.write(ctx, []nfsclient.StableHow{nfsclient.FILE_SYNC, nfsclient.DATA_SYNC}[k%2])
	case k < 12:
		d.sync(ctx)
	case k < 16:
		d.read(ctx)
	case k < 17:
		d.truncate(ctx)
	case k < 18:
		t.create(ctx)
	case k < 19:
		t.mkdir(ctx)
	case k < 20:
		t.symlink(ctx)
	case k < 22:
		t.link(ctx)
	case k < 23:
		t.remove(ctx)
	case k < 24:
		t.rmdir(ctx)
	case k < 27:
		t.rename(ctx)
	case k < 28:
		t.look(ctx)
	case k < 29:
		t.refused(ctx)
	case k < 31:
		d.breakOff(ctx)
	default:
		t.list(ctx, t.r.IntN(2))
	}
}

// audit compares all that is stored with what may be there.
func (t *chaosTask) audit(ctx context.Context, fs vfs.FS) error {
	if len(t.data) == 0 {
		return nil
	}
	ids := map[string]vfs.ID{}
	var root vfs.Attr
	if err := fs.Lookup(ctx, fs.Root(), t.dir, &root); err != nil {
		return fmt.Errorf("directory %s: %w", t.dir, err)
	}
	read := func(dir vfs.ID, prefix string) error {
		_, _, err := fs.ReadDir(ctx, dir, 0, 0, func(e *vfs.DirEntry) bool {
			if e.Name != "." && e.Name != ".." {
				ids[prefix+e.Name] = e.ID
			}
			return true
		})
		return err
	}
	if err := read(root.ID, ""); err != nil {
		return err
	}
	if err := read(ids["sub"], "sub/"); err != nil {
		return fmt.Errorf("directory %s/sub: %w", t.dir, err)
	}
	known := append(slices.Clone(chaosNameList), "sub")
	for _, d := range t.data {
		known = append(known, d.f.name)
	}
	for n := range ids {
		if !slices.Contains(known, n) {
			return fmt.Errorf("directory %s has %q, which nobody made", t.dir, n)
		}
	}
	var errs []error
	look := func(n string, f *chaosFile) {
		b, err := readStored(ctx, fs, ids[n])
		if err == nil {
			err = f.checkAll(b, crashed)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", t.dir, err))
		}
	}
	for _, d := range t.data {
		if _, ok := ids[d.f.name]; !ok {
			errs = append(errs, fmt.Errorf("file %s/%s is gone", t.dir, d.f.name))
			continue
		}
		look(d.f.name, d.f)
	}
	for _, n := range chaosNameList {
		if err := t.names.check(n, ids[n].Ino); err != nil {
			errs = append(errs, err)
			continue
		}
		o := t.names.objs[ids[n].Ino]
		switch {
		case o == nil || t.names.murky[n]: // whose number may be an old object's
		case o.file != nil:
			look(n, o.file)
		case o.kind == nfsclient.NF3LNK:
			if s, err := fs.ReadLink(ctx, ids[n]); err != nil || s != o.target {
				errs = append(errs, fmt.Errorf("link %s/%s leads to %q, must to %q: %w", t.dir, n, s, o.target, err))
			}
		}
	}
	return errors.Join(errs...)
}
