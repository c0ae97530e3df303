package svcrdma

import "sync/atomic"

// Bug is a fault that a test of a fuzzer plants, to see it found.
type Bug uint32

// Bugs, each a check that is left out or a rule that is broken.
const (
	BugBounds    Bug = 1 + iota // a result is written on past the end of the last segment
	BugOverlap                  // Read chunks of several positions are taken for one
	BugUnderflow                // a long call of no bytes is waited for
	BugCredit                   // a call that asks for no credits is granted none
	BugStaleKey                 // a Write chunk is written with the key of an earlier one
	bugEnd
)

var (
	planted  atomic.Uint32
	staleKey atomic.Uint32
)

// PlantBug makes all servers of the process wrong in one way, 0 in none. It is for tests of fuzzers.
func PlantBug(b Bug) {
	planted.Store(uint32(b))
	staleKey.Store(0)
}

// Bugs lists them.
func Bugs() (all []Bug) {
	for b := BugBounds; b < bugEnd; b++ {
		all = append(all, b)
	}
	return all
}

func (b Bug) String() string {
	return [...]string{"none", "bounds", "overlap", "underflow", "credit", "stale key"}[b%bugEnd]
}

func isPlanted(b Bug) bool { return planted.Load() == uint32(b) }

// keyOf is the key of a Write chunk's segment.
func keyOf(handle uint32) uint32 {
	if !isPlanted(BugStaleKey) {
		return handle
	}
	if k := staleKey.Swap(handle); k != 0 {
		return k
	}
	return handle
}
