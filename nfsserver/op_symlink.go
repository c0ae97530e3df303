package nfsserver

import (
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/xdr"
	"example.org/nfsrdma/internal/xprt/svc"
	"example.org/nfsrdma/nfsserver/vfs"
)

// maxPath is the longest target of a symbolic link that is taken, in bytes: PATH_MAX of Linux.
const maxPath = 4096

func (t *thread) symlink(args, b []byte) ([]byte, bool) {
	var a nfs3.SymlinkArgs
	if _, err := nfs3.ConsumeSymlinkArgs(args, &a); err != nil {
		return b, false
	}
	return t.symlinkTo(&a, b), true
}

func (t *thread) symlinkTo(a *nfs3.SymlinkArgs, b []byte) []byte {
	var res nfs3.SymlinkRes
	res.Status = t.make(&a.Where, &a.Attr, false, &res.Object, &res.ObjAttr, &res.DirWcc, func(e *export, dir vfs.ID, name string) error {
		if len(a.Path) > maxPath {
			return vfs.ErrNameTooLong
		}
		return e.FS.Symlink(t.ctx, dir, name, string(a.Path), &t.set, &t.attr2, &t.wcc)
	})
	return nfs3.AppendSymlinkRes(b, &res)
}

// symlinkPull begins to read a target that is in a Read chunk.
func (t *thread) symlinkPull(r svc.Request, c *callState, args []byte) {
	var a nfs3.SymlinkArgs
	n, used, err := nfs3.ConsumeSymlinkArgsHead(args, &a)
	switch {
	case err != nil:
		t.forget(c)
		t.garbage(r)
		return
	case !chunkHolds(r, len(r.Msg())-len(args)+used, n) || n > maxPath:
		t.forget(c)
		t.badChunk(r)
		return
	}
	buf, err := r.Need(int(n))
	if err != nil {
		t.forget(c)
		t.reject(r, &rpc.Reply{Accept: rpc.SYSTEM_ERR})
		return
	}
	if buf == nil {
		return
	}
	t.mem = append(t.mem[:0], buf.Slice(0, int(n)))
	if r.Pull(t.xt, t.mem, int(n)) {
		t.symlinkPulled(r, c)
	}
}

// symlinkPulled goes on when the target is there. The head is decoded again; it parsed before.
func (t *thread) symlinkPulled(r svc.Request, c *callState) {
	hdr, err := rpc.ConsumeCall(r.Msg(), &t.call)
	var a nfs3.SymlinkArgs
	var n uint32
	if err == nil {
		n, _, err = nfs3.ConsumeSymlinkArgsHead(r.Msg()[hdr:], &a)
	}
	buf, needErr := r.Need(int(n))
	if err != nil || needErr != nil || buf == nil || t.authenticate() != rpc.AUTH_OK {
		// On iWARP the memory of a long call can still be written by the peer.
		t.forget(c)
		t.garbage(r)
		return
	}
	a.Path = buf.Bytes[:n]
	p := t.begin(r)
	if p == nil {
		return
	}
	p.Msg = t.symlinkTo(&a, p.Msg)
	t.finish(r, c, p)
}

// chunkHolds says whether the Read chunk is what holds a data item of n bytes whose count word ends at pos: at
// that position (RFC 8166 section 3.4.5), and of its length with or without the XDR pad (3.4.5.2).
func chunkHolds(r svc.Request, pos int, n uint32) bool {
	at, length, _ := r.ReadChunk()
	return at == pos && (length == uint64(n) || length == uint64(n)+uint64(xdr.Pad(int(n))))
}

// forget gives up a claim of the duplicate request cache.
func (t *thread) forget(c *callState) {
	t.srv.drc.abandon(c.drc)
	c.drc = nil
}
