package conformance

import (
	"context"
	"fmt"
	"sync"
)

// Who is the end of a connection that a rule binds.
type Who uint8

// The ends.
const (
	Requester Who = 1 << iota // the client
	Responder                 // the server
	Both      = Requester | Responder
)

func (w Who) String() string { return [...]string{"", "requester", "responder", "both"}[w&Both] }

// MarshalText gives the name of the end.
func (w Who) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// UnmarshalText reads the name of an end.
func (w *Who) UnmarshalText(b []byte) error {
	for v := range Both + 1 {
		if v.String() == string(b) {
			*w = v
			return nil
		}
	}
	return fmt.Errorf("no end of a connection %q", b)
}

// check is a function that fails if one end breaks a rule.
type check struct {
	name string // in tests and reports, after the row's ID
	// One of the two is set.
	responder func(*responderRun)
	requester func(*requesterRun)
	live      bool // of a responder: makes sense only in a fabric of ours, whose time or counters it needs
}

func (k *check) who() Who {
	if k.responder != nil {
		return Responder
	}
	return Requester
}

// run is what all checks have: a context, and a list of what was found wrong.
type run struct {
	ctx     context.Context
	mu      sync.Mutex
	fails   []string
	skipped string
}

// stopped unwinds a check that cannot go on.
type stopped struct{}

// wrong notes a broken rule.
func (r *run) wrong(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fails = append(r.fails, fmt.Sprintf(format, args...))
}

// want notes a broken rule unless ok, and gives ok.
func (r *run) want(ok bool, format string, args ...any) bool {
	if !ok {
		r.wrong(format, args...)
	}
	return ok
}

// must ends the check unless ok.
func (r *run) must(ok bool, format string, args ...any) {
	if !ok {
		r.wrong(format, args...)
		panic(stopped{})
	}
}

// noErr ends the check if err is set.
func (r *run) noErr(err error, what string) {
	r.must(err == nil, "%s: %v", what, err)
}

// skip ends the check, which cannot be made here; what it found stays.
func (r *run) skip(why string) {
	r.skipped = why
	panic(stopped{})
}

// guard runs f and takes the unwinding of must.
func (r *run) guard(f func()) {
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(stopped); !ok {
				panic(p)
			}
		}
	}()
	f()
}

// findings lists what was found wrong, the first few.
func (r *run) findings() []string {
	const most = 16
	l := r.fails
	if len(l) > most {
		l = append(l[:most:most], fmt.Sprintf("and %d more", len(l)-most))
	}
	return l
}

// pattern is n bytes that differ with their place and the seed.
func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7+i>>8*13) + seed
	}
	return b
}
