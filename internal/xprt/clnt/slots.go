package clnt

import (
	"context"
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"example.org/nfsrdma/internal/sched"
)

// Slots are the calls that a mount can have at once, by number. Init it before use.
type Slots struct {
	n    int
	sem  *sched.Sem // who holds a unit finds a slot on free
	mu   sync.Mutex
	free []uint32
	shut atomic.Bool
}

// Init makes n slots, 1 or more.
func (l *Slots) Init(s *sched.Sched, n int, u sched.Usage) {
	l.n = n
	l.sem = s.NewSem("a slot of the mount", n).Measure(u)
	l.free = make([]uint32, n)
	for i := range l.free {
		l.free[i] = uint32(n - 1 - i)
	}
}

// XIDBits is how many low bits of an XID are the slot.
func (l *Slots) XIDBits() uint { return uint(max(bits.Len(uint(l.n-1)), 1)) }

// Take takes a slot, waiting for one in order of arrival. After Shut it is refused with ErrClosed.
func (l *Slots) Take(ctx context.Context) (slot uint32, waited bool, err error) {
	if !l.sem.TryAcquire(1) {
		waited = true
		if err := l.sem.Acquire(ctx, 1); err != nil {
			return 0, true, err
		}
	}
	if l.shut.Load() {
		l.sem.Release(1)
		return 0, waited, ErrClosed
	}
	l.mu.Lock()
	slot = l.free[len(l.free)-1]
	l.free = l.free[:len(l.free)-1]
	l.mu.Unlock()
	return slot, waited, nil
}

// Give gives a slot back.
func (l *Slots) Give(slot uint32) {
	l.mu.Lock()
	l.free = append(l.free, slot)
	l.mu.Unlock()
	l.sem.Release(1)
}

// Free is how many are free.
func (l *Slots) Free() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return min(l.sem.Free(), len(l.free))
}

// Shut refuses what comes from now on.
func (l *Slots) Shut() { l.shut.Store(true) }

// Drain waits until all have been given back.
func (l *Slots) Drain() error { return l.sem.Acquire(sched.Cleanup, l.n) }

// Close ends what Drain began: those that waited meanwhile are refused too.
func (l *Slots) Close() {
	l.sem.Unmeasure()
	l.sem.Release(l.n)
}

// XIDs is where the random start of a mount's XIDs comes from. A server knows retransmissions by XID and host, so two
// mounts of a host, or one after the other, must not begin with the same. In virtual time it follows from the seed and
// the name.
func XIDs(s *sched.Sched, name string) *rand.Rand {
	if s.Virtual() {
		return s.Rand(name)
	}
	return rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
}
