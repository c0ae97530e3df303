package chunkfuzz

import (
	"bytes"
	"fmt"
)

// Want is what must come of a message.
type Want struct {
	Kind Kind    // what the server of this module does
	Also Kinds   // what the RFCs leave to others besides
	RPC  RPCStat // of a Reply
	Long bool    // of a Reply: in the Reply chunk
	Why  string  // the rule

	Open   bool   // nothing is foreseen but that there is no violation
	reduce bool   // the data item goes into the first Write chunk
	item   []byte // of a reduced or inline data item
	hasRes bool   // SUCCESS of NFS3_OK, with a result to check
	proc   uint32
	count  uint32 // of WRITE
	length int    // of the RPC message; 0 is not known
	apply  bool   // a WRITE: item goes into the scratch file at off
	off    uint64
}

func (w *Want) String() string {
	s := Verdict{Kind: w.Kind, RPC: w.RPC, Long: w.Long}.String()
	if w.Also != 0 {
		s += fmt.Sprintf(" (or %v)", w.Also)
	}
	return s + ", since " + w.Why
}

// anything is what is allowed where the RFCs, or what is known of the server, say nothing.
const anything = Kinds(1<<Reply | 1<<ErrVers | 1<<ErrChunk | 1<<Drop | 1<<Disconnect)

// Server is what is known of a server.
type Server struct {
	Inline     int    // largest reply to the requester, bytes
	MaxPayload uint32 // largest READ and WRITE (rtmax, wtmax), bytes
	Root       []byte // file handles: of the directory with the rest,
	Data       []byte // a file of fixed contents,
	Scratch    []byte // and one that is written to
	Link, Dir  []byte

	contents []byte          // of Data
	scratch  []byte          // of Scratch
	target   []byte          // of Link
	plain    map[uint32]call // calls that have the same length of reply each time
	auth     []byte          // of the calls
	others   bool            // it has version 4 of the program, too
}

// call is a call without a data item.
type call struct {
	args  []byte
	reply int // length of the RPC message
}

// longRoom is how much longer than its data item a long call may be.
const longRoom = 4096

// words reads XDR (RFC 4506).
type words struct {
	b   []byte
	off int
	bad bool
}

func (r *words) u32() uint32 {
	if r.bad || len(r.b)-r.off < 4 {
		r.bad = true
		return 0
	}
	b := r.b[r.off:]
	r.off += 4
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

func (r *words) u64() uint64 { h := r.u32(); return uint64(h)<<32 | uint64(r.u32()) }

// present reads the boolean of an optional value: 0 or 1.
func (r *words) present() bool {
	v := r.u32()
	r.bad = r.bad || v > 1
	return !r.bad && v == 1
}

func (r *words) bytes(n uint64) []byte {
	padded := (n + 3) / 4 * 4
	if r.bad || padded > uint64(len(r.b)-r.off) {
		r.bad = true
		return nil
	}
	b := r.b[r.off : r.off+int(n)]
	r.off += int(padded)
	return b
}

func (r *words) opaque() []byte { return r.bytes(uint64(r.u32())) }

// auth reads an opaque_auth, whose body has at most 400 bytes.
func (r *words) auth() (flavor uint32, body []byte, tooLong bool) {
	flavor = r.u32()
	n := r.u32()
	if n > 400 {
		tooLong, r.bad = !r.bad, true
	}
	return flavor, r.bytes(uint64(n)), tooLong
}

func (r *words) seg() Segment { return Segment{Handle: r.u32(), Length: r.u32(), Offset: r.u64()} }

func (r *words) segs(to []Segment) []Segment {
	n := r.u32()
	if r.bad || uint64(n)*16 > uint64(len(r.b)-r.off) {
		r.bad = true
		return to
	}
	for range n {
		to = append(to, r.seg())
	}
	return to
}

// lists are the chunk lists of a message (RFC 8166 section 4.3).
type lists struct {
	reads  []ReadSegment
	segs   []Segment // of all Write chunks
	ends   []int
	hasRep bool
	reply  []Segment
}

func (l *lists) read(r *words) {
	l.reads, l.segs, l.ends, l.reply = l.reads[:0], l.segs[:0], l.ends[:0], l.reply[:0]
	for r.present() {
		l.reads = append(l.reads, ReadSegment{Position: r.u32(), Segment: r.seg()})
	}
	for r.present() {
		l.segs = r.segs(l.segs)
		l.ends = append(l.ends, len(l.segs))
	}
	if l.hasRep = r.present(); l.hasRep {
		l.reply = r.segs(l.reply)
	}
}

func (l *lists) first() []Segment {
	if len(l.ends) == 0 {
		return nil
	}
	return l.segs[:l.ends[0]]
}

func total(segs []Segment) (n uint64) {
	for i := range segs {
		n += uint64(segs[i].Length)
	}
	return n
}

// Oracle predicts what a server makes of a message. It shares no code with the server.
type Oracle struct {
	Srv *Server
	Mem *Memory

	xid     uint32
	vers    uint32
	l       lists
	long    []byte
	data    []byte
	want    Want
	dataPos uint32
	dataLen uint64
	hasData bool
}

func (o *Oracle) is(k Kind, also Kinds, why string) *Want {
	o.want = Want{Kind: k, Also: also, Why: why}
	return &o.want
}

// open is for what the oracle knows nothing of.
func (o *Oracle) open(why string) *Want {
	o.want = Want{Open: true, Also: anything, Why: why}
	return &o.want
}

// Predict gives what must come of b; it is valid until the next call.
func (o *Oracle) Predict(b []byte) *Want {
	o.l = lists{o.l.reads[:0], o.l.segs[:0], o.l.ends[:0], false, o.l.reply[:0]}
	if len(b) < 28 {
		return o.is(Drop, 0, "a message of less than 28 bytes is dropped (RFC 8166 section 4.5)")
	}
	r := words{b: b}
	o.xid, o.vers = r.u32(), r.u32()
	r.u32() // any credits may be asked for
	proc := r.u32()
	if o.vers != 1 {
		if proc == 3 || proc == 4 {
			return o.is(Drop, kinds(ErrVers), "errors and RDMA_DONE are not answered (sections 4.2.4, 4.6.2)")
		}
		return o.is(ErrVers, 0, "the version is not 1 (section 4.5.1)")
	}
	switch proc {
	case 0, 1:
	case 2:
		return o.is(ErrChunk, kinds(Reply, Drop), "RDMA_MSGP is not supported (section 4.6.1)")
	case 3, 4:
		return o.is(Drop, 0, "errors and RDMA_DONE are dropped (sections 4.2.4, 4.6.2)")
	default:
		return o.is(ErrChunk, 0, "rdma_proc is not known (section 4.5.2)")
	}
	if o.l.read(&r); r.bad {
		return o.is(ErrChunk, 0, "the header does not parse (section 4.5.2)")
	}
	return o.chunks(proc == 1, b[r.off:])
}

// chunks looks at the lists.
func (o *Oracle) chunks(nomsg bool, msg []byte) *Want {
	var pz uint64
	zero := 0
	o.hasData, o.dataLen, o.dataPos = false, 0, 0
	for i := range o.l.reads {
		s := &o.l.reads[i]
		switch {
		case s.Position == 0:
			zero++
			pz += uint64(s.Length)
		case o.hasData && s.Position != o.dataPos:
			return o.is(ErrChunk, anything, "there is one Read chunk besides that of position zero (RFC 8267 section 6.4.2)")
		default:
			o.hasData, o.dataPos = true, s.Position
			o.dataLen += uint64(s.Length)
		}
	}
	maxLen := uint64(o.Srv.MaxPayload)
	switch {
	case nomsg && pz == 0:
		return o.is(ErrChunk, kinds(Drop, Disconnect), "an RDMA_NOMSG call has its message in a position-zero Read chunk (RFC 8166 section 4.2.4)")
	case !nomsg && zero > 0:
		return o.is(ErrChunk, anything, "a position-zero Read chunk is for RDMA_NOMSG (section 3.5.3)")
	case pz > maxLen+longRoom:
		return o.is(ErrChunk, anything, "the long call is longer than any (section 4.5.3)")
	case o.dataLen > maxLen+3:
		return o.is(ErrChunk, anything, "the Read chunk is longer than wtmax (section 4.5.3)")
	case !nomsg && o.hasData && uint64(o.dataPos) > uint64(len(msg)):
		return o.is(ErrChunk, kinds(Reply, Disconnect), "the position is past the message (section 3.4.5)")
	}
	if !nomsg {
		return o.rpc(msg)
	}
	o.long = o.long[:0]
	if !o.gather(&o.long, 0, pz) {
		return o.is(Disconnect, kinds(ErrChunk), "a READ of the position-zero chunk is a remote access error")
	}
	if o.hasData && uint64(o.dataPos) > pz {
		return o.is(ErrChunk, kinds(Reply, Disconnect), "the position is past the long message (section 3.4.5)")
	}
	return o.rpc(o.long)
}

// gather reads n bytes of the Read chunk at pos.
func (o *Oracle) gather(to *[]byte, pos uint32, n uint64) bool {
	for i := range o.l.reads {
		s := o.l.reads[i].Segment
		if o.l.reads[i].Position != pos || s.Length == 0 || n == 0 {
			continue
		}
		s.Length = uint32(min(uint64(s.Length), n))
		at, ok := o.Mem.find(s, false)
		if !ok {
			return false
		}
		*to = append(*to, o.Mem.mr[at.r].Bytes()[at.off:at.end]...)
		n -= uint64(s.Length)
	}
	return true
}

const (
	nfsProgram = 100003
	procRead   = 6
	procWrite  = 7
	procRdlink = 5
	procSym    = 10
	numProcs   = 22
	headLen    = 24 // of an RPC reply
	attrLen    = 4 + 84
)

// rpc looks at the RPC message (RFC 5531 section 9).
func (o *Oracle) rpc(msg []byte) *Want {
	r := words{b: msg}
	xid, mtype := r.u32(), r.u32()
	switch {
	case r.bad:
		return o.answer(GarbageArgs, headLen, kinds(Drop, ErrChunk, Disconnect), "the RPC message does not parse (RFC 8166 section 4.5.2)")
	case xid != o.xid:
		return o.is(ErrChunk, kinds(Drop, Reply, Disconnect), "the XIDs of header and message differ (section 4.2.1)")
	case mtype != 0:
		return o.is(Drop, kinds(ErrChunk, Disconnect), "it is not a call (RFC 8167 section 5)")
	}
	vers := r.u32()
	if !r.bad && vers != 2 {
		return o.answer(RPCMismatch, headLen, kinds(Drop, Disconnect), "rpcvers is not 2 (RFC 5531)")
	}
	prog, pvers, proc := r.u32(), r.u32(), r.u32()
	flavor, cred, tooLong := r.auth()
	vflavor, verf, tooLong2 := r.auth()
	switch {
	case tooLong || tooLong2:
		return o.answer(AuthError, headLen-4, kinds(Drop, ErrChunk, Disconnect), "a credential or verifier is longer than 400 bytes (RFC 5531)")
	case r.bad:
		return o.answer(GarbageArgs, headLen, kinds(Drop, ErrChunk, Disconnect), "the RPC header does not parse (RFC 8166 section 4.5.2)")
	case flavor != 1 || string(cred) != string(o.Srv.auth) || vflavor != 0 || len(verf) > 0:
		return o.open("the credential is another")
	case prog == mountProgram:
		return o.open("the program is MOUNT, which a server may have here")
	case prog != nfsProgram:
		return o.answer(ProgUnavail, headLen, 0, "the program is another (RFC 5531)")
	case pvers != 3 && o.Srv.others:
		return o.open("the server has other versions of the program")
	case pvers != 3:
		return o.answer(ProgMismatch, headLen+8, 0, "the program's version is another (RFC 5531)")
	case proc >= numProcs:
		return o.answer(ProcUnavail, headLen, 0, "there is no such procedure (RFC 5531)")
	case o.hasData && proc != procWrite && proc != procSym:
		return o.is(ErrChunk, anything, "no argument of the procedure is DDP-eligible (RFC 8267 section 4)")
	}
	o.want = Want{proc: proc}
	switch proc {
	case procRead:
		return o.read(r)
	case procWrite:
		return o.write(msg, r)
	case procSym:
		return o.symlink(r)
	}
	return o.simple(proc, r)
}

func (o *Oracle) garbage() *Want {
	also := kinds(ErrChunk)
	if o.data = o.data[:0]; o.hasData && !o.gather(&o.data, o.dataPos, o.dataLen) { // the data may be read first
		also |= kinds(Disconnect)
	}
	return o.answer(GarbageArgs, headLen, also, "the arguments do not parse (RFC 8166 section 4.5.2)")
}

func (o *Oracle) simple(proc uint32, r words) *Want {
	c, ok := o.Srv.plain[proc]
	args := r.b[r.off:]
	switch {
	case !ok, string(args[:min(len(args), len(c.args))]) != string(c.args[:min(len(args), len(c.args))]):
		return o.open("the call is another")
	case len(args) < len(c.args):
		return o.garbage()
	case proc == procRdlink:
		o.want.item = o.Srv.target
		return o.result(headLen+4+attrLen+4, true)
	}
	return o.result(c.reply, false)
}

// contents gives what a READ gets.
func (s *Server) read(fh []byte, off uint64, count uint32) (b []byte, ok bool) {
	switch string(fh) {
	case string(s.Data):
		b = s.contents
	case string(s.Scratch):
		b = s.scratch
	default:
		return nil, false
	}
	b = b[min(off, uint64(len(b))):]
	return b[:min(uint64(len(b)), uint64(min(count, s.MaxPayload)))], true
}

func (o *Oracle) read(r words) *Want {
	fh := r.opaque()
	off, count := r.u64(), r.u32()
	if r.bad {
		return o.garbage()
	}
	b, ok := o.Srv.read(fh, off, count)
	if !ok {
		return o.open("the handle is another")
	}
	o.want.item = b
	return o.result(headLen+4+attrLen+12, true)
}

// inChunk says what is wrong with a Read chunk that is to hold an item of n bytes.
func (o *Oracle) inChunk(pos int, n uint32, most uint32) *Want {
	pad := uint64(-n & 3)
	switch {
	case int(o.dataPos) != pos:
		return o.is(ErrChunk, kinds(Reply, Disconnect), "the position is not that of the data item (section 3.4.5)")
	case o.dataLen != uint64(n) && o.dataLen != uint64(n)+pad:
		return o.is(ErrChunk, kinds(Reply, Disconnect), "the Read chunk has another length than the data item (section 3.4.5.2)")
	case n > most:
		return o.is(ErrChunk, kinds(Reply, Disconnect), "the data item is longer than the server takes (section 4.5.3)")
	}
	return nil
}

// mountProgram is that of RFC 1813, appendix I.
const mountProgram = 100005

// scratchMost is how much of the scratch file is known here, bytes. Far beyond it a server has a largest file, too (RFC 1813 section
// 3.3.19, maxfilesize).
const scratchMost = 1 << 20

func (o *Oracle) write(msg []byte, r words) *Want {
	fh := r.opaque()
	off, count, stable := r.u64(), r.u32(), r.u32()
	n := r.u32()
	if r.bad || stable > 2 || len(fh) > 64 {
		return o.garbage()
	}
	w := &o.want
	if o.hasData {
		if bad := o.inChunk(r.off, n, o.Srv.MaxPayload); bad != nil {
			return bad
		}
		if n != count {
			return o.garbage()
		}
		if string(fh) != string(o.Srv.Scratch) {
			return o.open("the handle is another")
		}
		o.data = o.data[:0]
		if !o.gather(&o.data, o.dataPos, uint64(n)) {
			return o.is(Disconnect, kinds(ErrChunk), "a READ of the Read chunk is a remote access error")
		}
		w.item = o.data
	} else {
		w.item = r.bytes(uint64(n))
		if r.bad || n != count {
			return o.garbage()
		}
		if string(fh) != string(o.Srv.Scratch) {
			return o.open("the handle is another")
		}
	}
	if off > scratchMost-uint64(n) {
		return o.open("the file gets longer than is known here, or than the server has it (NFS3ERR_FBIG)")
	}
	w.apply, w.off, w.count = true, off, n
	return o.result(o.Srv.plain[procWrite].reply, false)
}

func (o *Oracle) symlink(r words) *Want {
	c := o.Srv.plain[procSym]
	rest := r.b[r.off:]
	head := len(c.args) - 4 - (len(o.Srv.target)+3)/4*4 // before the length word of the path
	if len(rest) < head {
		return o.garbage()
	}
	if string(rest[:head]) != string(c.args[:head]) {
		return o.open("the call is another")
	}
	r.off += head
	n := r.u32()
	if r.bad {
		return o.garbage()
	}
	if o.hasData {
		if bad := o.inChunk(r.off, n, 4096); bad != nil {
			return bad
		}
		o.data = o.data[:0]
		if !o.gather(&o.data, o.dataPos, uint64(n)) {
			return o.is(Disconnect, kinds(ErrChunk), "a READ of the Read chunk is a remote access error")
		}
		if n == 0 || bytes.IndexByte(o.data, 0) >= 0 { // no path: the status is another, and with it the length
			w := o.result(c.reply, false)
			w.length = 0
			return w
		}
	} else if r.bytes(uint64(n)); r.bad {
		return o.garbage()
	}
	return o.result(c.reply, false)
}

// answer is a reply without results.
func (o *Oracle) answer(stat RPCStat, n int, also Kinds, why string) *Want {
	o.want = Want{RPC: stat, Also: also, Why: why}
	return o.place(n, false)
}

// result is a reply with results. head is the RPC message up to the data item, if it has one.
func (o *Oracle) result(head int, item bool) *Want {
	o.want.hasRes, o.want.Why = true, "the call is right"
	return o.place(head, item)
}

// place decides where a reply goes (RFC 8166 sections 3.5.3, 4.3.2 and 4.3.3).
func (o *Oracle) place(n int, item bool) *Want {
	w := &o.want
	hdr := 16 + 12 + 8*len(o.l.ends) + 16*len(o.l.segs)
	if o.l.hasRep {
		hdr += 4 + 16*len(o.l.reply)
	}
	first := o.l.first()
	w.reduce = item && len(first) > 0
	switch {
	case w.reduce && uint64(len(w.item)) > total(first):
		return o.is(ErrChunk, kinds(Reply, Disconnect), "the Write chunk is too short for the result (section 4.5.3)")
	case item && !w.reduce:
		n += (len(w.item) + 3) / 4 * 4
	}
	w.length = n
	switch {
	case hdr+n <= o.Srv.Inline:
		if o.l.hasRep && !o.reachable(o.l.reply, n) { // it may be used for less, too
			w.Also |= kinds(Disconnect)
		}
	case o.l.hasRep && uint64(n) <= total(o.l.reply) && hdr <= o.Srv.Inline:
		w.Long = true
	default:
		return o.refuse("the reply fits neither inline nor into the Reply chunk (section 4.5.3)")
	}
	if w.reduce && !o.reachable(first, len(w.item)) {
		return o.refused(Disconnect, kinds(ErrChunk), "a WRITE to the Write chunk is a remote access error")
	}
	if w.Long && !o.reachable(o.l.reply, n) {
		return o.refused(Disconnect, kinds(ErrChunk), "a WRITE to the Reply chunk is a remote access error")
	}
	return w
}

// refuse is a reply that cannot be sent; what the call did stays done.
func (o *Oracle) refuse(why string) *Want {
	return o.refused(ErrChunk, kinds(Disconnect), why)
}

func (o *Oracle) refused(k Kind, also Kinds, why string) *Want {
	o.want.Kind, o.want.Also, o.want.Why, o.want.Long = k, also, why, false
	return &o.want
}

// reachable says whether n bytes can be written to a chunk.
func (o *Oracle) reachable(segs []Segment, n int) bool {
	for _, s := range segs {
		s.Length = min(s.Length, uint32(n))
		if s.Length == 0 {
			continue
		}
		if _, ok := o.Mem.find(s, true); !ok {
			return false
		}
		n -= int(s.Length)
	}
	return true
}
