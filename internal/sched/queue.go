package sched

import (
	"context"
	"errors"
	"sync"
)

// ErrQueueClosed is what Pop returns from a closed, empty queue.
var ErrQueueClosed = errors.New("sched: queue closed")

// Queue is an unbounded FIFO. Push never waits; Pop waits for an item, and those who
// wait are woken in order. Its storage grows to the largest length and is kept.
type Queue[T any] struct {
	s      *Sched
	what   string
	mu     sync.Mutex
	ring   []T // a power of two
	head   int
	n      int
	waits  waitList
	closed bool
}

// NewQueue makes a queue; what names an item in reports ("a call to serve").
func NewQueue[T any](s *Sched, what string) *Queue[T] {
	return &Queue[T]{s: s, what: what, ring: make([]T, 16)}
}

// Push adds v; false if the queue is closed.
func (q *Queue[T]) Push(v T) bool {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return false
	}
	if q.n == len(q.ring) {
		r := make([]T, 2*len(q.ring))
		for i := range q.n {
			r[i] = q.ring[(q.head+i)&(len(q.ring)-1)]
		}
		q.ring, q.head = r, 0
	}
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = v
	q.n++
	w := q.waits.pop()
	if w != nil {
		w.got = true
		w.Wake()
	}
	q.mu.Unlock()
	return true
}

func (q *Queue[T]) take() T {
	var zero T
	v := q.ring[q.head]
	q.ring[q.head] = zero
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	return v
}

// TryPop takes the first item if there is one.
func (q *Queue[T]) TryPop() (v T, ok bool) {
	q.mu.Lock()
	if ok = q.n > 0; ok {
		v = q.take()
	}
	q.mu.Unlock()
	if !ok {
		q.s.tick()
	}
	return v, ok
}

// Pop takes the first item, waiting for one.
func (q *Queue[T]) Pop(ctx context.Context) (T, error) {
	q.mu.Lock()
	for q.n == 0 {
		var err error
		if !q.closed {
			err = q.wait(ctx)
		} else {
			err = ErrQueueClosed
		}
		if err != nil {
			q.mu.Unlock()
			var zero T
			return zero, err
		}
	}
	v := q.take()
	q.mu.Unlock()
	return v, nil
}

// wait waits for a push. The lock is held, but not while it waits.
func (q *Queue[T]) wait(ctx context.Context) error {
	w := q.waits.add(q.s, q.what)
	q.mu.Unlock()
	returned := false
	defer func() {
		if !returned { // Goexit, as when a task calls t.FailNow
			q.mu.Lock()
			q.leave(w)
			q.mu.Unlock()
		}
	}()
	err := w.Wait(ctx)
	returned = true
	q.mu.Lock()
	if err != nil {
		q.leave(w)
		return err
	}
	q.waits.release(w)
	return nil
}

// leave takes w off the list. If it was woken, the wake goes to the next, and w is
// not used again: its own may still come.
func (q *Queue[T]) leave(w *Waiter) {
	if !w.got {
		q.waits.remove(w)
	} else if x := q.waits.pop(); x != nil {
		x.got = true
		x.Wake()
	}
}

// Len is the number of items.
func (q *Queue[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.n
}

// Close ends the queue: Push fails, Pop takes what is left and then fails.
func (q *Queue[T]) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for w := q.waits.pop(); w != nil; w = q.waits.pop() {
		w.got = true
		w.Wake()
	}
}
