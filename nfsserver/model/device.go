package model

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"example.org/nfsrdma/internal/sched"
)

// Device is what a page cache reads from and writes back to.
type Device interface {
	// IO transfers n bytes at addr, and waits for it. Owner is whose turn it takes in a fair scheduler.
	IO(ctx context.Context, write bool, owner, addr uint64, n int) error
}

// Fixed is a device without a queue: each request takes PerRequest and PerByte, whatever else is under way, as on a
// flash device far from its limits.
type Fixed struct {
	s      *sched.Sched
	per    Cost
	spread float64
	mu     sync.Mutex // rng
	rng    *rand.Rand // nil: spread is 0
}

// NewFixed makes one; perByte is in picoseconds.
func NewFixed(s *sched.Sched, perRequest time.Duration, perByte int) *Fixed {
	return &Fixed{s: s, per: Cost{sched.FromStd(perRequest), sched.Duration(perByte)}}
}

// Vary makes times vary evenly by the share spread of them, either way.
func (d *Fixed) Vary(spread float64) *Fixed {
	d.spread, d.rng = spread, nil
	if spread > 0 {
		d.rng = d.s.Rand("flash")
	}
	return d
}

// IO implements Device.
func (d *Fixed) IO(ctx context.Context, _ bool, _, _ uint64, n int) error {
	t := d.per.Of(n)
	if d.rng != nil {
		d.mu.Lock()
		t += sched.Duration(float64(t) * d.spread * (2*d.rng.Float64() - 1))
		d.mu.Unlock()
	}
	return d.s.Sleep(ctx, t)
}
