package sched

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultTaskLimit is how long one turn of virtual time may take by the wall clock.
const DefaultTaskLimit = 30 * time.Second

// Bits of virtual.alert, set by other goroutines and seen at the next event.
const (
	foreignEnded = 1 << iota // a context of another package may have ended
	asked                    // the watchdog wants to know whether tasks come back
)

// watchChecks is how often the watchdog looks within its time: a process that was stopped meanwhile looks
// at most once.
const watchChecks = 8

// watchdog looks from outside, by the wall clock, whether tasks come back to the scheduler. It changes nothing
// in the order of virtual time, asks through a word that the driver reads anyway, and has no goroutine but that
// of its timer.
type watchdog struct {
	alert  atomic.Uint32
	after  time.Duration // 0: it does not look
	report func(*StuckError)
	drives atomic.Uint32 // odd: somebody drives
	armed  atomic.Bool
	stuck  atomic.Pointer[StuckError]
	lost   error // a task did not come back at Close

	mu    sync.Mutex
	timer *time.Timer
	ended bool

	// Of the timer's goroutine.
	missed  int    // looks since it asked that found no answer
	during  uint32 // the drive in which it asked
	reports int
}

// SetTaskLimit sets after what time of the wall clock (default DefaultTaskLimit; <= 0 never) a task or callback
// that has not come back to the scheduler is reported: it waits for something outside of it, a channel or a
// sync.Mutex say, or computes without end. f gets the report; nil prints it to standard error. If the task comes back
// after all the wait under way fails with the *StuckError; if as much time passes again the program ends by a panic, since a goroutine
// cannot be ended from outside, nor go on who drives it. Set it before the first wait; it does nothing when live.
func (s *Sched) SetTaskLimit(d time.Duration, f func(*StuckError)) {
	if s.v != nil {
		s.v.after, s.v.report = max(d, 0), f
	}
}

// StuckError says that a task did not come back to the scheduler.
type StuckError struct {
	Task  string        // its name
	For   time.Duration // of the wall clock, at least
	Stack string        // of its goroutine
}

func (e *StuckError) Error() string {
	return fmt.Sprintf("sched: %s has not come back to the scheduler for %v by the wall clock: it waits for something outside of it "+
		"(a channel, a lock) or computes without end. Its goroutine cannot be ended:\n%s", e.Task, e.For, e.Stack)
}

// guard says that somebody drives, and sees to it that the watchdog looks.
func (v *virtual) guard() {
	v.drives.Add(1)
	if !v.armed.Load() && v.after > 0 && v.armed.CompareAndSwap(false, true) {
		v.arm()
	}
}

func (v *virtual) unguard() { v.drives.Add(1) }

// arm belongs to who has set armed.
func (v *virtual) arm() {
	v.watchdog.mu.Lock()
	defer v.watchdog.mu.Unlock()
	switch {
	case v.ended:
	case v.timer == nil:
		v.timer = time.AfterFunc(v.after/watchChecks, v.look)
	default:
		v.timer.Reset(v.after / watchChecks)
	}
}

func (v *virtual) stopWatch() {
	v.watchdog.mu.Lock()
	defer v.watchdog.mu.Unlock()
	v.ended = true
	if v.timer != nil {
		v.timer.Stop()
	}
}

// attend is the driver's answer to an alert.
func (v *virtual) attend() error {
	a := v.alert.Swap(0)
	if a&foreignEnded != 0 || v.rn == 0 && len(v.foreign.list) > 0 {
		v.foreign.check()
	}
	if e := v.stuck.Swap(nil); e != nil {
		return e
	}
	return nil
}

// look runs in a goroutine of the timer. It asks, and if nobody has answered for long while the same drive goes on, says so.
func (v *virtual) look() {
	n := v.drives.Load()
	switch {
	case n%2 == 0: // Nobody drives: the next who does sets the timer again.
		v.missed = 0
		v.armed.Store(false)
		if v.drives.Load()%2 == 0 || !v.armed.CompareAndSwap(false, true) {
			return
		}
	case v.alert.Load()&asked == 0 || n != v.during:
		v.missed, v.reports, v.during = 0, 0, n
		v.alert.Or(asked)
	default:
		v.missed++
	}
	if v.missed >= watchChecks*(v.reports+1) {
		v.bark()
	}
	v.arm()
}

func (v *virtual) bark() {
	e := v.findStuck(v.after * time.Duration(v.reports+1))
	if v.reports++; v.reports > 1 {
		panic(e.Error() + "\nsched: nor can who drives it go on, so the program ends here")
	}
	v.stuck.Store(e)
	if v.report != nil {
		v.report(e)
	} else {
		fmt.Fprintln(os.Stderr, e)
	}
}

// run is a frame by which a task is found among all goroutines: its first argument is the task.
//
//go:noinline
func (t *task) run(f func()) {
	f()
	runtime.KeepAlive(t)
}

// findStuck finds the one that runs. Tasks that do not run, and who drives them, are in state "coroutine".
func (v *virtual) findStuck(d time.Duration) *StuckError {
	e := &StuckError{Task: "a task", For: d, Stack: "(not found)"}
	names := map[string]string{}
	v.s.mu.Lock()
	for t := range v.s.tasks {
		names[fmt.Sprintf("%p", t)] = t.name
	}
	v.s.mu.Unlock()
	me := fmt.Sprintf("%p", v)
	for _, g := range goroutines() {
		head, frames, _ := strings.Cut(g, "\n")
		if strings.Contains(head, "[coroutine") {
			continue
		}
		if p, ok := firstArg(frames, "sched.(*task).run("); ok {
			if name, ok := names[p]; ok {
				e.Task, e.Stack = fmt.Sprintf("task %q", name), g
				return e
			}
		} else if p, ok := firstArg(frames, "sched.(*virtual).drive("); ok && p == me {
			e.Task, e.Stack = "a callback", g
		}
	}
	return e
}

// firstArg is the first argument of a function in a stack, as the run-time prints it.
func firstArg(frames, fn string) (string, bool) {
	_, args, ok := strings.Cut(frames, fn)
	if !ok {
		return "", false
	}
	args, _, _ = strings.Cut(args, ")")
	args, _, _ = strings.Cut(args, ",")
	return strings.TrimSuffix(args, "?"), true
}

// goroutines are the stacks of all, up to 64 MiB.
func goroutines() []string {
	for n := 1 << 20; ; n *= 4 {
		b := make([]byte, n)
		if got := runtime.Stack(b, true); got < n || n >= 64<<20 {
			return strings.Split(string(b[:got]), "\n\n")
		}
	}
}

// closing runs unwind, which resumes each task once more, in a goroutine of its own, and leaves it behind if a task does not come back.
func (v *virtual) closing(unwind func(at func(*task)) error) error {
	type result struct {
		err      error
		value    any
		returned bool
	}
	done := make(chan result, 1)
	var at atomic.Pointer[task]
	go func() {
		var r result
		defer func() {
			if !r.returned {
				r.value = recover()
			}
			done <- r
		}()
		r.err = unwind(func(t *task) { at.Store(t) })
		r.returned = true
	}()
	var tick <-chan time.Time
	if v.after > 0 {
		t := time.NewTicker(v.after / watchChecks)
		defer t.Stop()
		tick = t.C
	}
	var last *task
	missed := 0
	for {
		select {
		case r := <-done:
			switch {
			case r.returned:
				return r.err
			case r.value != nil:
				panic(r.value)
			default:
				runtime.Goexit()
			}
		case <-tick:
			if t := at.Load(); t != last {
				last, missed = t, 0
			} else if missed++; missed >= watchChecks {
				v.lost = v.findStuck(v.after)
				return v.lost
			}
		}
	}
}
