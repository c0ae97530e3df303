package fabric

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"example.org/nfsrdma/fabric/faults"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/nfsserver/vfs"
)

// Fabric is a client and a server joined by a verbs device. In virtual time one
// goroutine at a time, the test's own, may call it, and tasks of Go; live, any may.
type Fabric struct {
	params Params
	test   string // its name, if New made it
	s      *sched.Sched
	dev    devices
	tcp    tcp
	server *nfsserver.Server
	built
	ctx   context.Context
	start time.Time    // live: of the clock
	tasks *sched.Group // of Go
	dials *sched.Group // mounts that are being made
	crash *sched.Mutex // one crash at a time

	crashes atomic.Uint32 // beginnings and ends of crashes and restarts

	faults *faults.Injector // nil: none

	mu      sync.Mutex
	pat     *pattern
	files   map[vfs.ID]*fileState
	dialing []*dial
	mounts  []*Mount
	past    Counters // of closed mounts
	boots   uint64   // of the server

	pastServer Counters // of crashed servers

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
	f.test = t.Name()
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
	if err := p.setFrame(); err != nil {
		return nil, err
	}
	f := &Fabric{params: p, ctx: context.Background(), files: map[vfs.ID]*fileState{}}
	if p.Live {
		f.s = sched.NewLive(p.Seed)
		f.start = time.Now()
	} else {
		f.s = sched.NewVirtual(p.Seed)
		if p.TimeLimit > 0 {
			f.s.SetLimit(sched.Time(sched.FromStd(p.TimeLimit)))
		}
		f.s.SetInstantLimit(p.InstantLimit)
		f.s.SetTaskLimit(p.TaskLimit, f.reportStuck)
		f.start = time.Unix(1_200_000_000, 0)
	}
	f.tasks = f.s.NewGroup("the tasks of Go")
	f.dials = f.s.NewGroup("the mounts that are being made")
	f.crash = f.s.NewMutex("a crash of the server")
	if err := f.build(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *Fabric) build() error {
	p := &f.params
	var err error
	if len(p.Faults) > 0 {
		if f.faults, err = faults.New(f.s, p.Faults); err != nil {
			return err
		}
	}
	if f.dev, err = p.open(f.s, f.faults); err != nil {
		return err
	}
	if err := p.setDefaults(f.dev.client.Attr()); err != nil {
		return err
	}
	if f.tcp, err = p.openTCP(f.s); err != nil {
		return err
	}
	if f.built, err = p.Storage.make(f.s, f.now); err != nil {
		return err
	}
	if f.faults == nil {
		f.server, err = f.newServer()
		return err
	}
	f.dev.client, f.dev.server = f.faults.Device(faults.Client, f.dev.client), f.faults.Device(faults.Server, f.dev.server)
	f.fs = f.faults.FS(f.fs)
	if f.server, err = f.newServer(); err == nil {
		f.faults.Start(faults.Owner{Crash: f.CrashServer, Restart: f.restartServer, Disconnect: f.disconnectTCP})
	}
	return err
}

// Faults decides on the faults of Params.Faults, and counts them; nil if there are none.
func (f *Fabric) Faults() *faults.Injector { return f.faults }

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
// for its end; it fails with ErrStopped if t.FailNow ended it, which stops the test.
func (f *Fabric) Go(name string, fn func()) (wait func(ctx context.Context) error) {
	g := f.s.NewGroup("the end of task " + name)
	var returned atomic.Bool
	f.tasks.Add(1)
	g.Go(name, func() {
		defer f.tasks.Done()
		fn()
		returned.Store(true)
	})
	return func(ctx context.Context) error {
		err := g.Wait(ctx)
		if err == nil && !returned.Load() {
			err = ErrStopped
		}
		return err
	}
}

// Params are the knobs in force.
func (f *Fabric) Params() Params { return f.params }

// NFSServer is the server; CrashServer replaces it.
func (f *Fabric) NFSServer() *nfsserver.Server {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.server
}

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
	}, f.dev.client}
}

// Server is the server's end.
func (f *Fabric) Server() Side {
	return Side{func() Counters {
		f.mu.Lock()
		srv, past := f.server, f.pastServer
		f.mu.Unlock()
		st := srv.Stats()
		return past.add(Counters(st.Counters()))
	}, f.dev.server}
}

type snapshot struct{ client, server Counters }

func (f *Fabric) snapshot() snapshot {
	return snapshot{f.Client().Counters(), f.Server().Counters()}
}

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
