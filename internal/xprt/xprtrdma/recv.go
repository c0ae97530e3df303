package xprtrdma

import (
	"fmt"
	"sync"

	"example.org/nfsrdma/verbs"
)

// recvPool has the receive buffers (rpcrdma_rep). There are more than slots, so that one is posted for
// every call outstanding while callers still read earlier replies (RFC 8166 section 3.3.1), and some for
// what nobody asked for.
type recvPool struct {
	x    *Xprt
	mr   verbs.MR
	size int // bytes of a buffer
	reps []rep

	mu      sync.Mutex
	pending []int32 // neither posted nor held
	batches [][]verbs.RecvWR
}

type rep struct {
	sge    [1]verbs.SGE
	posted bool // written under mu, or by the receive handler
}

func (p *recvPool) init(x *Xprt) error {
	n := len(x.reqs) + recvBatch + 1
	p.x, p.size = x, x.cfg.InlineRecv
	mr, err := x.pd.AllocMR(n*p.size, verbs.LocalWrite)
	if err != nil {
		return fmt.Errorf("%d receive buffers: %w", n, err)
	}
	p.mr = mr
	p.reps = make([]rep, n)
	p.pending = make([]int32, n)
	for i := range p.reps {
		p.reps[i].sge[0] = verbs.SGE{Addr: mr.Addr() + uint64(i*p.size), Length: uint32(p.size), LKey: mr.LKey()}
		p.pending[i] = int32(i)
	}
	return nil
}

func (p *recvPool) buf(i int32) []byte {
	return p.mr.Bytes()[int(i)*p.size : (int(i)+1)*p.size : (int(i)+1)*p.size]
}

// release takes a buffer back, and posts once a batch has gathered. e may be nil.
func (p *recvPool) release(e *ep, i int32) {
	p.mu.Lock()
	p.pending = append(p.pending, i)
	var wrs []verbs.RecvWR
	if len(p.pending) >= recvBatch && e != nil && !e.dead.Load() {
		wrs = p.batch()
	}
	p.mu.Unlock()
	p.post(e, wrs)
}

// batch moves all that is pending to a list of receives. Called with mu.
func (p *recvPool) batch() []verbs.RecvWR {
	var wrs []verbs.RecvWR
	if n := len(p.batches); n > 0 {
		wrs, p.batches = p.batches[n-1][:0], p.batches[:n-1]
	}
	for _, i := range p.pending {
		r := &p.reps[i]
		r.posted = true
		wrs = append(wrs, verbs.RecvWR{ID: uint64(i), SGEs: r.sge[:]})
	}
	p.pending = p.pending[:0]
	return wrs
}

func (p *recvPool) post(e *ep, wrs []verbs.RecvWR) error {
	if len(wrs) == 0 {
		return nil
	}
	_, err := e.qp.PostRecv(wrs)
	if err != nil {
		e.Disconnect(err)
	}
	p.mu.Lock()
	p.batches = append(p.batches, wrs)
	p.mu.Unlock()
	return err
}

// postAll posts every buffer that no caller holds.
func (p *recvPool) postAll(e *ep) error {
	p.mu.Lock()
	wrs := p.batch()
	p.mu.Unlock()
	return p.post(e, wrs)
}

// flush posts what has gathered while there was no connection to post to.
func (p *recvPool) flush(e *ep) {
	p.mu.Lock()
	var wrs []verbs.RecvWR
	if len(p.pending) >= recvBatch {
		wrs = p.batch()
	}
	p.mu.Unlock()
	p.post(e, wrs)
}

// reclaim takes the buffers of a queue pair that is closed.
func (p *recvPool) reclaim() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.reps {
		if p.reps[i].posted {
			p.reps[i].posted = false
			p.pending = append(p.pending, int32(i))
		}
	}
}
