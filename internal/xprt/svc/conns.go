package svc

import (
	"slices"
	"sync"
)

// Conns are the connections C of a transport, and the sum S of what those that have ended counted. Init it before use.
type Conns[C comparable, S any] struct {
	max   int
	addTo func(C, *S)

	mu     sync.Mutex
	all    []C
	ended  S
	closed bool
	n      ConnCounts
}

// ConnCounts tell how many connections there were, and are.
type ConnCounts struct {
	Accepted, Rejected, Ended uint64
	Open                      int
}

// Init says how many there may be, and how to add the counters of one to a sum.
func (l *Conns[C, S]) Init(most int, addTo func(C, *S)) { l.max, l.addTo = most, addTo }

// Admit lists what open makes, or gives false if there are too many or Refuse was called.
func (l *Conns[C, S]) Admit(open func() C) (c C, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.all) >= l.max {
		l.n.Rejected++
		return c, false
	}
	l.n.Accepted++
	c = open()
	l.all = append(l.all, c)
	return c, true
}

// Refuse lets Admit refuse from now on.
func (l *Conns[C, S]) Refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

// Forget takes one that has ended off the list. Only the first time counts.
func (l *Conns[C, S]) Forget(c C) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.all, c); i >= 0 {
		l.all = slices.Delete(l.all, i, i+1)
		l.addTo(c, &l.ended)
		l.n.Ended++
	}
}

// List gives those that are.
func (l *Conns[C, S]) List() []C {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

// Sum sums up the counters of those that are and that were.
func (l *Conns[C, S]) Sum() (s S, n ConnCounts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, n = l.ended, l.n
	n.Open = len(l.all)
	for _, c := range l.all {
		l.addTo(c, &s)
	}
	return s, n
}
