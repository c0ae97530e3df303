package nfsserver

import (
	"encoding/binary"
	"errors"

	"example.org/nfsrdma/internal/mount3"
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/xdr"
	"example.org/nfsrdma/internal/xprt/svc"
)

// Serve executes one call, or goes on with one whose data has come.
func (t *thread) Serve(_ *svc.Thread, r svc.Request) {
	c := r.State().(*callState)
	if r.Pulled() {
		t.pulled(r, c)
		return
	}
	c.isNFS = false
	msg := r.Msg()
	n, err := rpc.ConsumeCall(msg, &t.call)
	if err != nil {
		t.badCall(r, err)
		return
	}
	if stat := t.authenticate(); stat != rpc.AUTH_OK {
		t.srv.n.authError.Add(1)
		t.reject(r, &rpc.Reply{Stat: rpc.MSG_DENIED, Reject: rpc.AUTH_ERROR, Auth: stat})
		return
	}
	args := msg[n:]
	switch t.call.Prog {
	case nfs3.Program:
		t.nfs(r, c, args)
	case mount3.Program:
		t.mount(r, args)
	default:
		t.srv.n.progUnavail.Add(1)
		t.reject(r, &rpc.Reply{Accept: rpc.PROG_UNAVAIL})
	}
}

// badCall answers a call whose RPC header does not parse. The XID is that of the transport's header.
func (t *thread) badCall(r svc.Request, err error) {
	n := &t.srv.n
	var bad *xdr.Error
	switch {
	case errors.Is(err, rpc.ErrVersion):
		n.rpcMismatch.Add(1)
		t.reject(r, &rpc.Reply{Stat: rpc.MSG_DENIED, Reject: rpc.RPC_MISMATCH, Low: rpc.Version, High: rpc.Version})
	case errors.Is(err, rpc.ErrMsgType):
		n.badRPC.Add(1)
		r.Drop()
	case errors.As(err, &bad) && errors.Is(err, xdr.ErrTooLong) && bad.Field == "cred":
		n.authError.Add(1)
		t.reject(r, &rpc.Reply{Stat: rpc.MSG_DENIED, Reject: rpc.AUTH_ERROR, Auth: rpc.AUTH_BADCRED})
	case errors.Is(err, xdr.ErrTooLong):
		n.authError.Add(1)
		t.reject(r, &rpc.Reply{Stat: rpc.MSG_DENIED, Reject: rpc.AUTH_ERROR, Auth: rpc.AUTH_BADVERF})
	default:
		n.badRPC.Add(1)
		t.garbage(r)
	}
}

// reject answers with a reply header alone.
func (t *thread) reject(r svc.Request, h *rpc.Reply) {
	p := r.Reply(t.xt)
	if p == nil {
		return
	}
	h.XID = r.XID()
	p.Msg = rpc.AppendReply(p.Msg, h)
	p.Send(t.xt, r)
}

// garbage answers arguments that do not parse (RFC 8166 section 4.5.2).
func (t *thread) garbage(r svc.Request) {
	t.srv.n.garbageArgs.Add(1)
	t.reject(r, &rpc.Reply{Accept: rpc.GARBAGE_ARGS})
}

// badChunk answers a Read chunk that cannot hold what the call says (RFC 8166 section 4.5.3).
func (t *thread) badChunk(r svc.Request) {
	t.srv.n.badChunk.Add(1)
	r.Fail(t.xt)
}

// begin gives a reply with the header of a success. Nil: the connection has ended.
func (t *thread) begin(r svc.Request) *svc.Reply {
	p := r.Reply(t.xt)
	if p != nil {
		p.Msg = rpc.AppendReplySuccess(p.Msg, r.XID())
	}
	return p
}

// nfs executes a call of the NFS program.
func (t *thread) nfs(r svc.Request, c *callState, args []byte) {
	proc := nfs3.Proc(t.call.Proc)
	switch {
	case t.call.Vers != nfs3.Version:
		t.srv.n.progMismatch.Add(1)
		t.reject(r, &rpc.Reply{Accept: rpc.PROG_MISMATCH, Low: nfs3.Version, High: nfs3.Version})
		return
	case proc >= nfs3.NumProcs:
		t.srv.n.procUnavail.Add(1)
		t.reject(r, &rpc.Reply{Accept: rpc.PROC_UNAVAIL})
		return
	}
	if _, _, ok := r.ReadChunk(); ok && !proc.ArgsEligible() {
		t.badChunk(r)
		return
	}
	c.proc, c.isNFS = proc, true
	switch proc {
	case nfs3.READ:
		t.read(r, args)
		return
	case nfs3.WRITE:
		t.writeStart(r, c, args)
		return
	case nfs3.READLINK:
		t.readlink(r, args)
		return
	case nfs3.READDIR:
		t.readdir(r, args)
		return
	case nfs3.READDIRPLUS:
		t.readdirplus(r, args)
		return
	}
	if !proc.Idempotent() && !t.claim(r, c, newDRCKey(r.Host(), t.call.XID, t.call.Proc, args)) {
		return
	}
	if proc == nfs3.SYMLINK {
		if _, _, ok := r.ReadChunk(); ok {
			t.symlinkPull(r, c, args)
			return
		}
	}
	t.execute(r, c, procs[proc], args)
}

// procedure decodes arguments, executes, and appends the result to b. ok is false if the arguments do not parse.
type procedure func(t *thread, args, b []byte) (_ []byte, ok bool)

// procs are the procedures whose arguments and results are short and inline.
var procs = [nfs3.NumProcs]procedure{
	nfs3.NULL:     (*thread).null,
	nfs3.GETATTR:  (*thread).getattr,
	nfs3.SETATTR:  (*thread).setattr,
	nfs3.LOOKUP:   (*thread).lookup,
	nfs3.ACCESS:   (*thread).access,
	nfs3.CREATE:   (*thread).create,
	nfs3.MKDIR:    (*thread).mkdir,
	nfs3.SYMLINK:  (*thread).symlink,
	nfs3.MKNOD:    (*thread).mknod,
	nfs3.REMOVE:   (*thread).remove,
	nfs3.RMDIR:    (*thread).rmdir,
	nfs3.RENAME:   (*thread).rename,
	nfs3.LINK:     (*thread).link,
	nfs3.FSSTAT:   (*thread).fsstat,
	nfs3.FSINFO:   (*thread).fsinfo,
	nfs3.PATHCONF: (*thread).pathconf,
	nfs3.COMMIT:   (*thread).commit,
}

func (t *thread) execute(r svc.Request, c *callState, f procedure, args []byte) {
	p := t.begin(r)
	if p == nil {
		return
	}
	b, ok := f(t, args, p.Msg)
	if !ok {
		p.Discard()
		t.srv.drc.abandon(c.drc)
		c.drc = nil
		t.garbage(r)
		return
	}
	p.Msg = b
	t.finish(r, c, p)
}

// finish sends a result and remembers it if it is one to remember.
func (t *thread) finish(r svc.Request, c *callState, p *svc.Reply) {
	t.procs[c.proc].Add(1)
	t.countStatus(p.Msg)
	if c.drc != nil {
		t.srv.drc.finish(c.drc, p.Msg)
		c.drc = nil
	}
	p.Send(t.xt, r)
}

// countStatus counts what the result in msg says.
func (t *thread) countStatus(msg []byte) {
	if len(msg) < rpc.SuccessLen+4 {
		return
	}
	st := nfs3.Status(binary.BigEndian.Uint32(msg[rpc.SuccessLen:]))
	if st == nfs3.NFS3_OK {
		return
	}
	n := &t.srv.n
	n.nfsErrors.Add(1)
	switch st {
	case nfs3.NFS3ERR_BADHANDLE:
		n.badHandle.Add(1)
	case nfs3.NFS3ERR_STALE:
		n.staleHandle.Add(1)
	}
}

// claim looks a call up in the duplicate request cache. False: it was answered or dropped.
func (t *thread) claim(r svc.Request, c *callState, k drcKey) bool {
	if c.drc != nil { // served again, after it waited for memory
		return true
	}
	e, verdict := t.srv.drc.claim(k)
	switch verdict {
	case drcRunning:
		c.write.release()
		r.Drop()
		return false
	case drcDone:
		c.write.release()
		p := r.Reply(t.xt)
		if p == nil {
			t.srv.drc.unpin(e)
			return false
		}
		p.Msg = append(p.Msg, e.reply...)
		t.srv.drc.unpin(e)
		p.Send(t.xt, r)
		return false
	}
	c.drc = e
	return true
}

// pulled goes on with a call whose Read chunk has been read.
func (t *thread) pulled(r svc.Request, c *callState) {
	if c.proc == nfs3.WRITE {
		t.writePulled(r, c)
		return
	}
	t.symlinkPulled(r, c)
}
