package nfsclient

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"sync"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/clnt"
)

// errJukebox asks for a call to be made again later (RFC 1813 section 2.6), which means in another slot, with an XID of
// its own: the server may remember the answer to the first.
var errJukebox = errors.New("NFS3ERR_JUKEBOX")

// try is do for a call that the caller makes again, once it has left the slot, if retry says so.
func (m *Mount) try(ctx context.Context, q *clnt.Call) ([]byte, error) {
	body, err := m.do(ctx, q)
	if err == nil && m.cfg.JukeboxTime >= 0 && len(body) >= 4 && nfs3.Status(binary.BigEndian.Uint32(body)) == nfs3.NFS3ERR_JUKEBOX {
		return nil, errJukebox
	}
	return body, err
}

// jukebox is who waits to make a call again.
type jukebox struct {
	mu     sync.Mutex
	delays uint64 // NFSIOS_DELAY
	next   int
	ends   map[int]context.CancelFunc
	closed bool
}

// retry waits if *err is errJukebox, and says whether the call is to be made again; otherwise *err is its error.
func (m *Mount) retry(ctx context.Context, err *error) bool {
	if *err != errJukebox { //nolint:errorlint // it is never wrapped
		return false
	}
	ctx, cancel := m.s.WithCancel(ctx)
	defer cancel()
	j := &m.jukebox
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		*err = ErrClosed
		return false
	}
	j.delays++
	j.next++
	me := j.next
	if j.ends == nil {
		j.ends = map[int]context.CancelFunc{}
	}
	j.ends[me] = cancel
	j.mu.Unlock()
	*err = m.s.Sleep(ctx, sched.FromStd(m.cfg.JukeboxTime))
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.ends, me)
	if j.closed {
		*err = ErrClosed
	}
	return *err == nil
}

// close ends the waits.
func (j *jukebox) close() {
	j.mu.Lock()
	j.closed = true
	ends := j.ends
	j.ends = nil
	j.mu.Unlock()
	for _, end := range sortedEnds(ends) {
		end()
	}
}

// sortedEnds is in the order of arrival, which a trace must not leave to chance.
func sortedEnds(m map[int]context.CancelFunc) []context.CancelFunc {
	var out []context.CancelFunc
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[k])
	}
	return out
}

// Delays is how often a call was made again because of NFS3ERR_JUKEBOX (event NFSIOS_DELAY of mountstats).
func (m *Mount) Delays() uint64 {
	m.jukebox.mu.Lock()
	defer m.jukebox.mu.Unlock()
	return m.jukebox.delays
}
