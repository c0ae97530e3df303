package svcrdma

import (
	"example.org/nfsrdma/internal/xprt/svc"
	"example.org/nfsrdma/verbs"
)

// Pull reads the first n bytes of the data chunk into sink, whose pieces are of n bytes together, and ends Serve. The
// request is served again when they are there. n 0 is done at once, and gives true.
func (r *Request) Pull(t *svc.Thread, sink []Mem, n int) (done bool) {
	r.pulled = true
	r.phase = resumed
	return r.pull(r.conn.x.local(t), r.dataPos, sink, uint64(n))
}

// pull posts the READs for the chunk at pos.
func (r *Request) pull(t *Thread, pos uint32, sink []Mem, n uint64) (done bool) {
	if n == 0 {
		return true
	}
	c, ch := r.conn, &t.chain
	ch.start(c)
	r.where = pulling
	if c.x.cfg.RegisterSink {
		if r.mapSinks(ch, sink) {
			sink = ch.regs
		} else {
			c.n.sinkUnregistered.Add(1)
		}
	}
	src := memReader{mem: sink, most: uint32(c.x.cfg.SinkSGE)}
	reads := uint64(0)
	for i := range r.h.Reads {
		s := &r.h.Reads[i]
		if s.Position != pos {
			continue
		}
		left := uint32(min(uint64(s.Length), n))
		n -= uint64(left)
		for at := s.Offset; left > 0; reads++ {
			wr := ch.add(kindPull, r.idx)
			if wr == nil {
				return false
			}
			wr.Op, wr.RemoteAddr, wr.RKey = verbs.OpRDMARead, at, s.Handle
			m := ch.fill(wr, &src, left, c.maxReads)
			at += uint64(m)
			left -= m
		}
		if n == 0 {
			break
		}
	}
	c.n.read.Add(reads)
	if r.nfr > 0 && !r.invalidateSinks(ch) {
		return false
	}
	ch.post(kindPull, r.idx)
	return false
}

// pullDone runs when the last READ is complete.
func (r *Request) pullDone() {
	r.unmapSinks()
	r.conn.enqueue(r)
}
