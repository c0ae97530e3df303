package nfsserver

import (
	"math"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/xprt/svc"
	"example.org/nfsrdma/nfsserver/vfs"
)

// read executes READ. The data is sent from where the file system has it, if it lends its pages; else it
// is copied into a buffer of the server.
func (t *thread) read(r svc.Request, args []byte) {
	a, res := &t.readArgs, &t.readRes
	if _, err := nfs3.ConsumeReadArgs(args, a); err != nil {
		t.garbage(r)
		return
	}
	res.Attr.Present, res.Count, res.EOF = false, 0, false
	e, id, st := t.resolve(&a.File)
	if st == nfs3.NFS3_OK {
		st = t.mayRead(e, id, &res.Attr)
	}
	n := int(min(a.Count, uint32(t.maxPayload)))
	var buf *svc.Mem
	if st == nfs3.NFS3_OK && e.pages == nil && n > 0 {
		var err error
		if buf, err = r.Need(n); err != nil {
			t.reject(r, &rpc.Reply{Accept: rpc.SYSTEM_ERR})
			return
		}
		if buf == nil {
			return
		}
	}
	p := t.begin(r)
	if p == nil {
		return
	}
	if st == nfs3.NFS3_OK {
		st = t.readInto(r, p, e, id, buf, n)
	}
	res.Status = st
	p.Msg = nfs3.AppendReadResHead(p.Msg, res, res.Count)
	if st == nfs3.NFS3_OK {
		p.EndWithItem()
	}
	t.procs[nfs3.READ].Add(1)
	if st == nfs3.NFS3_OK {
		t.readBytes.Add(uint64(res.Count))
	} else {
		t.countStatus(p.Msg)
	}
	p.Send(t.xt, r)
}

// readInto adds the data to p.
func (t *thread) readInto(r svc.Request, p *svc.Reply, e *export, id vfs.ID, buf *svc.Mem, n int) nfs3.Status {
	res := &t.readRes
	off := t.readArgs.Offset
	if e.pages == nil {
		var dst []byte
		if buf != nil {
			dst = buf.Bytes[:n]
		}
		got, eof, err := e.FS.Read(t.ctx, id, off, dst, &t.attr)
		if err != nil {
			return status(err)
		}
		if buf != nil {
			p.AddBuffer(r, got)
		}
		res.Count, res.EOF = uint32(got), eof
		e.postOp(&res.Attr, &t.attr)
		return nfs3.NFS3_OK
	}
	ps := p.State.(*replyState)
	ps.fs = e.pages
	eof, err := e.pages.ReadPages(t.ctx, id, off, n, &ps.pages, &t.attr)
	if err != nil {
		return status(err)
	}
	total := uint32(0)
	for i := range ps.pages.List {
		pg := &ps.pages.List[i]
		m, err := r.Region(pg.Slab.ID, pg.Slab.Mem, pg.Off, pg.Len)
		if err != nil {
			return nfs3.NFS3ERR_SERVERFAULT
		}
		p.AddData(m)
		total += pg.Len
	}
	t.zeroCopyReads.Add(1)
	res.Count, res.EOF = total, eof
	e.postOp(&res.Attr, &t.attr)
	return nfs3.NFS3_OK
}

// replySize is the longest reply of a call, bytes, as nfsd reserves room for it (svc_reserve).
func replySize(msg []byte) int {
	const small = 1024 // what has neither data nor entries
	var call rpc.Call
	n, err := rpc.ConsumeCall(msg, &call)
	if err != nil || call.Prog != nfs3.Program || call.Vers != nfs3.Version {
		return small
	}
	switch nfs3.Proc(call.Proc) {
	case nfs3.READ:
		var a nfs3.ReadArgs
		if _, err := nfs3.ConsumeReadArgs(msg[n:], &a); err != nil {
			return small
		}
		return 128 + int(min(a.Count, math.MaxInt32))
	case nfs3.READDIR, nfs3.READDIRPLUS, nfs3.READLINK:
		return math.MaxInt32
	}
	return small
}

// mayRead checks that the caller may read a file; attributes are given if it may not.
func (t *thread) mayRead(e *export, id vfs.ID, after *nfs3.PostOpAttr) nfs3.Status {
	if t.cred.uid == 0 {
		return nfs3.NFS3_OK
	}
	if err := e.FS.Attr(t.ctx, id, &t.attr); err != nil {
		return status(err)
	}
	if t.attr.Type == vfs.Regular && !t.cred.mayReadFile(&t.attr) {
		e.postOp(after, &t.attr)
		return nfs3.NFS3ERR_ACCES
	}
	return nfs3.NFS3_OK
}
