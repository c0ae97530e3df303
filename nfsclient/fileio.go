package nfsclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/sched"
)

// maxUnstable is how much unstable data of a file is kept before it is committed, bytes.
const maxUnstable = 16 << 20

// maxRewrites bounds how often data is written again because the server's verifier changed.
const maxRewrites = 8

// readAll reads up to len(p) bytes; fewer only at the end of the file or with an error. eof says that the end
// was reached, which spares who reads a whole file a READ behind it.
func (m *Mount) readAll(ctx context.Context, fh FH, off uint64, p []byte) (n int, eof bool, err error) {
	if len(p) <= m.rsize {
		return m.readPiece(ctx, fh, off, p)
	}
	var last atomic.Bool
	n, err = m.pieces(ctx, "read", len(p), m.rsize, func(ctx context.Context, at, n int) (int, error) {
		k, eof, err := m.readPiece(ctx, fh, off+uint64(at), p[at:at+n])
		if eof && at+n == len(p) {
			last.Store(true)
		}
		return k, err
	})
	return n, err == nil && (n < len(p) || last.Load()), err
}

func (m *Mount) readPiece(ctx context.Context, fh FH, off uint64, p []byte) (n int, eof bool, err error) {
	for n < len(p) {
		k, eof, err := m.Read(ctx, fh, off+uint64(n), p[n:])
		n += k
		if err != nil || eof {
			return n, eof, err
		}
		if k == 0 {
			return n, false, badResult(nfs3.READ, errors.New("no data before the end of the file"))
		}
	}
	return n, false, nil
}

// unstable is data that a server may still lose.
type unstable struct {
	mu      sync.Mutex
	extents []extent // none covers another
	bytes   int
	end     uint64       // of the highest extent, or beyond it
	commit  *sched.Mutex // held by who commits: others find all stable when it is their turn
}

type extent struct {
	off  uint64
	data []byte
	verf Verf
}

// add notes newer data in the place of what they cover.
func (u *unstable) add(e extent) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cutLocked(e.off, e.off+uint64(len(e.data)))
	u.extents = append(u.extents, e)
	u.bytes += len(e.data)
	u.end = max(u.end, e.off+uint64(len(e.data)))
}

// cut forgets what lies in [from, to): it has been written anew.
func (u *unstable) cut(from, to uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cutLocked(from, to)
}

func (u *unstable) cutLocked(from, to uint64) {
	covered := func(e extent) bool { return e.off < to && e.off+uint64(len(e.data)) > from }
	if from >= u.end || !slices.ContainsFunc(u.extents, covered) {
		return
	}
	var out []extent
	u.bytes = 0
	keep := func(off uint64, data []byte, verf Verf) {
		out = append(out, extent{off, data, verf})
		u.bytes += len(data)
	}
	for _, e := range u.extents {
		end := e.off + uint64(len(e.data))
		switch {
		case !covered(e):
			keep(e.off, e.data, e.verf)
			continue
		case e.off < from:
			keep(e.off, e.data[:from-e.off], e.verf)
		}
		if end > to {
			keep(to, e.data[to-e.off:], e.verf)
		}
	}
	u.extents = out
}

// committing is the lock of who commits.
func (u *unstable) committing(s *sched.Sched) *sched.Mutex {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.commit == nil {
		u.commit = s.NewMutex("the COMMIT of a file")
	}
	return u.commit
}

func (u *unstable) take() []extent {
	u.mu.Lock()
	defer u.mu.Unlock()
	e := u.extents
	u.extents, u.bytes = nil, 0
	return e
}

func (u *unstable) put(e []extent) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.extents = append(e, u.extents...)
	for i := range e {
		u.bytes += len(e[i].data)
	}
}

func (u *unstable) size() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.bytes
}

// writeAll writes all of p unstable and notes it in u, as a copy unless p outlives it.
func (m *Mount) writeAll(ctx context.Context, fh FH, off uint64, p []byte, u *unstable, clone bool) (int, error) {
	write := func(ctx context.Context, at, n int) (int, error) {
		return m.writePiece(ctx, fh, off+uint64(at), p[at:at+n], nfs3.UNSTABLE, u, clone)
	}
	if len(p) <= m.wsize {
		return write(ctx, 0, len(p))
	}
	return m.pieces(ctx, "write", len(p), m.wsize, write)
}

// writeStable writes all of p and makes it stable: as Linux's client, without a COMMIT if one WRITE can carry it.
func (m *Mount) writeStable(ctx context.Context, fh FH, off uint64, p []byte) (err error) {
	var u unstable
	if len(p) <= m.wsize {
		_, err = m.writePiece(ctx, fh, off, p, nfs3.FILE_SYNC, &u, false)
	} else {
		_, err = m.writeAll(ctx, fh, off, p, &u, false)
	}
	if err != nil {
		return err
	}
	return m.commitAll(ctx, fh, &u)
}

func (m *Mount) writePiece(ctx context.Context, fh FH, off uint64, p []byte, how StableHow, u *unstable, clone bool) (n int, err error) {
	for n < len(p) {
		r, err := m.Write(ctx, fh, off+uint64(n), p[n:], how)
		if err != nil {
			return n, err
		}
		if r.Committed == nfs3.UNSTABLE {
			data := p[n : n+r.Count]
			if clone {
				data = bytes.Clone(data)
			}
			u.add(extent{off + uint64(n), data, r.Verf})
		} else {
			u.cut(off+uint64(n), off+uint64(n+r.Count))
		}
		n += r.Count
	}
	return n, nil
}

// commitAll commits what is in u, and writes again what the verifiers say may be lost. One at a time does: a
// second caller must not return before the data that the first took is stable. What another task writes
// meanwhile to the same bytes may be written over by what is written again.
func (m *Mount) commitAll(ctx context.Context, fh FH, u *unstable) error {
	l := u.committing(m.s)
	if err := l.Lock(ctx); err != nil {
		return err
	}
	defer l.Unlock()
	for try := 0; ; try++ {
		list := u.take()
		if len(list) == 0 {
			return nil
		}
		verf, err := m.Commit(ctx, fh, 0, 0)
		if err != nil {
			u.put(list)
			return err
		}
		if try == maxRewrites {
			u.put(list)
			return fmt.Errorf("COMMIT: %w: the write verifier changed %d times", ErrBadReply, try)
		}
		for i, e := range list {
			if e.verf == verf {
				continue
			}
			if _, err := m.writeAll(ctx, fh, e.off, e.data, u, false); err != nil {
				u.put(list[i:])
				return err
			}
		}
	}
}

// pieces does f for each size bytes of total, with IODepth of them in flight. It gives how many bytes from
// the start are done, and the error of the first piece that failed; f does less than asked only at an end.
func (m *Mount) pieces(ctx context.Context, what string, total, size int, f func(ctx context.Context, at, n int) (int, error)) (int, error) {
	p := &pieceWork{total: total, size: size, stop: total}
	run := func() {
		for {
			at, n := p.take()
			if n == 0 {
				return
			}
			done, err := f(ctx, at, n)
			p.finish(at, n, done, err)
		}
	}
	g := m.s.NewGroup("the pieces of a " + what)
	workers := min(m.cfg.IODepth, (total+size-1)/size)
	for i := range workers - 1 {
		g.Go(fmt.Sprintf("nfsclient %s %d", what, i), run)
	}
	run()
	// The pieces use the caller's buffer: they are waited for whatever happens to ctx, which ends them too.
	if err := g.Wait(sched.Cleanup); err != nil {
		return 0, err
	}
	return p.stop, p.err
}

type pieceWork struct {
	mu    sync.Mutex
	total int
	size  int
	next  int
	stop  int // bytes done up to the first end or error
	err   error
}

func (p *pieceWork) take() (at, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at = p.next
	n = max(min(p.size, p.stop-at), 0)
	p.next += n
	return at, n
}

func (p *pieceWork) finish(at, n, done int, err error) {
	if done == n && err == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if at+done < p.stop {
		p.stop, p.err = at+done, err
	}
}
