package sched

import (
	"slices"
	"sync"
	"time"
)

// Timer calls a function when it is due; Reset sets it again. The function
// runs between tasks (virtual) or in its own goroutine (live) and must not wait. Live,
// it may still be running when Reset, Stop or Close return, but never twice at once.
// After Close it does not begin.
type Timer struct {
	s *Sched
	f func()

	at    Time // when it is due, if armed; live under mu
	armed bool

	// Virtual: an entry in the heap cannot be taken back, so one that comes early
	// serves a later deadline: it goes on waiting.
	due []Time // of the entries in the heap, earliest first; hardly ever more than two
	ev  timerEvent

	mu      sync.Mutex
	live    *time.Timer
	running sync.Mutex
}

type timerEvent struct{ t *Timer }

// NewTimer makes a timer that is not set.
func (s *Sched) NewTimer(f func()) *Timer {
	t := &Timer{s: s, f: f}
	t.ev.t = t
	return t
}

// Reset sets the timer to fire in d, and forgets an earlier setting.
func (t *Timer) Reset(d Duration) {
	if t.s.v != nil {
		v := t.s.v
		t.at, t.armed = v.now.Add(max(d, 0)), true
		t.queue(v)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	std := max(d, 0).Std()
	t.at, t.armed = t.s.Now().Add(FromStd(std)), true
	if t.live == nil {
		t.live = time.AfterFunc(std, t.fireLive)
	} else {
		t.live.Reset(std)
	}
}

// fireLive may belong to an earlier setting: then it is too early, or as good as the present one's.
func (t *Timer) fireLive() {
	t.running.Lock()
	defer t.running.Unlock()
	t.mu.Lock()
	ok := t.armed && t.s.Now() >= t.at && !t.s.closing.Load()
	if ok {
		t.armed = false
	}
	t.mu.Unlock()
	if ok {
		t.f()
	}
}

// queue sees to it that an entry comes no later than the deadline.
func (t *Timer) queue(v *virtual) {
	if len(t.due) > 0 && t.due[0] <= t.at {
		return
	}
	t.due = slices.Insert(t.due, 0, t.at)
	v.post(t.at, &t.ev)
}

// Fire is the heap's call.
func (e *timerEvent) Fire() {
	t, v := e.t, e.t.s.v
	t.due = slices.Delete(t.due, 0, 1)
	if !t.armed {
		return
	}
	if v.now < t.at {
		t.queue(v)
		return
	}
	t.armed = false
	t.f()
}

// Stop forgets the setting. A live timer's function may be running already.
func (t *Timer) Stop() {
	if t.s.v != nil {
		t.armed = false
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.armed = false
	if t.live != nil {
		t.live.Stop()
	}
}

func (s *Sched) liveAt(at Time, e Event) {
	d := at.Sub(s.Now())
	time.AfterFunc(max(d, 0).Std(), func() {
		if !s.closing.Load() {
			e.Fire()
		}
	})
}
