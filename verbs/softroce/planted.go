package softroce

import "sync/atomic"

// Bug is a fault that a test of a fuzzer plants, to see it found.
type Bug uint32

// Bugs, each a check that is left out.
const (
	BugPSN      Bug = 1 + iota // a request after a gap is taken
	BugBounds                  // an access past the end of a region is one to its beginning
	BugICRC                    // a wrong ICRC is not noticed
	BugIRD                     // more READs at a time than was agreed are answered
	BugOrder                   // first, middle and last come in any order and length
	BugRights                  // a right that is missing is not missed
	BugDomain                  // a key of another protection domain is taken
	BugStaleKey                // a region's former key is taken for the present one
	bugEnd
)

var planted atomic.Uint32

// PlantBug makes all devices of the process wrong in one way, 0 in none. It is for tests of fuzzers, and no packet
// that is right pays for it.
func PlantBug(b Bug) { planted.Store(uint32(b)) }

// KeyBugs lists those that work requests show.
func KeyBugs() []Bug { return []Bug{BugBounds, BugRights, BugDomain, BugStaleKey} }

// Bugs lists those that packets show.
func Bugs() (all []Bug) {
	for b := BugPSN; b <= BugOrder; b++ {
		all = append(all, b)
	}
	return all
}

func (b Bug) String() string {
	return [...]string{"none", "PSN", "bounds", "ICRC", "IRD", "opcode order", "rights", "domain", "stale key"}[b%bugEnd]
}

func isPlanted(b Bug) bool { return planted.Load() == uint32(b) }
