package sched

import (
	"context"
	"sync"
	"sync/atomic"
)

// waitList is a FIFO of waiters, and keeps idle ones for the next wait. Its
// user's lock guards it.
type waitList struct{ head, tail, idle *Waiter }

// add puts a waiter at the end.
func (l *waitList) add(s *Sched, what string) *Waiter {
	w := l.idle
	if w == nil {
		w = s.NewWaiter(what)
	} else {
		l.idle = w.next
	}
	l.push(w)
	return w
}

// release takes back a waiter that nobody will wake any more.
func (l *waitList) release(w *Waiter) {
	w.next = l.idle
	l.idle = w
}

func (l *waitList) push(w *Waiter) {
	w.next, w.got = nil, false
	if l.tail == nil {
		l.head = w
	} else {
		l.tail.next = w
	}
	l.tail = w
}

func (l *waitList) pop() *Waiter {
	w := l.head
	if w == nil {
		return nil
	}
	l.head = w.next
	if l.head == nil {
		l.tail = nil
	}
	w.next = nil
	return w
}

func (l *waitList) remove(w *Waiter) {
	var prev *Waiter
	for x := l.head; x != nil; prev, x = x, x.next {
		if x != w {
			continue
		}
		if prev == nil {
			l.head = w.next
		} else {
			prev.next = w.next
		}
		if l.tail == w {
			l.tail = prev
		}
		w.next = nil
		return
	}
}

// Sem is a counting semaphore, served in order of arrival.
type Sem struct {
	s    *Sched
	what string
	// Twice the units that nobody holds, plus held. While held is set only the holder
	// of mu changes the rest; otherwise anybody does, without a lock.
	word  atomic.Int64
	mu    sync.Mutex
	waits waitList
	meter *Meter
	units int // at Measure, and what was released beyond: for the meter
}

// held is set while somebody waits, or is about to.
const held = 1

// NewSem makes a semaphore with n units; what names a unit in reports.
func (s *Sched) NewSem(what string, n int) *Sem {
	m := &Sem{s: s, what: what}
	m.word.Store(2 * int64(n))
	return m
}

// Measure accounts for the units in virtual time, under the name and knob of u, and gives m.
func (m *Sem) Measure(u Usage) *Sem {
	u.Units = m.Free()
	m.units = u.Units
	m.meter = m.s.NewMeter(u)
	return m
}

// Unmeasure ends the account.
func (m *Sem) Unmeasure() { m.meter.Close() }

// account brings the meter up to date with the units.
func (m *Sem) account() {
	if t := m.meter; t != nil {
		free := m.Free()
		if free > m.units {
			t.AddUnits(free - m.units)
			m.units = free
		}
		if held := m.units - free; held != t.held {
			t.Take(held - t.held)
		}
	}
}

// lock keeps everybody else from the units.
func (m *Sem) lock() {
	m.mu.Lock()
	m.word.Or(held)
}

func (m *Sem) unlock() {
	if m.waits.head == nil {
		m.word.And(^held)
	}
	m.mu.Unlock()
}

// take takes n units if they are there. The lock is held.
func (m *Sem) take(n int) bool {
	if m.word.Load()>>1 < int64(n) {
		return false
	}
	m.word.Add(-2 * int64(n))
	m.account()
	return true
}

// TryAcquire takes n units if they are there and nobody waits.
func (m *Sem) TryAcquire(n int) bool {
	for {
		w := m.word.Load()
		if w&held != 0 {
			break
		}
		if w>>1 < int64(n) {
			m.s.tick()
			return false
		}
		if m.word.CompareAndSwap(w, w-2*int64(n)) {
			m.account()
			return true
		}
	}
	m.lock()
	ok := m.waits.head == nil && m.take(n)
	m.unlock()
	if !ok {
		m.s.tick()
	}
	return ok
}

// Acquire takes n units, waiting for them.
func (m *Sem) Acquire(ctx context.Context, n int) error {
	if m.TryAcquire(n) {
		m.s.tick()
		return nil
	}
	m.lock()
	if m.waits.head == nil && m.take(n) {
		m.unlock()
		return nil
	}
	w := m.waits.add(m.s, m.what)
	w.n = n
	m.unlock()
	returned := false
	defer func() {
		if !returned {
			m.abandon(w)
		}
	}()
	since := m.since()
	err := w.Wait(ctx)
	returned = true
	if m.meter != nil {
		m.meter.Waited(Duration(m.s.v.now - since))
	}
	m.lock()
	defer m.unlock()
	if err != nil {
		if w.got {
			return nil // handed over in the same moment: keep it; w is not used again, its wake may still come
		}
		m.waits.remove(w)
		m.grant()
	}
	m.waits.release(w)
	return err
}

func (m *Sem) since() Time {
	if m.meter == nil {
		return 0
	}
	return m.s.v.now
}

// abandon takes w off the list when its Wait does not return: the goroutine
// ends by Goexit, as when a task calls t.FailNow.
func (m *Sem) abandon(w *Waiter) {
	m.lock()
	defer m.unlock()
	if w.got {
		m.word.Add(2 * int64(w.n))
	} else {
		m.waits.remove(w)
	}
	m.grant()
}

// Release gives n units back; a negative n takes units away (the count may fall
// below zero until others release theirs).
func (m *Sem) Release(n int) {
	for {
		w := m.word.Load()
		if w&held != 0 {
			break
		}
		if m.word.CompareAndSwap(w, w+2*int64(n)) {
			m.account()
			return
		}
	}
	m.lock()
	m.word.Add(2 * int64(n))
	m.account()
	m.grant()
	m.unlock()
}

// Free is the number of units that nobody holds.
func (m *Sem) Free() int { return int(m.word.Load() >> 1) }

func (m *Sem) grant() {
	for w := m.waits.head; w != nil && m.take(w.n); w = m.waits.head {
		m.waits.pop()
		w.got = true
		w.Wake()
	}
}

// Mutex is a lock that may be held while its holder waits; it is handed over
// in order of arrival.
type Mutex struct{ sem *Sem }

// NewMutex makes a lock; what names it in reports ("the inode lock of /a").
func (s *Sched) NewMutex(what string) *Mutex { return &Mutex{s.NewSem(what, 1)} }

// Lock waits for the lock.
func (m *Mutex) Lock(ctx context.Context) error { return m.sem.Acquire(ctx, 1) }

// TryLock takes the lock if it is free.
func (m *Mutex) TryLock() bool { return m.sem.TryAcquire(1) }

// Unlock gives the lock to the next that waits.
func (m *Mutex) Unlock() { m.sem.Release(1) }

// Group counts tasks and waits for their end.
type Group struct {
	s     *Sched
	what  string
	mu    sync.Mutex
	n     int
	waits waitList
}

// NewGroup makes a group; what names it in reports.
func (s *Sched) NewGroup(what string) *Group { return &Group{s: s, what: what} }

// Go starts a task of the group.
func (g *Group) Go(name string, f func()) {
	g.Add(1)
	g.s.Go(name, func() {
		defer g.Done()
		f()
	})
}

// Add counts n more.
func (g *Group) Add(n int) {
	g.mu.Lock()
	g.n += n
	g.mu.Unlock()
}

// Done counts one less, and wakes those who wait at zero.
func (g *Group) Done() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n--; g.n < 0 {
		panic("sched: negative Group " + g.what)
	}
	if g.n == 0 {
		for w := g.waits.pop(); w != nil; w = g.waits.pop() {
			w.got = true
			w.Wake()
		}
	}
}

// Count is how many have not ended.
func (g *Group) Count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.n
}

// Wait waits until the count is zero.
func (g *Group) Wait(ctx context.Context) error {
	g.mu.Lock()
	if g.n == 0 {
		g.mu.Unlock()
		return nil
	}
	w := g.waits.add(g.s, g.what)
	g.mu.Unlock()
	err := w.Wait(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		if w.got {
			return nil
		}
		g.waits.remove(w)
	}
	g.waits.release(w)
	return err
}
