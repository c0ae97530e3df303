package sched

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLivelock(t *testing.T) {
	ended, cancel := context.WithCancel(bg)
	cancel()
	for name, spin := range map[string]func(s *Sched){
		"sleep of zero":          func(s *Sched) { _ = s.Sleep(bg, 0) },
		"context that has ended": func(s *Sched) { _ = s.Sleep(ended, Second) },
		"attempts at a unit": func() func(s *Sched) {
			var m *Sem
			return func(s *Sched) {
				if m == nil {
					m = s.NewSem("unit", 0)
				}
				m.TryAcquire(1)
			}
		}(),
		"attempts at an item": func() func(s *Sched) {
			var q *Queue[int]
			return func(s *Sched) {
				if q == nil {
					q = NewQueue[int](s, "item")
				}
				q.TryPop()
			}
		}(),
		"wakes of its own": func() func(s *Sched) {
			var w *Waiter
			return func(s *Sched) {
				if w == nil {
					w = s.NewWaiter("it")
				}
				w.Wake()
				_ = w.Wait(bg)
			}
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			s := NewVirtual(1)
			s.SetInstantLimit(100_000)
			deferred := false
			s.Go("sleeper", func() { _ = s.Sleep(bg, 3600*Second) })
			s.Go("spinner", func() {
				defer func() { deferred = true }()
				_ = s.Sleep(bg, Second)
				for {
					spin(s)
				}
			})
			var live *LivelockError
			err := s.NewWaiter("never").Wait(bg)
			require.ErrorAs(t, err, &live)
			assert.True(t, Ended(err))
			assert.Equal(t, Time(Second), live.At)
			assert.Equal(t, "never", live.Caller)
			require.NotEmpty(t, live.Busiest)
			assert.Contains(t, strings.Join(live.Busiest, " "), "task spinner (")
			assert.NotContains(t, live.Busiest, "sleeper")
			assert.Contains(t, err.Error(), "livelock at 1s: 100001 turns without time going on, while the caller waits for never; most of the last turns: ")
			assert.Contains(t, err.Error(), "sleeper: waits for sleep since 0s")
			assert.True(t, Ended(s.NewWaiter("never").Wait(bg)))
			require.NoError(t, s.Close())
			assert.True(t, deferred)
			assert.Empty(t, s.Tasks())
		})
	}
}

// TestLivelockOfMany: two tasks and a timer that keep each other going are all named.
func TestLivelockOfMany(t *testing.T) {
	s := NewVirtual(1)
	defer s.Close()
	s.SetInstantLimit(100_000)
	ping, pong := NewQueue[int](s, "ping"), NewQueue[int](s, "pong")
	s.Go("left", func() {
		for {
			if _, err := ping.Pop(bg); err != nil {
				return
			}
			pong.Push(1)
		}
	})
	s.Go("right", func() {
		for {
			if _, err := pong.Pop(bg); err != nil {
				return
			}
			ping.Push(1)
		}
	})
	var again *Timer
	again = s.NewTimer(func() { again.Reset(0) })
	again.Reset(0)
	ping.Push(1)
	var live *LivelockError
	require.ErrorAs(t, s.Sleep(bg, Second), &live)
	all := strings.Join(live.Busiest, " ")
	for _, who := range []string{"task left (", "task right (", "timers ("} {
		assert.Contains(t, all, who)
	}
	again.Stop()
}

// TestInstantLimitIsOfOneInstant: as many turns over several instants are no livelock.
func TestInstantLimitIsOfOneInstant(t *testing.T) {
	s := NewVirtual(1)
	defer s.Close()
	s.SetInstantLimit(1000)
	for range 100 {
		for range 300 {
			require.NoError(t, s.Sleep(bg, 0))
		}
		require.NoError(t, s.Sleep(bg, 1))
	}
	s.SetInstantLimit(0)
	for range 3000 {
		require.NoError(t, s.Sleep(bg, 0))
	}
}

// TestCallerThatSpins cannot be given an error, so it panics.
func TestCallerThatSpins(t *testing.T) {
	s := NewVirtual(1)
	defer s.Close()
	s.SetInstantLimit(1000)
	m := s.NewSem("unit", 0)
	assert.Panics(t, func() {
		for {
			m.TryAcquire(1)
		}
	})
	s.SetInstantLimit(0)
	assert.Panics(t, func() {
		for {
			_ = s.NewWaiter("never").Wait(bg) // a deadlock each time
		}
	})
	s.SetInstantLimit(1000)
	q := NewQueue[int](s, "item")
	s.NewTimer(func() {
		for {
			q.TryPop()
		}
	}).Reset(1)
	assert.Panics(t, func() { _ = s.Sleep(bg, Second) })
}

// stuckInChannel is the function whose name the report has.
func stuckInChannel(c chan struct{}) { <-c }

// TestStuckTask: a task in a channel is reported with name and stack, and the wait fails once it comes back.
func TestStuckTask(t *testing.T) {
	s := NewVirtual(1)
	c := make(chan struct{})
	reports := make(chan *StuckError, 1)
	s.SetTaskLimit(80*time.Millisecond, func(e *StuckError) { reports <- e; close(c) })
	s.Go("bystander", func() { _ = s.Sleep(bg, 3600*Second) })
	s.Go("forgetful", func() {
		_ = s.Sleep(bg, Second)
		stuckInChannel(c)
		_ = s.Sleep(bg, Second)
	})
	err := s.Sleep(bg, 10*Second)
	var stuck *StuckError
	require.ErrorAs(t, err, &stuck)
	assert.True(t, Ended(err))
	assert.Same(t, stuck, <-reports)
	assert.Equal(t, `task "forgetful"`, stuck.Task)
	assert.Contains(t, stuck.Stack, "stuckInChannel")
	assert.NotContains(t, stuck.Stack, "bystander")
	assert.ErrorContains(t, err, `task "forgetful" has not come back to the scheduler for 80ms by the wall clock`)
	assert.ErrorContains(t, err, "cannot be ended")
	require.NoError(t, s.Sleep(bg, 10*Second), "it goes on")
	require.NoError(t, s.Close())
}

// TestStuckCallback: timers are looked at too.
func TestStuckCallback(t *testing.T) {
	s := NewVirtual(1)
	defer s.Close()
	var mu sync.Mutex
	mu.Lock()
	s.SetTaskLimit(80*time.Millisecond, func(*StuckError) { mu.Unlock() })
	s.NewTimer(func() { mu.Lock() }).Reset(1)
	var stuck *StuckError
	require.ErrorAs(t, s.Sleep(bg, Second), &stuck)
	assert.Equal(t, "a callback", stuck.Task)
	assert.Contains(t, stuck.Stack, "TestStuckCallback")
}

// TestStuckAtClose: Close returns, and leaves behind what it cannot end.
func TestStuckAtClose(t *testing.T) {
	s := NewVirtual(1)
	s.SetTaskLimit(80*time.Millisecond, nil)
	c := make(chan struct{})
	left := make(chan struct{})
	s.Go("clings", func() {
		defer close(left)
		_ = s.Sleep(bg, 3600*Second)
		stuckInChannel(c)
	})
	require.NoError(t, s.Sleep(bg, Second))
	var stuck *StuckError
	require.ErrorAs(t, s.Close(), &stuck)
	assert.Equal(t, `task "clings"`, stuck.Task)
	assert.ErrorAs(t, s.Close(), &stuck)
	close(c)
	<-left
}

// TestStuckForGood runs this test's binary, which has to end by itself.
func TestStuckForGood(t *testing.T) {
	if os.Getenv("SCHED_STUCK") != "" {
		s := NewVirtual(1)
		s.SetTaskLimit(80*time.Millisecond, nil)
		s.Go("never back", func() { stuckInChannel(make(chan struct{})) })
		_ = s.Sleep(bg, Second)
		return
	}
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe, "-test.run=^TestStuckForGood$", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), "SCHED_STUCK=1")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	assert.Equal(t, 2, strings.Count(string(out), `task "never back" has not come back`), "a report and a panic: %s", out)
	assert.Contains(t, string(out), "panic: sched: ")
	assert.Contains(t, string(out), "stuckInChannel")
}

// TestWatchdogLeavesBusyRunsAlone: who comes back, however often, is not reported, nor who does not wait at all.
func TestWatchdogLeavesBusyRunsAlone(t *testing.T) {
	s := NewVirtual(1)
	defer s.Close()
	reported := false
	s.SetTaskLimit(400*time.Millisecond, func(*StuckError) { reported = true })
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		require.NoError(t, s.Sleep(bg, Second))
	}
	for range 40 {
		time.Sleep(20 * time.Millisecond) // by the wall clock: nobody drives
	}
	require.NoError(t, s.Sleep(bg, Second))
	assert.False(t, reported)
}
