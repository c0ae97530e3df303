package wire

import (
	"fmt"
	"slices"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/verbs"
)

// event is an RDMA operation that one side started, whatever it was seen on.
type event struct {
	client bool // the client's; else the server's
	op     verbs.Opcode
	key    uint32 // that is invalidated, or of the peer's memory
	addr   uint64 // RDMA
	data   []byte // of a SEND or WRITE
	n      int    // bytes
}

// message is an RPC-over-RDMA message.
type message struct {
	event
	h   rpcrdma.Header
	msg []byte // RPC message, from the Reply chunk if it was there
}

// exchange is a call with its reply and what the server did between them.
type exchange struct {
	call, reply   message
	reads, writes []event
	rpc           rpc.Call
	args          []byte
}

// proc is the NFS procedure; false for another program.
func (x *exchange) proc() (nfs3.Proc, bool) {
	return nfs3.Proc(x.rpc.Proc), x.rpc.Prog == nfs3.Program
}

func (x *exchange) formatArgs() string {
	p, ok := x.proc()
	if !ok {
		return fmt.Sprintf("program %d procedure %d", x.rpc.Prog, x.rpc.Proc)
	}
	return nfs3.FormatArgs(p, x.args, len(x.call.h.Reads) > 0)
}

// exchanges puts events together, in the order of the calls. A call whose reply is missing is left out.
func exchanges(events []event) ([]*exchange, error) {
	var all []*exchange
	open := map[uint32]*exchange{} // by XID
	keys := map[uint32]*exchange{} // by rkey
	for _, e := range events {
		switch e.op {
		case verbs.OpRDMARead, verbs.OpRDMAWrite:
			x := keys[e.key]
			if x == nil {
				return nil, fmt.Errorf("%v with key %08x, which no call has", e.op, e.key)
			}
			if e.op == verbs.OpRDMARead {
				x.reads = append(x.reads, e)
			} else {
				x.writes = append(x.writes, e)
			}
			continue
		case verbs.OpSend, verbs.OpSendWithInv:
		default:
			continue
		}
		m := message{event: e}
		n, err := rpcrdma.ConsumeHeader(e.data, &m.h, 0)
		if err != nil {
			return nil, err
		}
		m.msg = e.data[n:]
		if e.client {
			x := &exchange{call: m}
			k, err := rpc.ConsumeCall(m.msg, &x.rpc)
			if err != nil {
				return nil, err
			}
			x.args = m.msg[k:]
			all = append(all, x)
			open[m.h.XID] = x
			for _, s := range segments(&m.h) {
				keys[s.Handle] = x
			}
			continue
		}
		x := open[m.h.XID]
		if x == nil {
			return nil, fmt.Errorf("a reply with XID %08x, which no call has", m.h.XID)
		}
		delete(open, m.h.XID)
		if m.h.Proc == rpcrdma.RDMA_NOMSG {
			if m.msg, err = x.replyChunk(&m.h); err != nil {
				return nil, err
			}
		}
		x.reply = m
	}
	return slices.DeleteFunc(all, func(x *exchange) bool { return x.reply.data == nil }), nil
}

// segments are those of all three lists.
func segments(h *rpcrdma.Header) []rpcrdma.Segment {
	var out []rpcrdma.Segment
	for _, s := range h.Reads {
		out = append(out, s.Segment)
	}
	for i := range h.Writes.Len() {
		out = append(out, h.Writes.Chunk(i)...)
	}
	return append(out, h.Reply...)
}

// replyChunk puts together what was written into the Reply chunk that h returns.
func (x *exchange) replyChunk(h *rpcrdma.Header) ([]byte, error) {
	var out []byte
	for _, s := range h.Reply {
		mem := make([]byte, s.Length)
		got := 0
		for _, w := range x.writes {
			if w.key == s.Handle && w.addr >= s.Offset && w.addr-s.Offset+uint64(len(w.data)) <= uint64(len(mem)) {
				got += copy(mem[w.addr-s.Offset:], w.data)
			}
		}
		if got != len(mem) {
			return nil, fmt.Errorf("reply %08x: segment of %d bytes, %d written", h.XID, len(mem), got)
		}
		out = append(out, mem...)
	}
	return out, nil
}
