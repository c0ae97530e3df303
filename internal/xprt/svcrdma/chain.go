package svcrdma

import (
	"context"
	"encoding/binary"

	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/verbs"
)

// maxChain is how many work requests are posted at once; it bounds a thread's storage.
const maxChain = 32

// chain builds work requests of one connection and posts them together, the last of them signaled. Longer
// chains are posted in parts, in order, each when there are slots for it.
type chain struct {
	wrs  []verbs.SendWR
	sges []verbs.SGE // of all wrs
	n    int         // wrs in use
	used int         // sges in use
	c    *Conn
	most int

	mem  []Mem // the caller's scratch
	regs []Mem // of mapSinks
	segs []verbs.DMASeg
	list rpcrdma.ChunkList
}

func (h *chain) init(x *Transport) {
	h.most = min(maxChain, x.cfg.SQDepth)
	h.wrs = make([]verbs.SendWR, h.most)
	h.sges = make([]verbs.SGE, h.most*maxSendSGE)
}

func (h *chain) start(c *Conn) { h.c, h.n, h.used = c, 0, 0 }

// add gives the next work request, empty but for its ID. Nil: an earlier part could not be posted and the connection
// ends.
func (h *chain) add(kind int, idx uint32) *verbs.SendWR {
	if h.n == h.most && !h.post(kindBatch, idx) {
		return nil
	}
	wr := &h.wrs[h.n]
	h.n++
	*wr = verbs.SendWR{ID: wrID(kindMore, 0, idx)}
	return wr
}

// post posts what was added; the completion of the last is of the given kind.
func (h *chain) post(kind int, idx uint32) bool {
	n, c := h.n, h.c
	if n == 0 {
		return true
	}
	last := &h.wrs[n-1]
	last.ID = wrID(kind, n, idx)
	last.Flags |= verbs.Signaled
	h.n, h.used = 0, 0
	if !c.sq.TryAcquire(n) {
		c.n.starve.Add(1)
		if err := c.sq.Acquire(context.Background(), n); err != nil {
			c.becomeClosing(err)
			return false
		}
	}
	if _, err := c.qp.PostSend(h.wrs[:n]); err != nil {
		c.becomeClosing(err)
		return false
	}
	return true
}

// fill gives wr SGEs for up to n bytes of src, at most maxSGE of them, and says how many bytes they cover.
func (h *chain) fill(wr *verbs.SendWR, src *memReader, n uint32, maxSGE int) uint32 {
	start := h.used
	var done uint32
	for done < n && h.used-start < maxSGE {
		m := src.next(n-done, &h.sges[h.used])
		if m == 0 {
			break
		}
		h.used++
		done += m
	}
	wr.SGEs = h.sges[start:h.used:h.used]
	return done
}

// memReader walks over pieces of memory.
type memReader struct {
	mem  []Mem
	off  uint32 // in mem[0]
	most uint32 // bytes of one SGE, which then does not cross a multiple of it
}

// next describes up to n bytes in one SGE, and passes them; 0 at the end.
func (m *memReader) next(n uint32, sge *verbs.SGE) uint32 {
	for len(m.mem) > 0 && m.off == m.mem[0].Len {
		m.mem, m.off = m.mem[1:], 0
	}
	if len(m.mem) == 0 {
		return 0
	}
	p := &m.mem[0]
	at := p.Addr + uint64(m.off)
	n = min(n, p.Len-m.off)
	if m.most > 0 {
		n = min(n, m.most-uint32(at%uint64(m.most)))
	}
	*sge = verbs.SGE{Addr: at, Length: n, LKey: p.LKey}
	m.off += n
	return n
}

func be32(b []byte) uint32 { return binary.BigEndian.Uint32(b) }
