package xprtrdma

import (
	"context"
	"errors"
	"sync"

	"example.org/nfsrdma/verbs"
)

// line is where calls wait, in order of arrival, for what the device has no more of. try takes all that a
// call needs, or nothing and verbs.ErrNoResources; that is an error only while no other call has any.
type line struct {
	try func(*Req) error

	mu    sync.Mutex
	head  *Req
	tail  *Req
	using int    // calls that have something, or try
	freed uint64 // counts what was given back
}

func (l *line) get(ctx context.Context, q *Req) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	waits := l.head != nil
	if waits {
		l.join(q)
	}
	for {
		if !waits {
			seen := l.freed
			l.using++
			l.mu.Unlock()
			err := l.try(q)
			l.mu.Lock()
			if err == nil {
				q.inLine = true
				l.leave(q)
				return nil
			}
			l.using--
			again := l.freed != seen
			l.freed++ // what try had, others may have missed
			if !errors.Is(err, verbs.ErrNoResources) || l.using == 0 && !again {
				l.leave(q)
				return err
			}
			if again {
				continue
			}
			if !q.pool.queued {
				l.join(q)
			}
		}
		q.pool.done = false
		l.mu.Unlock()
		err := q.w.Wait(ctx)
		l.mu.Lock()
		waits = !q.pool.done
		if err != nil {
			l.leave(q)
			return err
		}
	}
}

// put says that q has given back what try took.
func (l *line) put(q *Req) {
	q.inLine = false
	l.mu.Lock()
	l.using--
	l.freed++
	l.wake()
	l.mu.Unlock()
}

func (l *line) join(q *Req) {
	q.pool = poolWait{queued: true}
	if l.tail == nil {
		l.head = q
	} else {
		l.tail.pool.next = q
	}
	l.tail = q
}

// leave takes q out, if it is in, and lets the first of the others try.
func (l *line) leave(q *Req) {
	if q.pool.queued {
		q.pool.queued = false
		var prev *Req
		for x := l.head; x != q; x = x.pool.next {
			prev = x
		}
		if prev == nil {
			l.head = q.pool.next
		} else {
			prev.pool.next = q.pool.next
		}
		if l.tail == q {
			l.tail = prev
		}
	}
	l.wake()
}

func (l *line) wake() {
	if q := l.head; q != nil {
		q.pool.done = true
		q.w.Wake()
	}
}
