package softroce

import "sync/atomic"

// seg is a run of memory and who guards it.
type seg struct {
	b   []byte
	g   *guard
	gen uint32
}

// message is memory in pieces: what a send queue entry or a READ response sends, or where
// a receive puts it. Its storage is kept when it is filled anew.
type message struct {
	segs []seg
	n    uint32
	fl   *guard // whose end takes back the whole message: the queue pair's flush
	gen  uint32
	id   atomic.Uint32 // changes with each filling: a packet of an earlier one has no data
	buf  []byte        // of inline data
	// Where the last copy ended, so that packets in order need not search.
	at    int
	start uint32 // offset of segs[at]
}

// disown lets packets that still refer to the message lose its data.
func (m *message) disown() { m.id.Store(m.id.Load() + 1) }

func (m *message) reset(fl *guard) {
	clear(m.segs)
	m.segs = m.segs[:0]
	m.n, m.at, m.start = 0, 0, 0
	if m.fl != fl {
		m.fl = fl
	}
	m.gen = fl.gen.Load()
}

// alive says whether all the memory may still be used.
func (m *message) alive() bool {
	for i := range m.segs {
		if s := &m.segs[i]; s.g.gen.Load() != s.gen {
			return false
		}
	}
	return true
}

func (m *message) add(s seg) {
	m.segs = append(m.segs, s)
	m.n += uint32(len(s.b))
}

// cursor walks the segments of a message from an offset.
type cursor struct {
	m     *message
	i     int
	inSeg uint32
}

func (m *message) seek(off uint32) cursor {
	i, start := m.at, m.start
	if off < start {
		i, start = 0, 0
	}
	for i < len(m.segs) && off-start >= uint32(len(m.segs[i].b)) {
		start += uint32(len(m.segs[i].b))
		i++
	}
	m.at, m.start = i, start
	return cursor{m, i, off - start}
}

type copyResult uint8

const (
	copied  copyResult = iota
	srcGone            // the sender's memory was taken away: the packet is lost
	dstGone            // the receiver's memory was
)

// copyTo copies a packet's payload to the segments at dst.
func (q *qp) copyTo(dst cursor, p *packet) copyResult {
	n, src := p.n, p.src
	if n == 0 {
		return copied
	}
	q.enter()
	if src.id.Load() != p.id || src.fl.gen.Load() != src.gen || p.off > src.n || n > src.n-p.off {
		return srcGone
	}
	s := src.seek(p.off)
	for n > 0 {
		ss, ds := &s.m.segs[s.i], &dst.m.segs[dst.i]
		k := min(n, uint32(len(ss.b))-s.inSeg, uint32(len(ds.b))-dst.inSeg)
		if ss.g.gen.Load() != ss.gen {
			return srcGone
		}
		if ds.g.gen.Load() != ds.gen {
			return dstGone
		}
		copy(ds.b[dst.inSeg:dst.inSeg+k], ss.b[s.inSeg:s.inSeg+k])
		n -= k
		if s.inSeg += k; s.inSeg == uint32(len(ss.b)) {
			s.i, s.inSeg = s.i+1, 0
		}
		if dst.inSeg += k; dst.inSeg == uint32(len(ds.b)) {
			dst.i, dst.inSeg = dst.i+1, 0
		}
	}
	return copied
}
