package fabric

import (
	"fmt"
	"slices"

	"example.org/nfsrdma/internal/sched"
)

// Use says how much a load used a resource.
type Use struct {
	Resource string  // "the inode lock of /zero"
	Knob     string  // what widens it, with the kernel's name; "" nothing does
	Busy     float64 // share of its units times the elapsed time in use, 0 to 1
	Waited   float64 // share of the calls' time that was spent waiting for it, 0 to 1

	level int
}

func (u Use) String() string {
	s := fmt.Sprintf("%s: busy %.0f %%", u.Resource, 100*u.Busy)
	if u.Waited >= 0.005 {
		s += fmt.Sprintf(", calls waited %.0f %% of their time", 100*u.Waited)
	}
	return s
}

// A resource binds if it is nearly always in use and calls wait for it. While one does, those before it on the
// way of a call are in use as well, held by calls that wait further on: so the last such one binds.
const (
	waitedFor    = 0.01
	nearlyAlways = 0.9
	nearTop      = 0.95 // of the busiest
	full         = 0.99
)

// uses are what the resources were used for between two readings, busiest first.
func uses(before, after []sched.Usage, elapsed, calls sched.Duration) []Use {
	if elapsed <= 0 {
		return nil
	}
	var out []Use
	for _, u := range after {
		for _, b := range before {
			if b.Name == u.Name {
				u = u.Sub(b)
			}
		}
		if u.Units == 0 || u.Held == 0 && u.Waited == 0 {
			continue
		}
		x := Use{Resource: u.Name, Knob: u.Knob, level: u.Level,
			Busy: min(u.Held.Seconds()/float64(u.Units)/elapsed.Seconds(), 1)}
		if calls > 0 {
			x.Waited = min(u.Waited.Seconds()/calls.Seconds(), 1) // pieces of one call may wait at once
		}
		out = append(out, x)
	}
	slices.SortStableFunc(out, func(a, b Use) int {
		switch {
		case a.Busy > b.Busy:
			return -1
		case a.Busy < b.Busy:
			return 1
		}
		return b.level - a.level
	})
	return out
}

// uses are the resources of the fabric, and the load's depth.
func (r *run) uses(now []sched.Usage, elapsed sched.Duration, lat Histogram) []Use {
	if !r.f.s.Virtual() {
		return nil
	}
	return withDepth(r.used, now, elapsed, sched.FromStd(lat.Mean())*sched.Duration(lat.Count()), r.l.Depth)
}

// withDepth adds the load's own depth to uses.
func withDepth(before, after []sched.Usage, elapsed, calls sched.Duration, n int) []Use {
	depth := Use{Resource: fmt.Sprintf("the load's depth of %d", n), Knob: "Depth of Load", level: sched.LevelLoad}
	if elapsed > 0 {
		depth.Busy = min(calls.Seconds()/elapsed.Seconds()/float64(n), 1)
	}
	return append(uses(before, after, elapsed, calls), depth)
}

// bound is the resource that binds, and the next: what would bind if it did not.
func bound(all []Use) (first, next Use) {
	top := 0.0
	for _, u := range all {
		if u.level != sched.LevelLoad {
			top = max(top, u.Busy)
		}
	}
	pick := func(least float64) (best Use, ok bool) {
		for _, u := range all {
			if u.Busy < least || u.level == sched.LevelLoad {
				continue
			}
			// What a window before a full link lets through hardly waits for it.
			if u.Waited < waitedFor && !(u.level == sched.LevelLink && u.Busy >= full) {
				continue
			}
			if !ok || u.level > best.level || u.level == best.level && u.Busy > best.Busy {
				best, ok = u, true
			}
		}
		return best, ok
	}
	first, ok := Use{}, false
	if top >= nearlyAlways {
		first, ok = pick(nearTop * top)
	}
	if !ok {
		for _, u := range all {
			if u.level == sched.LevelLoad {
				first = u
			}
		}
	}
	// The next is the busiest of the others that are not merely held by calls on their way to the first.
	for _, u := range all {
		if u.Resource != first.Resource && u.level != sched.LevelLoad && (first.level == sched.LevelLoad || u.level >= first.level || u.Busy < nearlyAlways) {
			if u.Busy > next.Busy {
				next = u
			}
		}
	}
	return first, next
}

// Bound is the resource that limited the load: the one of which more would have made it faster. If none was
// nearly always in use it is the load's own depth: more calls at a time would have made it faster. It is zero where
// nothing is accounted for: live.
func (r *Result) Bound() Use {
	first, _ := bound(r.Uses)
	return first
}

// Why is a line on what limited the load, and what comes next.
func (r *Result) Why() string {
	if len(r.Uses) == 0 {
		return "bound: not accounted for in real time"
	}
	first, next := bound(r.Uses)
	s := "bound by " + first.String()
	if first.level == sched.LevelLoad && r.Calls > 0 {
		s = fmt.Sprintf("bound by %s: each call takes %v", first.Resource, r.Latency.Mean())
	}
	if next.Resource != "" {
		s += fmt.Sprintf("; next: %s, busy %.0f %%", next.Resource, 100*next.Busy)
	}
	if first.Knob != "" {
		s += "; knob: " + first.Knob
	}
	return s
}
