package nfsserver

import (
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/xprt/svc"
	"example.org/nfsrdma/nfsserver/vfs"
)

// dirRoom is what a directory result needs besides its count: the headers and the status.
const dirRoom = rpc.MaxReplyLen + 4

// dirReply gives a reply with room for a directory result of count bytes. Nil: the call was answered, waits
// for memory, or its connection has ended.
func (t *thread) dirReply(r svc.Request, count int) *svc.Reply {
	n := max(count, nfs3.PostOpAttrMax) + dirRoom
	big := n > r.MaxInline()
	if big {
		buf, err := r.Need(n)
		if err != nil {
			t.reject(r, &rpc.Reply{Accept: rpc.SYSTEM_ERR})
		}
		if buf == nil {
			return nil
		}
	}
	p := r.Reply(t.xt)
	if p == nil {
		return nil
	}
	if big {
		p.UseBuffer(r)
	}
	p.Msg = rpc.AppendReplySuccess(p.Msg, r.XID())
	return p
}

func (t *thread) readdir(r svc.Request, args []byte) {
	var a nfs3.ReaddirArgs
	if _, err := nfs3.ConsumeReaddirArgs(args, &a); err != nil {
		t.garbage(r)
		return
	}
	count := min(int(a.Count), t.maxPayload)
	p := t.dirReply(r, count)
	if p == nil {
		return
	}
	var res nfs3.ReaddirRes
	e, dir, st := t.resolve(&a.Dir)
	if st == nfs3.NFS3_OK {
		st = t.mayList(e, dir, &res.DirAttr)
	}
	var list dirList
	if st == nfs3.NFS3_OK {
		// The fixed part cannot be told before the verifier is known, but its length can.
		list, st = t.list(e, dir, a.Cookie, &a.Verf, count-nfs3.PostOpAttrMax-nfs3.VerfLen-8, func(d *vfs.DirEntry) (int, int) {
			return nfs3.EntryLen(len(d.Name)), 0
		}, 0)
	}
	res.Status = st
	if st != nfs3.NFS3_OK {
		p.Msg = nfs3.AppendReaddirRes(p.Msg, &res)
	} else {
		putVerf(&res.Verf, list.verf)
		w := nfs3.NewDirWriter(p.Msg, &res, uint32(count))
		var ent nfs3.Entry
		for i := range t.entries {
			d := &t.entries[i]
			t.name = append(t.name[:0], d.Name...)
			ent = nfs3.Entry{FileID: d.ID.Ino, Name: t.name, Cookie: d.Cookie}
			if !w.Add(&ent) {
				list.eof = false
				break
			}
		}
		p.Msg = w.Finish(list.eof)
	}
	t.endList()
	t.procs[nfs3.READDIR].Add(1)
	t.countStatus(p.Msg)
	p.Send(t.xt, r)
}

// mayList checks that the caller may read a directory, and gives its attributes.
func (t *thread) mayList(e *export, dir vfs.ID, after *nfs3.PostOpAttr) nfs3.Status {
	if err := e.FS.Attr(t.ctx, dir, &t.attr); err != nil {
		return status(err)
	}
	e.postOp(after, &t.attr)
	switch {
	case t.attr.Type != vfs.Directory:
		return nfs3.NFS3ERR_NOTDIR
	case t.cred.perms(&t.attr)&mayRead == 0:
		return nfs3.NFS3ERR_ACCES
	}
	return nfs3.NFS3_OK
}

type dirList struct {
	verf uint64
	eof  bool
}

// list reads entries into t.entries, up to left bytes of a result and dirLeft bytes without attributes. size gives
// what an entry takes of each. The first entry ignores dirLeft.
func (t *thread) list(e *export, dir vfs.ID, cookie uint64, verf *nfs3.Verf, left int, size func(*vfs.DirEntry) (int, int), dirLeft int) (l dirList, st nfs3.Status) {
	t.entries = t.entries[:0]
	full := false
	var err error
	l.verf, l.eof, err = e.FS.ReadDir(t.ctx, dir, cookie, verfOf(verf), func(d *vfs.DirEntry) bool {
		n, m := size(d)
		if n > left || m > dirLeft && len(t.entries) > 0 {
			full = true
			return false
		}
		left -= n
		dirLeft -= m
		t.entries = append(t.entries, *d)
		return true
	})
	switch {
	case err != nil:
		return l, status(err)
	case full && len(t.entries) == 0:
		return l, nfs3.NFS3ERR_TOOSMALL
	}
	l.eof = l.eof && !full
	return l, nfs3.NFS3_OK
}

// endList drops the names.
func (t *thread) endList() {
	clear(t.entries)
	t.entries = t.entries[:0]
}
