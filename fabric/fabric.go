package fabric

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/nfsserver/vfs"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
)

// Fabric is a client and a server joined by a verbs device. In virtual time one
// goroutine at a time, the test's own, may call it, and tasks of Go; live, any may.
type Fabric struct {
	params Params
	s      *sched.Sched
	net    *softroce.Network
	cdev   *softroce.Device
	sdev   *softroce.Device
	server *nfsserver.Server
	built
	ctx   context.Context
	start time.Time // live: of the clock

	pat    func() *pattern
	filled map[vfs.ID]int64

	mu       sync.Mutex
	mounts   []*Mount
	past     Counters // of closed mounts
	tasks    int      // of Go, that have not ended
	lines    []string // the last messages
	closed   bool
	closeErr error
}

// New starts a fabric, and closes it when the test ends. A failed test logs the
// seed and the command that runs it again.
func New(t TB, p Params) *Fabric {
	t.Helper()
	f, err := Start(p)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		t.Helper()
		if err := f.Close(); err != nil {
			t.Errorf("fabric: close: %v", err)
		}
		if t.Failed() {
			f.logReplay(t)
		}
	})
	return f
}

// Start is New outside a test; the caller closes the fabric.
func Start(p Params) (*Fabric, error) {
	if err := p.setDefaults(); err != nil {
		return nil, err
	}
	f := &Fabric{params: p, ctx: context.Background(), filled: map[vfs.ID]int64{}}
	f.pat = sync.OnceValue(func() *pattern { return newPattern(p.Seed) })
	if p.Live {
		f.s = sched.NewLive(p.Seed)
		f.start = time.Now()
	} else {
		f.s = sched.NewVirtual(p.Seed)
		if p.TimeLimit > 0 {
			f.s.SetLimit(sched.Time(sched.FromStd(p.TimeLimit)))
		}
		f.start = time.Unix(1_200_000_000, 0)
	}
	if err := f.build(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *Fabric) build() error {
	p := &f.params
	f.built = p.Storage.make(f.s, f.now)
	f.net = softroce.NewNetwork(f.s, softroce.NetConfig{Link: p.Link})
	var err error
	if f.sdev, err = f.net.NewDevice("server", p.Personality); err != nil {
		return err
	}
	if f.cdev, err = f.net.NewDevice("client", p.Personality); err != nil {
		return err
	}
	f.server, err = nfsserver.New(nfsserver.Config{
		Device: f.sdev, Addr: serverAddr, Sched: f.s,
		Exports:    []nfsserver.Export{{Path: "/", FS: f.fs, RootSquash: p.RootSquash, ReadOnly: p.ReadOnly}},
		Threads:    p.Threads,
		InlineSend: p.ServerInline, InlineRecv: p.ServerInline, Credits: p.ServerCredits,
		ORD: p.ORD, SQDepth: p.SQDepth, MaxPayload: p.MaxBlockSize,
		NoRemoteInvalidation: p.NoRemoteInv, RegisterSink: p.RegisterSink,
		Trace: f.traceServer(),
	})
	return err
}

const serverAddr = "server:20049"

// now is the clock of the exported file system.
func (f *Fabric) now() vfs.Time {
	t := f.start.Add(sched.Duration(f.s.Now()).Std())
	return vfs.Time{Sec: uint32(t.Unix()), Nsec: uint32(t.Nanosecond())}
}

// Now is the time since the start: virtual, or of the wall clock.
func (f *Fabric) Now() time.Duration { return sched.Duration(f.s.Now()).Std() }

// Sleep waits for d of the fabric's time.
func (f *Fabric) Sleep(ctx context.Context, d time.Duration) error {
	return f.s.Sleep(ctx, sched.FromStd(d))
}

// WithTimeout is context.WithTimeout in the fabric's time.
func (f *Fabric) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return f.s.WithTimeout(ctx, sched.FromStd(d))
}

// WithCancel is context.WithCancel; in virtual time its effect has a certain place in the trace.
func (f *Fabric) WithCancel(ctx context.Context) (context.Context, context.CancelFunc) {
	return f.s.WithCancel(ctx)
}

// Fingerprint is a hash over the trace of virtual time so far; equal for equal
// runs. It is 0 when live.
func (f *Fabric) Fingerprint() uint64 { return f.s.Fingerprint() }

// Go starts a task beside the test's own goroutine. The returned function waits
// for its end. t.FailNow in a task stops the test.
func (f *Fabric) Go(name string, fn func()) (wait func(ctx context.Context) error) {
	g := f.s.NewGroup("the end of task " + name)
	f.mu.Lock()
	f.tasks++
	f.mu.Unlock()
	g.Go(name, func() {
		defer func() {
			f.mu.Lock()
			f.tasks--
			f.mu.Unlock()
		}()
		fn()
	})
	return g.Wait
}

// Params are the knobs in force.
func (f *Fabric) Params() Params { return f.params }

// NFSServer is the server.
func (f *Fabric) NFSServer() *nfsserver.Server { return f.server }

// FS is the exported file system, with its delays.
func (f *Fabric) FS() vfs.FS { return f.fs }

// Client is the client's end; its counters are the sums over all mounts.
func (f *Fabric) Client() Side {
	return Side{func() Counters {
		f.mu.Lock()
		defer f.mu.Unlock()
		sum := f.past
		for _, m := range f.mounts {
			sum = sum.add(Counters(m.nfs.Counters()))
		}
		return sum
	}, f.cdev}
}

// Server is the server's end.
func (f *Fabric) Server() Side {
	return Side{func() Counters {
		st := f.server.Stats()
		return Counters(st.Counters())
	}, f.sdev}
}

type snapshot struct{ client, server Counters }

func (f *Fabric) snapshot() snapshot {
	return snapshot{f.Client().Counters(), f.Server().Counters()}
}

func (f *Fabric) pattern() *pattern { return f.pat() }

// check ends the test if err is not nil.
func (f *Fabric) check(t TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, sched.ErrAborted):
		t.FailNow() // a task called FailNow and has said why
	default:
		t.Fatalf("%v", err)
	}
}

// Close unmounts, stops the server and checks that nothing is left: no task, no
// memory region, no DMA mapping, no queue, no lent page. It may come at any time: calls in flight end with errors.
func (f *Fabric) Close() error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return f.closeErr
	}
	f.closed = true
	f.s.SetLimit(f.s.Now().Add(closeLimit))
	mounts := slices.Clone(f.mounts)
	f.mu.Unlock()
	var errs []error
	add := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		}
	}
	for _, m := range mounts {
		add("unmount", m.nfs.Close())
	}
	if f.server != nil {
		add("server", f.server.Close())
	}
	f.mu.Lock()
	if f.tasks > 0 {
		errs = append(errs, fmt.Errorf("%d tasks of Go have not ended:\n\t%s", f.tasks, strings.Join(f.s.Tasks(), "\n\t")))
	}
	f.mu.Unlock()
	// Tasks that still wait, such as a load that was cut off, end here.
	add("scheduler", f.s.Close())
	for _, d := range []*softroce.Device{f.cdev, f.sdev} {
		if d == nil {
			continue
		}
		if r := d.Resources(); r != (verbs.Resources{}) {
			errs = append(errs, fmt.Errorf("objects left on device %s: %+v", d.Name(), r))
		}
		add("device "+d.Name(), d.Close())
	}
	if f.net != nil {
		add("network", f.net.Close())
	}
	if f.mem != nil {
		if n := f.mem.Pinned(); n != 0 {
			errs = append(errs, fmt.Errorf("%d pages of the file system are still lent", n))
		}
		add("file system", f.mem.CheckConsistent())
	}
	f.closeErr = errors.Join(errs...)
	return f.closeErr
}

// closeLimit is how much virtual time Close may take.
const closeLimit = 3600 * sched.Second

const maxLines = 40

func (f *Fabric) trace(who, line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.lines) == maxLines {
		f.lines = slices.Delete(f.lines, 0, 1)
	}
	f.lines = append(f.lines, fmt.Sprintf("%v %s %s", f.s.Now(), who, line))
}

func (f *Fabric) traceServer() func(string) {
	if !f.params.Trace {
		return nil
	}
	return func(line string) { f.trace("server", line) }
}

func (f *Fabric) logReplay(t TB) {
	t.Helper()
	mode := "virtual time"
	if f.params.Live {
		mode = "live"
	}
	dir := "."
	if wd, err := os.Getwd(); err == nil {
		dir = "./" + filepath.Base(wd)
	}
	t.Logf("fabric: seed %d, %s; run it again: NFSRDMA_SEED=%d NFSRDMA_TRACE=1 go test -count=1 -run '%s' %s",
		f.params.Seed, mode, f.params.Seed, runPattern(t.Name()), dir)
	for _, l := range f.lines {
		t.Logf("%s", l)
	}
}

func runPattern(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + p + "$"
	}
	return strings.Join(parts, "/")
}
