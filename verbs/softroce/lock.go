package softroce

import "sync"

// lock is a mutex, and nothing in virtual time, where one goroutine at a time calls a network (package sched).
type lock struct {
	mu      sync.Mutex
	virtual bool
}

func (l *lock) Lock() {
	if !l.virtual {
		l.mu.Lock()
	}
}

func (l *lock) Unlock() {
	if !l.virtual {
		l.mu.Unlock()
	}
}
