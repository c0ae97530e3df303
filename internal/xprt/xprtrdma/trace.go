package xprtrdma

import (
	"fmt"

	"example.org/nfsrdma/internal/rpcrdma"
)

// Prefixes of trace lines.
const (
	traceSent  = "> "
	traceRecv  = "< "
	traceEvent = "* "
)

func (x *Xprt) traceEvent(format string, args ...any) {
	if f := x.cfg.Trace; f != nil {
		f(traceEvent + fmt.Sprintf(format, args...))
	}
}

func (q *Req) traceCall() {
	line := traceSent + q.hdr.String()
	if f := q.x.cfg.FormatCall; f != nil {
		line += " | " + f(q.Msg, len(q.Data) > 0) // Msg ends before Data, wherever that goes
	}
	q.x.cfg.Trace(line)
}

// traceReply prints a message received. q is its call, if somebody waits for it.
func (x *Xprt) traceReply(q *Req, h *rpcrdma.Header, n int, err error, msg []byte) {
	if err != nil {
		x.cfg.Trace(fmt.Sprintf("%s%d bytes: %v", traceRecv, len(msg), err))
		return
	}
	line := traceRecv + h.String()
	if f := x.cfg.FormatReply; f != nil && q != nil && h.Proc == rpcrdma.RDMA_MSG {
		reduced := h.Writes.Len() > 0 && rpcrdma.ChunkLen(h.Writes.Chunk(0)) > 0
		line += " | " + f(q.Msg, msg[n:], reduced)
	}
	x.cfg.Trace(line)
}
