package fabric

import (
	"time"

	"example.org/nfsrdma/internal/sched"
)

// Account reads what resources were used for since it was made, where calls are made without Run. It counts in
// virtual time.
type Account struct {
	s    *sched.Sched
	used []sched.Usage
	from sched.Time
}

// NewAccount begins to account for the resources of s.
func NewAccount(s *sched.Sched) *Account { return &Account{s, s.Usage(), s.Now()} }

// Account begins to account for the resources of the fabric.
func (f *Fabric) Account() *Account { return NewAccount(f.s) }

// Uses are the uses of the resources until now, busiest first, by calls that took so long in all, depth of them at
// once; a Result with them tells its Bound. It is nil live.
func (a *Account) Uses(calls time.Duration, depth int) []Use {
	if !a.s.Virtual() {
		return nil
	}
	return withDepth(a.used, a.s.Usage(), a.s.Now().Sub(a.from), sched.FromStd(calls), depth)
}
