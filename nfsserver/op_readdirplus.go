package nfsserver

import (
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/xprt/svc"
	"example.org/nfsrdma/nfsserver/vfs"
)

// plusLen is what an entry of READDIRPLUS has more than one of READDIR: attributes and handle.
const plusLen = nfs3.PostOpAttrMax + 4 + 4 + fhLen

func (t *thread) readdirplus(r svc.Request, args []byte) {
	var a nfs3.ReaddirplusArgs
	if _, err := nfs3.ConsumeReaddirplusArgs(args, &a); err != nil {
		t.garbage(r)
		return
	}
	count := min(int(a.MaxCount), t.maxPayload)
	p := t.dirReply(r, count)
	if p == nil {
		return
	}
	var res nfs3.ReaddirplusRes
	e, dir, st := t.resolve(&a.Dir)
	if st == nfs3.NFS3_OK {
		st = t.mayList(e, dir, &res.DirAttr)
	}
	var list dirList
	if st == nfs3.NFS3_OK {
		list, st = t.list(e, dir, a.Cookie, &a.Verf, count-nfs3.PostOpAttrMax-nfs3.VerfLen-8, func(d *vfs.DirEntry) (int, int) {
			n := nfs3.EntryLen(len(d.Name))
			return n + plusLen, n
		}, int(a.DirCount))
	}
	res.Status = st
	if st != nfs3.NFS3_OK {
		p.Msg = nfs3.AppendReaddirplusRes(p.Msg, &res)
	} else {
		putVerf(&res.Verf, list.verf)
		w := nfs3.NewDirPlusWriter(p.Msg, &res, a.DirCount, uint32(count))
		var ent nfs3.EntryPlus
		for i := range t.entries {
			d := &t.entries[i]
			t.name = append(t.name[:0], d.Name...)
			ent = nfs3.EntryPlus{Entry: nfs3.Entry{FileID: d.ID.Ino, Name: t.name, Cookie: d.Cookie}}
			t.plus(e, d, &ent)
			if !w.Add(&ent) {
				list.eof = false
				break
			}
		}
		p.Msg = w.Finish(list.eof)
	}
	t.endList()
	t.procs[nfs3.READDIRPLUS].Add(1)
	t.countStatus(p.Msg)
	p.Send(t.xt, r)
}

// plus adds attributes and handle, unless the object went meanwhile.
func (t *thread) plus(e *export, d *vfs.DirEntry, ent *nfs3.EntryPlus) {
	if e.FS.Attr(t.ctx, d.ID, &t.attr2) != nil {
		return
	}
	e.postOp(&ent.Attr, &t.attr2)
	ent.FH.Present, ent.FH.FH = true, e.handle(d.ID)
}
