package sched

import (
	"fmt"
	"math"
	"sort"
	"strings"
)

// DefaultInstantLimit is how many turns one instant of virtual time may have: a hundred times what a whole
// load on a wire without delay takes, and some seconds.
const DefaultInstantLimit = 1 << 24

// busy counts the turns of the present instant: events, and waits and attempts that return at once.
type busy struct {
	turns      int64
	most       int64 // beyond which the run ends
	countFrom  int64 // from here on who has the turns is counted
	livelocked bool  // it has been so
	who        map[string]int64
	fails      int // waits that ended in an error of the run
}

// maxCounted is how many turns are counted by name before the limit.
const maxCounted = 1 << 14

// SetInstantLimit makes waits fail with a *LivelockError once n turns (task switches, events, waits and attempts
// that return at once) have gone by without virtual time going on; n <= 0 is no limit. The default is
// DefaultInstantLimit. It counts anew from here, and does nothing when live.
func (s *Sched) SetInstantLimit(n int64) {
	if s.v != nil {
		s.v.setInstantLimit(n)
	}
}

func (v *virtual) setInstantLimit(n int64) {
	v.busy = busy{livelocked: v.livelocked, most: n, countFrom: n - min(n/2, maxCounted)}
	if n <= 0 {
		v.most, v.countFrom = math.MaxInt64, math.MaxInt64
	}
}

// LivelockError says that tasks or events go on without virtual time going on.
type LivelockError struct {
	At      Time     // the instant
	Turns   int64    // that it has had
	Caller  string   // what the caller waits for
	Busiest []string // who had most of the last turns: tasks by name, and kinds of events
	Tasks   []string // each task that has not ended, and what it waits for
}

func (e *LivelockError) Error() string {
	return describe(fmt.Sprintf("sched: livelock at %v: %d turns without time going on, while the caller waits for %s; most of the last turns: %s",
		e.At, e.Turns, e.Caller, strings.Join(e.Busiest, ", ")), e.Tasks)
}

// count notes whose turn it is.
func (v *virtual) count(ev Event) {
	switch ev := ev.(type) {
	case *task:
		v.note("task " + ev.name)
	case *timerEvent:
		v.note("timers")
	case *Waiter:
		if ev.task == nil { // otherwise its task has the next turn
			v.note("the end of a sleep")
		}
	default:
		v.note(fmt.Sprintf("events of type %T", ev))
	}
}

func (v *virtual) note(name string) {
	if v.who == nil || v.turns == v.countFrom {
		v.who = map[string]int64{}
	}
	v.who[name]++
}

// busiest names the first few of those who had turns.
func (v *virtual) busiest() []string {
	names := make([]string, 0, len(v.who))
	for n := range v.who {
		names = append(names, n)
	}
	sort.Slice(names, func(i, j int) bool {
		a, b := names[i], names[j]
		return v.who[a] > v.who[b] || v.who[a] == v.who[b] && a < b
	})
	for i, n := range names {
		names[i] = fmt.Sprintf("%s (%d)", n, v.who[n])
	}
	return names[:min(len(names), 8)]
}

func (v *virtual) livelock(caller string) *LivelockError {
	v.livelocked = true
	return &LivelockError{At: v.now, Turns: v.turns, Caller: caller, Busiest: v.busiest(), Tasks: v.list()}
}

// tick counts a call that returned without giving anybody else a turn.
func (s *Sched) tick() {
	if s.v != nil {
		s.v.tick()
	}
}

func (v *virtual) tick() {
	if v.turns++; v.turns >= v.countFrom {
		v.tickLate()
	}
}

func (v *virtual) tickLate() {
	switch t := v.cur; {
	case t != nil:
		v.note("task " + t.name)
		if v.turns > v.most {
			v.halt(t)
		}
	case v.inEvent:
		v.note("a callback")
		if v.turns > v.most {
			panic(v.livelock("a callback that does not return").Error())
		}
	default:
		v.note("the caller")
		if v.turns > v.most {
			panic(v.livelock("nothing: it goes on without waiting").Error())
		}
	}
}

// halt is what ends a task that goes on without end: its call has no error to return, or is not listened to.
type halt struct{}

// halt suspends the current task, whose driver then sees the limit. At Close the task's deferred functions run.
func (v *virtual) halt(t *task) {
	if !v.closed {
		t.halted = true
		t.yield(struct{}{})
		v.cur, t.halted = t, false
	}
	panic(halt{})
}

// maxFails bounds the waits of one scheduler that end in an error of the run: who goes on in spite of them never ends.
const maxFails = 100_000

func (v *virtual) failed(err error) error {
	if v.fails++; v.fails > maxFails {
		panic(fmt.Sprintf("sched: a caller goes on waiting, %d times so far, in spite of %v", v.fails, err))
	}
	return err
}
