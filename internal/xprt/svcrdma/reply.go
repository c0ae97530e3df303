package svcrdma

import (
	"sync/atomic"

	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/xdr"
	"example.org/nfsrdma/internal/xprt/svc"
	"example.org/nfsrdma/verbs"
)

// Reply is an answer on its way. It belongs to the thread until Send, and then to the device.
type Reply struct {
	up   svc.Reply
	conn *Conn
	idx  uint32
	// mem is where a short message and its header are put together, header before middle.
	mem    Mem
	middle int
	buf    *Buffer // holds Msg instead
	start  int     // of Msg in mem or buf

	item     bool  // the message ends with a DDP-eligible data item
	data     []Mem // the item
	dataLen  int
	inFlight atomic.Bool
}

func (p *Reply) init(c *Conn, i uint32) {
	n := c.x.cfg.InlineSend
	p.conn, p.idx, p.middle = c, i, n
	off := int(i) * 2 * n
	p.mem = Mem{Bytes: c.sendMR.Bytes()[off : off+2*n : off+2*n], Addr: c.sendMR.Addr() + uint64(off), Len: uint32(2 * n), LKey: c.sendMR.LKey()}
	p.up = svc.Reply{State: c.x.cfg.NewReplyState(), Sender: p}
}

// Reply gives an empty reply to r.
func (r *Request) Reply(*svc.Thread) *svc.Reply {
	if p := r.reply(); p != nil {
		return &p.up
	}
	return nil
}

// reply waits if all are on their way. Nil: the connection ends, and r with it.
func (r *Request) reply() *Reply {
	c := r.conn
	p, err := c.idle.get(&c.n)
	if err != nil {
		c.becomeClosing(err)
		r.Abort()
		return nil
	}
	p.start = p.middle
	p.up.Msg = p.mem.Bytes[p.middle:p.middle]
	p.item, p.data, p.dataLen = false, p.data[:0], 0
	return p
}

// UseBuffer lets Msg be as long as the buffer that Need gave. It comes before anything is appended.
func (p *Reply) UseBuffer(req svc.Request) {
	r := req.(*Request)
	p.buf, r.mem = r.mem, nil
	p.start = 0
	p.up.Msg = p.buf.Bytes[:0]
}

// Room is how long Msg may become.
func (p *Reply) Room() int { return cap(p.up.Msg) }

// EndWithItem says that Msg ends with the count word of a DDP-eligible data item, whose bytes AddData lends.
func (p *Reply) EndWithItem() { p.item = true }

// AddData lends a piece of the data item until State.Release.
func (p *Reply) AddData(m Mem) {
	if m.Len > 0 {
		p.data = append(p.data, m)
		p.dataLen += int(m.Len)
	}
}

// AddBuffer adds the first n bytes of the buffer that Need gave to the data item.
func (p *Reply) AddBuffer(req svc.Request, n int) {
	r := req.(*Request)
	p.buf, r.mem = r.mem, nil
	p.AddData(p.buf.Slice(0, n))
}

// done takes the reply back when the device has finished with it.
func (p *Reply) done() {
	if p.inFlight.CompareAndSwap(true, false) {
		p.free()
	}
}

// free makes it idle.
func (p *Reply) free() {
	p.up.State.Release()
	if p.buf != nil {
		p.buf.put()
		p.buf = nil
	}
	p.conn.idle.put(p)
}

// Discard gives up a reply that will not be sent.
func (p *Reply) Discard() { p.free() }

// Send answers r and ends it. Where the data item and the message go follows RFC 8166: the item into the
// first Write chunk (4.3.2.2) unless that is empty (4.3.2.3), the rest inline, or if that is too long into the
// Reply chunk (3.5.3). A reply that fits nowhere becomes an ERR_CHUNK (4.5.3).
func (p *Reply) Send(th *svc.Thread, req svc.Request) {
	c, r := p.conn, req.(*Request)
	t, h := c.x.local(th), &r.h
	h.Reads = h.Reads[:0]
	if !isPlanted(BugCredit) || h.Credits != 0 {
		h.Credits = uint32(c.x.cfg.Credits)
	}
	h.Vers = rpcrdma.Version

	reduce := p.item && h.Writes.Len() > 0 && len(h.Writes.Chunk(0)) > 0
	msgLen := len(p.up.Msg)
	if !reduce {
		msgLen += xdr.Roundup(p.dataLen)
	}
	hdrLen := r.replyHeaderLen(reduce)
	inline := hdrLen+msgLen <= c.sendMax
	if c.x.cfg.PreferReplyChunk && h.HasReply && len(h.Reply) > 0 {
		inline = false
	}
	long := !inline && uint64(msgLen) <= rpcrdma.ChunkLen(h.Reply) && hdrLen <= c.sendMax
	switch {
	case reduce && uint64(p.dataLen) > rpcrdma.ChunkLen(h.Writes.Chunk(0)) && !isPlanted(BugBounds),
		!inline && !long,
		p.outgrown():
		c.n.noRoom.Add(1)
		p.Discard()
		r.fail(t)
		return
	}

	ch := &t.chain
	ch.start(c)
	if reduce && !p.write(ch, h.Writes.Chunk(0), p.data, r) {
		return
	}
	p.clearUnused(ch, h, reduce)
	if long {
		h.Proc = rpcrdma.RDMA_NOMSG
		c.n.nomsgReply.Add(1)
		ch.mem = p.message(ch.mem[:0], reduce)
		if !p.write(ch, h.Reply, ch.mem, r) {
			return
		}
	} else {
		h.Proc = rpcrdma.RDMA_MSG
		clearLengths(h.Reply)
	}
	if f := c.x.cfg.TraceMsg; f != nil {
		f(r, true, h, p.up.Msg)
	}
	p.send(t, r, !long, reduce)
}

// outgrown says that Msg was appended to beyond Room and so has left its memory.
func (p *Reply) outgrown() bool {
	at := p.mem.Bytes[p.middle:]
	if p.start == 0 {
		at = p.buf.Bytes
	}
	return len(p.up.Msg) > 0 && &p.up.Msg[0] != &at[0]
}

// replyHeaderLen is the length of the header that answers r.
func (r *Request) replyHeaderLen(reduce bool) int {
	n := rpcrdma.HeaderLen(&r.h)
	if r.conn.x.cfg.EmptyUnusedChunks {
		for i := range r.h.Writes.Len() {
			if i > 0 || !reduce {
				n -= 16 * len(r.h.Writes.Chunk(i))
			}
		}
	}
	return n
}

// clearUnused returns the Write chunks that hold no result: with zero lengths, or empty.
func (p *Reply) clearUnused(ch *chain, h *rpcrdma.Header, reduce bool) {
	empty := p.conn.x.cfg.EmptyUnusedChunks
	ch.list.Reset()
	for i := range h.Writes.Len() {
		switch segs := h.Writes.Chunk(i); {
		case i == 0 && reduce:
			ch.list.Add(segs)
		case empty:
			ch.list.Add(nil)
		default:
			clearLengths(segs)
		}
	}
	if empty {
		h.Writes, ch.list = ch.list, h.Writes
	}
}

func clearLengths(segs []rpcrdma.Segment) {
	for i := range segs {
		segs[i].Length = 0
	}
}

// message lists the pieces of the RPC message.
func (p *Reply) message(m []Mem, reduced bool) []Mem {
	from := &p.mem
	if p.start == 0 {
		from = &p.buf.Mem
	}
	m = append(m, from.Slice(p.start, p.start+len(p.up.Msg)))
	if reduced {
		return m
	}
	m = append(m, p.data...)
	if pad := xdr.Pad(p.dataLen); pad > 0 {
		m = append(m, p.conn.pad.Slice(0, pad))
	}
	return m
}

// write adds the RDMA WRITEs that put src into the segments of a chunk, whose lengths become what was written
// (RFC 8166 section 3.4.6). False: the connection ends, and the reply with it.
func (p *Reply) write(ch *chain, chunk []rpcrdma.Segment, mem []Mem, r *Request) bool {
	c := p.conn
	left := 0
	for i := range mem {
		left += int(mem[i].Len)
	}
	src := memReader{mem: mem}
	writes := uint64(0)
	p.inFlight.Store(true) // parts of the chain may be posted before the SEND
	for i := range chunk {
		s := &chunk[i]
		n := uint32(min(uint64(s.Length), uint64(left)))
		if i == len(chunk)-1 && isPlanted(BugBounds) {
			n = uint32(left)
		}
		left -= int(n)
		s.Length = n
		for at := s.Offset; n > 0; writes++ {
			wr := ch.add(kindMore, p.idx)
			if wr == nil {
				r.Abort()
				return false
			}
			wr.Op, wr.RemoteAddr, wr.RKey = verbs.OpRDMAWrite, at, keyOf(s.Handle)
			m := ch.fill(wr, &src, n, c.maxSGE)
			at += uint64(m)
			n -= m
		}
	}
	c.n.write.Add(writes)
	return true
}

// send encodes the header of r, gives r's receive back and posts the SEND.
func (p *Reply) send(t *Thread, r *Request, msg, reduced bool) {
	c, ch := p.conn, &t.chain
	p.inFlight.Store(true)
	wr := ch.add(kindMore, p.idx)
	if wr == nil {
		r.Abort()
		return
	}
	n := rpcrdma.HeaderLen(&r.h)
	at := p.middle - n
	rpcrdma.AppendHeader(p.mem.Bytes[at:at], &r.h)
	ch.mem = ch.mem[:0]
	switch {
	case msg && p.start == p.middle:
		// Header and message are one piece.
		rest := p.message(ch.mem, reduced)
		rest[0] = p.mem.Slice(at, p.middle+len(p.up.Msg))
		ch.mem = rest
	case msg:
		ch.mem = p.message(append(ch.mem, p.mem.Slice(at, p.middle)), reduced)
	default:
		ch.mem = append(ch.mem, p.mem.Slice(at, p.middle))
	}
	total := uint32(0)
	for i := range ch.mem {
		total += ch.mem[i].Len
	}
	if len(ch.mem) > c.maxSGE {
		total = p.pullUp(ch)
	}
	wr.Op = verbs.OpSend
	if r.canInv {
		wr.Op, wr.InvKey = verbs.OpSendWithInv, r.inv
		c.n.sendInv.Add(1)
	}
	src := memReader{mem: ch.mem}
	ch.fill(wr, &src, total, c.maxSGE)
	c.n.send.Add(1)
	// The receive goes back before the peer learns that it may send again (RFC 8166 section 3.3.1).
	r.repost()
	ch.post(kindReply, p.idx)
}

// pullUp copies the pieces of an inline message behind each other, since the device has too few SGEs.
func (p *Reply) pullUp(ch *chain) uint32 {
	b := p.mem.Bytes
	at := int(ch.mem[0].Addr - p.mem.Addr)
	n := at + int(ch.mem[0].Len)
	for i := range ch.mem[1:] {
		n += copy(b[n:], ch.mem[1+i].Bytes)
	}
	ch.mem = append(ch.mem[:0], p.mem.Slice(at, n))
	return uint32(n - at)
}

// Fail answers with ERR_CHUNK: the call can never succeed (RFC 8166 section 4.5.3).
func (r *Request) Fail(t *svc.Thread) { r.fail(r.conn.x.local(t)) }

func (r *Request) fail(t *Thread) { r.sendError(t, rpcrdma.ERR_CHUNK) }

func (r *Request) sendError(t *Thread, code rpcrdma.ErrCode) {
	p := r.reply()
	if p == nil {
		return
	}
	c := r.conn
	if code == rpcrdma.ERR_VERS {
		c.n.errVers.Add(1)
	} else {
		c.n.errChunk.Add(1)
	}
	r.h.Credits = uint32(c.x.cfg.Credits)
	r.h.SetError(code)
	r.canInv = false
	t.chain.start(c)
	if f := c.x.cfg.TraceMsg; f != nil {
		f(r, true, &r.h, nil)
	}
	p.send(t, r, false, false)
}
