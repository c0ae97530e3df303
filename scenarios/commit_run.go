package scenarios

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsclient"
)

// commitCell is one run: some processes, each writing a file of its own record by record.
type commitCell struct {
	phase   *commitPhase
	policy  commitPolicy
	overlap float64 // share of COMMITs that overlap the file's next record
	nfsd    int
	wsize   int
	procs   int
	records int // of each process

	write, data, log float64 // factors on the constants; 0: 1
}

// commitRun is what it gave.
type commitRun struct {
	rate    []float64 // kB/s of each process
	last    float64   // s until all were done
	least   float64   // share that the slowest process had written when the first was done
	calls   float64   // WRITEs and COMMITs of a record
	blocked float64   // share of WRITEs that found the COMMIT lock taken
}

// children is the sum of the processes' rates, and the least and greatest of them.
func (r commitRun) children() (sum, least, most float64) {
	least = r.rate[0]
	for _, v := range r.rate {
		sum, least, most = sum+v, min(least, v), max(most, v)
	}
	return sum, least, most
}

func factor(v float64) float64 {
	if v == 0 {
		return 1
	}
	return v
}

func scaled(d time.Duration, by float64) time.Duration {
	return time.Duration(float64(d) * factor(by))
}

func (c commitCell) label() map[string]string {
	m := map[string]string{
		"phase": c.phase.name, "policy": c.policy.name, "p": number(c.overlap), "nfsd": strconv.Itoa(c.nfsd),
		"wsize": strconv.Itoa(c.wsize), "procs": strconv.Itoa(c.procs),
	}
	for _, x := range []struct {
		name string
		by   float64
	}{{"write", c.write}, {"data", c.data}, {"log", c.log}} {
		if x.by != 0 {
			m[x.name] = "x" + number(x.by)
		}
	}
	return m
}

// storage is the file system of the report, as far as it decides the figures, on top of base.
func (c commitCell) storage(base fabric.Storage) fabric.Storage {
	return base.
		WithInodeLock(scaled(commitWrite, c.write), 0).
		WithJournal(fabric.Journal{Force: scaled(c.phase.log, c.log), Spread: commitSpread}).
		WithFlash(scaled(commitData, c.data), 0, fabric.PageCache{}).
		WithCommit(fabric.Commit{Policy: c.policy.policy})
}

func (c commitCell) params(seed uint64) fabric.Params {
	slots := c.procs * commitRecord / c.wsize
	return fabric.Params{
		Seed: seed, Storage: c.storage(fabric.Sink()), WSize: c.wsize, Threads: c.nfsd,
		Credits: slots, ServerCredits: slots, DRCEntries: -1,
		InlineWrite: commitInline, ServerInline: commitInline,
	}
}

// run measures the cell in a fabric of its own.
func (c commitCell) run(ctx context.Context, seed uint64) (out commitRun, err error) {
	if err := ctx.Err(); err != nil {
		return out, err
	}
	f, err := fabric.Start(c.params(seed))
	if err != nil {
		return out, err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			err = fmt.Errorf("scenarios: commit %v: %w", c.label(), err)
		}
	}()
	m, err := f.Dial(ctx, "/")
	if err != nil {
		return out, err
	}
	r := &commitLoad{f: f, m: m.NFS(), c: c, out: &out, data: make([]byte, c.wsize)}
	return out, r.do(ctx, seed)
}

// commitLoad is what runs in a cell.
type commitLoad struct {
	f     *fabric.Fabric
	m     *nfsclient.Mount
	c     commitCell
	out   *commitRun
	data  []byte
	done  []int // records of each process
	start time.Duration
	ended bool // a process is done
}

func (r *commitLoad) do(ctx context.Context, seed uint64) error {
	n := r.c.procs
	r.done, r.out.rate = make([]int, n), make([]float64, n)
	files := make([]nfsclient.FH, n)
	for i := range files {
		made, err := r.m.Create(ctx, r.m.Root(), fmt.Sprintf("iozone.DUMMY.%d", i), nfsclient.CreateHow{})
		if err != nil {
			return err
		}
		files[i] = made.FH
	}
	r.start = r.f.Now()
	errs := make([]error, n)
	var waits []func(context.Context) error
	for i := range files {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		waits = append(waits, r.f.Go(fmt.Sprintf("iozone %d", i), func() { errs[i] = r.process(ctx, i, files[i], rng) }))
	}
	for _, w := range waits {
		if err := w(ctx); err != nil {
			return err
		}
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	r.out.last = (r.f.Now() - r.start).Seconds()
	cs := r.f.Server().Counters()
	writes, _ := cs.Get("nfs3_WRITE")
	commits, _ := cs.Get("nfs3_COMMIT")
	r.out.calls = float64(writes+commits) / float64(n*r.c.records)
	r.out.blocked = float64(r.f.StorageParts().Commit.Stats().Blocked) / float64(writes)
	return nil
}

// sampler chooses a share p of the numbers from 0 up: one at a random place of each 1/p.
func sampler(p float64, rng *rand.Rand) func(k int) bool {
	stratum, at := -1, -1
	return func(k int) bool {
		if p <= 0 {
			return false
		}
		if j := int(float64(k) * p); j != stratum {
			stratum = j
			at = int((float64(j) + rng.Float64()) / p)
			at = max(at, k)
		}
		return k == at
	}
}

// process writes the records of one file: the WRITEs of a record at once, then its COMMIT. It waits for the
// COMMIT before the next record, but for the share of them that overlap.
func (r *commitLoad) process(ctx context.Context, i int, fh nfsclient.FH, rng *rand.Rand) error {
	var before func(context.Context) error // the COMMIT that overlaps
	var cerr error
	// Processes that start in step would stay in step.
	if err := r.f.Sleep(ctx, time.Duration(rng.Int64N(int64(commitStagger)))); err != nil {
		return err
	}
	begin := r.f.Now()
	overlaps := sampler(r.c.overlap, rng)
	w := r.newWriters(ctx, fh)
	defer w.queue.Close()
	for k := range r.c.records {
		if err := w.record(ctx, k, r.c.wsize); err != nil {
			return err
		}
		if before != nil {
			if err := before(ctx); err != nil {
				return err
			}
			if cerr != nil {
				return cerr
			}
			before = nil
		}
		off, last := uint64(k)*commitRecord, k == r.c.records-1
		if overlaps(k) && !last {
			before = r.f.Go("commit", func() { _, cerr = r.m.Commit(ctx, fh, off, commitRecord) })
		} else if _, err := r.m.Commit(ctx, fh, off, commitRecord); err != nil {
			return err
		}
		r.done[i]++
	}
	r.out.rate[i] = float64(r.c.records) * commitRecord / 1024 / (r.f.Now() - begin).Seconds()
	if !r.ended {
		r.ended = true
		r.out.least = float64(slices.Min(r.done)) / float64(r.c.records)
	}
	return nil
}

// writers are the tasks that make the WRITEs of a process, all of a record at once.
type writers struct {
	queue *sched.Queue[uint64] // offsets
	left  *sched.Group         // of the record
	err   error
}

func (r *commitLoad) newWriters(ctx context.Context, fh nfsclient.FH) *writers {
	s := r.f.Sched()
	w := &writers{queue: sched.NewQueue[uint64](s, "a WRITE to make"), left: s.NewGroup("the WRITEs of a record")}
	for range commitRecord / r.c.wsize {
		s.Go("write", func() {
			for {
				off, err := w.queue.Pop(ctx)
				if err != nil {
					return
				}
				if _, err := r.m.Write(ctx, fh, off, r.data, nfsclient.UNSTABLE); err != nil {
					w.err = err
				}
				w.left.Done()
			}
		})
	}
	return w
}

// record writes record k.
func (w *writers) record(ctx context.Context, k, wsize int) error {
	n := commitRecord / wsize
	w.left.Add(n)
	for j := range n {
		w.queue.Push(uint64(k)*commitRecord + uint64(j*wsize))
	}
	if err := w.left.Wait(ctx); err != nil {
		return err
	}
	return w.err
}
