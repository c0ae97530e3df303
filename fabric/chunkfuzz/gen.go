package chunkfuzz

import (
	"encoding/binary"
	"math/rand/v2"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/rpcrdma"
)

// Gen makes messages of bytes. Each decision takes one byte; where there are no more, it is zero. Below 0x80 a decision
// is the ordinary one, so a legal READ comes of no bytes at all.
type Gen struct {
	s   *Session
	in  []byte
	at  [numRegions]int // where the next segment goes
	h   Header
	rpc []byte
	seg []Segment
	n   uint64 // messages made
}

// RandomInput gives n bytes for Gen, most of them ordinary.
func RandomInput(r *rand.Rand, b []byte) {
	calm := 200 + r.IntN(50)
	for i := range b {
		v := r.Uint32()
		if b[i] = byte(v); i > 1 && int(v>>8&255) < calm {
			b[i] &= 0x7f
		}
	}
}

func (g *Gen) byte() byte {
	if len(g.in) == 0 {
		return 0
	}
	b := g.in[0]
	g.in = g.in[1:]
	return b
}

// odd is 0, or one of n unusual things.
func (g *Gen) odd(n int) int {
	if b := g.byte(); b >= 0x80 {
		return 1 + int(b-0x80)%n
	}
	return 0
}

func pick[T any](g *Gen, list ...T) T { return list[int(g.byte())%len(list)] }

// lengths that wrap, or that are more than anybody has.
var hugeLengths = [...]uint32{1 << 28, 1<<28 + 1, 1 << 31, 1<<31 - 1, 1<<32 - 1, 1<<32 - 4}

// Message makes a message of in; it is valid until the next.
func (g *Gen) Message(in []byte) []byte {
	g.in, g.at = in, [numRegions]int{}
	g.n++
	xid := g.s.Req.NextXID()
	g.h.Reset()
	g.h.XID, g.h.Credits = xid, 8
	call := rpc.Call{XID: xid, Prog: nfsProgram, Vers: 3, Cred: g.s.auth}
	op := int(g.byte()) % 16
	mode := g.byte() % 4
	body := g.body(op, mode, &call)
	if f := g.odd(9); f > 0 {
		body = g.spoilRPC(f, body, &call)
	}
	g.long(mode, body)
	g.oddLists()
	msg := rpcrdma.AppendHeader(g.s.sent[:0], &g.h)
	if g.h.Proc != rpcrdma.RDMA_NOMSG {
		msg = append(msg, body...)
	}
	msg = g.spoilWire(msg)
	g.s.sent = msg
	return msg[:min(len(msg), 4096)]
}

// body makes the RPC message and the chunks that fit it.
func (g *Gen) body(op int, mode byte, call *rpc.Call) []byte {
	v := g.s.Srv
	g.rpc = g.rpc[:0]
	plain := func(proc uint32) []byte {
		call.Proc = proc
		c := v.plain[proc]
		g.rpc = append(rpc.AppendCall(g.rpc, call), c.args...)
		g.replyChunk(c.reply, true)
		return g.rpc
	}
	switch {
	case op < 6:
		return g.read(call)
	case op < 9:
		return g.write(mode, call)
	case op == 9:
		call.Proc = procRdlink
		g.rpc = append(rpc.AppendCall(g.rpc, call), v.plain[procRdlink].args...)
		g.writeList(len(v.target))
		g.replyChunk(v.plain[procRdlink].reply, true)
		return g.rpc
	case op == 10:
		return g.symlink(mode, call)
	case op == 11:
		return plain(uint32(nfs3.READDIR))
	case op == 12:
		return plain(pick(g, uint32(nfs3.GETATTR), uint32(nfs3.LOOKUP), uint32(nfs3.ACCESS), uint32(nfs3.FSINFO), uint32(nfs3.PATHCONF)))
	case op == 13:
		b := plain(uint32(nfs3.GETATTR))
		g.writeList(100)
		return b
	}
	return plain(uint32(nfs3.NULL))
}

func fileHandle(b []byte) nfs3.FH {
	fh, _ := nfs3.MakeFH(b)
	return fh
}

func (g *Gen) read(call *rpc.Call) []byte {
	v := g.s.Srv
	call.Proc = procRead
	fh := pick(g, v.Data, v.Data, v.Scratch)
	count := pick(g, uint32(1000), 0, 1, 2, 3, 4, 5, 7, 100, 864, 868, 900, 2000, 3900, 3936, 3940, 3941, 4000, 5001, 16384, 40000, 65536, 65537, 1<<20, 1<<31, 1<<32-1)
	off := pick(g, uint64(0), 1, 4, 999, 4095, 4096, 59_000, 60_000, 60_001, 60_002, 1<<40)
	g.rpc = nfs3.AppendReadArgs(rpc.AppendCall(g.rpc, call), &nfs3.ReadArgs{File: fileHandle(fh), Offset: off, Count: count})
	b, _ := v.read(fh, off, count)
	g.writeList(len(b))
	g.replyChunk(headLen+4+attrLen+12+(len(b)+3)/4*4, len(b) < 3000)
	return g.rpc
}

func (g *Gen) write(mode byte, call *rpc.Call) []byte {
	v := g.s.Srv
	call.Proc = procWrite
	n := pick(g, 1000, 0, 1, 2, 3, 4, 5, 100, 1024, 2001, 3000, 4096, 5000, 16384, 40_001, 65_535, 65_536)
	off := pick(g, uint64(0), 1, 4, 1000, 4096, 4000)
	if mode == 1 {
		n = min(n, 3000)
	}
	a := nfs3.WriteArgs{File: fileHandle(v.Scratch), Offset: off, Count: uint32(n), Stable: nfs3.StableHow(pick(g, 0, 2, 1))}
	word := uint32(n)
	switch g.odd(6) {
	case 1:
		a.Count++
	case 2:
		a.Count, word = hugeLengths[g.byte()%6], uint32(n)
	case 3:
		word = hugeLengths[g.byte()%6]
		a.Count = word
	case 4:
		word, a.Count = uint32(n)+1, uint32(n)+1
	case 5:
		word--
	}
	g.rpc = nfs3.AppendWriteArgsHead(rpc.AppendCall(g.rpc, call), &a, word)
	g.data(mode, n)
	g.replyChunk(v.plain[procWrite].reply, true)
	return g.rpc
}

// data puts the n bytes of an argument behind g.rpc or into a Read chunk.
func (g *Gen) data(mode byte, n int) {
	at := g.at[Source]
	var mark [8]byte
	binary.BigEndian.PutUint64(mark[:], g.n)
	g.s.Req.Put(Source, at, mark[:])
	if mode == 1 || mode == 2 {
		b := g.s.Req.Bytes(Source)[at : at+n]
		g.rpc = append(g.rpc, b...)
		g.rpc = append(g.rpc, 0, 0, 0)[:len(g.rpc)+int(-uint32(n)&3)]
		return
	}
	g.readChunk(len(g.rpc), n)
}

func (g *Gen) readChunk(pos, n int) {
	p := uint32(pos)
	switch g.odd(8) {
	case 1:
		p += 4
	case 2:
		p -= 4
	case 3:
		p++
	case 4:
		p = 0
	case 5:
		p = 1<<32 - 4
	case 6:
		p = 1 << 31
	case 7:
		p = 4
	case 8:
		p += 400
	}
	length := n
	switch g.odd(6) {
	case 1:
		length = (n + 3) / 4 * 4
	case 2:
		length++
	case 3:
		length = max(n-1, 0)
	case 4:
		length = n + 4
	case 5:
		length = 0
	case 6:
		length = n / 2
	}
	for _, s := range g.split(Source, length) {
		g.h.Reads = append(g.h.Reads, ReadSegment{Position: p, Segment: s})
	}
}

func (g *Gen) symlink(mode byte, call *rpc.Call) []byte {
	v := g.s.Srv
	call.Proc = procSym
	args := v.plain[procSym].args
	n := len(v.target)
	head := len(args) - (n+3)/4*4
	g.rpc = append(rpc.AppendCall(g.rpc, call), args[:head]...)
	if mode == 1 || mode == 2 {
		g.rpc = append(g.rpc, args[head:]...)
	} else {
		g.s.Req.Put(Source, g.at[Source], v.target)
		switch g.odd(3) {
		case 1:
			n = 4097
		case 2:
			n = 0
		case 3:
			n = 4096
		}
		binary.BigEndian.PutUint32(g.rpc[len(g.rpc)-4:], uint32(n))
		g.readChunk(len(g.rpc), n)
	}
	g.replyChunk(v.plain[procSym].reply, true)
	return g.rpc
}

// spoilRPC makes the RPC message another.
func (g *Gen) spoilRPC(f int, b []byte, call *rpc.Call) []byte {
	put := binary.BigEndian.PutUint32
	switch f {
	case 1:
		put(b[8:], 3)
	case 2:
		put(b[4:], 1)
	case 3:
		put(b[4:], 7)
	case 4:
		put(b[12:], nfsProgram+50)
	case 5:
		put(b[16:], 4)
	case 6:
		put(b[20:], pick(g, uint32(22), 23, 1<<31, 1<<32-1))
	case 7:
		return b[:len(b)-min(len(b), 4*(1+int(g.byte())%40))]
	case 8:
		put(b, call.XID+1)
	case 9:
		return append(b, "behind the end  "[:4*(1+g.byte()%4)]...)
	}
	return b
}

// long makes the header's kind, and of a long call the position-zero chunk.
func (g *Gen) long(mode byte, body []byte) {
	asked := mode >= 2
	switch g.odd(8) {
	case 1:
		asked = !asked
	case 2:
		g.h.Proc = rpcrdma.RDMA_MSGP
		return
	case 3:
		g.h.Proc = rpcrdma.RDMA_DONE
		return
	case 4:
		g.h.Proc, g.h.Err = rpcrdma.RDMA_ERROR, pick(g, rpcrdma.ERR_CHUNK, rpcrdma.ERR_VERS, 3, 0)
		return
	case 5:
		g.h.Proc = rpcrdma.Proc(pick(g, uint32(5), 6, 1<<31, 1<<32-1))
		return
	case 6: // the payload is not where the kind says
		if g.h.Proc = rpcrdma.RDMA_NOMSG; asked {
			g.h.Proc = rpcrdma.RDMA_MSG
		}
		return
	}
	if !asked {
		return
	}
	g.h.Proc = rpcrdma.RDMA_NOMSG
	at := g.at[Source]
	if at+len(body) > regionSize[Source] {
		return
	}
	n := len(body)
	switch g.odd(4) {
	case 1:
		n = 0
	case 2:
		n--
	case 3:
		n += 4
	}
	g.s.Req.Put(Source, at, body)
	for _, s := range g.split(Source, n) {
		g.h.Reads = append(g.h.Reads, ReadSegment{Segment: s})
	}
	if k := len(g.h.Reads); k > 1 && g.odd(1) == 0 { // first, as senders do
		last := g.h.Reads[k-1]
		copy(g.h.Reads[1:], g.h.Reads[:k-1])
		g.h.Reads[0] = last
	}
}

// split makes a chunk of n bytes.
func (g *Gen) split(r Region, n int) []Segment {
	k := 1
	switch g.odd(8) {
	case 1:
		k = 2
	case 2:
		k = 3
	case 3:
		k = 0
	case 4:
		k = 8
	case 5:
		k = 16
	case 6:
		k = 40
	case 7:
		k = 17
	case 8:
		k = 2
	}
	g.seg = g.seg[:0]
	for i := range k {
		part := n / (k - i)
		n -= part
		g.seg = append(g.seg, g.segment(r, part))
	}
	return g.seg
}

// segment makes a segment of n bytes, most likely a right one.
func (g *Gen) segment(r Region, n int) Segment {
	size := regionSize[r]
	at := min(g.at[r], size)
	if at+n > size { // the region is at its end
		at = max(size-n, 0)
	}
	s := g.s.Req.Seg(r, at, n)
	if n > size {
		s.Length = uint32(n)
	}
	g.at[r] = at + n + 16 + int(g.n%7) // what is between are guards
	base := s.Offset - uint64(at)
	switch g.odd(20) {
	case 1:
		s.Handle = g.s.Req.StaleKey()
	case 2:
		s.Handle = g.s.Req.FalseKey()
	case 3:
		s.Handle = g.s.Req.mr[Private].RKey()
	case 4:
		s.Handle = g.s.Req.mr[Source+Sink-r].RKey() // the other direction
	case 5:
		s = g.s.Req.Seg(Both, int(g.byte())*8, min(n, 4096))
	case 6:
		s.Length = 0
	case 7:
		s.Length = hugeLengths[g.byte()%6]
	case 8:
		s.Length++
	case 9:
		s.Length -= min(s.Length, 1)
	case 10:
		s.Offset = base + uint64(size) - uint64(s.Length) // ends where the region does
	case 11:
		s.Offset = base + uint64(size) - uint64(s.Length) + 1
	case 12:
		s.Offset = base - 1
	case 13:
		s.Offset = -uint64(s.Length) // wraps
	case 14:
		s.Offset = 1<<64 - 1
	case 15:
		s.Offset = 0
	case 16, 17:
		g.at[r] -= n/2 + 16 // the next overlaps
	case 18:
		g.at[r] = at // the next is in the same place
	case 19:
		s.Length, s.Offset = 0, base+uint64(size)
	case 20:
		s.Length = 0
		s.Handle = g.s.Req.FalseKey()
	}
	return s
}

// writeList offers Write chunks for a result of n bytes.
func (g *Gen) writeList(n int) {
	k := 1
	switch g.odd(6) {
	case 1:
		k = 0
	case 2:
		k = 2
	case 3:
		k = 3
	case 4:
		k = 20
	case 5:
		k = 0
	case 6:
		g.h.Writes.Add(nil) // empty, before the first
	}
	for range k {
		m := n
		switch g.odd(6) {
		case 1:
			m = n + 100
		case 2:
			m = max(n-1, 0)
		case 3:
			m = 0
		case 4:
			m = (n + 3) / 4 * 4
		case 5:
			m = n / 2
		case 6:
			m = n + 1
		}
		g.h.Writes.Add(g.split(Sink, m))
	}
}

// replyChunk offers a Reply chunk for a message of n bytes.
func (g *Gen) replyChunk(n int, inline bool) {
	f := g.odd(7)
	if f == 0 && inline || f == 7 {
		return
	}
	switch f {
	case 1:
		n++
	case 2:
		n--
	case 3:
		n = 0
	case 4:
		n += 4000
	case 5:
		n = n - n%4096 + 4096
	}
	g.h.HasReply = true
	g.h.Reply = append(g.h.Reply, g.split(Sink, n)...)
}

// oddLists adds what no call has.
func (g *Gen) oddLists() {
	switch g.odd(8) {
	case 1: // a Read chunk that belongs to nothing, behind the other or before it
		g.h.Reads = append(g.h.Reads, ReadSegment{Position: pick(g, uint32(4), 40, 100, 1<<31, 1<<32-4), Segment: g.segment(Source, pick(g, 16, 0, 1))})
		if k := len(g.h.Reads) - 1; g.byte()&1 == 1 {
			g.h.Reads[0], g.h.Reads[k] = g.h.Reads[k], g.h.Reads[0]
		}
	case 2: // position zero besides
		g.h.Reads = append(g.h.Reads, ReadSegment{Segment: g.segment(Source, 64)})
	case 3: // the same segment twice
		if len(g.h.Reads) > 0 {
			g.h.Reads = append(g.h.Reads, g.h.Reads[0])
			g.h.Reads[0].Position -= pick(g, uint32(0), 0, 4, 1)
		}
	case 4:
		g.h.Writes.Add(nil)
	case 5:
		g.h.Vers = pick(g, uint32(2), 0, 1<<31)
	case 6:
		g.h.Credits = pick(g, uint32(0), 1<<31, 1<<32-1)
	case 7: // many
		for range 1 + g.byte()%32 {
			g.h.Writes.Add(g.split(Sink, 4))
		}
	case 8:
		g.h.HasReply = true
		for range 1 + g.byte()%100 {
			g.h.Reply = append(g.h.Reply, g.segment(Sink, 8))
		}
	}
}

// spoilWire changes the bytes of the message.
func (g *Gen) spoilWire(b []byte) []byte {
	switch g.odd(5) {
	case 1:
		return b[:min(int(g.byte()), len(b))]
	case 2:
		return b[:max(len(b)-4*int(g.byte()), 0)]
	case 3, 4: // a word of the header
		if i := 12 + 4*(int(g.byte())%16); i+4 <= min(rpcrdma.HeaderLen(&g.h), len(b)) {
			binary.BigEndian.PutUint32(b[i:], pick(g, uint32(0), 1, 2, 3, 1<<28, 1<<28+1, 1<<31, 1<<32-1, 0x10000000, 17, 256))
		}
	case 5:
		if len(b) > 28 { // not a whole word
			return b[:len(b)-1-int(g.byte()%3)]
		}
	}
	return b
}
