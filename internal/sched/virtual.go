package sched

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"runtime/debug"
	"strings"
)

// Event is something that happens at a time: Fire runs between tasks and must not wait.
type Event interface{ Fire() }

// task is one coroutine (virtual) or goroutine (live).
type task struct {
	name   string
	id     uint64
	next   func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool
	on     *Waiter // what it waits for
	since  Time
	done   bool
	prev   *task // list of live tasks, in order of creation
	follow *task
	spins  int  // waits after Close
	halted bool // it went on without end, and is not resumed before Close

	returned bool // its function did
}

func (t *task) Fire() {} // marks a task in the heap; resumed by step

type entry struct {
	at  Time
	seq uint64
	ev  Event
}

func (e *entry) before(o *entry) bool {
	return e.at < o.at || e.at == o.at && e.seq < o.seq
}

// virtual is the event heap. It has no locks: one goroutine at a time runs it,
// and coroutines of it run only while it does.
type virtual struct {
	s       *Sched
	now     Time
	seq     uint64
	heap    []entry // 4-ary
	ring    []entry // due now, in order of seq; a power of two
	rh, rn  int
	cur     *task
	driving bool
	inEvent bool
	closed  bool
	first   *task
	last    *task
	ntasks  int
	nextID  uint64
	print   uint64 // fingerprint of the trace
	foreign foreign
	trace   func(Time, string)
	limit   Time
	busy
	watchdog
	timers []*Timer // idle, of contexts
}

func newVirtual(s *Sched) *virtual {
	v := &virtual{s: s, ring: make([]entry, 64), print: 14695981039346656037, limit: math.MaxInt64}
	v.setInstantLimit(DefaultInstantLimit)
	v.watchdog.after = DefaultTaskLimit
	return v
}

// Fingerprint is a hash over the order and time of all task switches so far:
// equal for equal traces. It is 0 when live.
func (s *Sched) Fingerprint() uint64 {
	if s.v == nil {
		return 0
	}
	return s.v.print
}

// SetTrace calls f at each task switch with the task's name, in virtual time only.
func (s *Sched) SetTrace(f func(Time, string)) {
	if s.v != nil {
		s.v.trace = f
	}
}

// At lets e fire at time t, or now if t has passed.
func (s *Sched) At(t Time, e Event) {
	if s.v == nil {
		s.liveAt(t, e)
		return
	}
	s.v.post(t, e)
}

func (v *virtual) post(t Time, e Event) {
	v.seq++
	if t <= v.now {
		v.pushRing(entry{v.now, v.seq, e})
		return
	}
	v.push(entry{t, v.seq, e})
}

func (v *virtual) pushRing(e entry) {
	if v.rn == len(v.ring) {
		r := make([]entry, 2*len(v.ring))
		for i := range v.rn {
			r[i] = v.ring[(v.rh+i)&(len(v.ring)-1)]
		}
		v.ring, v.rh = r, 0
	}
	v.ring[(v.rh+v.rn)&(len(v.ring)-1)] = e
	v.rn++
}

func (v *virtual) push(e entry) {
	h := append(v.heap, e)
	i := len(h) - 1
	for i > 0 {
		p := (i - 1) / 4
		if !e.before(&h[p]) {
			break
		}
		h[i] = h[p]
		i = p
	}
	h[i] = e
	v.heap = h
}

func (v *virtual) popHeap() entry {
	h := v.heap
	top := h[0]
	n := len(h) - 1
	e := h[n]
	h[n] = entry{}
	h = h[:n]
	v.heap = h
	if n == 0 {
		return top
	}
	i := 0
	for {
		c := 4*i + 1
		if c >= n {
			break
		}
		m := c
		for k := c + 1; k < min(c+4, n); k++ {
			if h[k].before(&h[m]) {
				m = k
			}
		}
		if !h[m].before(&e) {
			break
		}
		h[i] = h[m]
		i = m
	}
	h[i] = e
	return top
}

// step runs the next event; false if there is none.
func (v *virtual) step() bool {
	var e entry
	switch {
	case v.rn > 0 && (len(v.heap) == 0 || v.ring[v.rh].before(&v.heap[0])):
		e = v.ring[v.rh]
		v.ring[v.rh] = entry{}
		v.rh = (v.rh + 1) & (len(v.ring) - 1)
		v.rn--
	case len(v.heap) > 0:
		e = v.popHeap()
		if e.at != v.now {
			v.now, v.turns = e.at, 0
		}
	default:
		return false
	}
	if v.turns++; v.turns >= v.countFrom {
		v.count(e.ev)
	}
	if t, ok := e.ev.(*task); ok {
		v.resume(t)
		return true
	}
	v.inEvent = true
	e.ev.Fire()
	v.inEvent = false
	return true
}

const fnvPrime = 1099511628211

func (v *virtual) resume(t *task) {
	if t.done {
		return
	}
	v.print = (v.print ^ uint64(v.now)) * fnvPrime
	v.print = (v.print ^ t.id) * fnvPrime
	if v.trace != nil {
		v.trace(v.now, t.name)
	}
	v.cur = t
	t.next()
	v.cur = nil
}

func (v *virtual) spawn(t *task, f func()) {
	v.nextID++
	t.id = v.nextID
	t.next, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		defer v.finish(t)
		t.run(f)
		t.returned = true
	})
	if v.last == nil {
		v.first = t
	} else {
		v.last.follow, t.prev = t, v.last
	}
	v.last = t
	v.ntasks++
	v.s.mu.Lock()
	v.s.tasks[t] = struct{}{}
	v.s.mu.Unlock()
	if v.closed {
		// Too late to run: it would only see closed waits.
		v.drop(t)
		t.stop()
		return
	}
	v.post(v.now, t)
}

// finish runs in the coroutine when its function ends, whether by return,
// panic or Goexit. The last two go on to whoever drives the heap.
func (v *virtual) finish(t *task) {
	v.drop(t)
	r := recover()
	if _, ok := r.(halt); ok {
		return
	}
	if !t.returned {
		v.s.aborted.Store(true)
	}
	if r != nil {
		panic(fmt.Sprintf("task %q at %v: %v\n%s", t.name, v.now, r, debug.Stack()))
	}
}

func (v *virtual) drop(t *task) {
	if t.done {
		return
	}
	t.done = true
	v.s.mu.Lock()
	delete(v.s.tasks, t)
	v.s.mu.Unlock()
	if t.prev != nil {
		t.prev.follow = t.follow
	} else {
		v.first = t.follow
	}
	if t.follow != nil {
		t.follow.prev = t.prev
	} else {
		v.last = t.prev
	}
	v.ntasks--
}

// drive runs events until w is woken.
func (v *virtual) drive(w *Waiter) error {
	if v.driving {
		panic("sched: a callback, or a goroutine that is no task (Fabric.Go starts tasks), waits in virtual time for " + w.describe())
	}
	v.driving = true
	v.guard()
	defer func() {
		v.driving, v.cur, v.inEvent, w.waiting = false, nil, false, false
		v.unguard()
	}()
	for !w.woken {
		if v.alert.Load() != 0 {
			if err := v.attend(); err != nil {
				return v.failed(err)
			}
		} else if v.rn == 0 && len(v.foreign.list) > 0 {
			v.foreign.check()
		}
		if !v.step() {
			return v.failed(v.deadlock(w))
		}
		if v.now > v.limit {
			return v.failed(&TimeLimitError{Limit: v.limit, Caller: w.describe(), Tasks: v.list()})
		}
		if v.turns > v.most {
			return v.failed(v.livelock(w.describe()))
		}
	}
	return nil
}

// park suspends the current task until its waiter is woken.
func (v *virtual) park(w *Waiter) {
	t := v.cur
	t.on, t.since = w, v.now
	w.task = t
	ok := t.yield(struct{}{})
	v.cur = t
	t.on, w.task = nil, nil
	if !ok {
		v.closed = true
	}
}

func (v *virtual) list() []string {
	var out []string
	for t := v.first; t != nil; t = t.follow {
		switch {
		case t == v.cur:
			out = append(out, fmt.Sprintf("%s: running", t.name))
		case t.halted:
			out = append(out, fmt.Sprintf("%s: goes on without end", t.name))
		case t.on == nil:
			out = append(out, fmt.Sprintf("%s: ready", t.name))
		default:
			out = append(out, fmt.Sprintf("%s: waits for %s since %v", t.name, t.on.describe(), t.since))
		}
	}
	return out
}

// SetLimit makes waits fail with a *TimeLimitError once virtual time has passed
// t, so that what would go on for ever ends. It does nothing when live.
func (s *Sched) SetLimit(t Time) {
	if s.v != nil {
		s.v.limit = t
	}
}

// TimeLimitError says that virtual time has passed its limit.
type TimeLimitError struct {
	Limit  Time
	Caller string   // what the caller waits for
	Tasks  []string // each task that has not ended, and what it waits for
}

func (e *TimeLimitError) Error() string {
	return describe(fmt.Sprintf("sched: virtual time has passed its limit of %v: the caller waits for %s", e.Limit, e.Caller), e.Tasks)
}

func (v *virtual) deadlock(w *Waiter) error {
	return &DeadlockError{At: v.now, Caller: w.describe(), Tasks: v.list()}
}

// DeadlockError says that nothing is left to happen although somebody waits.
type DeadlockError struct {
	At     Time
	Caller string   // what the caller waits for
	Tasks  []string // each task that has not ended, and what it waits for
}

func (e *DeadlockError) Error() string {
	return describe(fmt.Sprintf("sched: deadlock at %v: the caller waits for %s, and nothing is left to happen", e.At, e.Caller), e.Tasks)
}

// describe lists the tasks below what, equal ones as one line.
func describe(what string, tasks []string) string {
	lines := []string{what}
	n := map[string]int{}
	for _, t := range tasks {
		if n[t]++; n[t] == 1 {
			lines = append(lines, t)
		}
	}
	for i, l := range lines[1:] {
		if n[l] > 1 {
			lines[1+i] = fmt.Sprintf("%s (%d such tasks)", l, n[l])
		}
	}
	return strings.Join(lines, "\n\t")
}

// maxSpins bounds the waits that one task may try after Close.
const maxSpins = 100_000

func (v *virtual) close() error {
	switch {
	case v.lost != nil:
		return v.lost
	case v.cur != nil:
		return fmt.Errorf("sched: Close called by task %q, which it would have to end", v.cur.name)
	case v.inEvent || v.driving:
		return errors.New("sched: Close called by a callback, or while another goroutine drives the scheduler")
	}
	v.stopWatch()
	v.closed = true
	return v.closing(v.unwind)
}

// unwind ends the tasks, telling at each.
func (v *virtual) unwind(at func(*task)) error {
	v.driving = true
	defer func() { v.driving, v.cur = false, nil }()
	for t := v.first; t != nil; t = v.first {
		if t.on == nil && !t.started() {
			// Never ran: there is nothing to unwind.
			v.drop(t)
			t.stop()
			continue
		}
		v.cur = t
		at(t)
		t.next()
		v.cur = nil
		if !t.done {
			return fmt.Errorf("sched: task %q did not end at Close", t.name)
		}
	}
	v.foreign.close()
	clear(v.heap)
	v.heap = v.heap[:0]
	v.rn = 0
	return nil
}

func (t *task) started() bool { return t.yield != nil }
