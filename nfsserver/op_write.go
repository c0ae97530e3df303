package nfsserver

import (
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/xprt/svc"
	"example.org/nfsrdma/nfsserver/vfs"
)

// writeCall is a WRITE whose data is being read from the client.
type writeCall struct {
	e       *export
	id      vfs.ID
	off     uint64
	n       uint32
	stable  nfs3.StableHow
	uid     uint32
	pages   vfs.Pages // lent by the file system
	grabbed bool
	key     drcKey
}

func (w *writeCall) release() {
	if w.grabbed {
		w.e.grab.ReleasePages(&w.pages)
		w.pages.Reset()
		w.grabbed = false
	}
}

// writeStart begins a WRITE. Data in the message is written at once; data in a Read chunk is read into memory
// that the file system lends, if it has suitable, else into a buffer of the server.
func (t *thread) writeStart(r svc.Request, c *callState, args []byte) {
	a, w := &t.writeArgs, &c.write
	_, _, chunk := r.ReadChunk()
	if !chunk {
		if _, err := nfs3.ConsumeWriteArgs(args, a); err != nil || uint32(len(a.Data)) != a.Count {
			t.garbage(r)
			return
		}
	} else {
		n, used, err := nfs3.ConsumeWriteArgsHead(args, a)
		switch {
		case err != nil:
			t.garbage(r)
			return
		case !chunkHolds(r, len(r.Msg())-len(args)+used, n) || n > uint32(t.maxPayload):
			t.badChunk(r)
			return
		case n != a.Count:
			t.garbage(r)
			return
		}
	}
	t.wcc = vfs.WCC{}
	e, id, st := t.resolve(&a.File)
	if st == nfs3.NFS3_OK {
		st = t.mayWrite(e, id)
	}
	if st != nfs3.NFS3_OK {
		t.writeReply(r, c, e, st, 0)
		return
	}
	w.e, w.id, w.off, w.n, w.stable, w.uid = e, id, a.Offset, a.Count, a.Stable, t.cred.uid
	if t.srv.drc != nil {
		w.key = newDRCKey(r.Host(), t.call.XID, t.call.Proc, args)
	}
	if !chunk {
		t.writeData(r, c, a.Data)
		return
	}
	sink, ok := t.writeSink(r, w)
	if ok && r.Pull(t.xt, sink, int(w.n)) {
		t.writePulled(r, c)
	}
}

// writeDataAt finds the data of a WRITE call, of which msg has the first bytes.
func writeDataAt(msg []byte) (pos int, count uint32, ok bool) {
	var call rpc.Call
	n, err := rpc.ConsumeCall(msg, &call)
	if err != nil || call.Prog != nfs3.Program || call.Vers != nfs3.Version || nfs3.Proc(call.Proc) != nfs3.WRITE {
		return 0, 0, false
	}
	var a nfs3.WriteArgs
	count, used, err := nfs3.ConsumeWriteArgsHead(msg[n:], &a)
	return n + used, count, err == nil
}

// writeSink gives the memory for the data. False: the call was answered, or waits for memory.
func (t *thread) writeSink(r svc.Request, w *writeCall) ([]svc.Mem, bool) {
	t.mem = t.mem[:0]
	if w.n == 0 {
		return t.mem, true
	}
	if w.e.grab != nil && !r.HasMem() {
		if !r.Reserve(int(w.n)) {
			return nil, false
		}
		w.grabbed = w.e.grab.GrabPages(w.id, w.off, int(w.n), &w.pages)
		if !w.grabbed {
			r.Unreserve()
		}
	}
	if w.grabbed {
		for i := range w.pages.List {
			pg := &w.pages.List[i]
			m, err := r.Region(pg.Slab.ID, pg.Slab.Mem, pg.Off, pg.Len)
			if err != nil {
				w.release()
				t.reject(r, &rpc.Reply{Accept: rpc.SYSTEM_ERR})
				return nil, false
			}
			t.mem = append(t.mem, m)
		}
		return t.mem, true
	}
	buf, err := r.Need(int(w.n))
	if err != nil {
		t.reject(r, &rpc.Reply{Accept: rpc.SYSTEM_ERR})
	}
	if buf == nil {
		return nil, false
	}
	t.mem = append(t.mem, buf.Slice(0, int(w.n)))
	return t.mem, true
}

// writePulled goes on when the data is there.
func (t *thread) writePulled(r svc.Request, c *callState) {
	w := &c.write
	if w.grabbed {
		if !t.claim(r, c, w.key) {
			return
		}
		w.grabbed = false // the file system takes the pages over
		t.wcc = vfs.WCC{}
		verf := t.srv.writeVerf(w.e)
		err := w.e.grab.WritePages(t.ctx, w.id, w.off, &w.pages, w.stable != nfs3.UNSTABLE, &t.wcc)
		w.pages.Reset()
		t.zeroCopyWrites.Add(1)
		t.wrote(r, c, verf, err)
		return
	}
	var data []byte
	if w.n > 0 {
		buf, err := r.Need(int(w.n))
		if buf == nil || err != nil {
			t.reject(r, &rpc.Reply{Accept: rpc.SYSTEM_ERR})
			return
		}
		data = buf.Bytes[:w.n]
	}
	t.writeData(r, c, data)
}

// writeData writes data that is in memory of the server. A WRITE is idempotent, and yet in the duplicate request
// cache, as Linux's: a copy that is slow must not write over what the client writes after the answer to another copy.
func (t *thread) writeData(r svc.Request, c *callState, data []byte) {
	if !t.claim(r, c, c.write.key) {
		return
	}
	w := &c.write
	t.wcc = vfs.WCC{}
	// The verifier is of the time before: data lost meanwhile must be written again.
	verf := t.srv.writeVerf(w.e)
	err := w.e.FS.Write(t.ctx, w.id, w.off, data, w.stable != nfs3.UNSTABLE, &t.wcc)
	t.wrote(r, c, verf, err)
}

// wrote answers when the file system is done.
func (t *thread) wrote(r svc.Request, c *callState, verf nfs3.Verf, err error) {
	w := &c.write
	t.writeRes.Verf = verf
	if a := &t.wcc.After; err == nil && w.uid != 0 && a.Type == vfs.Regular && a.Mode&(modeSetUID|modeSetGID) != 0 {
		t.dropSetID(w, a)
	}
	t.writeRes.Committed = nfs3.UNSTABLE
	if w.stable != nfs3.UNSTABLE {
		t.writeRes.Committed = nfs3.FILE_SYNC
	}
	t.writeReply(r, c, w.e, status(err), w.n)
}

// dropSetID takes the set-ID bits away from a file that was written to.
func (t *thread) dropSetID(w *writeCall, a *vfs.Attr) {
	t.set = vfs.SetAttr{SetMode: true, Mode: a.Mode &^ (modeSetUID | modeSetGID)}
	before := t.wcc.Before
	if w.e.FS.SetAttr(t.ctx, w.id, &t.set, nil, &t.wcc) == nil {
		t.wcc.Before = before
	}
}

// writeReply sends the result, with t.wcc and, of a success, the verifier and commitment in t.writeRes.
func (t *thread) writeReply(r svc.Request, c *callState, e *export, st nfs3.Status, n uint32) {
	p := t.begin(r)
	if p == nil {
		return
	}
	res := &t.writeRes
	res.Status, res.Count = st, n
	res.FileWcc.Before.Present, res.FileWcc.After.Present = false, false
	e.wccData(&res.FileWcc, &t.wcc)
	p.Msg = nfs3.AppendWriteRes(p.Msg, res)
	t.procs[nfs3.WRITE].Add(1)
	if st == nfs3.NFS3_OK {
		t.writeBytes.Add(uint64(n))
	} else {
		t.countStatus(p.Msg)
	}
	if c.drc != nil {
		t.srv.drc.finish(c.drc, p.Msg)
		c.drc = nil
	}
	p.Send(t.xt, r)
}

// mayWrite checks that the caller may write a file; if not, t.wcc has its attributes.
func (t *thread) mayWrite(e *export, id vfs.ID) nfs3.Status {
	if t.cred.uid == 0 && !e.ro {
		return nfs3.NFS3_OK
	}
	if err := e.FS.Attr(t.ctx, id, &t.attr); err != nil {
		return status(err)
	}
	switch {
	case e.ro:
		wccOf(&t.attr, &t.wcc)
		return nfs3.NFS3ERR_ROFS
	case t.attr.Type == vfs.Regular && !t.cred.mayWriteFile(&t.attr):
		wccOf(&t.attr, &t.wcc)
		return nfs3.NFS3ERR_ACCES
	}
	return nfs3.NFS3_OK
}
