package nfsserver

import (
	"strings"

	"example.org/nfsrdma/internal/mount3"
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/xprt/svcrdma"
)

// traceConn makes a line of a connection's begin or end.
func (s *Server) traceConn(c *svcrdma.Conn, what string) {
	s.cfg.Trace(s.cfg.Addr + " " + c.Peer() + " " + what)
}

// traceMsg makes a line of a message: addresses and direction, transport header, RPC header, arguments or
// results of an NFS call.
func (s *Server) traceMsg(r *svcrdma.Request, out bool, h *rpcrdma.Header, msg []byte) {
	var b strings.Builder
	b.WriteString(s.cfg.Addr)
	if out {
		b.WriteString(" > ")
	} else {
		b.WriteString(" < ")
	}
	b.WriteString(r.Peer())
	if h != nil {
		b.WriteByte(' ')
		b.WriteString(h.String())
	}
	switch {
	case len(msg) == 0:
	case out:
		traceReply(&b, r.State().(*callState), msg)
	default:
		traceCall(&b, h, msg)
	}
	s.cfg.Trace(b.String())
}

func traceReply(b *strings.Builder, c *callState, msg []byte) {
	var p rpc.Reply
	n, err := rpc.ConsumeReply(msg, &p)
	if err != nil {
		b.WriteString(" | bad: " + err.Error())
		return
	}
	b.WriteString(" | " + p.String())
	if p.OK() && c.isNFS {
		b.WriteString(" | " + nfs3.FormatRes(c.proc, msg[n:], true)) // a data item is never part of msg
	}
}

func traceCall(b *strings.Builder, h *rpcrdma.Header, msg []byte) {
	var call rpc.Call
	n, err := rpc.ConsumeCall(msg, &call)
	if err != nil {
		b.WriteString(" | bad: " + err.Error())
		return
	}
	b.WriteString(" | " + call.String())
	reduced := false
	if h != nil {
		for i := range h.Reads {
			reduced = reduced || h.Reads[i].Position != 0
		}
	}
	switch {
	case call.Prog == nfs3.Program && call.Vers == nfs3.Version:
		b.WriteString(" | " + nfs3.FormatArgs(nfs3.Proc(call.Proc), msg[n:], reduced))
	case call.Prog == mount3.Program:
		b.WriteString(" | " + mount3.Proc(call.Proc).String())
	}
}
