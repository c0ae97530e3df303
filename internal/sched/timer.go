package sched

import (
	"sync"
	"time"
)

// Timer calls a function once at a time; Reset sets it again. The function
// runs between tasks (virtual) or in its own goroutine (live) and must not wait.
// After Close it does not run.
type Timer struct {
	s *Sched
	f func()

	// Virtual: the heap entry that fires is the one of this deadline; a later deadline
	// re-uses the entry that is already in the heap.
	at     Time
	armed  bool
	queued Time // time of the earliest entry in the heap; 0 none
	ev     timerEvent

	mu   sync.Mutex
	live *time.Timer
	gen  uint64
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
		if t.queued == 0 || t.queued > t.at {
			t.queue(v)
		}
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gen++
	gen := t.gen
	if t.live != nil {
		t.live.Stop()
	}
	t.live = time.AfterFunc(d.Std(), func() { t.fireLive(gen) })
}

func (t *Timer) fireLive(gen uint64) {
	t.mu.Lock()
	ok := gen == t.gen && !t.s.closing.Load()
	t.mu.Unlock()
	if ok {
		t.f()
	}
}

func (t *Timer) queue(v *virtual) {
	t.queued = t.at
	v.post(t.at, &t.ev)
}

// Fire is the heap's call.
func (e *timerEvent) Fire() {
	t, v := e.t, e.t.s.v
	if t.queued != 0 && v.now >= t.queued {
		t.queued = 0
	}
	if !t.armed {
		return
	}
	if v.now < t.at {
		if t.queued == 0 {
			t.queue(v)
		}
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
	t.gen++
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
