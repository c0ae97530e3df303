package sched

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed is what a wait returns once the scheduler is closed.
var ErrClosed = errors.New("sched: closed")

// ErrAborted is what a wait returns after a live task ended by runtime.Goexit,
// as t.FailNow does: the test's own goroutine must then stop too.
var ErrAborted = errors.New("sched: a task stopped the test")

// Sched runs tasks, virtual or live. All methods may be called from any task;
// in virtual time only from one goroutine that is not a task. The owner closes it.
type Sched struct {
	seed    uint64
	v       *virtual // nil when live
	start   time.Time
	closing atomic.Bool
	end     chan struct{} // live: closed by Close or abort
	lanes   [32]lane      // live: for waiters, few for each: their selects would all lock one channel
	inits   atomic.Uint32 // waiters made
	aborted atomic.Bool
	endOnce sync.Once
	wg      sync.WaitGroup

	mu     sync.Mutex // tasks, free
	tasks  map[*task]struct{}
	meters meters
	free   *Waiter // idle waiters for queues, locks and semaphores
	nfree  int
}

// lane ends the waits of some waiters: end by Close or abort, down, for Cleanup, by Close.
type lane struct{ end, down chan struct{} }

// NewVirtual makes a scheduler in virtual time.
func NewVirtual(seed uint64) *Sched {
	s := &Sched{seed: seed, tasks: map[*task]struct{}{}, end: make(chan struct{})}
	s.v = newVirtual(s)
	return s
}

// NewLive makes a scheduler on goroutines and the wall clock.
func NewLive(seed uint64) *Sched {
	s := &Sched{seed: seed, start: time.Now(), end: make(chan struct{}), tasks: map[*task]struct{}{}}
	for i := range s.lanes {
		s.lanes[i] = lane{make(chan struct{}), make(chan struct{})}
	}
	return s
}

// Virtual says whether time is virtual.
func (s *Sched) Virtual() bool { return s.v != nil }

// Seed is what the scheduler was made with.
func (s *Sched) Seed() uint64 { return s.seed }

// Now is the time since the scheduler was made.
func (s *Sched) Now() Time {
	if s.v != nil {
		return s.v.now
	}
	return Time(FromStd(time.Since(s.start)))
}

// Rand is a stream of random numbers of its own for each name, the same for
// the same seed. It may not be used by two tasks at the same time.
func (s *Sched) Rand(name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(s.seed, h.Sum64()))
}

// Go starts a task. The name stands in reports of deadlocks and leaks. After
// Close it starts nothing.
func (s *Sched) Go(name string, f func()) {
	t := &task{name: name}
	if s.v != nil {
		s.v.spawn(t, f)
		return
	}
	s.mu.Lock()
	late := s.closing.Load()
	if !late {
		s.tasks[t] = struct{}{}
		s.wg.Add(1)
	}
	s.mu.Unlock()
	if !late {
		go s.runLive(t, f)
	}
}

func (s *Sched) runLive(t *task, f func()) {
	ok := false
	defer func() {
		s.mu.Lock()
		delete(s.tasks, t)
		s.mu.Unlock()
		if !ok { // Goexit; a panic ends the program anyway.
			s.abort()
		}
		s.wg.Done()
	}()
	f()
	ok = true
}

func (s *Sched) abort() {
	s.aborted.Store(true)
	s.endLive()
}

func (s *Sched) endLive() {
	s.endOnce.Do(func() {
		close(s.end)
		if s.v == nil {
			for i := range s.lanes {
				close(s.lanes[i].end)
			}
		}
	})
}

// Cleanup is the context of those who take things down: a wait with it goes on when a task has stopped
// the test, until those have left whose waits have failed. Otherwise it is context.Background.
var Cleanup context.Context = cleanup{context.Background()}

type cleanup struct{ context.Context }

// Ended says whether err means that waiting is over for good, so that it is of no use to try
// again: the scheduler is closed or a task has stopped the test, or time cannot go on.
func Ended(err error) bool {
	var dead *DeadlockError
	var limit *TimeLimitError
	var live *LivelockError
	var stuck *StuckError
	return errors.Is(err, ErrClosed) || errors.Is(err, ErrAborted) || errors.As(err, &dead) || errors.As(err, &limit) ||
		errors.As(err, &live) || errors.As(err, &stuck)
}

// Aborted says whether a task has stopped the test. Live, every wait fails then; in virtual time the goroutine
// that drove the task has ended too, maybe in the middle of a call.
func (s *Sched) Aborted() bool { return s.aborted.Load() }

// InTask says whether the caller is a task of virtual time. Live, nobody can tell: false.
func (s *Sched) InTask() bool { return s.v != nil && s.v.cur != nil }

// Tasks lists the tasks that have not ended, one line each.
func (s *Sched) Tasks() []string {
	if s.v != nil {
		return s.v.list()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for t := range s.tasks {
		out = append(out, t.name)
	}
	return out
}

// Close ends every wait with ErrClosed and waits until all tasks have ended.
// Timers that have not fired never do. It fails if a task does not end.
func (s *Sched) Close() error {
	if s.v != nil {
		s.closing.Store(true)
		return s.v.close()
	}
	s.mu.Lock()
	again := s.closing.Swap(true)
	s.mu.Unlock()
	s.endLive()
	if !again {
		for i := range s.lanes {
			close(s.lanes[i].down)
		}
	}
	done := make(chan struct{})
	go func() { s.wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-time.After(10 * time.Second):
		return fmt.Errorf("sched: tasks did not end within 10 s of Close: %q", s.Tasks())
	}
}

func (s *Sched) endErr() error {
	if s.aborted.Load() {
		return ErrAborted
	}
	return ErrClosed
}

// Sleep waits for d; ctx ends it early.
func (s *Sched) Sleep(ctx context.Context, d Duration) error {
	if s.v == nil {
		return s.sleepLive(ctx, d)
	}
	w := s.getWaiter("sleep")
	s.v.post(s.v.now.Add(max(d, 0)), w)
	err := w.Wait(ctx)
	if err == nil {
		s.putWaiter(w) // otherwise it is still in the heap
	}
	return err
}

func (s *Sched) sleepLive(ctx context.Context, d Duration) error {
	t := time.NewTimer(d.Std())
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.end:
		return s.endErr()
	}
}

func (s *Sched) getWaiter(what string) *Waiter {
	s.mu.Lock()
	w := s.free
	if w != nil {
		s.free = w.next
		s.nfree--
	}
	s.mu.Unlock()
	if w == nil {
		w = &Waiter{}
		w.Init(s, what)
	}
	w.next, w.what = nil, what
	return w
}

// putWaiter takes back a waiter that nobody will wake any more.
func (s *Sched) putWaiter(w *Waiter) {
	s.mu.Lock()
	if s.nfree < 4096 {
		w.next = s.free
		s.free = w
		s.nfree++
	}
	s.mu.Unlock()
}
