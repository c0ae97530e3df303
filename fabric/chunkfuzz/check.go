package chunkfuzz

import (
	"bytes"
	"encoding/binary"
)

// answer is a decoded message of a server, by the oracle's own reading.
type answer struct {
	xid, vers, credits, proc uint32
	code                     uint32 // of RDMA_ERROR
	low, high                uint32
	l                        lists
	msg                      []byte
}

func (a *answer) read(b []byte) bool {
	r := words{b: b}
	a.xid, a.vers, a.credits, a.proc = r.u32(), r.u32(), r.u32(), r.u32()
	a.l.reads, a.l.segs, a.l.ends, a.l.reply, a.l.hasRep = a.l.reads[:0], a.l.segs[:0], a.l.ends[:0], a.l.reply[:0], false
	switch a.proc {
	case 0, 1:
		a.l.read(&r)
	case 4:
		if a.code = r.u32(); a.code == 1 {
			a.low, a.high = r.u32(), r.u32()
		}
		r.bad = r.bad || a.code < 1 || a.code > 2
	default:
		r.bad = true
	}
	a.msg = b[min(r.off, len(b)):]
	return !r.bad
}

// judge says what message b is as the answer to what the oracle has predicted, and takes what it says was written
// over into what the memory is to hold.
func (s *Session) judge(m Message, w *Want) Verdict {
	o, a := &s.oracle, &s.answer
	s.overwritten = false
	switch {
	case m.Inv:
		return violation("Send With Invalidate of key %#x, which was not agreed on (RFC 8797 section 4.1)", m.InvKey)
	case !a.read(m.Bytes):
		return violation("a header that does not parse: %x", m.Bytes)
	case a.xid != o.xid:
		return violation("XID %#x answers %#x (RFC 8166 section 4.2.1)", a.xid, o.xid)
	case a.credits == 0:
		return violation("a grant of no credits (section 3.3.1)")
	case a.proc == 4:
		return s.judgeError()
	case a.vers != 1:
		return violation("a reply of version %d", a.vers)
	case len(a.l.reads) > 0:
		return violation("a Read list in a reply (section 4.3.1)")
	}
	if v := s.judgeLists(w); v.Kind == Violation {
		return v
	}
	return s.judgeReply(w)
}

func (s *Session) judgeError() Verdict {
	a := &s.answer
	switch {
	case len(a.msg) > 0:
		return violation("%d bytes behind an RDMA_ERROR", len(a.msg))
	case a.vers != s.oracle.vers:
		return violation("version %d in the RDMA_ERROR that answers %d (section 4.5)", a.vers, s.oracle.vers)
	case a.code == 2:
		return Verdict{Kind: ErrChunk}
	case a.low > 1 || a.high < 1:
		return violation("ERR_VERS of a server that speaks %d to %d (section 4.5.1)", a.low, a.high)
	}
	return Verdict{Kind: ErrVers}
}

// judgeLists compares the chunks that came back with those that were offered: sections 3.4.6, 4.3.2, 4.3.3.
func (s *Session) judgeLists(w *Want) Verdict {
	a, call := &s.answer, &s.oracle.l
	if len(a.l.ends) != len(call.ends) {
		return violation("%d Write chunks come back of %d (section 3.4.6)", len(a.l.ends), len(call.ends))
	}
	at, from := 0, 0
	known := w.Kind == Reply && !w.Open && !refused(a)
	for i := range call.ends {
		got, off := a.l.segs[at:a.l.ends[i]], call.segs[from:call.ends[i]]
		at, from = a.l.ends[i], call.ends[i]
		left := 0
		if i == 0 && w.reduce {
			left = len(w.item)
		}
		if !known {
			left = unknown
		}
		if i > 0 && len(got) == 0 { // RFC 8267 section 6.4.1
			continue
		}
		if v := sameChunk("Write", got, off, left); v.Kind == Violation {
			return v
		}
	}
	if !a.l.hasRep {
		if a.proc == 1 || call.hasRep && len(call.reply) > 0 {
			return violation("the Reply chunk does not come back (section 4.3.3)")
		}
		return Verdict{}
	}
	if !call.hasRep {
		return violation("a Reply chunk that was not offered")
	}
	left := 0
	if a.proc == 1 {
		left = int(total(a.l.reply)) // rightLength compares it with what it is to be
	}
	return sameChunk("Reply", a.l.reply, call.reply, left)
}

// refused says whether an inline reply is no success; then nobody can say how much of a chunk was written.
func refused(a *answer) bool {
	r := words{b: a.msg}
	r.u32()
	r.u32()
	if a.proc != 0 || r.u32() == 1 {
		return a.proc == 0
	}
	r.u32()
	r.opaque()
	return RPCStat(r.u32()) != Success
}

// unknown is for a chunk of which nobody can say how much was written.
const unknown = -1

func sameChunk(what string, got, offered []Segment, left int) Verdict {
	if len(got) != len(offered) {
		return violation("%d segments of the %s chunk come back of %d (section 3.4.6)", len(got), what, len(offered))
	}
	for i := range got {
		want := offered[i]
		if left == unknown {
			want.Length = min(want.Length, got[i].Length)
			if got[i] != want {
				return violation("segment %d of the %s chunk comes back as %v, was %v", i, what, got[i], offered[i])
			}
			continue
		}
		want.Length = uint32(min(uint64(want.Length), uint64(left)))
		left -= int(want.Length)
		if got[i] != want {
			return violation("segment %d of the %s chunk comes back as %v, want %v", i, what, got[i], want)
		}
	}
	if left > 0 {
		return violation("%d bytes more than the %s chunk has", left, what)
	}
	return Verdict{}
}

// judgeReply looks at the RPC message, and applies what was written.
func (s *Session) judgeReply(w *Want) Verdict {
	a, m := &s.answer, s.oracle.Mem
	v := Verdict{Kind: Reply, Long: a.proc == 1}
	if w.reduce && w.Kind == Reply {
		item := w.item
		first := s.oracle.l.first()
		for i, g := range a.l.segs[:len(first)] {
			at, ok := m.find(Segment{Handle: g.Handle, Offset: g.Offset, Length: g.Length}, true)
			if !ok && g.Length > 0 {
				return violation("segment %d of the Write chunk cannot have been written", i)
			}
			if g.Length > 0 {
				item = item[copy(m.want[at.r][at.off:at.end], item):]
			}
		}
	}
	msg := a.msg
	if v.Long {
		if len(a.msg) > 0 {
			return violation("%d bytes behind the header of an RDMA_NOMSG (section 4.2.4)", len(a.msg))
		}
		var ok bool
		if msg, ok = s.takeReplyChunk(); !ok {
			return v // segments that overlap: what is there is of no use
		}
	}
	r := words{b: msg}
	if xid := r.u32(); xid != a.xid {
		return violation("RPC XID %#x in a reply with XID %#x (section 4.2.1)", xid, a.xid)
	}
	if t := r.u32(); r.bad || t != 1 {
		return violation("not an RPC reply: %x", msg)
	}
	if r.u32() == 1 {
		v.RPC = AuthError
		if r.u32() == 0 {
			v.RPC = RPCMismatch
		}
		return s.rightLength(v, msg, w)
	}
	r.u32()
	r.opaque()
	if v.RPC = RPCStat(r.u32()); r.bad {
		return violation("an RPC reply that ends too early: %x", msg)
	}
	if v = s.rightLength(v, msg, w); v.Kind == Reply && v.RPC == Success && w.hasRes {
		if why := s.judgeResult(&r, w); why != "" {
			return violation("%s", why)
		}
	}
	return v
}

// rightLength looks at the length of a message that says what it is to say.
func (s *Session) rightLength(v Verdict, msg []byte, w *Want) Verdict {
	if w.Kind == Reply && v.RPC == w.RPC && w.length > 0 && len(msg) != w.length {
		return violation("an RPC message of %d bytes, want %d", len(msg), w.length)
	}
	return v
}

// takeReplyChunk gathers the message of the Reply chunk. What is in its segments need not be known before.
func (s *Session) takeReplyChunk() (msg []byte, ok bool) {
	m := s.oracle.Mem
	s.long = s.long[:0]
	var seen [8]span
	n := 0
	ok = true
	for _, g := range s.answer.l.reply {
		at, found := m.find(g, true)
		if g.Length == 0 || !found {
			continue
		}
		b := m.mr[at.r].Bytes()[at.off:at.end]
		copy(m.want[at.r][at.off:], b)
		s.long = append(s.long, b...)
		for _, x := range seen[:n] {
			ok = ok && (x.r != at.r || x.end <= at.off || at.end <= x.off)
		}
		if ok = ok && n < len(seen); ok {
			seen[n] = at
			n++
		}
	}
	if s.overlapsWrite(seen[:n]) {
		ok, s.overwritten = false, true
	}
	return s.long, ok
}

// overlapsWrite says whether the Write chunk was written where the Reply chunk was, which came later.
func (s *Session) overlapsWrite(list []span) bool {
	if len(s.answer.l.ends) == 0 {
		return false
	}
	for _, g := range s.answer.l.segs[:s.answer.l.ends[0]] {
		at, ok := s.oracle.Mem.find(g, true)
		for _, x := range list {
			if ok && x.r == at.r && x.off < at.end && at.off < x.end {
				return true
			}
		}
	}
	return false
}

func (s *Session) judgeResult(r *words, w *Want) string {
	status := r.u32()
	if w.proc == procSym {
		return ""
	}
	if status != 0 && w.proc != 0 {
		return "NFS status " + itoa(status)
	}
	switch w.proc {
	case procRead:
		if r.present() {
			r.bytes(84)
		}
		count, _, n := r.u32(), r.u32(), r.u32()
		if r.bad || int(count) != len(w.item) || n != count {
			return "READ of " + itoa(count) + " bytes with a length word of " + itoa(n) + ", want " + itoa(uint32(len(w.item)))
		}
		return s.inline(r, w)
	case procRdlink:
		if r.present() {
			r.bytes(84)
		}
		if n := r.u32(); r.bad || int(n) != len(w.item) {
			return "READLINK of " + itoa(n) + " bytes"
		}
		return s.inline(r, w)
	case procWrite:
		b := r.b[len(r.b)-16:]
		if n := binary.BigEndian.Uint32(b); n != w.count {
			return "WRITE of " + itoa(n) + " bytes, want " + itoa(w.count)
		}
	}
	return ""
}

// inline wants the data item behind its length word, unless it is in a Write chunk.
func (s *Session) inline(r *words, w *Want) string {
	if w.reduce {
		if len(r.b) != r.off {
			return "bytes behind a reduced result (section 3.4.4)"
		}
		return ""
	}
	b := r.bytes(uint64(len(w.item)))
	if r.bad || !bytes.Equal(b, w.item) {
		return "wrong data in the message"
	}
	for _, p := range r.b[r.off-int(-uint32(len(w.item))&3) : r.off] {
		if p != 0 {
			return "an XDR pad that is not zero"
		}
	}
	return ""
}

// settle takes over what may have been written to the chunks of a call whose connection ended.
func (s *Session) settle() {
	m, l := s.oracle.Mem, &s.oracle.l
	take := func(list []Segment) {
		for _, g := range list {
			if at, ok := m.find(g, true); ok {
				copy(m.want[at.r][at.off:at.end], m.mr[at.r].Bytes()[at.off:at.end])
			} else if at, ok := m.clip(g); ok {
				copy(m.want[at.r][at.off:at.end], m.mr[at.r].Bytes()[at.off:at.end])
			}
		}
	}
	take(l.segs)
	take(l.reply)
}

// clip is the part of a segment that is within its region: a server may write a segment in several pieces.
func (m *Memory) clip(g Segment) (span, bool) {
	for _, r := range [...]Region{Sink, Both} {
		base, size := m.mr[r].Addr(), uint64(regionSize[r])
		if m.mr[r].RKey() == g.Handle && g.Offset >= base && g.Offset-base < size {
			off := int(g.Offset - base)
			return span{r, off, int(min(uint64(off)+uint64(g.Length), size))}, true
		}
	}
	return span{}, false
}

// touched finds a byte that is not what it is to be.
func (m *Memory) touched(all bool) (Region, int, bool) {
	for r := range numRegions {
		if !all && r != Sink && r != Both {
			continue
		}
		got, want := m.mr[r].Bytes(), m.want[r]
		if bytes.Equal(got, want) {
			continue
		}
		for i := range got {
			if got[i] != want[i] {
				return r, i, true
			}
		}
	}
	return 0, 0, false
}

// resync forgets differences.
func (m *Memory) resync() {
	for r := range numRegions {
		copy(m.want[r], m.mr[r].Bytes())
	}
}

func itoa(v uint32) string {
	var b [10]byte
	i := len(b)
	for {
		i--
		b[i] = byte('0' + v%10)
		if v /= 10; v == 0 {
			return string(b[i:])
		}
	}
}
