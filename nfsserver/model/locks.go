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
	names map[vfs.ID]string // of the first maxMeters files that were looked up
}

// newFileLocks makes them; what names the lock of a file in reports, with the file's name or number behind it.
func newFileLocks(s *sched.Sched, what string, units int, u sched.Usage) *fileLocks {
	return &fileLocks{s: s, what: what, units: units, usage: u, locks: map[vfs.ID]*sched.Sem{}, names: map[vfs.ID]string{}}
}

// named tells what a file is called; a lock that exists keeps its name.
func (l *fileLocks) named(id vfs.ID, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.names[id]; !ok && len(l.names) < maxMeters {
		l.names[id] = name
	}
}

func (l *fileLocks) of(id vfs.ID) *sched.Sem {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.locks[id]
	if m == nil {
		u := l.usage
		name := l.names[id]
		if name == "" {
			name = fmt.Sprintf("file %d", id.Ino)
		}
		u.Name = l.what + " of " + name
		m = l.s.NewSem(u.Name, l.units)
		if len(l.locks) < maxMeters {
			m.Measure(u)
		}
		l.locks[id] = m
	}
	return m
}
