package sched

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var bg = context.Background()

// both runs f in virtual time and live.
func both(t *testing.T, f func(t *testing.T, s *Sched)) {
	t.Helper()
	for _, mode := range []string{"virtual", "live"} {
		t.Run(mode, func(t *testing.T) {
			s := NewVirtual(1)
			if mode == "live" {
				s = NewLive(1)
			}
			defer func() { require.NoError(t, s.Close()) }()
			f(t, s)
		})
	}
}

func TestTimeJumps(t *testing.T) {
	s := NewVirtual(1)
	defer s.Close()
	var order []string
	for _, d := range []Duration{3 * Second, Second, 2 * Second} {
		s.Go(d.String(), func() {
			assert.NoError(t, s.Sleep(bg, d))
			order = append(order, fmt.Sprintf("%v@%v", d, s.Now()))
		})
	}
	require.NoError(t, s.Sleep(bg, 1000*Second))
	assert.Equal(t, []string{"1s@1s", "2s@2s", "3s@3s"}, order)
	assert.Equal(t, Time(1000*Second), s.Now())
	assert.Empty(t, s.Tasks())
}

func TestSameInstantKeepsOrder(t *testing.T) {
	s := NewVirtual(1)
	defer s.Close()
	var got []int
	for i := range 100 {
		s.Go("t", func() {
			_ = s.Sleep(bg, Duration(1+i%2)*Second)
			got = append(got, i)
		})
	}
	require.NoError(t, s.Sleep(bg, 3*Second))
	for i := range 50 {
		assert.Equal(t, 2*i, got[i])
		assert.Equal(t, 2*i+1, got[50+i])
	}
}

type mark struct {
	n    int
	list *[]int
}

func (m mark) Fire() { *m.list = append(*m.list, m.n) }

func TestHeapOrder(t *testing.T) {
	s := NewVirtual(1)
	defer s.Close()
	r := s.Rand("heap")
	var got []int
	at := make([]Time, 5000)
	for i := range at {
		at[i] = Time(r.IntN(500))
		s.At(at[i], mark{i, &got})
	}
	require.NoError(t, s.Sleep(bg, 501))
	require.Len(t, got, len(at))
	for i := 1; i < len(got); i++ {
		a, b := got[i-1], got[i]
		require.True(t, at[a] < at[b] || at[a] == at[b] && a < b, "%d at %d before %d at %d", a, at[a], b, at[b])
	}
}

func TestWaiterKeepsOneWake(t *testing.T) {
	both(t, func(t *testing.T, s *Sched) {
		w := s.NewWaiter("it")
		w.Wake()
		w.Wake()
		require.NoError(t, w.Wait(bg))
		ctx, cancel := s.WithTimeout(bg, Millisecond)
		defer cancel()
		assert.ErrorIs(t, w.Wait(ctx), context.DeadlineExceeded)
		s.Go("waker", func() { w.Wake() })
		require.NoError(t, w.Wait(bg))
	})
}

func TestDeadlockListsEveryTask(t *testing.T) {
	s := NewVirtual(1)
	defer s.Close()
	m := s.NewMutex("the inode lock of /a")
	q := NewQueue[int](s, "a call to serve")
	require.NoError(t, m.Lock(bg))
	s.Go("writer", func() { _ = m.Lock(bg) })
	s.Go("nfsd 1", func() { _ = s.Sleep(bg, Second); _, _ = q.Pop(bg) })
	w := s.NewWaiter("a reply")
	w.SetWhat("a reply", func() string { return "xid 7" })
	err := w.Wait(bg)
	var dead *DeadlockError
	require.ErrorAs(t, err, &dead)
	assert.Equal(t, Time(Second), dead.At)
	assert.Equal(t, "a reply (xid 7)", dead.Caller)
	assert.Equal(t, []string{
		"writer: waits for the inode lock of /a since 0s",
		"nfsd 1: waits for a call to serve since 1s",
	}, dead.Tasks)
	assert.Contains(t, err.Error(), "writer: waits for the inode lock of /a")
	// The scheduler goes on after it.
	w.Wake()
	assert.NoError(t, w.Wait(bg))
}

func TestSemaphoreIsFIFO(t *testing.T) {
	both(t, func(t *testing.T, s *Sched) {
		m := s.NewSem("credit", 4)
		require.NoError(t, m.Acquire(bg, 4))
		g := s.NewGroup("tasks")
		var n, most atomic.Int32
		for range 50 {
			g.Go("user", func() {
				assert.NoError(t, m.Acquire(bg, 2))
				most.Store(max(most.Load(), n.Add(2)))
				_ = s.Sleep(bg, Microsecond)
				n.Add(-2)
				m.Release(2)
			})
		}
		m.Release(4)
		require.NoError(t, g.Wait(bg))
		assert.Equal(t, 4, m.Free())
		assert.LessOrEqual(t, most.Load(), int32(4))
		assert.Positive(t, most.Load())
		assert.False(t, m.TryAcquire(5))
		assert.True(t, m.TryAcquire(4))
		m.Release(-1)
		assert.Equal(t, -1, m.Free())
	})
}

// A large request is not overtaken, and its cancellation lets others through.
func TestSemaphoreCancelledHeadFreesOthers(t *testing.T) {
	s := NewVirtual(1)
	defer s.Close()
	m := s.NewSem("unit", 1)
	ctx, cancel := s.WithTimeout(bg, Second)
	defer cancel()
	s.Go("large", func() { assert.ErrorIs(t, m.Acquire(ctx, 2), context.DeadlineExceeded) })
	s.Go("small", func() {
		assert.NoError(t, m.Acquire(bg, 1))
		assert.Equal(t, Time(Second), s.Now())
	})
	require.NoError(t, s.Sleep(bg, 2*Second))
	assert.Equal(t, 0, m.Free())
	assert.Empty(t, s.Tasks())
}

func TestMutexHeldWhileWaiting(t *testing.T) {
	both(t, func(t *testing.T, s *Sched) {
		m := s.NewMutex("lock")
		g := s.NewGroup("tasks")
		in := 0
		for range 20 {
			g.Go("user", func() {
				assert.NoError(t, m.Lock(bg))
				in++
				assert.Equal(t, 1, in)
				_ = s.Sleep(bg, 10*Microsecond)
				in--
				m.Unlock()
			})
		}
		require.NoError(t, g.Wait(bg))
		assert.True(t, m.TryLock())
		assert.False(t, m.TryLock())
	})
}

func TestQueueManyConsumers(t *testing.T) {
	both(t, func(t *testing.T, s *Sched) {
		q := NewQueue[int](s, "item")
		g := s.NewGroup("tasks")
		var sum atomic.Int64
		for range 5 {
			g.Go("consumer", func() {
				for {
					v, err := q.Pop(bg)
					if err != nil {
						assert.ErrorIs(t, err, ErrQueueClosed)
						return
					}
					sum.Add(int64(v))
				}
			})
		}
		for i := range 1000 {
			require.True(t, q.Push(i))
			if i%100 == 0 {
				require.NoError(t, s.Sleep(bg, Microsecond))
			}
		}
		q.Close()
		require.NoError(t, g.Wait(bg))
		assert.EqualValues(t, 999*1000/2, sum.Load())
		assert.False(t, q.Push(1))
	})
}

func TestQueueCancelledPopPassesItsWakeOn(t *testing.T) {
	both(t, func(t *testing.T, s *Sched) {
		q := NewQueue[int](s, "item")
		g := s.NewGroup("tasks")
		var got, gone atomic.Int64
		for range 200 {
			g.Go("consumer", func() {
				ctx, cancel := s.WithTimeout(bg, 50*Microsecond)
				defer cancel()
				if _, err := q.Pop(ctx); err != nil {
					gone.Add(1)
				} else {
					got.Add(1)
				}
			})
		}
		for range 100 {
			q.Push(1)
			require.NoError(t, s.Sleep(bg, Microsecond))
		}
		require.NoError(t, g.Wait(bg))
		assert.EqualValues(t, 200, got.Load()+gone.Load())
		assert.EqualValues(t, 100, int(got.Load())+q.Len())
	})
}

func TestTimer(t *testing.T) {
	s := NewVirtual(1)
	defer s.Close()
	var at []Time
	tm := s.NewTimer(func() { at = append(at, s.Now()) })
	tm.Reset(Second)
	tm.Reset(3 * Second) // later: lazily
	require.NoError(t, s.Sleep(bg, 2*Second))
	assert.Empty(t, at)
	require.NoError(t, s.Sleep(bg, 2*Second))
	assert.Equal(t, []Time{Time(3 * Second)}, at)
	tm.Reset(5 * Second)
	tm.Reset(Second) // earlier
	require.NoError(t, s.Sleep(bg, 10*Second))
	assert.Equal(t, []Time{Time(3 * Second), Time(5 * Second)}, at)
	tm.Reset(Second)
	tm.Stop()
	require.NoError(t, s.Sleep(bg, 10*Second))
	assert.Len(t, at, 2)
	// Set again from within, and at the present instant.
	n := 0
	var again *Timer
	again = s.NewTimer(func() {
		if n++; n < 5 {
			again.Reset(0)
		}
	})
	again.Reset(0)
	require.NoError(t, s.Sleep(bg, 1))
	assert.Equal(t, 5, n)
}

func TestTimerLive(t *testing.T) {
	s := NewLive(1)
	defer s.Close()
	w := s.NewWaiter("timer")
	tm := s.NewTimer(w.Wake)
	tm.Reset(Millisecond)
	require.NoError(t, w.Wait(bg))
	tm.Reset(Second)
	tm.Stop()
	ctx, cancel := s.WithTimeout(bg, 2*Millisecond)
	defer cancel()
	assert.ErrorIs(t, w.Wait(ctx), context.DeadlineExceeded)
}

func TestContext(t *testing.T) {
	both(t, func(t *testing.T, s *Sched) {
		w := s.NewWaiter("never")
		outer, stop := s.WithCancel(bg)
		inner, cancel := s.WithTimeout(context.WithValue(outer, key{}, 1), 1000*Second)
		defer cancel()
		s.Go("stopper", func() { _ = s.Sleep(bg, Millisecond); stop() })
		assert.ErrorIs(t, w.Wait(inner), context.Canceled)
		assert.ErrorIs(t, inner.Err(), context.Canceled)
		assert.ErrorIs(t, w.Wait(inner), context.Canceled, "it stays cancelled")
		late, cancel2 := s.WithCancel(inner)
		defer cancel2()
		assert.ErrorIs(t, late.Err(), context.Canceled, "made from a cancelled parent")
		<-late.Done()
	})
}

type key struct{}

func TestForeignContext(t *testing.T) {
	s := NewVirtual(1)
	defer s.Close()
	foreign, cancel := context.WithCancel(bg)
	own, stop := s.WithTimeout(foreign, 3600*Second)
	defer stop()
	for i, ctx := range []context.Context{foreign, own} {
		w := s.NewWaiter("never")
		done := s.NewWaiter("waiting task")
		s.Go("waiter", func() { assert.ErrorIs(t, w.Wait(ctx), context.Canceled); done.Wake() })
		if i == 0 {
			s.Go("canceller", func() { _ = s.Sleep(bg, Second); cancel() })
		}
		require.NoError(t, done.Wait(bg), "context %d", i)
	}
	// An end that comes from outside while the caller drives the heap.
	foreign, cancel = context.WithCancel(bg)
	tick := s.NewTimer(nil)
	tick.f = func() { tick.Reset(Microsecond) }
	tick.Reset(0)
	time.AfterFunc(time.Millisecond, cancel)
	assert.ErrorIs(t, s.NewWaiter("never").Wait(foreign), context.Canceled)
}

func TestRandStreams(t *testing.T) {
	a, b := NewVirtual(7), NewVirtual(7)
	assert.Equal(t, a.Rand("x").Uint64(), b.Rand("x").Uint64())
	assert.NotEqual(t, a.Rand("x").Uint64(), a.Rand("y").Uint64())
	assert.NotEqual(t, a.Rand("x").Uint64(), NewVirtual(8).Rand("x").Uint64())
}

func TestCloseUnwindsEveryTask(t *testing.T) {
	both(t, func(t *testing.T, s *Sched) {
		var ended atomic.Int32
		w := s.NewWaiter("never")
		m := s.NewMutex("lock")
		require.NoError(t, m.Lock(bg))
		q := NewQueue[int](s, "item")
		waits := []func() error{
			func() error { return w.Wait(bg) },
			func() error { return m.Lock(bg) },
			func() error { _, err := q.Pop(bg); return err },
			func() error { return s.Sleep(bg, 3600*Second) },
		}
		started := s.NewGroup("starts")
		for _, f := range waits {
			started.Add(1)
			s.Go("task", func() {
				started.Done()
				defer func() { // a wait in a deferred call ends too
					assert.ErrorIs(t, s.Sleep(bg, Second), ErrClosed)
					ended.Add(1)
				}()
				assert.ErrorIs(t, f(), ErrClosed)
				s.Go("too late", func() { _ = s.Sleep(bg, Second) })
			})
		}
		require.NoError(t, started.Wait(bg))
		require.NoError(t, s.Close())
		assert.EqualValues(t, len(waits), ended.Load())
		assert.ErrorIs(t, s.Sleep(bg, Second), ErrClosed)
	})
}

func TestCloseBeforeStart(t *testing.T) {
	s := NewVirtual(1)
	s.Go("never started", func() { t.Error("started") })
	require.NoError(t, s.Close())
	s.Go("after", func() { t.Error("started") })
	require.NoError(t, s.Close())
}

func TestTaskThatIgnoresCloseIsFound(t *testing.T) {
	s := NewVirtual(1)
	s.Go("stubborn", func() {
		for {
			_ = s.Sleep(bg, Second)
		}
	})
	require.NoError(t, s.Sleep(bg, Second/2))
	assert.PanicsWithValue(t, matcher("stubborn"), func() { panicValue(func() { _ = s.Close() }) })
}

// matcher and panicValue let a panic be compared by its first line's task name.
func matcher(name string) string { return name }

func panicValue(f func()) {
	defer func() {
		r := fmt.Sprint(recover())
		if strings.Contains(r, "goes on waiting after Close") {
			_, r, _ = strings.Cut(r, `"`)
			r, _, _ = strings.Cut(r, `"`)
		}
		panic(r)
	}()
	f()
}

func TestPanicNamesTheTask(t *testing.T) {
	s := NewVirtual(1)
	defer s.Close()
	s.Go("bad", func() { panic("broken invariant") })
	defer func() {
		r := fmt.Sprint(recover())
		assert.Contains(t, r, `task "bad" at 0s: broken invariant`)
		assert.Contains(t, r, "sched_test.go", "the stack is the task's")
	}()
	_ = s.Sleep(bg, Second)
}

func TestCallbackMustNotWait(t *testing.T) {
	s := NewVirtual(1)
	defer s.Close()
	s.NewTimer(func() { _ = s.Sleep(bg, Second) }).Reset(1)
	assert.Panics(t, func() { _ = s.Sleep(bg, Second) })
}

// FailNow in a task must end the test's goroutine, with its deferred calls.
func TestGoexitStopsTheCaller(t *testing.T) {
	both(t, func(t *testing.T, s *Sched) {
		var after atomic.Bool
		var werr error
		done := make(chan bool)
		go func() {
			defer close(done)
			s.Go("failing", func() { _ = s.Sleep(bg, Millisecond); runtime.Goexit() })
			werr = s.NewWaiter("never").Wait(bg)
			after.Store(true)
		}()
		<-done
		if s.Virtual() {
			assert.False(t, after.Load(), "Goexit goes on in the driver")
			assert.NoError(t, s.Sleep(bg, 1), "and the scheduler can be used and closed")
		} else {
			assert.ErrorIs(t, werr, ErrAborted)
		}
	})
}

// A wake that comes in the instant of a timeout belongs to the next wait.
func TestWakeAtTheTimeoutIsKept(t *testing.T) {
	s := NewVirtual(1)
	defer s.Close()
	w := s.NewWaiter("reply")
	done := s.NewGroup("tasks")
	done.Go("caller", func() {
		ctx, cancel := s.WithTimeout(bg, Second)
		defer cancel()
		s.NewTimer(w.Wake).Reset(Second) // after the context's timer
		assert.ErrorIs(t, w.Wait(ctx), context.DeadlineExceeded)
		assert.NoError(t, w.Wait(bg))
	})
	require.NoError(t, done.Wait(bg))
}

func TestTimersDoNotFillTheHeap(t *testing.T) {
	s := NewVirtual(1)
	defer s.Close()
	tm := s.NewTimer(func() {})
	for range 1000 {
		_, cancel := s.WithTimeout(bg, 60*Second)
		tm.Reset(100 * Second)
		tm.Reset(Microsecond)
		require.NoError(t, s.Sleep(bg, 2*Microsecond))
		cancel()
	}
	assert.Less(t, len(s.v.heap), 10)
}

func TestTimeLimit(t *testing.T) {
	s := NewVirtual(1)
	defer s.Close()
	s.SetLimit(Time(10 * Second))
	s.Go("for ever", func() {
		for s.Sleep(bg, Second) == nil {
		}
	})
	var limit *TimeLimitError
	require.ErrorAs(t, s.NewWaiter("never").Wait(bg), &limit)
	assert.Equal(t, []string{"for ever: waits for sleep since 10s"}, limit.Tasks)
	assert.Contains(t, limit.Error(), "limit of 10s: the caller waits for never\n\tfor ever")
}

func TestCloseFromCallbackIsRefused(t *testing.T) {
	s := NewVirtual(1)
	s.NewTimer(func() { assert.Error(t, s.Close()) }).Reset(1)
	require.NoError(t, s.Sleep(bg, Second))
	require.NoError(t, s.Close())
}

// A goroutine that ends while it waits for a unit leaves none behind.
func TestGoexitInAcquireKeepsTheUnit(t *testing.T) {
	s := NewVirtual(1)
	defer s.Close()
	m := s.NewSem("unit", 0)
	done := make(chan bool)
	go func() {
		defer close(done)
		s.Go("failing", func() { _ = s.Sleep(bg, Second); runtime.Goexit() })
		_ = m.Acquire(bg, 1)
	}()
	<-done
	m.Release(1)
	assert.True(t, m.TryAcquire(1))

	q := NewQueue[int](s, "item")
	done = make(chan bool)
	go func() {
		defer close(done)
		s.Go("failing", func() { _ = s.Sleep(bg, Second); runtime.Goexit() })
		_, _ = q.Pop(bg)
	}()
	<-done
	s.Go("next", func() { v, err := q.Pop(bg); assert.NoError(t, err); assert.Equal(t, 7, v) })
	require.NoError(t, s.Sleep(bg, 1))
	q.Push(7)
	require.NoError(t, s.Sleep(bg, 1))
	assert.Zero(t, q.Len())
}

func TestTwoTasksInOneWaiter(t *testing.T) {
	s := NewVirtual(1)
	defer s.Close()
	w := s.NewWaiter("it")
	s.Go("first", func() { _ = w.Wait(bg) })
	s.Go("second", func() { assert.Panics(t, func() { _ = w.Wait(bg) }) })
	require.NoError(t, s.Sleep(bg, Second))
}

// 64 tasks contend for a lock, a semaphore and a queue: one seed, one trace.
func contend(seed uint64) (uint64, string) {
	s := NewVirtual(seed)
	defer s.Close()
	var trace strings.Builder
	s.SetTrace(func(at Time, name string) { fmt.Fprintf(&trace, "%d %s\n", at, name) })
	m, sem, q := s.NewMutex("lock"), s.NewSem("unit", 5), NewQueue[int](s, "item")
	g := s.NewGroup("tasks")
	for i := range 64 {
		r := s.Rand(fmt.Sprint("task", i))
		g.Go(fmt.Sprint("t", i), func() {
			for range 10 {
				_ = sem.Acquire(bg, 1+r.IntN(3))
				_ = s.Sleep(bg, Duration(r.IntN(1000)))
				_ = m.Lock(bg)
				q.Push(i)
				_ = s.Sleep(bg, Duration(r.IntN(10)))
				m.Unlock()
				_, _ = q.Pop(bg)
				sem.Release(1)
				sem.Release(0)
				if sem.Free() < 3 {
					sem.Release(3 - sem.Free())
				}
			}
		})
	}
	_ = g.Wait(bg)
	return s.Fingerprint(), trace.String()
}

func TestOneSeedOneTrace(t *testing.T) {
	print, trace := contend(7)
	require.Greater(t, strings.Count(trace, "\n"), 64)
	for range 100 {
		p, tr := contend(7)
		require.Equal(t, trace, tr)
		require.Equal(t, print, p)
	}
	other, _ := contend(8)
	assert.NotEqual(t, print, other)
}

func TestNoAllocationOnceWarm(t *testing.T) {
	s := NewVirtual(1)
	defer s.Close()
	q := NewQueue[int](s, "item")
	back := s.NewSem("unit", 0)
	s.Go("echo", func() {
		for {
			if _, err := q.Pop(bg); err != nil {
				return
			}
			_ = s.Sleep(bg, 1)
			back.Release(1)
		}
	})
	n := testing.AllocsPerRun(1000, func() {
		q.Push(1)
		_ = back.Acquire(bg, 1)
	})
	assert.Zero(t, n)
}

func BenchmarkSwitch(b *testing.B) {
	for _, s := range []*Sched{NewVirtual(1), NewLive(1)} {
		b.Run(fmt.Sprintf("virtual=%v", s.Virtual()), func(b *testing.B) {
			defer s.Close()
			s.SetInstantLimit(0)
			q := NewQueue[int](s, "item")
			back := s.NewSem("unit", 0)
			s.Go("echo", func() {
				for {
					if _, err := q.Pop(bg); err != nil {
						return
					}
					back.Release(1)
				}
			})
			for b.Loop() {
				q.Push(1)
				_ = back.Acquire(bg, 1)
			}
		})
	}
}

func BenchmarkEvent(b *testing.B) {
	s := NewVirtual(1)
	defer s.Close()
	for i := range 1000 { // others in the heap
		s.At(Time(3600*Second)+Time(i), s.NewWaiter("x"))
	}
	w := s.NewWaiter("it")
	for b.Loop() {
		s.At(s.Now()+1, w)
		_ = w.Wait(bg)
	}
}
