//go:build rdmacore && cgo

package rdmacore

import (
	"fmt"
	"sync"

	"example.org/nfsrdma/verbs"
)

// object counts who needs a handle of the library, which is destroyed when nobody does.
type object struct {
	what   string
	mu     sync.Mutex
	users  int
	closed bool
}

// use keeps the object from being closed until unuse.
func (o *object) use() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return closedError(o.what)
	}
	o.users++
	return nil
}

func (o *object) unuse() {
	o.mu.Lock()
	o.users--
	o.mu.Unlock()
}

// shut closes the object to further use. done says that it was closed before.
func (o *object) shut() (done bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed:
		return true, nil
	case o.users > 0:
		return false, fmt.Errorf("rdmacore: %s is used by %d objects: %w", o.what, o.users, verbs.ErrBusy)
	}
	o.closed = true
	return false, nil
}

// reopen undoes shut, for a library that refused.
func (o *object) reopen() {
	o.mu.Lock()
	o.closed = false
	o.mu.Unlock()
}

func wrongState(what string, st verbs.QPState) error {
	return fmt.Errorf("rdmacore: %s in state %v: %w", what, st, verbs.ErrState)
}

func closedError(what string) error { return fmt.Errorf("rdmacore: %s: %w", what, verbs.ErrClosed) }
