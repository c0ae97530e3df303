package scenarios

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/nfsserver/vfs"
)

// commitCrash is a run in which the server crashes in the middle.
type commitCrash struct {
	policy commitPolicy
	async  bool // export option async
}

// crashRun is what it found.
type crashRun struct {
	acked    float64 // bytes that COMMIT had acknowledged before the crash
	lost     float64 // of these, bytes that were not there after it
	repeated float64 // WRITEs beyond one for each piece of the file
	verifier float64 // 1 if the write verifier changed
	wrong    float64 // bytes that are wrong at the end
}

const (
	crashProcs   = 4
	crashRecords = 24
	crashAt      = 70 * time.Millisecond // about the middle
)

// commitCrashes crashes the server under each policy, and with an async export to show that losses are seen.
func commitCrashes(ctx context.Context, seed uint64) ([]Row, error) {
	var rows []Row
	for _, c := range []commitCrash{{policy: commitBefore}, {policy: commitAfter}, {policy: commitNoLock}, {commitAfter, true}} {
		r, err := c.run(ctx, seed)
		if err != nil {
			return nil, fmt.Errorf("scenarios: commit, crash under %+v: %w", c, err)
		}
		export := "sync"
		if c.async {
			export = "async"
		}
		p := map[string]string{"policy": c.policy.name, "export": export}
		add := func(name string, v, lo, hi float64, unit string) {
			rows = append(rows, band("crash: "+name, p, nil, v, lo, hi, unit))
		}
		add("acknowledged by COMMIT", r.acked, 1<<20, inf, "B")
		add("write verifier changed", r.verifier, 1, 1, "")
		if c.async {
			add("acknowledged and lost", r.lost, 1, inf, "B")
			continue
		}
		add("acknowledged and lost", r.lost, 0, 0, "B")
		add("WRITEs repeated", r.repeated, 1, inf, "")
		add("wrong at the end", r.wrong, 0, 0, "B")
	}
	return rows, nil
}

// crashFile is the file of one process.
type crashFile struct {
	file  *nfsclient.File
	want  []byte
	acked int // bytes from the start that a COMMIT has acknowledged
}

func (c commitCrash) run(ctx context.Context, seed uint64) (out crashRun, err error) {
	cell := commitBase(commitInitial, c.policy)
	p := cell.params(seed)
	p.Storage = cell.storage(fabric.Memory()).Crashable()
	if c.async {
		p.Storage = p.Storage.WithAsync()
	}
	p.Client = func(cc *nfsclient.Config) { cc.IODepth = commitRecord / commitWSize }
	f, err := fabric.Start(p)
	if err != nil {
		return out, err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	d, err := f.Dial(ctx, "/")
	if err != nil {
		return out, err
	}
	m := d.NFS()
	files := make([]*crashFile, crashProcs)
	for i := range files {
		fl, err := m.OpenFile(ctx, fmt.Sprint(i), os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return out, err
		}
		files[i] = &crashFile{file: fl, want: make([]byte, crashRecords*commitRecord)}
		rng := rand.NewChaCha8([32]byte{byte(i)})
		_, _ = rng.Read(files[i].want)
	}
	before, err := m.Commit(ctx, files[0].file.FH(), 0, 0)
	if err != nil {
		return out, err
	}
	errs := make([]error, len(files))
	var waits []func(context.Context) error
	for i, x := range files {
		waits = append(waits, f.Go(fmt.Sprintf("writer %d", i), func() { errs[i] = x.process(ctx, f) }))
	}
	if err := f.Sleep(ctx, crashAt); err != nil {
		return out, err
	}
	if err := f.CrashServer(ctx, 5*time.Millisecond); err != nil {
		return out, err
	}
	for _, x := range files {
		out.acked += float64(x.acked)
		n, err := x.differs(ctx, f.FS(), x.acked)
		if err != nil {
			return out, err
		}
		out.lost += n
	}
	for i, w := range waits {
		if err := w(ctx); err != nil {
			return out, err
		}
		if errs[i] != nil {
			return out, errs[i]
		}
	}
	after, err := m.Commit(ctx, files[0].file.FH(), 0, 0)
	if err != nil {
		return out, err
	}
	if after != before {
		out.verifier = 1
	}
	for _, x := range files {
		n, err := x.differs(ctx, f.FS(), len(x.want))
		if err != nil {
			return out, err
		}
		out.wrong += n
	}
	writes, _ := f.Server().Counters().Get("nfs3_WRITE")
	out.repeated = float64(writes) - crashProcs*crashRecords*commitRecord/commitWSize
	return out, nil
}

// process writes the file; every fourth COMMIT overlaps the next record.
func (x *crashFile) process(ctx context.Context, f *fabric.Fabric) error {
	var before func(context.Context) error
	var serr error
	sync := func(upTo int) {
		if serr = x.file.Sync(); serr == nil {
			x.acked = max(x.acked, upTo)
		}
	}
	for k := range crashRecords {
		end := (k + 1) * commitRecord
		if _, err := x.file.WriteAt(x.want[k*commitRecord:end], int64(k*commitRecord)); err != nil {
			return err
		}
		if before != nil {
			if err := before(ctx); err != nil {
				return err
			}
			before = nil
		}
		if k%4 == 3 && serr == nil {
			before = f.Go("commit", func() { sync(end) })
			continue
		}
		if serr == nil {
			sync(end)
		}
		if serr != nil {
			return serr
		}
	}
	if before != nil {
		if err := before(ctx); err != nil {
			return err
		}
	}
	if serr != nil {
		return serr
	}
	return x.file.Close()
}

// differs is how many of the first n bytes are not what was written.
func (x *crashFile) differs(ctx context.Context, fs vfs.FS, n int) (float64, error) {
	var a vfs.Attr
	if err := fs.Lookup(ctx, fs.Root(), x.file.Name(), &a); err != nil {
		return 0, err
	}
	got := make([]byte, n)
	if _, _, err := fs.Read(ctx, a.ID, 0, got, &a); err != nil {
		return 0, err
	}
	if bytes.Equal(got, x.want[:n]) {
		return 0, nil
	}
	bad := max(n-int(min(a.Size, uint64(n))), 0)
	for i := range got[:n-bad] {
		if got[i] != x.want[i] {
			bad++
		}
	}
	return float64(bad), nil
}
