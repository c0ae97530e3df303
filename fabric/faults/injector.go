package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs/softroce"
)

// Injector decides when faults fire. Any task may use its decorators.
type Injector struct {
	s     *sched.Sched
	all   []*state
	by    [numPoints][]*state
	tasks *sched.Group
	sides [3]*device // by Side

	mu      sync.Mutex
	stopped bool
	running bool
	owner   Owner
	ctx     context.Context
	cancel  context.CancelFunc
	errs    []error
}

// state is a fault and what it did.
type state struct {
	Fault
	mu    sync.Mutex
	rng   *rand.Rand
	seen  int
	fired int
	done  int // actions that had an effect
}

// Count is what a fault did.
type Count struct {
	Fault Fault
	Seen  int // events that its filters let through
	Fired int // faults; actions that had an effect
}

// New makes an injector of valid faults. It fires nothing before Start.
func New(s *sched.Sched, list []Fault) (*Injector, error) {
	x := &Injector{s: s, tasks: s.NewGroup("actions of faults")}
	x.ctx, x.cancel = s.WithCancel(context.Background())
	same := map[Fault]int{}
	for _, f := range list {
		if err := f.Validate(); err != nil {
			x.cancel()
			return nil, err
		}
		// What a fault does must not depend on the others in the list.
		st := &state{Fault: f, rng: s.Rand(fmt.Sprintf("fault %v %d", f, same[f]))}
		same[f]++
		x.all = append(x.all, st)
		x.by[f.point()] = append(x.by[f.point()], st)
	}
	return x, nil
}

// Owner does what actions ask for that the decorators cannot; where a function is nil, they fail.
type Owner struct {
	// Crash ends the server, which loses what is not durable, and starts one again after down.
	Crash func(ctx context.Context, down time.Duration) error
	// Restart ends the server, which loses nothing but what it had in mind, and starts one again.
	Restart func(ctx context.Context) error
	// Disconnect ends connections that have no queue pair, seen from a side; false if there are none.
	Disconnect func(side Side) bool
}

// Start lets faults fire.
func (x *Injector) Start(o Owner) {
	x.mu.Lock()
	x.owner, x.running = o, true
	x.mu.Unlock()
	for _, st := range x.by[onTime] {
		x.spawn(st, func(ctx context.Context) error {
			wait := sched.FromStd(st.From) - sched.Duration(x.s.Now())
			if err := x.s.Sleep(ctx, wait); err != nil {
				return nil // stopped before
			}
			if x.on() {
				x.act(st)
			}
			return nil
		})
	}
}

// Stop ends all faults, and waits for the actions that run. Again, it does nothing. It gives the errors of actions.
func (x *Injector) Stop(ctx context.Context) error {
	x.mu.Lock()
	x.stopped = true
	x.mu.Unlock()
	x.cancel()
	err := x.tasks.Wait(ctx)
	x.mu.Lock()
	defer x.mu.Unlock()
	return errors.Join(append([]error{err}, x.errs...)...)
}

func (x *Injector) on() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.running && !x.stopped
}

// Counts tells of each fault what it did, in the order of New.
func (x *Injector) Counts() []Count {
	var out []Count
	for _, st := range x.all {
		st.mu.Lock()
		c := Count{st.Fault, st.seen, st.fired}
		if st.Kind.Action() {
			c.Fired = st.done
		}
		st.mu.Unlock()
		out = append(out, c)
	}
	return out
}

// UnfiredError lists faults that must have fired and never did.
type UnfiredError struct{ Counts []Count }

func (e *UnfiredError) Error() string {
	s := "faults that never fired:"
	for _, c := range e.Counts {
		s += fmt.Sprintf("\n\t%v (%d events seen)", c.Fault, c.Seen)
	}
	return s
}

// Unfired is an *UnfiredError if a fault that is not optional has not fired.
func (x *Injector) Unfired() error {
	var e UnfiredError
	for _, c := range x.Counts() {
		if c.Fired == 0 && !c.Fault.Optional {
			e.Counts = append(e.Counts, c)
		}
	}
	if len(e.Counts) == 0 {
		return nil
	}
	return &e
}

// event is something that a fault may be looked for at.
type event struct {
	packet string
	first  bool // of its message
	op     string
	dir    Dir
	side   Side
}

// fires says whether a fault fires at an event at now.
func (st *state) fires(e *event, now sched.Time) bool {
	switch {
	case st.Packet != "" && st.Packet != e.packet && st.Packet != "CM",
		st.Op != "" && st.Op != e.op,
		st.Dir != AnyDir && st.Dir != e.dir,
		st.Side != AnySide && e.side != AnySide && !st.Kind.Action() && st.Side != e.side,
		st.Kind == RNR && !(e.first && (e.packet == "SEND" || e.packet == "SEND_INV")),
		now < sched.Time(sched.FromStd(st.From)),
		st.To != 0 && now >= sched.Time(sched.FromStd(st.To)):
		return false
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.seen++
	switch {
	case st.Max != 0 && st.fired >= st.Max,
		st.Nth != 0 && st.seen != st.Nth,
		st.Every != 0 && st.seen%st.Every != 0,
		st.P != 0 && st.rng.Float64() >= st.P:
		return false
	}
	st.fired++
	return true
}

// at calls hit for each fault that fires at an event, and starts the actions that do.
func (x *Injector) at(pt point, e event, hit func(*state)) {
	list := x.by[pt]
	if len(list) == 0 || !x.on() {
		return
	}
	now := x.s.Now()
	for _, st := range list {
		if !st.fires(&e, now) {
			continue
		}
		if !st.Kind.Action() {
			hit(st)
			continue
		}
		x.spawn(st, func(context.Context) error { x.act(st); return nil })
	}
}

// Tap is for softroce.NetConfig; the devices of the network are named client and server.
func (x *Injector) Tap(p softroce.PacketInfo) softroce.Fate { return x.tap(onPacket, p) }

// CMTap is for softroce.NetConfig.
func (x *Injector) CMTap(p softroce.PacketInfo) softroce.Fate { return x.tap(onCM, p) }

func (x *Injector) tap(pt point, p softroce.PacketInfo) softroce.Fate {
	var f softroce.Fate
	e := event{packet: p.Kind, first: p.First, dir: ToClient}
	if p.From == sideNames[Client] {
		e.dir = ToServer
	}
	x.at(pt, e, func(st *state) {
		switch st.Kind {
		case Drop:
			f.Drop = true
		case Delay, Reorder:
			f.Delay += st.by()
		case Duplicate:
			f.Copies++
		case Corrupt:
			f.Corrupt = true
		case RNR:
			f.NotReady = true
		}
	})
	return f
}

// Error is the error of a call that a fault made fail.
type Error struct {
	Fault Fault
	Err   error // of package verbs or vfs
}

func (e *Error) Error() string { return fmt.Sprintf("injected %v: %v", e.Fault, e.Err) }

// Unwrap gives Err.
func (e *Error) Unwrap() error { return e.Err }

// fail is the error of an event, nil if none of its faults fires.
func (x *Injector) fail(pt point, e event, err error) error {
	var out error
	x.at(pt, e, func(st *state) {
		if out == nil {
			out = &Error{st.Fault, err}
		}
	})
	return out
}
