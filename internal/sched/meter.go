package sched

import (
	"slices"
	"sync"
)

// Usage is what a resource was used for since the scheduler was made.
type Usage struct {
	Name  string // "the inode lock of /zero"
	Knob  string // what widens it: "ORD (max_outbound_read_requests)"; "" nothing does
	Level int    // place on the way of a call: those of a higher level are nearer to the hardware
	Units int    // that can be in use at once

	Busy   Duration // during which all units were in use
	Held   Duration // sum over the units of the time in use
	Waited Duration // sum over those who waited for a unit
	Waits  uint64
}

// Sub is what was used since an earlier reading.
func (u Usage) Sub(old Usage) Usage {
	u.Busy -= old.Busy
	u.Held -= old.Held
	u.Waited -= old.Waited
	u.Waits -= old.Waits
	return u
}

// Levels of resources on the way of a call.
const (
	LevelLoad     = 10 * iota // the caller's own
	LevelSlot                 // rdma_slot_table_entries
	LevelCredit               // rpcrdma credits
	LevelClientSQ             // the client's send queue
	LevelThread               // nfsd
	LevelServerSQ             // the server's send queue
	LevelORD                  // RDMA READs outstanding
	LevelLock                 // of a file
	LevelLink                 // a direction of the wire
	LevelDisk                 // storage
)

// Levels of TCP: the server's send buffer stands before the threads, the window before the wire.
const (
	LevelSendBuffer = LevelThread - 5
	LevelWindow     = LevelLink - 5
)

// Meter accounts for a resource of some units in virtual time. Live it is nil, and counts nothing.
type Meter struct {
	s    *Sched
	u    Usage
	held int
	at   Time // up to which it is accounted
	till Time // of Use: the end of what lies ahead
	last Time // of Use: when it was asked for, plus 1
}

// meters are those of a scheduler, and the sums of closed ones.
type meters struct {
	mu   sync.Mutex
	live []*Meter
	past []Usage
}

// NewMeter makes a meter; the fields of u up to Units describe the resource. Resources of one name count as one.
func (s *Sched) NewMeter(u Usage) *Meter {
	if s.v == nil {
		return nil
	}
	m := &Meter{s: s, u: Usage{Name: u.Name, Knob: u.Knob, Level: u.Level, Units: u.Units}, at: s.v.now}
	s.meters.mu.Lock()
	defer s.meters.mu.Unlock()
	s.meters.live = append(s.meters.live, m)
	return m
}

func (m *Meter) settle() {
	now := m.s.v.now
	d := Duration(now - m.at)
	m.at = now
	m.u.Held += d * Duration(m.held)
	if m.held >= m.u.Units && m.held > 0 {
		m.u.Busy += d
	}
}

// Take says that n units are in use from now on.
func (m *Meter) Take(n int) {
	if m != nil {
		m.settle()
		m.held += n
	}
}

// Give says that n units are not in use any more.
func (m *Meter) Give(n int) { m.Take(-n) }

// AddUnits changes how many there are.
func (m *Meter) AddUnits(n int) {
	if m != nil {
		m.settle()
		m.u.Units += n
	}
}

// Use says that a resource of one unit is in use for d, from now or from the end of what it is
// in use for already. Who asks for it waits until then; what is asked for in one moment counts as one wait.
func (m *Meter) Use(d Duration) {
	if m == nil {
		return
	}
	now := m.s.v.now
	if m.till > now && m.last != now+1 {
		m.Waited(Duration(m.till - now))
	}
	m.last = now + 1
	m.till = max(m.till, now).Add(d)
	m.u.Busy += d
	m.u.Held += d
}

// Waited says that somebody has waited for d.
func (m *Meter) Waited(d Duration) {
	if m != nil {
		m.u.Waited += d
		m.u.Waits++
	}
}

// Close ends the meter; what it counted stays in Sched.Usage.
func (m *Meter) Close() {
	if m == nil {
		return
	}
	m.settle()
	t := &m.s.meters
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.live, m); i >= 0 {
		t.live = slices.Delete(t.live, i, i+1)
		m.u.Units = 0
		t.past = sum(t.past, m.u)
	}
}

// Usage lists the resources by level, then name.
func (s *Sched) Usage() []Usage {
	t := &s.meters
	t.mu.Lock()
	defer t.mu.Unlock()
	out := slices.Clone(t.past)
	now := Time(0)
	if s.v != nil {
		now = s.v.now
	}
	for _, m := range t.live {
		m.settle()
		u := m.u
		if m.till > now { // announced
			u.Busy -= Duration(m.till - now)
			u.Held -= Duration(m.till - now)
		}
		out = sum(out, u)
	}
	slices.SortFunc(out, func(a, b Usage) int {
		if a.Level != b.Level {
			return a.Level - b.Level
		}
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return out
}

func sum(all []Usage, u Usage) []Usage {
	for i := range all {
		if a := &all[i]; a.Name == u.Name {
			a.Units += u.Units
			a.Busy += u.Busy
			a.Held += u.Held
			a.Waited += u.Waited
			a.Waits += u.Waits
			return all
		}
	}
	return append(all, u)
}
