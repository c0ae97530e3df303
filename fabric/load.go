package fabric

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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

func (o Op) String() string {
	names := [...]string{"write", "read", "mix", "getattr", "null"}
	if int(o) < len(names) {
		return names[o]
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// data says whether calls move data.
func (o Op) data() bool { return o <= Mix }

// Load describes calls to be made; zero fields have the default said.
type Load struct {
	Op          Op
	ReadPercent int           // Mix: 0..100
	Size        int           // bytes a call; 0: 64 KiB, or the mount's rsize or wsize or FileSize if less
	Sizes       []int         // if set, each call takes one of these at random; Size is then the largest
	Depth       int           // calls in flight; 0: 1
	Files       int           // spread over so many files; 0: 1
	FileSize    int64         // bytes of each file; 0: 64 MiB
	Random      bool          // random offsets, multiples of Size; otherwise each file in order, round and round
	Bytes       int64         // stop once so many bytes are under way; 0: once all files, unless Calls or Time is set
	Calls       int64         // stop after so many calls
	Time        time.Duration // stop to make calls after so much of the fabric's time
	Warm        int64         // calls before the measurement begins; Bytes, Calls and Time do not count them
	Stable      bool          // WRITE FILE_SYNC; otherwise UNSTABLE and one COMMIT a file at the end
	Verify      bool          // compare every byte: reads as they come, writes in the server's file system after each reply, where other bytes are put before
	Mount       *Mount        // nil: the first mount, made if there is none
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
	if l.Depth == 0 {
		l.Depth = 1
	}
	if l.Files == 0 {
		l.Files = 1
	}
	if l.FileSize == 0 {
		l.FileSize = 64 << 20
	}
	switch {
	case len(l.Sizes) > 0:
		l.Size = slices.Max(l.Sizes)
	case l.Size == 0:
		l.Size = int(max(min(64<<10, int64(limit), l.FileSize), 1))
	}
	if l.Dir == "" {
		l.Dir = "/"
	}
	if l.Name == "" {
		l.Name = "load"
	}
	if l.Op > Null {
		return &LimitError{"Load.Op", l.Op, "Write, Read, Mix, GetAttr or Null"}
	}
	for _, k := range []struct {
		name      string
		v, lo, hi int64
	}{
		{"Depth", int64(l.Depth), 1, 1 << 16},
		{"Files", int64(l.Files), 1, 1 << 20},
		{"FileSize", l.FileSize, 1, 1 << 40},
		{"ReadPercent", int64(l.ReadPercent), 0, 100},
		{"Bytes", l.Bytes, 0, math.MaxInt64 / 4},
		{"Calls", l.Calls, 0, math.MaxInt64 / 4},
		{"Warm", l.Warm, 0, math.MaxInt64 / 4},
		{"Time in ns", int64(l.Time), 0, math.MaxInt64},
	} {
		if k.v < k.lo || k.v > k.hi {
			return &LimitError{"Load." + k.name, k.v, fmt.Sprintf("%d to %d", k.lo, k.hi)}
		}
	}
	knob, sizes := "Load.Sizes", l.Sizes
	if len(sizes) == 0 {
		knob, sizes = "Load.Size", []int{l.Size}
	}
	for _, s := range sizes {
		if s < 1 || s > limit {
			return &LimitError{knob, s, fmt.Sprintf("1 to %d, the mount's limit (rsize %d, wsize %d)", limit, n.RSize, n.WSize)}
		}
		if int64(s) > l.FileSize {
			return &LimitError{"Load.FileSize", l.FileSize, fmt.Sprintf("at least the size of a call, %d", s)}
		}
	}
	if l.Bytes == 0 && l.Calls == 0 && l.Time == 0 {
		if l.Op.data() {
			l.Bytes = int64(l.Files) * l.FileSize
		} else {
			l.Calls = 10_000
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
	r := &run{f: f, m: m.NFS(), l: l, rec: newRecorder(l.Depth), tallies: make([]tally, l.Depth)}
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

	next     atomic.Int64 // calls handed out; not counted if free
	done     atomic.Int64 // calls answered, while Warm counts
	bytes    atomic.Int64 // payload handed out, after Warm
	maxCalls int64
	perFile  int64 // blocks of a file
	free     bool  // random blocks, until a time: tasks need not know of each other
	stop     atomic.Bool
	deadline atomic.Int64 // sched.Time; 0 none
	tallies  []tally      // one a task

	mu    sync.Mutex
	err   error
	start sched.Time
	used  []sched.Usage // when it began
}

// tally is what one task counted, after Warm. It fills cache lines of its own.
type tally struct {
	calls, bytes int64
	end          sched.Time
	_            [104]byte
}

// total sums up the tasks' tallies.
func (r *run) total() tally {
	var sum tally
	for i := range r.tallies {
		t := &r.tallies[i]
		sum.calls += t.calls
		sum.bytes += t.bytes
		sum.end = max(sum.end, t.end)
	}
	return sum
}

func (r *run) fail(err error) {
	r.mu.Lock()
	if r.err == nil {
		r.err = err
	}
	r.mu.Unlock()
	r.stop.Store(true)
}

func (r *run) do(ctx context.Context) (*Result, error) {
	l := &r.l
	r.perFile = l.FileSize / int64(l.Size)
	r.maxCalls = 1 << 61
	if l.Calls > 0 {
		r.maxCalls = l.Calls + l.Warm
	}
	r.free = l.Random && l.Calls == 0 && l.Bytes == 0 && l.Warm == 0
	f := r.f
	before := f.snapshot()
	if l.Warm == 0 {
		r.begin(f.s.Now())
	}
	g := f.s.NewGroup("the load's calls")
	for i := range l.Depth {
		g.Go(fmt.Sprintf("load %s %d", l.Op, i), func() { r.worker(ctx, i) })
	}
	err := g.Wait(ctx)
	used := f.s.Usage()
	if err != nil {
		// What ended the wait ends the calls, too: nothing goes on behind the caller's back.
		r.fail(err)
		_ = g.Wait(sched.Cleanup)
	}
	if r.err == nil && (l.Op == Write || l.Op == Mix) && !l.Stable {
		for i := range r.files {
			if _, err := r.m.Commit(ctx, r.files[i].fh, 0, 0); err != nil {
				r.fail(fmt.Errorf("commit of %s: %w", r.files[i].name, err))
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return nil, fmt.Errorf("fabric: load %s: %w", l.Op, r.err)
	}
	sum := r.total()
	if sum.calls == 0 { // with Time only
		sum.end = max(f.s.Now(), r.start)
	}
	after := f.snapshot()
	elapsed, lat := sum.end.Sub(r.start), r.rec.sum()
	return &Result{
		Load:    *l,
		Calls:   sum.calls,
		Bytes:   sum.bytes,
		Elapsed: elapsed.Std(),
		ps:      elapsed,
		Latency: lat,
		Uses:    r.uses(used, elapsed, lat),
		Client:  after.client.Sub(before.client),
		Server:  after.server.Sub(before.server),
		live:    !f.s.Virtual(),
	}, nil
}

// begin starts the measurement.
func (r *run) begin(now sched.Time) {
	r.mu.Lock()
	r.start = now
	r.used = r.f.s.Usage()
	r.mu.Unlock()
	if r.l.Time > 0 {
		r.deadline.Store(int64(now.Add(sched.FromStd(r.l.Time))))
	}
}

// worker makes one call after another.
func (r *run) worker(ctx context.Context, id int) {
	l := &r.l
	rng := rand.New(rand.NewPCG(r.f.params.Seed, uint64(id)))
	var buf []byte
	if l.Op == Read || l.Op == Mix {
		buf = make([]byte, l.Size)
	}
	now := r.f.s.Now()
	for !r.stop.Load() {
		var i int64
		if !r.free {
			i = r.next.Add(1) - 1
		}
		if d := r.deadline.Load(); i >= r.maxCalls || d != 0 && now >= sched.Time(d) {
			return
		}
		size := l.Size
		if len(l.Sizes) > 0 {
			size = l.Sizes[rng.IntN(len(l.Sizes))]
		}
		if l.Bytes > 0 && i >= l.Warm {
			had := r.bytes.Add(int64(size)) - int64(size)
			if had >= l.Bytes {
				return
			}
		}
		block := i
		if l.Random {
			block = rng.Int64N(r.perFile * int64(l.Files))
		}
		op := l.Op
		if op == Mix {
			op = Write
			if rng.IntN(100) < l.ReadPercent {
				op = Read
			}
		}
		var err error
		if now, err = r.one(ctx, id, op, block, size, buf); err != nil {
			r.fail(err)
			return
		}
	}
}

// place is where block i of the files is; they are walked round and round.
func (r *run) place(i int64) (*loadFile, uint64) {
	file := &r.files[i/r.perFile%int64(r.l.Files)]
	return file, uint64(i%r.perFile) * uint64(r.l.Size)
}

// enter finds a block from this on that no other verified call is in the way of: what two write at
// once cannot be told right from wrong. false: none is free.
func (r *run) enter(block int64, s *span) (file *loadFile, ok bool) {
	for range r.l.Depth {
		file, s.off = r.place(block)
		if file.state.enter(*s) {
			return file, true
		}
		block++
	}
	return file, false
}

// one makes one call of n bytes, and checks what it moved; it tells when the answer came. buf is there to
// read into.
func (r *run) one(ctx context.Context, id int, op Op, block int64, n int, buf []byte) (sched.Time, error) {
	file, off := r.place(block)
	verify := false
	if r.l.Verify && op.data() {
		s := span{n: n, sole: op == Write}
		if file, verify = r.enter(block, &s); verify {
			defer file.state.leave(s)
		}
		off = s.off
	}
	if op == Read {
		buf = buf[:n]
	}
	if verify && op == Read {
		copy(buf, file.poison(off, n))
	}
	if verify && op == Write {
		if err := r.f.poisonStored(ctx, file, off, n); err != nil {
			return 0, fmt.Errorf("prepare to verify a WRITE: %w", err)
		}
	}
	t0 := r.f.s.Now()
	moved, err := r.call(ctx, op, file, off, n, buf)
	t1 := r.f.s.Now()
	if err != nil {
		return 0, err
	}
	r.count(id, moved, t1.Sub(t0), t1)
	switch {
	case verify && op == Read:
		err = file.compare(off, buf)
	case verify:
		err = r.f.verifyStored(ctx, file, off, n)
	}
	return t1, err
}

// count adds one answered call. The measurement begins when the last warming
// call is answered.
func (r *run) count(id, n int, d sched.Duration, now sched.Time) {
	if r.l.Warm > 0 && r.done.Load() < r.l.Warm {
		if done := r.done.Add(1); done <= r.l.Warm {
			if done == r.l.Warm {
				r.begin(now)
			}
			return
		}
	}
	t := &r.tallies[id]
	t.calls++
	t.bytes += int64(n)
	t.end = now
	r.rec.record(id, d.Std())
}

func (r *run) call(ctx context.Context, op Op, file *loadFile, off uint64, n int, buf []byte) (int, error) {
	switch op {
	case Read:
		got, _, err := r.m.Read(ctx, file.fh, off, buf)
		if err != nil {
			return 0, fmt.Errorf("READ %s at %d, %d bytes: %w", file.name, off, n, err)
		}
		if got != n {
			return 0, fmt.Errorf("READ %s at %d: %d bytes, want %d", file.name, off, got, n)
		}
		return n, nil
	case Write:
		how := nfsclient.UNSTABLE
		if r.l.Stable {
			how = nfsclient.FILE_SYNC
		}
		res, err := r.m.Write(ctx, file.fh, off, file.content(off, n), how)
		if err != nil {
			return 0, fmt.Errorf("WRITE %s at %d, %d bytes: %w", file.name, off, n, err)
		}
		if res.Count != n {
			return 0, fmt.Errorf("WRITE %s at %d: %d bytes taken, want %d", file.name, off, res.Count, n)
		}
		return n, nil
	case GetAttr:
		if _, err := r.m.GetAttr(ctx, file.fh); err != nil {
			return 0, fmt.Errorf("%s: %w", file.name, err)
		}
		return 0, nil
	default:
		return 0, r.m.Null(ctx)
	}
}
