package nfsserver

import (
	"strings"

	"example.org/nfsrdma/internal/mount3"
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/xprt/svc"
	"example.org/nfsrdma/internal/xprt/svcrdma"
	"example.org/nfsrdma/internal/xprt/svctcp"
)

// traceConn makes a line of a connection's begin or end.
func (s *Server) traceConn(c *svcrdma.Conn, what string) {
	s.cfg.Trace(s.cfg.Addr + " " + c.Peer() + " " + what)
}

func (s *Server) traceTCPConn(c *svctcp.Conn, what string) {
	s.cfg.Trace("tcp " + c.Peer() + " " + what)
}

func (s *Server) traceRDMA(r *svcrdma.Request, out bool, h *rpcrdma.Header, msg []byte) {
	s.traceMsg(s.cfg.Addr, r, out, h, msg)
}

func (s *Server) traceTCP(r *svctcp.Request, out bool, msg []byte) {
	s.traceMsg("tcp", r, out, nil, msg)
}

// traceMsg makes a line of a message: addresses and direction, transport header if it has one, RPC header,
// arguments or results of an NFS call.
func (s *Server) traceMsg(at string, r svc.Request, out bool, h *rpcrdma.Header, msg []byte) {
	var b strings.Builder
	b.WriteString(at)
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
		_, _, reduced := r.ReadChunk()
		traceCall(&b, h, reduced, msg)
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

func traceCall(b *strings.Builder, h *rpcrdma.Header, reduced bool, msg []byte) {
	var call rpc.Call
	n, err := rpc.ConsumeCall(msg, &call)
	if err != nil {
		b.WriteString(" | bad: " + err.Error())
		return
	}
	b.WriteString(" | " + call.String())
	if h != nil {
		reduced = false // it is too early for the request to know
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
