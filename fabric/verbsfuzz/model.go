package verbsfuzz

import (
	"bytes"
	"fmt"
	"slices"

	"example.org/nfsrdma/verbs"
)

// Limits of the queue pairs.
const (
	maxInline = 64
	maxSGE    = 4
	maxWR     = 16
)

// statuses are those that a completion may have.
type statuses []verbs.Status

var (
	ok        = statuses{verbs.Success}
	flushed   = statuses{verbs.WRFlushErr}
	localProt = statuses{verbs.LocProtErr}
	// IBTA 11.6.2: how a refused bind, registration or invalidation is told is left to the device.
	memMgmt = statuses{verbs.MWBindErr, verbs.LocQPOpErr, verbs.LocProtErr, verbs.LocAccessErr}
)

// buffer is memory of an end as it has to be.
type buffer struct {
	want  []byte
	loose []bool // what is in it is left open
}

// key is what a key stands for.
type key struct {
	valid  bool
	buf    int
	at     int64 // of its first byte, in the buffer
	n      int64
	access verbs.Access
	local  bool // an lkey, of the queue pair's own domain
	owned  bool // remote use by the queue pair's peer is allowed: of its domain
	gen    int  // how often it was made: each time it is another
}

type recvd struct {
	id    int
	local []Piece
	gen   int // of bufFast's key
}

// end is one of the two.
type end struct {
	bufs  [numBufs]buffer
	keys  [numBufs + 1]key
	dead  bool    // in state ERR
	recvs []recvd // posted and not used
	ird   int
	ord   int
}

// posted is a work request that the device took, and completion what came of it.
type posted struct {
	id  int
	s   *Step
	inv uint32 // SEND_WITH_INV: the key
}

type completion struct {
	is bool
	wc verbs.WC
}

// hazard is what an RDMA READ may still be doing: without a fence what follows may overtake it.
type hazard struct {
	buf  int // -1 is none
	from int64
	n    int64
}

// model has both ends, and judges what a device did.
type model struct {
	ends [2]end
	wcs  map[int]completion        // by step
	cur  posted                    // what is judged
	seen [verbs.GeneralErr + 1]int // work requests by how they ended

	sources, sinks []hazard // of READs since the last fence: in the peer's memory, in the own
	reads          int      // outstanding at most
}

func (m *model) init(p *Program) {
	for i := range m.ends {
		e := &m.ends[i]
		e.dead, e.recvs, e.ird, e.ord = false, e.recvs[:0], p.IRD, p.ORD
		for k, a := range [...]verbs.Access{verbs.LocalWrite | verbs.RemoteRead | verbs.RemoteWrite, verbs.RemoteRead,
			verbs.LocalWrite | verbs.RemoteWrite, verbs.LocalWrite, 0} {
			e.keys[k] = key{valid: true, buf: k, n: size, access: a, local: true, owned: true}
		}
		e.keys[bufOther] = key{valid: true, buf: bufOther, n: size, access: verbs.LocalWrite | verbs.RemoteRead | verbs.RemoteWrite}
		e.keys[bufFast], e.keys[bufWindow] = key{}, key{}
	}
}

// beginBatch forgets what is over.
func (m *model) beginBatch() { m.fence() }

func (m *model) fence() { m.sources, m.sinks, m.reads = m.sources[:0], m.sinks[:0], 0 }

// local looks at the first n bytes of pieces, with bufFast's key of a generation: right says that all may be used so.
func (e *end) local(ps []Piece, n int64, need verbs.Access, gen int) (right bool) {
	for _, p := range ps {
		if n <= 0 {
			break
		}
		if k := e.keys[p.Buf]; !k.valid || !k.local || k.access&need != need || p.Off < 0 || p.Off+int64(p.Len) > k.n ||
			p.Buf == bufFast && k.gen != gen {
			return false
		}
		n -= int64(p.Len)
	}
	return true
}

// remote says whether the peer may use n bytes at off of a key so, and where in which buffer they are.
func (e *end) remote(s *Step, n int64, need verbs.Access) (at int64, right bool) {
	k := e.keys[s.Buf]
	if !k.valid || s.Old || !k.owned || k.access&need != need || s.Off < 0 || s.Off > k.n || n > k.n-s.Off {
		return 0, false
	}
	return k.at + s.Off, true
}

func total(ps []Piece) (n int64) {
	for _, p := range ps {
		n += int64(p.Len)
	}
	return n
}

// gather takes what pieces hold.
func (e *end) gather(ps []Piece) (b buffer) {
	for _, p := range ps {
		from := &e.bufs[p.Buf]
		b.want = append(b.want, from.want[p.Off:p.Off+int64(p.Len)]...)
		b.loose = append(b.loose, from.loose[p.Off:p.Off+int64(p.Len)]...)
	}
	return b
}

// put is the other way round; with open, it may have been done in part, and of what was there anything may be.
func (e *end) put(ps []Piece, b buffer, open bool) {
	for _, p := range ps {
		if len(b.want) == 0 {
			return
		}
		if p.Buf >= numBufs || p.Off < 0 || p.Off+int64(p.Len) > size {
			return // whoever puts more is wrong
		}
		n := min(int64(p.Len), int64(len(b.want)))
		e.set(p.Buf, p.Off, buffer{b.want[:n], b.loose[:n]}, open)
		b.want, b.loose = b.want[n:], b.loose[n:]
	}
}

func (e *end) set(buf int, at int64, b buffer, open bool) {
	to := &e.bufs[buf]
	for i := range b.want {
		j := at + int64(i)
		if open {
			to.loose[j] = true
			continue
		}
		to.want[j], to.loose[j] = b.want[i], b.loose[i]
	}
}

func (b *buffer) loosen() { fill(b.loose, true) }

func fill(b []bool, v bool) {
	for i := range b {
		b[i] = v
	}
}

func overlap(h []hazard, buf int, at, n int64) bool {
	return slices.ContainsFunc(h, func(h hazard) bool { return h.buf == buf && at < h.from+h.n && h.from < at+n })
}

func overlaps(h []hazard, ps []Piece) bool {
	return slices.ContainsFunc(ps, func(p Piece) bool { return overlap(h, p.Buf, p.Off, int64(p.Len)) })
}

// dies puts an end in state ERR: what it has posted is flushed.
func (m *model) dies(i int) error {
	e := &m.ends[i]
	e.dead = true
	for _, r := range e.recvs {
		if err := m.completes(r.id, true, flushed, nil); err != nil {
			return err
		}
	}
	e.recvs = e.recvs[:0]
	return nil
}

// completes says whether a step's completion is one of those that may be; a success that is not signaled has none.
func (m *model) completes(id int, signaled bool, may statuses, s *Step) error {
	c := m.wcs[id]
	if !c.is {
		if signaled || !slices.Contains(may, verbs.Success) {
			return fmt.Errorf("step %d: no completion, want %v", id, may)
		}
		return nil
	}
	delete(m.wcs, id)
	if !slices.Contains(may, c.wc.Status) {
		return fmt.Errorf("step %d: completed with %q, want %v", id, c.wc.Status, may)
	}
	if c.wc.Status == verbs.Success && !signaled {
		return fmt.Errorf("step %d: a completion, and it was not signaled", id)
	}
	if c.wc.Status != verbs.Success || s == nil {
		return nil
	}
	if c.wc.Op != s.Op && c.wc.Op != plain(s.Op) {
		return fmt.Errorf("step %d: completed as %v, want %v", id, c.wc.Op, s.Op)
	}
	if n := total(s.Local); s.Op == verbs.OpRDMARead && int64(c.wc.ByteLen) != n {
		return fmt.Errorf("step %d: a READ of %d bytes, want %d", id, c.wc.ByteLen, n)
	}
	return nil
}

// plain is what libibverbs may call it in a completion: without immediate data and invalidation.
func plain(o verbs.Opcode) verbs.Opcode {
	switch o {
	case verbs.OpSendWithImm, verbs.OpSendWithInv:
		return verbs.OpSend
	case verbs.OpRDMAWriteWithImm:
		return verbs.OpRDMAWrite
	}
	return o
}

// status is how a step has ended: a success may have no completion.
func (m *model) status(id int) verbs.Status { return m.wcs[id].wc.Status }

// judge goes over work that an end had posted, in its order, after all of it is over.
func (m *model) judge(work []posted) error {
	for _, w := range work {
		if err := m.one(w); err != nil {
			return err
		}
	}
	return nil
}

func (m *model) one(w posted) error {
	s, a := w.s, &m.ends[w.s.By]
	if s.Op == verbs.OpRecv {
		if a.dead {
			return m.completes(w.id, true, flushed, s)
		}
		a.recvs = append(a.recvs, recvd{w.id, s.Local, a.keys[bufFast].gen})
		return nil
	}
	signaled := s.Flags&verbs.Signaled != 0
	if a.dead {
		m.seen[verbs.WRFlushErr]++
		return m.completes(w.id, true, flushed, s)
	}
	if s.Flags&verbs.Fence != 0 {
		m.fence()
	}
	m.cur = w
	v, err := m.decide(w.id, s)
	if err != nil {
		return err
	}
	failed := m.status(w.id) != verbs.Success // which always completes
	m.seen[m.status(w.id)]++
	if err := m.completes(w.id, signaled, v.may, s); err != nil {
		return fmt.Errorf("%w: %s", err, v.why)
	}
	if !failed {
		return nil
	}
	err = m.dies(s.By)
	if v.both && err == nil {
		err = m.dies(1 - s.By)
	}
	return err
}

// verdict is what may come of a work request; both: its failure is one of the responder too, which goes to ERR.
type verdict struct {
	may  statuses
	both bool
	why  string
}

func (m *model) decide(id int, s *Step) (verdict, error) {
	switch s.Op {
	case verbs.OpLocalInv:
		return m.localInv(s), nil
	case verbs.OpRegMR:
		return m.regMR(s), nil
	case verbs.OpBindMW:
		return m.bind(s), nil
	}
	a, b := &m.ends[s.By], &m.ends[1-s.By]
	n := total(s.Local)
	if s.Flags&verbs.Inline != 0 {
		n = int64(s.Inline)
	}
	need := verbs.Access(0)
	if s.Op == verbs.OpRDMARead {
		need = verbs.LocalWrite
	}
	if n > 1<<31 {
		return verdict{may: append(slices.Clone(localProt), verbs.LocLenErr), why: "the message is longer than any can be"}, nil
	}
	if s.Flags&verbs.Inline == 0 && !a.local(s.Local, n, need, a.keys[bufFast].gen) {
		// Packets before the bad piece may have gone out.
		if s.Op == verbs.OpRDMAWrite || s.Op == verbs.OpRDMAWriteWithImm {
			if at, right := b.remote(s, n, verbs.RemoteWrite); right {
				b.set(s.Buf, at, empty(n), true)
			}
		}
		return verdict{may: localProt, why: "local memory that the lkey does not allow (10.6.3)"}, nil
	}
	if b.dead {
		return verdict{may: statuses{verbs.RetryExcErr}, why: "the peer is in state ERR"}, nil
	}
	if s.Op == verbs.OpRDMARead {
		return m.read(s, n), nil
	}
	var data buffer
	if s.Flags&verbs.Inline != 0 {
		data = inlineData(id, s.Inline)
	} else {
		data = a.gather(s.Local)
		if overlaps(m.sinks, s.Local) {
			data.loosen()
		}
	}
	if s.Op == verbs.OpRDMAWrite || s.Op == verbs.OpRDMAWriteWithImm {
		return m.write(s, data)
	}
	return m.send(s, data)
}

func empty(n int64) buffer { return buffer{make([]byte, n), make([]bool, n)} }

// inlineData is what step id sends inline.
func inlineData(id, n int) buffer {
	b := empty(int64(n))
	for i := range b.want {
		b.want[i] = byte(id*31 + i + 1)
	}
	return b
}

func (m *model) read(s *Step, n int64) verdict {
	a, b := &m.ends[s.By], &m.ends[1-s.By]
	v := verdict{may: ok, why: "the READ is right"}
	m.reads++
	if m.reads > b.ird && a.ord > b.ird {
		v = verdict{may: statuses{verbs.Success, verbs.RemInvReqErr}, both: true, why: "more READs than the responder can have (9.7.5)"}
	}
	if n == 0 {
		return v // the rkey is not looked at (9.7.4)
	}
	at, right := b.remote(s, n, verbs.RemoteRead)
	if !right {
		v.may = slices.DeleteFunc(slices.Clone(append(v.may, verbs.RemAccessErr)), func(s verbs.Status) bool { return s == verbs.Success })
		v.both, v.why = true, "remote memory that the rkey does not allow (9.7.4)"
		return v
	}
	from := &b.bufs[s.Buf]
	data := buffer{slices.Clone(from.want[at : at+n]), slices.Clone(from.loose[at : at+n])}
	a.put(s.Local, data, m.status(m.cur.id) != verbs.Success)
	m.sources = append(m.sources, hazard{s.Buf, at, n})
	for _, p := range s.Local {
		m.sinks = append(m.sinks, hazard{p.Buf, p.Off, int64(p.Len)})
	}
	return v
}

func (m *model) write(s *Step, data buffer) (verdict, error) {
	b := &m.ends[1-s.By]
	n := int64(len(data.want))
	imm := s.Op == verbs.OpRDMAWriteWithImm
	at, right := b.remote(s, n, verbs.RemoteWrite)
	if n > 0 && !right {
		v := verdict{may: statuses{verbs.RemAccessErr}, both: true, why: "remote memory that the rkey does not allow (9.7.4)"}
		if imm && len(b.recvs) == 0 {
			v.may = append(v.may, verbs.RNRRetryExcErr)
			v.both = m.status(m.cur.id) != verbs.RNRRetryExcErr
		}
		return v, nil
	}
	rnr := imm && len(b.recvs) == 0
	if n > 0 {
		m.overtakes(s, b, s.Buf, at, n)
		b.set(s.Buf, at, data, rnr)
	}
	switch {
	case rnr:
		return verdict{may: statuses{verbs.RNRRetryExcErr}, why: "no receive for the immediate data (9.7.5.2.8)"}, nil
	case imm:
		return verdict{may: ok, why: "the WRITE is right"}, m.receives(b, ok, n, verbs.OpRecvRDMAWithImm)
	}
	return verdict{may: ok, why: "the WRITE is right"}, nil
}

func (m *model) send(s *Step, data buffer) (verdict, error) {
	b := &m.ends[1-s.By]
	n := int64(len(data.want))
	if len(b.recvs) == 0 {
		return verdict{may: statuses{verbs.RNRRetryExcErr}, why: "no receive is posted (9.7.5.2.8)"}, nil
	}
	r := b.recvs[0]
	short, right := total(r.local) < n, b.local(r.local, n, verbs.LocalWrite, r.gen)
	// A device may look at all of a receive before it begins.
	whole := b.local(r.local, total(r.local), verbs.LocalWrite, r.gen)
	tooLong := total(r.local) > 1<<31
	inv := true
	if s.Op == verbs.OpSendWithInv {
		inv = m.mayInvalidate(b, s)
	}
	for _, p := range r.local {
		m.overtakes(s, b, p.Buf, p.Off, int64(p.Len))
	}
	if right && whole && !short && inv && !tooLong {
		b.put(r.local, data, false)
		if s.Op == verbs.OpSendWithInv {
			b.keys[s.Buf].valid = false
		}
		return verdict{may: ok, why: "the SEND is right"}, m.receives(b, ok, n, verbs.OpRecv)
	}
	b.put(r.local, data, true)
	v := verdict{both: true, why: "the SEND does not fit what it meets"}
	var at statuses // of the receive
	if short {
		v.may, at = append(v.may, verbs.RemInvReqErr), append(at, verbs.LocLenErr)
	}
	if !right || !whole || tooLong {
		v.may, at = append(v.may, verbs.RemOpErr), append(at, verbs.LocProtErr, verbs.LocLenErr)
	}
	if !inv {
		v.may = append(v.may, verbs.RemAccessErr, verbs.RemOpErr, verbs.RemInvReqErr)
		at = append(at, memMgmt...)
		at = append(at, verbs.RemInvReqErr, verbs.WRFlushErr)
	}
	if right && !whole && !short && inv {
		v.may, at = append(v.may, verbs.Success), append(at, verbs.Success)
	}
	return v, m.receives(b, at, n, verbs.OpRecv)
}

// receives is the completion of the first receive.
func (m *model) receives(b *end, may statuses, n int64, op verbs.Opcode) error {
	r := b.recvs[0]
	b.recvs = b.recvs[1:]
	c := m.wcs[r.id]
	if err := m.completes(r.id, true, may, nil); err != nil {
		return err
	}
	if c.wc.Status == verbs.Success && (int64(c.wc.ByteLen) != n || c.wc.Op != op) {
		return fmt.Errorf("step %d: received %v of %d bytes, want %v of %d", r.id, c.wc.Op, c.wc.ByteLen, op, n)
	}
	if c.wc.Status != verbs.Success {
		return nil
	}
	var want verbs.WC
	switch m.cur.s.Op {
	case verbs.OpSendWithImm, verbs.OpRDMAWriteWithImm:
		want = verbs.WC{Flags: verbs.WCWithImm, Imm: uint32(m.cur.id)}
	case verbs.OpSendWithInv:
		want = verbs.WC{Flags: verbs.WCWithInv, InvKey: m.cur.inv}
	}
	if c.wc.Flags != want.Flags || want.Flags&verbs.WCWithImm != 0 && c.wc.Imm != want.Imm ||
		want.Flags&verbs.WCWithInv != 0 && c.wc.InvKey != want.InvKey {
		return fmt.Errorf("step %d: received with flags %d, immediate %#x, invalidated key %#x, want %d, %#x, %#x", r.id,
			c.wc.Flags, c.wc.Imm, c.wc.InvKey, want.Flags, want.Imm, want.InvKey)
	}
	return nil
}

// overtakes: what is written where an unfenced READ reads from may be what that reads.
func (m *model) overtakes(s *Step, b *end, buf int, at, n int64) {
	if !overlap(m.sources, buf, at, n) {
		return
	}
	a := &m.ends[s.By]
	for _, h := range m.sinks {
		if h.buf < numBufs && h.from >= 0 && h.from+h.n <= size {
			fill(a.bufs[h.buf].loose[h.from:h.from+h.n], true)
		}
	}
}

func (m *model) mayInvalidate(e *end, s *Step) bool {
	return (s.Buf == bufFast || s.Buf == bufWindow) && !s.Old && e.keys[s.Buf].valid
}

func (m *model) localInv(s *Step) verdict {
	a := &m.ends[s.By]
	if m.mayInvalidate(a, s) {
		a.keys[s.Buf].valid = false
		return verdict{may: ok, why: "the key is valid, and can be invalidated"}
	}
	return verdict{may: memMgmt, why: "no valid key of a fast registration or window (10.6.5)"}
}

func (m *model) regMR(s *Step) verdict {
	k := &m.ends[s.By].keys[bufFast]
	if k.valid {
		return verdict{may: memMgmt, why: "the region is registered already (10.6.3.2)"}
	}
	*k = key{valid: true, buf: bufFast, n: size, access: s.Access, local: true, owned: true, gen: k.gen + 1}
	return verdict{may: ok, why: "the region is free"}
}

func (m *model) bind(s *Step) verdict {
	k := &m.ends[s.By].keys[bufWindow]
	switch {
	case s.Buf != bufWindow:
		return verdict{may: memMgmt, why: "the region has no right to bind, or is of another domain (10.6.6.2)"}
	case s.Off < 0 || s.Off+int64(s.Len) > size:
		return verdict{may: memMgmt, why: "the window does not lie in the region (10.6.6.2)"}
	case k.valid:
		return verdict{may: memMgmt, why: "the window is bound already (10.6.6.2.6)"}
	}
	*k = key{valid: true, buf: bufWindow, at: s.Off, n: int64(s.Len), access: s.Access, owned: true}
	return verdict{may: ok, why: "the window is free"}
}

// compare is the memory of both ends, and afterwards what was left open is as it is.
func (m *model) compare(mem func(e, buf int) []byte) error {
	for e := range m.ends {
		for b := range m.ends[e].bufs {
			w, is := &m.ends[e].bufs[b], mem(e, b)
			if !bytes.Equal(w.want, is) {
				for i := range is {
					if is[i] != w.want[i] && !w.loose[i] {
						return fmt.Errorf("%c, buffer %s, byte %d: %#02x, want %#02x", 'A'+rune(e), bufNames[b], i, is[i], w.want[i])
					}
				}
				copy(w.want, is)
			}
			clear(w.loose)
		}
	}
	return nil
}
