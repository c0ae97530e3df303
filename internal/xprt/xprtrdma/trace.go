package xprtrdma

import (
	"fmt"

	"example.org/nfsrdma/internal/rpcrdma"
)

func (q *Req) traceCall() {
	line := q.hdr.String()
	if f := q.x.cfg.FormatCall; f != nil {
		line += " | " + f(q.Msg, q.plan.rtype == readch)
	}
	q.x.cfg.Trace(true, line)
}

// traceReply prints a message received. q is its call, if somebody waits for it.
func (x *Xprt) traceReply(q *Req, h *rpcrdma.Header, n int, err error, msg []byte) {
	if err != nil {
		x.cfg.Trace(false, fmt.Sprintf("%d bytes: %v", len(msg), err))
		return
	}
	line := h.String()
	if f := x.cfg.FormatReply; f != nil && q != nil && h.Proc == rpcrdma.RDMA_MSG {
		reduced := h.Writes.Len() > 0 && rpcrdma.ChunkLen(h.Writes.Chunk(0)) > 0
		line += " | " + f(q.Msg, msg[n:], reduced)
	}
	x.cfg.Trace(false, line)
}
