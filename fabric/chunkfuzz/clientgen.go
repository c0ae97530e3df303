package chunkfuzz

import (
	"encoding/binary"

	"example.org/nfsrdma/internal/rpcrdma"
)

// Fate is what a client makes of an answer.
type Fate uint8

// Fates.
const (
	Taken  Fate = iota // the call ends with the results
	Ignore             // the answer is dropped and the call goes on
	Failed             // the call ends with an error
	Either             // results or an error, but an end
)

func (f Fate) String() string { return [...]string{"taken", "dropped", "failed", "either"}[f%4] }

// spoil makes of the legal answer h, msg what the input says, and gives the message and, if inv, the key to invalidate.
func (g *Gen) spoil(k *Call, h *Header, msg []byte) (b []byte, key uint32, inv bool) {
	g.spoilHeader(h)
	switch g.odd(6) {
	case 1:
		key, inv = aKey(&k.Header), true
	case 2:
		key, inv = aKey(&k.Header)^0x100, true
	}
	if n := g.odd(8); n > 0 && len(msg) >= 24 {
		msg = append([]byte(nil), msg...)
		put := binary.BigEndian.PutUint32
		switch n {
		case 1:
			put(msg, h.XID+1)
		case 2:
			put(msg[4:], 0)
		case 3:
			put(msg[4:], 2)
		case 4:
			put(msg[8:], 1)
		case 5:
			put(msg[20:], uint32(g.byte())%8)
		case 6:
			msg = msg[:len(msg)-min(len(msg), int(g.byte()))]
		case 7:
			at := int(g.byte()) % (len(msg) / 4) * 4
			put(msg[at:], pick(g, uint32(0), 1, 2, 1<<28, 1<<31, 1<<32-1))
		case 8:
			msg = append(msg, "more at the end "...)
		}
	}
	b = append(rpcrdma.AppendHeader(nil, h), msg...)
	if f := g.odd(6); f > 0 && f < 4 {
		switch f {
		case 1:
			b = b[:min(len(b), int(g.byte()))]
		case 2:
			if at := int(g.byte()) % 24 * 4; at+4 <= min(len(b), rpcrdma.HeaderLen(h)) {
				binary.BigEndian.PutUint32(b[at:], pick(g, uint32(0), 1, 2, 3, 1<<28, 1<<28+1, 1<<31, 1<<32-1, 17))
			}
		case 3:
			b = b[:max(0, len(b)-1-int(g.byte()%3))]
		}
	}
	return b, key, inv
}

func aKey(h *Header) uint32 {
	for _, s := range h.Reads {
		return s.Handle
	}
	for i := range h.Writes.Len() {
		for _, s := range h.Writes.Chunk(i) {
			return s.Handle
		}
	}
	for _, s := range h.Reply {
		return s.Handle
	}
	return 0x1234500
}

// spoilHeader changes a field or a list.
func (g *Gen) spoilHeader(h *Header) {
	segs := h.Reply
	if h.Writes.Len() > 0 {
		segs = h.Writes.Chunk(0)
	}
	var s *Segment
	if len(segs) > 0 {
		s = &segs[int(g.byte())%len(segs)]
	}
	f := g.odd(24)
	switch f {
	case 1:
		h.XID = pick(g, h.XID+1, h.XID^1<<31, 0, 1<<32-1)
	case 2:
		h.Vers = pick(g, uint32(0), 2, 1<<31)
	case 3:
		h.Credits = pick(g, uint32(0), 1, 1<<16, 1<<32-1)
	case 4:
		h.Proc = pick(g, rpcrdma.RDMA_MSG, rpcrdma.RDMA_NOMSG, rpcrdma.RDMA_MSGP, rpcrdma.RDMA_DONE, 5, 1<<31)
	case 5:
		h.Proc, h.Err = rpcrdma.RDMA_ERROR, pick(g, rpcrdma.ERR_CHUNK, rpcrdma.ERR_VERS, 0, 3, 1<<31)
	case 6:
		h.Reads = append(h.Reads, ReadSegment{Position: uint32(g.byte()), Segment: Segment{Handle: 1, Length: 4, Offset: 8}})
	case 7:
		h.Writes.Add(nil)
	case 8:
		h.Writes.Add([]Segment{{Handle: 1, Length: hugeLengths[g.byte()%6], Offset: 1 << 63}})
	case 9:
		h.Writes.Reset()
	case 10:
		h.HasReply, h.Reply = !h.HasReply, nil
	case 11:
		h.HasReply = true
		h.Reply = append(h.Reply, Segment{Handle: 7, Length: pick(g, uint32(0), 1, 1<<31), Offset: 9})
	case 12:
		h.Reply = h.Reply[:max(len(h.Reply)-1, 0)]
	case 13:
		for range 1 + g.byte() {
			h.Writes.AddSegment(Segment{Handle: 3})
		}
	}
	if s == nil {
		return
	}
	switch f {
	case 14:
		s.Length++
	case 15:
		s.Length -= min(s.Length, 1)
	case 16:
		s.Length = hugeLengths[g.byte()%6]
	case 17:
		s.Length = 0
	case 18:
		s.Handle ^= 1 << (g.byte() % 32)
	case 19:
		s.Offset += pick(g, uint64(1), 1<<32, 1<<63)
	case 20:
		s.Length &^= 3
	}
}

// fate predicts, from RFC 8166 sections 4.3 and 4.5, what the answer b does to a call. legal is the length of the right
// RPC message, head that of what comes before its data item if it has one (in a Write chunk) of n bytes.
func fate(k *Call, b, msg []byte, inv bool, key uint32, n int) Fate {
	var a answer
	if len(b) < 16 {
		return Ignore
	}
	ok := a.readAny(b)
	call := &k.Header
	switch {
	case inv && !hasKey(call, key):
		return Either // the connection ends, and the call is sent again
	case a.proc == 3:
		return Ignore // RDMA_DONE, section 4.6.2
	case !ok && len(b) < 28:
		return Ignore // section 4.5
	case ok && a.proc == 0 && len(a.l.reads)+len(a.l.segs)+len(a.l.reply) > 4 && len(a.msg) >= 8 && binary.BigEndian.Uint32(a.msg[4:]) == 0:
		return Either // a client may refuse so many segments before it looks further
	case ok && a.proc == 0 && len(a.msg) >= 8 && binary.BigEndian.Uint32(a.msg[4:]) == 0:
		return Ignore // a call, of the other direction (RFC 8167)
	case a.xid != call.XID:
		return Ignore
	case !ok, a.proc != 0 && a.proc != 1, len(a.l.reads) > 0, len(a.l.ends) != call.Writes.Len():
		return Failed
	}
	written := -1
	if len(a.l.ends) == 1 {
		if written = came(call.Writes.Chunk(0), a.l.segs[:a.l.ends[0]]); written < 0 {
			return Failed
		}
	}
	inReply := 0
	if a.l.hasRep {
		if inReply = came(call.Reply, a.l.reply); inReply < 0 || !call.HasReply {
			return Failed
		}
	}
	switch {
	case a.proc == 1 && (len(a.msg) > 0 || !a.l.hasRep), a.proc == 0 && inReply > 0:
		return Failed
	case a.proc == 1 && inReply != len(msg):
		return Either // another message, of what is in the chunk
	case a.proc == 0 && len(a.msg) < 8:
		return Failed
	case a.proc == 0 && (binary.BigEndian.Uint32(a.msg) != call.XID || binary.BigEndian.Uint32(a.msg[4:]) != 1):
		return Failed
	case a.proc == 0 && string(a.msg) != string(msg):
		return Either // the RPC message is another: it is for the layers above
	case written >= 0 && n >= 0 && written != n && written != (n+3)/4*4:
		return Failed
	}
	return Taken
}

// came is how much was written to a chunk, or -1 if it is not the one that was offered (section 3.4.6).
func came(offered, got []Segment) (n int) {
	if len(got) != len(offered) {
		return -1
	}
	full := true
	for i, s := range got {
		if o := offered[i]; s.Handle != o.Handle || s.Offset != o.Offset || s.Length > o.Length || s.Length > 0 && !full {
			return -1
		}
		full = s.Length == offered[i].Length
		n += int(s.Length)
	}
	return n
}

func hasKey(h *Header, key uint32) bool {
	for _, s := range h.Reads {
		if s.Handle == key {
			return true
		}
	}
	for i := range h.Writes.Len() {
		for _, s := range h.Writes.Chunk(i) {
			if s.Handle == key {
				return true
			}
		}
	}
	for _, s := range h.Reply {
		if s.Handle == key {
			return true
		}
	}
	return false
}

// readAny is read for what a client may get: any version is an error, RDMA_MSGP and RDMA_DONE are known.
func (a *answer) readAny(b []byte) bool {
	r := words{b: b}
	a.xid, a.vers, a.credits, a.proc = r.u32(), r.u32(), r.u32(), r.u32()
	if a.vers != 1 {
		return false
	}
	switch a.proc {
	case 2:
		r.u32()
		r.u32()
		a.l.read(&r)
		a.msg = b[min(r.off, len(b)):]
		return !r.bad
	case 3:
		return true
	}
	return a.read(b)
}
