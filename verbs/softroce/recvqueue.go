package softroce

import (
	"fmt"
	"sync"

	"example.org/nfsrdma/verbs"
)

// recvQueue is a receive queue, of one queue pair or shared.
type recvQueue struct {
	mu     lock
	ring   []recvWQE
	depth  int
	maxSGE int
	head   int
	n      int
	limit  int
	closed bool
}

type recvWQE struct {
	id   uint64
	sges []verbs.SGE
}

func (n *Network) newRecvQueue(depth, maxSGE int) *recvQueue {
	return &recvQueue{mu: n.lock(), ring: make([]recvWQE, min(pow2(max(depth, 1)), 64)), depth: depth, maxSGE: maxSGE}
}

func (r *recvQueue) post(wrs []verbs.RecvWR) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range wrs {
		wr := &wrs[i]
		switch {
		case r.closed:
			return i, fmt.Errorf("softroce: receive queue: %w", verbs.ErrClosed)
		case len(wr.SGEs) > r.maxSGE:
			return i, fmt.Errorf("softroce: receive %d has %d SGEs, the queue takes %d: %w", wr.ID, len(wr.SGEs), r.maxSGE, verbs.ErrInvalid)
		case r.n == r.depth:
			return i, fmt.Errorf("softroce: receive queue of %d: %w", r.depth, verbs.ErrQueueFull)
		}
		if r.n == len(r.ring) {
			ring := make([]recvWQE, 2*len(r.ring))
			for i := range r.n {
				ring[i] = r.ring[(r.head+i)&(len(r.ring)-1)]
			}
			r.ring, r.head = ring, 0
		}
		e := &r.ring[(r.head+r.n)&(len(r.ring)-1)]
		e.id = wr.ID
		e.sges = append(e.sges[:0], wr.SGEs...)
		r.n++
	}
	return len(wrs), nil
}

// take moves the oldest receive to w; low says that the queue fell below its limit.
func (r *recvQueue) take(w *recvWQE) (ok, low bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == 0 {
		return false, false
	}
	e := &r.ring[r.head]
	w.id = e.id
	w.sges = append(w.sges[:0], e.sges...)
	r.head = (r.head + 1) & (len(r.ring) - 1)
	r.n--
	if r.limit > 0 && r.n < r.limit {
		r.limit = 0
		low = true
	}
	return true, low
}

func (r *recvQueue) clear() {
	r.mu.Lock()
	r.n = 0
	r.mu.Unlock()
}

// srq is a shared receive queue.
type srq struct {
	q     *recvQueue
	pd    *PD
	mu    sync.Mutex
	users int
}

// CreateSRQ implements verbs.PD.
func (p *PD) CreateSRQ(init verbs.SRQInit) (verbs.SRQ, error) {
	d := p.dev
	switch {
	case d.attr.MaxSRQ == 0:
		return nil, fmt.Errorf("softroce: %s: shared receive queue: %w", d.name, verbs.ErrUnsupported)
	case init.MaxWR < 1 || init.MaxWR > d.attr.MaxSRQWR:
		return nil, fmt.Errorf("softroce: %s: MaxWR %d, must be 1 to max_srq_wr %d: %w", d.name, init.MaxWR, d.attr.MaxSRQWR, verbs.ErrInvalid)
	case init.MaxSGE < 0 || init.MaxSGE > d.attr.MaxSGE:
		return nil, fmt.Errorf("softroce: %s: MaxSGE %d, must be 0 to max_sge %d: %w", d.name, init.MaxSGE, d.attr.MaxSGE, verbs.ErrInvalid)
	case init.Limit < 0 || init.Limit > init.MaxWR:
		return nil, fmt.Errorf("softroce: %s: Limit %d, must be 0 to MaxWR %d: %w", d.name, init.Limit, init.MaxWR, verbs.ErrInvalid)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.usable(); err != nil {
		return nil, err
	}
	if p.closed {
		return nil, fmt.Errorf("softroce: protection domain: %w", verbs.ErrClosed)
	}
	if err := d.limit(&d.res.SRQ, d.attr.MaxSRQ, "max_srq"); err != nil {
		return nil, err
	}
	p.users.Add(1)
	s := &srq{q: d.net.newRecvQueue(init.MaxWR, max(init.MaxSGE, 1)), pd: p}
	s.q.limit = init.Limit
	return s, nil
}

func (s *srq) PostRecv(wrs []verbs.RecvWR) (int, error) { return s.q.post(wrs) }

func (s *srq) SetLimit(n int) error {
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	if s.q.closed {
		return fmt.Errorf("softroce: shared receive queue: %w", verbs.ErrClosed)
	}
	if n < 0 || n > s.q.depth {
		return fmt.Errorf("softroce: SRQ limit %d, must be 0 to %d: %w", n, s.q.depth, verbs.ErrInvalid)
	}
	s.q.limit = n
	return nil
}

func (s *srq) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.q.closed {
		return nil
	}
	if s.users > 0 {
		return fmt.Errorf("softroce: shared receive queue of %d queue pairs: %w", s.users, verbs.ErrBusy)
	}
	s.q.mu.Lock()
	s.q.closed = true
	s.q.n = 0
	s.q.mu.Unlock()
	s.pd.users.Add(-1)
	s.pd.dev.mu.Lock()
	s.pd.dev.res.SRQ--
	s.pd.dev.mu.Unlock()
	return nil
}

func (s *srq) use() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.q.closed {
		return fmt.Errorf("softroce: shared receive queue: %w", verbs.ErrClosed)
	}
	s.users++
	return nil
}

func (s *srq) unuse() {
	s.mu.Lock()
	s.users--
	s.mu.Unlock()
}
