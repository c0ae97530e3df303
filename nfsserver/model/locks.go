package model

import (
	"fmt"
	"sync"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsserver/vfs"
)

// fileLocks gives each file a lock of some units.
type fileLocks struct {
	s     *sched.Sched
	what  string
	units int
	usage sched.Usage

	mu    sync.Mutex
	locks map[vfs.ID]*sched.Sem
}

// newFileLocks makes them; what names the lock of a file in reports, with the number of the file behind it.
func newFileLocks(s *sched.Sched, what string, units int, u sched.Usage) *fileLocks {
	return &fileLocks{s: s, what: what, units: units, usage: u, locks: map[vfs.ID]*sched.Sem{}}
}

func (l *fileLocks) of(id vfs.ID) *sched.Sem {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.locks[id]
	if m == nil {
		u := l.usage
		u.Name = fmt.Sprintf("%s of file %d", l.what, id.Ino)
		m = l.s.NewSem(u.Name, l.units)
		if len(l.locks) < maxMeters {
			m.Measure(u)
		}
		l.locks[id] = m
	}
	return m
}
