package nfsserver

import (
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/xprt/svc"
	"example.org/nfsrdma/nfsserver/vfs"
)

func (t *thread) readlink(r svc.Request, args []byte) {
	var a nfs3.ReadlinkArgs
	if _, err := nfs3.ConsumeReadlinkArgs(args, &a); err != nil {
		t.garbage(r)
		return
	}
	var res nfs3.ReadlinkRes
	var path string
	e, id, st := t.resolve(&a.Symlink)
	if st == nfs3.NFS3_OK {
		var err error
		if err = e.FS.Attr(t.ctx, id, &t.attr); err == nil {
			e.postOp(&res.Attr, &t.attr)
			if t.attr.Type != vfs.Symlink {
				err = vfs.ErrInval
			} else {
				path, err = e.FS.ReadLink(t.ctx, id)
			}
		}
		st = status(err)
	}
	if st == nfs3.NFS3_OK && len(path) > 0 {
		buf, err := r.Need(len(path))
		if err != nil || len(path) > t.maxPayload {
			t.reject(r, &rpc.Reply{Accept: rpc.SYSTEM_ERR})
			return
		}
		if buf == nil {
			return
		}
		copy(buf.Bytes, path)
	}
	p := t.begin(r)
	if p == nil {
		return
	}
	res.Status = st
	p.Msg = nfs3.AppendReadlinkResHead(p.Msg, &res, uint32(len(path)))
	if st == nfs3.NFS3_OK {
		p.EndWithItem()
		if len(path) > 0 {
			p.AddBuffer(r, len(path))
		}
	}
	t.procs[nfs3.READLINK].Add(1)
	t.countStatus(p.Msg)
	p.Send(t.xt, r)
}
