package fabric

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsclient"
)

// Op is what a load does.
type Op uint8

// Operations. Mix reads with the share Load.ReadPercent and writes otherwise.
const (
	Write Op = iota
	Read
	Mix
	GetAttr
	Null
)

func (o Op) String() string { return [...]string{"write", "read", "mix", "getattr", "null"}[o] }

// Load describes calls to be made; zero fields have the default said.
type Load struct {
	Op          Op
	ReadPercent int           // Mix: 0..100
	Size        int           // bytes a call; 0: 64 KiB, or the mount's rsize or wsize if less
	Sizes       []int         // if set, each call takes one of these at random instead
	Depth       int           // calls in flight; 0: 1
	Files       int           // spread over so many files; 0: 1
	FileSize    int64         // bytes of each file; 0: 64 MiB
	Random      bool          // random offsets, multiples of the (largest) size; otherwise each file in order, round and round
	Bytes       int64         // stop after so many bytes; 0: once all files, unless Calls or Time is set
	Calls       int64         // stop after so many calls
	Time        time.Duration // stop after so much of the fabric's time
	Warm        int64         // calls before the measurement begins
	Stable      bool          // WRITE FILE_SYNC; otherwise UNSTABLE and one COMMIT a file at the end
	Verify      bool          // compare every byte: reads as they come, writes in the server's file system after each reply
	Mount       *Mount        // nil: a mount of the first export, made at the first load
	Dir         string        // where the files are; default "/"
	Name        string        // of the files; default "load"
}

// LimitError says that a parameter is outside its bounds.
type LimitError struct {
	Knob  string // as in Params or Load, with the kernel's name
	Value any
	Want  string
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("fabric: %s is %v, must be %s", e.Knob, e.Value, e.Want)
}

func (l *Load) setDefaults(m *nfsclient.Mount) error {
	n := m.Negotiated()
	limit := n.WSize
	if l.Op == Read {
		limit = n.RSize
	} else if l.Op == Mix {
		limit = min(n.RSize, n.WSize)
	}
	if l.Size == 0 {
		l.Size = min(64<<10, limit)
	}
	if l.Depth == 0 {
		l.Depth = 1
	}
	if l.Files == 0 {
		l.Files = 1
	}
	if l.FileSize == 0 {
		l.FileSize = 64 << 20
	}
	if l.Dir == "" {
		l.Dir = "/"
	}
	if l.Name == "" {
		l.Name = "load"
	}
	for _, s := range append([]int{l.Size}, l.Sizes...) {
		if s < 1 || s > limit {
			return &LimitError{"Load.Size", s, fmt.Sprintf("1 to %d, the mount's limit (rsize %d, wsize %d)", limit, n.RSize, n.WSize)}
		}
		if int64(s) > l.FileSize {
			return &LimitError{"Load.FileSize", l.FileSize, fmt.Sprintf("at least the size of a call, %d", s)}
		}
	}
	switch {
	case l.Op > Null:
		return &LimitError{"Load.Op", int(l.Op), "Write, Read, Mix, GetAttr or Null"}
	case l.Depth < 0 || l.Depth > 1<<16:
		return &LimitError{"Load.Depth", l.Depth, "1 to 65536"}
	case l.Files < 0 || l.Files > 1<<20:
		return &LimitError{"Load.Files", l.Files, "1 to 1048576"}
	case l.ReadPercent < 0 || l.ReadPercent > 100:
		return &LimitError{"Load.ReadPercent", l.ReadPercent, "0 to 100"}
	case l.Bytes < 0 || l.Calls < 0 || l.Time < 0 || l.Warm < 0:
		return &LimitError{"Load.Bytes, Calls, Time or Warm", "negative", "0 or more"}
	}
	if l.Bytes == 0 && l.Calls == 0 && l.Time == 0 {
		if l.Op == GetAttr || l.Op == Null {
			l.Calls = 10_000
		} else {
			l.Bytes = int64(l.Files) * l.FileSize
		}
	}
	return nil
}

// Run makes the calls of l, and returns when all have been answered. Files are made as needed:
// what is to be read is put into the server's file system beforehand, not through the wire.
func (f *Fabric) Run(t TB, l Load) *Result {
	t.Helper()
	r, err := f.RunLoad(f.ctx, l)
	f.check(t, err)
	return r
}

// RunLoad is Run with an error.
func (f *Fabric) RunLoad(ctx context.Context, l Load) (*Result, error) {
	m := l.Mount
	if m == nil {
		var err error
		if m, err = f.defaultMount(ctx); err != nil {
			return nil, err
		}
	}
	if err := l.setDefaults(m.NFS()); err != nil {
		return nil, err
	}
	r := &run{f: f, m: m.NFS(), l: l, rec: newRecorder(l.Depth)}
	if err := r.prepare(ctx); err != nil {
		return nil, fmt.Errorf("fabric: prepare load: %w", err)
	}
	return r.do(ctx)
}

// run is one load being run.
type run struct {
	f     *Fabric
	m     *nfsclient.Mount
	l     Load
	files []loadFile
	rec   *recorder

	next     atomic.Int64 // calls handed out
	done     atomic.Int64 // calls answered
	bytes    atomic.Int64 // payload handed out
	moved    atomic.Int64 // payload answered, after Warm
	counted  atomic.Int64 // calls answered, after Warm
	maxCalls int64
	perFile  int64 // blocks of a file
	deadline sched.Time

	mu    sync.Mutex
	err   error
	start sched.Time
	end   sched.Time
}

func (r *run) fail(err error) {
	r.mu.Lock()
	if r.err == nil {
		r.err = err
	}
	r.mu.Unlock()
	r.next.Store(1 << 62)
}

func (r *run) do(ctx context.Context) (*Result, error) {
	l := &r.l
	r.perFile = l.FileSize / int64(l.largest())
	r.maxCalls = 1 << 61
	if l.Calls > 0 {
		r.maxCalls = l.Calls + l.Warm
	}
	f := r.f
	before := f.snapshot()
	r.start = f.s.Now()
	if l.Time > 0 {
		r.deadline = r.start.Add(sched.FromStd(l.Time))
	}
	g := f.s.NewGroup("the load's calls")
	for i := range l.Depth {
		g.Go(fmt.Sprintf("load %s %d", l.Op, i), func() { r.worker(ctx, i) })
	}
	if err := g.Wait(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("fabric: load %s: %w", l.Op, err), r.err)
	}
	if r.end == 0 {
		r.end = f.s.Now()
	}
	if r.err == nil && l.Op != Read && l.Op != GetAttr && l.Op != Null && !l.Stable {
		for i := range r.files {
			if _, err := r.m.Commit(ctx, r.files[i].fh, 0, 0); err != nil {
				r.fail(fmt.Errorf("commit of %s: %w", r.files[i].name, err))
			}
		}
	}
	if r.err != nil {
		return nil, fmt.Errorf("fabric: load %s: %w", l.Op, r.err)
	}
	after := f.snapshot()
	return &Result{
		Load:    *l,
		Calls:   r.counted.Load(),
		Bytes:   r.moved.Load(),
		Elapsed: r.end.Sub(r.start).Std(),
		ps:      r.end.Sub(r.start),
		Latency: r.rec.sum(),
		Client:  after.client.Sub(before.client),
		Server:  after.server.Sub(before.server),
		live:    !f.s.Virtual(),
	}, nil
}

func (l *Load) largest() int {
	n := l.Size
	for _, s := range l.Sizes {
		n = max(n, s)
	}
	return n
}

// worker makes one call after another.
func (r *run) worker(ctx context.Context, id int) {
	l := &r.l
	rng := rand.New(rand.NewPCG(r.f.params.Seed, uint64(id)))
	buf := make([]byte, l.largest())
	for {
		i := r.next.Add(1) - 1
		if i >= r.maxCalls || r.deadline != 0 && r.f.s.Now() >= r.deadline {
			return
		}
		size := l.Size
		if len(l.Sizes) > 0 {
			size = l.Sizes[rng.IntN(len(l.Sizes))]
		}
		if l.Bytes > 0 {
			had := r.bytes.Add(int64(size)) - int64(size)
			if had >= l.Bytes+l.Warm*int64(l.Size) {
				return
			}
		}
		block := i
		if l.Random {
			block = rng.Int64N(r.perFile * int64(l.Files))
		}
		file := &r.files[block/r.perFile%int64(l.Files)]
		off := uint64(block%r.perFile) * uint64(l.largest())
		op := l.Op
		if op == Mix {
			op = Write
			if rng.IntN(100) < l.ReadPercent {
				op = Read
			}
		}
		t0 := r.f.s.Now()
		n, err := r.call(ctx, op, file, off, buf[:size])
		t1 := r.f.s.Now()
		if err != nil {
			r.fail(err)
			return
		}
		r.count(id, i, n, t1.Sub(t0), t1)
	}
}

// count adds one answered call. The measurement begins when the last warming
// call is answered.
func (r *run) count(id int, i int64, n int, d sched.Duration, now sched.Time) {
	if done := r.done.Add(1); done <= r.l.Warm {
		if done == r.l.Warm {
			r.mu.Lock()
			r.start = now
			r.mu.Unlock()
		}
		return
	}
	r.counted.Add(1)
	r.moved.Add(int64(n))
	r.rec.record(id, d.Std())
	r.mu.Lock()
	r.end = max(r.end, now)
	r.mu.Unlock()
}

func (r *run) call(ctx context.Context, op Op, file *loadFile, off uint64, buf []byte) (int, error) {
	switch op {
	case Read:
		n, _, err := r.m.Read(ctx, file.fh, off, buf)
		if err != nil {
			return 0, fmt.Errorf("READ %s at %d, %d bytes: %w", file.name, off, len(buf), err)
		}
		if n != len(buf) {
			return 0, fmt.Errorf("READ %s at %d: %d bytes, want %d", file.name, off, n, len(buf))
		}
		if r.l.Verify {
			if err := file.compare(off, buf); err != nil {
				return 0, err
			}
		}
		return n, nil
	case Write:
		data := file.content(off, len(buf))
		how := nfsclient.UNSTABLE
		if r.l.Stable {
			how = nfsclient.FILE_SYNC
		}
		res, err := r.m.Write(ctx, file.fh, off, data, how)
		if err != nil {
			return 0, fmt.Errorf("WRITE %s at %d, %d bytes: %w", file.name, off, len(buf), err)
		}
		if res.Count != len(buf) {
			return 0, fmt.Errorf("WRITE %s at %d: %d bytes taken, want %d", file.name, off, res.Count, len(buf))
		}
		if r.l.Verify {
			return res.Count, r.f.verifyStored(ctx, file, off, len(buf))
		}
		return res.Count, nil
	case GetAttr:
		_, err := r.m.GetAttr(ctx, file.fh)
		return 0, err
	default:
		return 0, r.m.Null(ctx)
	}
}
