package xprtrdma

import (
	"context"

	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/xdr"
	"example.org/nfsrdma/verbs"
)

// chunkType says how one direction of a call moves (enum rpcrdma_chunktype).
type chunkType uint8

const (
	noch    chunkType = iota // inline
	readch                   // Data in a Read chunk
	areadch                  // all of the call in a position-zero Read chunk, RDMA_NOMSG
	writech                  // Sink in a Write chunk
	replych                  // Reply chunk
)

func (c chunkType) String() string {
	return [...]string{"inline", "readch", "areadch", "writech", "replych"}[c]
}

// plan is how a call goes over one connection.
type plan struct {
	rtype, wtype chunkType
	pad          int // bytes of XDR pad in the Read chunk
	msgLen       int // bytes behind the header in the send buffer
	reads        int // mappings of the Read chunk; one of a Write or Reply chunk may follow
	before       int // work requests before the SEND
	after        int // work requests that a fence takes at most
}

// maxMaps is the number of buffers that a call maps: Data, its pad, and Sink or reply.
const maxMaps = 3

const (
	listEntry = 8  // bytes of a Write list entry, or nearly of a Reply chunk, without its segments
	segLen    = 16 // bytes of a segment
	readLen   = 24 // bytes of a Read list entry
)

// choose decides on chunks from the lengths alone, but for the number of segments of the
// Read chunk, which decides whether the header still fits.
func (q *Req) choose(e *ep) (p plan, err error) {
	chunks := q.x.reg.chunks()
	// The reply.
	inline := rpcrdma.MinHeaderLen + q.MaxReply + xdr.Roundup(len(q.Sink))
	reduced := rpcrdma.MinHeaderLen + listEntry + segLen*q.segments(len(q.Sink)) + q.MaxReply
	switch {
	case len(q.Sink) > 0 && reduced <= e.inlineRecv && !(q.SinkInline && inline <= e.inlineRecv):
		p.wtype = writech
	case inline <= e.inlineRecv:
	case chunks:
		p.wtype = replych
	default:
		return p, &MarshalError{What: "reply", Size: inline, Limit: e.inlineRecv, Knob: e.recvKnob()}
	}
	// The call.
	hdr := rpcrdma.MinHeaderLen
	switch p.wtype {
	case writech:
		hdr += listEntry + segLen*q.segments(len(q.Sink))
	case replych:
		hdr += 4 + segLen*q.segments(q.MaxReply+xdr.Roundup(len(q.Sink)))
	}
	whole := len(q.Msg) + xdr.Roundup(len(q.Data))
	switch {
	case hdr+whole <= e.inlineSend:
		p.msgLen = whole
	case !chunks:
		return p, &MarshalError{What: "call", Size: hdr + whole, Limit: e.inlineSend, Knob: e.sendKnob()}
	case len(q.Data) > 0 && hdr+readLen*(q.segments(len(q.Data))+1)+len(q.Msg) <= e.inlineSend:
		p.rtype, p.msgLen = readch, len(q.Msg)
		if q.x.cfg.PadInChunk {
			p.pad = xdr.Pad(len(q.Data))
		}
	default:
		p.rtype = areadch
	}
	return p, nil
}

// segments is how many segments n bytes need at most, too many to be sent if there are no chunks.
func (q *Req) segments(n int) int {
	per := q.x.reg.segPages() * verbs.PageSize
	if per == 0 {
		return 1 << 20
	}
	return (n + verbs.PageSize - 1 + per - 1) / per
}

// marshal registers the memory of the call, and writes its header before the message. When it
// fails nothing is left registered.
func (q *Req) marshal(ctx context.Context, e *ep) error {
	p, err := q.choose(e)
	if err == nil {
		q.ep = e
		err = q.mapMemory(&p)
	}
	if err == nil {
		err = q.registerMemory(ctx, &p)
	}
	if err == nil {
		err = q.header(e, &p)
	}
	if err != nil {
		q.settle()
		return err
	}
	q.plan = p
	return nil
}

func (q *Req) mapMemory(p *plan) error {
	switch p.rtype {
	case noch:
		if len(q.Data) > 0 {
			q.Msg = xdr.AppendFixedOpaque(q.Msg, q.Data)[:len(q.Msg)]
			q.stats.pullup.Add(uint64(len(q.Data)))
		}
	case readch:
		p.reads = 1
		if err := q.mapBuf(q.Data, remoteSource, "data", q.x.reg.maxSegs()); err != nil {
			return err
		}
		if p.pad > 0 {
			p.reads++
			if err := q.mapBuf(q.pad[:p.pad], remoteSource, "pad", 1); err != nil {
				return err
			}
		}
	case areadch:
		had := cap(q.long)
		q.long = xdr.AppendFixedOpaque(append(q.long[:0], q.Msg...), q.Data)
		q.stats.hardway.Add(uint64(cap(q.long) - had))
		p.reads = 1
		if err := q.mapBuf(q.long, remoteSource, "call", q.x.reg.maxSegs()); err != nil {
			return err
		}
	}
	switch p.wtype {
	case writech:
		return q.mapBuf(q.Sink, remoteSink, "result", q.x.reg.maxSegs())
	case replych:
		n := q.MaxReply + xdr.Roundup(len(q.Sink))
		if cap(q.reply) < n {
			q.reply = make([]byte, n)
			q.stats.hardway.Add(uint64(n))
		}
		q.reply = q.reply[:n]
		return q.mapBuf(q.reply, remoteSink, "reply", q.x.reg.maxSegs())
	}
	return nil
}

// Rights of a chunk that the peer reads, or writes.
const (
	remoteSource = verbs.RemoteRead
	remoteSink   = verbs.LocalWrite | verbs.RemoteWrite
)

func (q *Req) mapBuf(b []byte, access verbs.Access, what string, limit int) error {
	m := &q.maps[q.nmaps]
	m.buf, m.access = b, access
	if err := q.x.reg.mapBuf(m); err != nil {
		return err
	}
	q.nmaps++
	per := q.x.reg.segPages()
	if n := (pagesOf(len(b)) + per - 1) / per; n > limit {
		return &MarshalError{What: what, Size: len(b), Limit: limit * per * verbs.PageSize, Knob: "MaxDataSegs"}
	}
	return nil
}

// registerMemory fills q.segs and q.wrs, and lists the segments in the header.
func (q *Req) registerMemory(ctx context.Context, p *plan) error {
	q.hdr.Reset()
	q.wrs, q.used = q.wrs[:0], 0
	if q.nmaps == 0 {
		return nil
	}
	reg := q.x.reg
	n := 0
	for i := range q.nmaps {
		n += reg.regions(pagesOf(len(q.maps[i].buf)))
	}
	if n > 0 {
		if err := reg.reserve(ctx, q, n); err != nil {
			return err
		}
		before, after := reg.wrsPerRegion()
		p.before, p.after = n*before, n*after
	}
	pos := uint32(0)
	if p.rtype == readch {
		pos = uint32(len(q.Msg))
	}
	for i := range q.nmaps {
		q.segs = q.segs[:0]
		if err := reg.register(q, &q.maps[i]); err != nil {
			return err
		}
		switch {
		case i < p.reads:
			for _, s := range q.segs {
				q.hdr.Reads = append(q.hdr.Reads, rpcrdma.ReadSegment{Position: pos, Segment: s})
			}
		case p.wtype == writech:
			q.hdr.Writes.Add(q.segs)
		default:
			q.hdr.HasReply = true
			q.hdr.Reply = append(q.hdr.Reply, q.segs...)
		}
	}
	return q.pay(ctx)
}

// header writes the transport header so that it ends where the message begins, and sets the SGE.
func (q *Req) header(e *ep, p *plan) error {
	h := &q.hdr
	h.XID = q.xid
	h.Credits = uint32(len(q.x.reqs))
	h.Proc = rpcrdma.RDMA_MSG
	if p.rtype == areadch {
		h.Proc = rpcrdma.RDMA_NOMSG
	}
	n := rpcrdma.HeaderLen(h)
	if n > q.room || n+p.msgLen > e.inlineSend {
		return &MarshalError{What: "call with its chunk lists", Size: n + p.msgLen, Limit: e.inlineSend, Knob: e.sendKnob()}
	}
	// A reply repeats the Write list and Reply chunk.
	if r := n - readLen*len(h.Reads); r > e.inlineRecv {
		return &MarshalError{What: "reply with its chunk lists", Size: r, Limit: e.inlineRecv, Knob: e.recvKnob()}
	}
	start := q.room - n
	rpcrdma.AppendHeader(q.send[start:start:q.room], h)
	q.sge[0].Addr = q.sendAddr + uint64(start)
	q.sge[0].Length = uint32(n + p.msgLen)
	return nil
}

// MaxData is the most bytes of Data that a call may have whose Msg is msgLen bytes long, with
// the name of what limits it.
func (x *Xprt) MaxData(msgLen int) (n int, knob string) {
	e := x.link.Load()
	room := e.inlineSend - rpcrdma.MinHeaderLen - msgLen
	if !x.reg.chunks() {
		return max(room, 0) &^ 3, e.sendKnob()
	}
	return x.chunkLimit(room/readLen-1, e.sendKnob())
}

// MaxSink is likewise for Sink, for a reply of at most maxReply bytes without it.
func (x *Xprt) MaxSink(msgLen, maxReply int) (n int, knob string) {
	e := x.link.Load()
	send := e.inlineSend - rpcrdma.MinHeaderLen - listEntry - msgLen
	recv := e.inlineRecv - rpcrdma.MinHeaderLen - listEntry - maxReply
	if !x.reg.chunks() {
		return max(recv+listEntry, 0) &^ 3, e.recvKnob()
	}
	if send < recv {
		return x.chunkLimit(send/segLen, e.sendKnob())
	}
	return x.chunkLimit(recv/segLen, e.recvKnob())
}

// chunkLimit is the payload of a chunk when the header has room for segs segments. One of them is
// for a buffer that does not begin on a page.
func (x *Xprt) chunkLimit(segs int, knob string) (int, string) {
	n := x.cfg.MaxDataSegs * verbs.PageSize
	if fit := (segs*x.reg.segPages() - 1) * verbs.PageSize; fit < n {
		return max(fit, 0), knob
	}
	if fit := (x.reg.maxSegs()*x.reg.segPages() - 1) * verbs.PageSize; fit < n {
		return fit, "the device's page list"
	}
	return n, "MaxDataSegs"
}
