package clnt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"example.org/nfsrdma/internal/sched"
)

// connectTimeout bounds one attempt (RPCRDMA_BIND_TO).
const connectTimeout = 60 * sched.Second

// Endpoint is one connection of a transport.
type Endpoint interface {
	// Dead says that no more calls can be sent.
	Dead() bool
	// Proven says that a valid reply has come: the peer is what it should be.
	Proven() bool
	// Start begins, now that callers can find it.
	Start()
	// Disconnect ends the connection once: no more calls start, and those in flight are told. It never waits.
	Disconnect(cause error)
	// Teardown does so too, and frees the connection.
	Teardown() error
}

// Reconnect says when to try again, and how often.
type Reconnect struct {
	Min, Max sched.Duration // wait before the second attempt, doubled each time
	Soft     bool           // give up after Retrans attempts more
	Retrans  int
}

// Link is a transport's connection, at most one at a time: *T is an Endpoint. Init it before use.
type Link[T any, E interface {
	*T
	Endpoint
}] struct {
	s       *sched.Sched
	addr    string
	policy  Reconnect
	connect func(ctx context.Context) (E, error)
	failed  func(error) // for the trace

	ep      atomic.Pointer[T]  // nil until the first; stays when it is dead
	lock    *sched.Mutex       // held by whoever connects or tears down
	fails   atomic.Uint32      // attempts that have failed
	lastErr error              // under lock
	backoff sched.Duration     // under lock
	mu      sync.Mutex         // stop
	stop    context.CancelFunc // ends the attempt that runs
	closed  atomic.Bool

	connects, connectTime atomic.Uint64 // the time in ps
}

// Init makes a link to addr. Calls of connect do not overlap; failed hears of attempts that had no success.
func (l *Link[T, E]) Init(s *sched.Sched, addr string, p Reconnect, connect func(context.Context) (E, error), failed func(error)) {
	l.s, l.addr, l.policy, l.connect, l.failed = s, addr, p, connect, failed
	l.lock = s.NewMutex("the connection to " + addr)
}

// Load gives the present connection, which may be dead, or nil before the first.
func (l *Link[T, E]) Load() E { return l.ep.Load() }

// Closed says whether Close was called.
func (l *Link[T, E]) Closed() bool { return l.closed.Load() }

// Err prefers ErrClosed to what a wait says when Close has ended it.
func (l *Link[T, E]) Err(err error) error {
	if l.closed.Load() {
		return ErrClosed
	}
	return err
}

// Connects counts connections, and the time that they took to be made.
func (l *Link[T, E]) Connects() (n uint64, in sched.Duration) {
	return l.connects.Load(), sched.Duration(l.connectTime.Load())
}

// Connect makes the first connection. It tries once.
func (l *Link[T, E]) Connect(ctx context.Context) error {
	if err := l.lock.Lock(ctx); err != nil {
		return err
	}
	defer l.lock.Unlock()
	return l.attempt(ctx)
}

// Disconnect ends the present connection.
func (l *Link[T, E]) Disconnect(cause error) {
	if e := E(l.ep.Load()); e != nil {
		e.Disconnect(cause)
	}
}

// Ready gives a connection that works, making one if need be.
func (l *Link[T, E]) Ready(ctx context.Context) (E, error) {
	if e := E(l.ep.Load()); e != nil && !e.Dead() {
		return e, nil
	}
	since := l.fails.Load()
	if err := l.lock.Lock(ctx); err != nil {
		return nil, l.Err(err)
	}
	defer l.lock.Unlock()
	for {
		if l.closed.Load() {
			return nil, ErrClosed
		}
		if e := E(l.ep.Load()); e != nil && !e.Dead() {
			return e, nil
		}
		if n := l.fails.Load() - since; l.policy.Soft && int(n) > l.policy.Retrans {
			return nil, fmt.Errorf("%w: %d attempts to connect failed, the last: %w", ErrTimedOut, n, l.lastErr)
		}
		err := l.attempt(ctx)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, ErrClosed) || sched.Ended(err):
			return nil, err
		}
	}
}

// attempt makes a connection and publishes it. Called with lock.
func (l *Link[T, E]) attempt(ctx context.Context) error {
	ctx, cancel := l.s.WithCancel(ctx)
	defer cancel()
	l.setStop(cancel)
	defer l.setStop(nil)
	if l.closed.Load() {
		return ErrClosed
	}
	start := l.s.Now()
	if old := E(l.ep.Load()); old != nil {
		if err := old.Teardown(); err != nil {
			return err
		}
		if l.backoff > 0 || !old.Proven() {
			l.backoff = min(max(2*l.backoff, l.policy.Min), l.policy.Max)
			if err := l.s.Sleep(ctx, l.backoff); err != nil {
				return l.Err(err)
			}
		}
	}
	tctx, stop := l.s.WithTimeout(ctx, connectTimeout)
	defer stop()
	e, err := l.connect(tctx)
	if err != nil {
		l.fails.Add(1)
		l.lastErr = err
		l.backoff = max(l.backoff, l.policy.Min/2)
		l.failed(err)
		return l.Err(fmt.Errorf("connect to %s: %w", l.addr, err))
	}
	l.backoff, l.lastErr = 0, nil
	l.connects.Add(1)
	l.connectTime.Add(uint64(l.s.Now().Sub(start)))
	l.ep.Store(e)
	if l.closed.Load() {
		e.Disconnect(ErrClosed)
		return ErrClosed
	}
	e.Start()
	return nil
}

// setStop keeps what ends the attempt that runs.
func (l *Link[T, E]) setStop(f context.CancelFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop = f
}

// Close ends the connection and every attempt to make one, and waits for the callers: they have left when idle
// returns. It gives false if it was called before.
func (l *Link[T, E]) Close(idle func() error) (first bool, err error) {
	if l.closed.Swap(true) {
		return false, nil
	}
	l.mu.Lock()
	if l.stop != nil {
		l.stop()
	}
	l.mu.Unlock()
	l.Disconnect(ErrClosed)
	err = idle()
	if lerr := l.lock.Lock(sched.Cleanup); lerr != nil {
		err = errors.Join(err, lerr) // the scheduler has ended, and with it whoever had the lock
	} else {
		defer l.lock.Unlock()
	}
	if e := E(l.ep.Load()); e != nil {
		err = errors.Join(err, e.Teardown())
	}
	return true, err
}
