package model

import (
	"context"
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
	s   *sched.Sched
	per Cost
}

// NewFixed makes one; perByte is in picoseconds.
func NewFixed(s *sched.Sched, perRequest time.Duration, perByte int) *Fixed {
	return &Fixed{s, Cost{sched.FromStd(perRequest), sched.Duration(perByte)}}
}

// IO implements Device.
func (d *Fixed) IO(ctx context.Context, _ bool, _, _ uint64, n int) error {
	return d.s.Sleep(ctx, d.per.Of(n))
}
