package chunkfuzz

import (
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/rpcrdma"
)

// Named is a message with the name of what it is.
type Named struct {
	Name string
	Msg  []byte
}

// Legal gives a right message of each shape of chunk lists, each with an XID of its own.
func (s *Session) Legal() []Named {
	var out []Named
	for _, c := range s.shapes() {
		out = append(out, Named{c.name, c.encode()})
	}
	return out
}

// Neighbours gives for each legal message those that differ from it in one field. Long calls are in the source
// region: messages of an earlier list are good until some are made with Gen.
func (s *Session) Neighbours() []Named {
	var out []Named
	for i := range s.shapes() {
		for _, f := range fields {
			c := s.shapes()[i]
			if f.change(c) {
				out = append(out, Named{c.name + ", " + f.name, c.encode()})
			}
		}
	}
	return out
}

type shape struct {
	name string
	h    Header
	rpc  []byte
}

func (c *shape) encode() []byte {
	b := rpcrdma.AppendHeader(nil, &c.h)
	if c.h.Proc == rpcrdma.RDMA_MSG {
		b = append(b, c.rpc...)
	}
	return b
}

func (s *Session) shape(name string, proc uint32, args []byte) *shape {
	c := &shape{name: name}
	c.h.Reset()
	c.h.XID, c.h.Credits = s.Req.NextXID(), 8
	c.rpc = append(rpc.AppendCall(nil, &rpc.Call{XID: c.h.XID, Prog: nfsProgram, Vers: 3, Proc: proc, Cred: s.auth}), args...)
	return c
}

func (s *Session) shapes() []*shape {
	q, v := s.Req, s.Srv
	read := nfs3.AppendReadArgs(nil, &nfs3.ReadArgs{File: fileHandle(v.Data), Count: 5001})
	write := nfs3.AppendWriteArgsHead(nil, &nfs3.WriteArgs{File: fileHandle(v.Scratch), Count: 5001}, 5001)
	inline := s.shape("inline", 0, nil)
	chunk := s.shape("Write chunk", procRead, read)
	chunk.h.Writes.Add([]Segment{q.Seg(Sink, 0, 3000), q.Seg(Sink, 4096, 2001)})
	reply := s.shape("Reply chunk", procRead, read)
	reply.h.HasReply, reply.h.Reply = true, []Segment{q.Seg(Sink, 64, 8192)}
	data := s.shape("Read chunk", procWrite, write)
	for _, g := range []Segment{q.Seg(Source, 8192, 5000), q.Seg(Source, 16384, 1)} {
		data.h.Reads = append(data.h.Reads, ReadSegment{Position: uint32(len(data.rpc)), Segment: g})
	}
	long := s.shape("long call", 0, nil)
	long.h.Proc = rpcrdma.RDMA_NOMSG
	at := 32768 + int(long.h.XID/5%256)*128 // one for each that is made, as they are sent later
	q.Put(Source, at, long.rpc)
	long.h.Reads = []ReadSegment{{Segment: q.Seg(Source, at, len(long.rpc))}}
	return []*shape{inline, chunk, reply, data, long}
}

// segments are all of a message.
func (c *shape) segments() (all []*Segment) {
	for i := range c.h.Reads {
		all = append(all, &c.h.Reads[i].Segment)
	}
	for i := range c.h.Writes.Len() {
		segs := c.h.Writes.Chunk(i)
		for j := range segs {
			all = append(all, &segs[j])
		}
	}
	for i := range c.h.Reply {
		all = append(all, &c.h.Reply[i])
	}
	return all
}

// fields change one field each; false if the message has it not.
var fields = []struct {
	name   string
	change func(*shape) bool
}{
	{"another XID", func(c *shape) bool { c.h.XID ^= 1 << 30; return true }},
	{"version 2", func(c *shape) bool { c.h.Vers = 2; return true }},
	{"no credits", func(c *shape) bool { c.h.Credits = 0; return true }},
	{"RDMA_MSGP", func(c *shape) bool { c.h.Proc = rpcrdma.RDMA_MSGP; return true }},
	{"RDMA_DONE", func(c *shape) bool { c.h.Proc = rpcrdma.RDMA_DONE; return true }},
	{"the other of RDMA_MSG and RDMA_NOMSG", func(c *shape) bool { c.h.Proc ^= 1; return true }},
	{"an unknown kind", func(c *shape) bool { c.h.Proc = 9; return true }},
	{"a position 4 further", func(c *shape) bool { return first(c, func(r *ReadSegment) { r.Position += 4 }) }},
	{"a position past the message", func(c *shape) bool { return first(c, func(r *ReadSegment) { r.Position = 1<<32 - 4 }) }},
	{"an empty chunk list", func(c *shape) bool {
		has := len(c.segments()) > 0
		c.h.Reads, c.h.Reply, c.h.HasReply = nil, nil, false
		c.h.Writes.Reset()
		return has
	}},
	{"another key", segment(func(s *Segment) { s.Handle ^= 0x55 })},
	{"a byte longer", segment(func(s *Segment) { s.Length++ })},
	{"a byte shorter", segment(func(s *Segment) { s.Length-- })},
	{"no bytes", segment(func(s *Segment) { s.Length = 0 })},
	{"2^32-1 bytes", segment(func(s *Segment) { s.Length = 1<<32 - 1 })},
	{"an offset that wraps", segment(func(s *Segment) { s.Offset = -uint64(s.Length / 2) })},
}

func first(c *shape, f func(*ReadSegment)) bool {
	if len(c.h.Reads) == 0 {
		return false
	}
	f(&c.h.Reads[0])
	return true
}

// segment changes the first segment of a message.
func segment(f func(*Segment)) func(*shape) bool {
	return func(c *shape) bool {
		all := c.segments()
		if len(all) == 0 {
			return false
		}
		f(all[0])
		return true
	}
}
