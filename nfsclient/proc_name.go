package nfsclient

import (
	"context"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
)

// LookupResult is what a name stands for.
type LookupResult struct {
	FH   FH
	Attr PostOpAttr
}

// Lookup gives the handle of a name in a directory (LOOKUP).
func (m *Mount) Lookup(ctx context.Context, dir FH, name string) (LookupResult, error) {
	var res nfs3.LookupRes
	args := nfs3.LookupArgs{What: dirOp(dir, name)}
	if err := simple(ctx, m, nfs3.LOOKUP, &args, nfs3.AppendLookupArgs, &res, nfs3.ConsumeLookupRes); err != nil {
		return LookupResult{}, err
	}
	return LookupResult{res.Object, res.ObjAttr}, check(nfs3.LOOKUP, name, res.Status)
}

func dirOp(dir FH, name string) nfs3.DirOp { return nfs3.DirOp{Dir: dir, Name: []byte(name)} }

// ReadLink gives the target of a symbolic link (READLINK).
func (m *Mount) ReadLink(ctx context.Context, fh FH) (string, error) {
	for {
		target, err := m.readLink(ctx, fh)
		if !m.retry(ctx, &err) {
			return target, err
		}
	}
}

func (m *Mount) readLink(ctx context.Context, fh FH) (string, error) {
	q, err := m.get(ctx, nfs3.READLINK)
	if err != nil {
		return "", failed("READLINK", err)
	}
	defer m.x.Put(q)
	q.Msg = nfs3.AppendReadlinkArgs(q.Msg, &nfs3.ReadlinkArgs{Symlink: fh})
	limit := maxLink
	if m.cfg.RegMode == Bounce {
		limit = min(limit, m.rsize)
	}
	buf := make([]byte, limit)
	q.Sink, q.SinkInline, q.SinkHead, q.MaxReply = buf, true, readlinkHead, maxReply(nfs3.READLINK, 0)
	body, err := m.try(ctx, q)
	if err != nil {
		return "", failed("READLINK", err)
	}
	var res nfs3.ReadlinkRes
	dataLen, n, err := nfs3.ConsumeReadlinkResHead(body, &res)
	if err != nil {
		return "", badResult(nfs3.READLINK, err)
	}
	if res.Status != nfs3.NFS3_OK {
		return "", check(nfs3.READLINK, "", res.Status)
	}
	if err := sunk(q, buf, body[n:], dataLen); err != nil {
		return "", badResult(nfs3.READLINK, err)
	}
	return string(buf[:dataLen]), nil
}

// readlinkHead finds the target in a READLINK reply; see clnt.Call.
func readlinkHead(reply []byte) (pos int, count uint32, ok bool) {
	var h rpc.Reply
	n, err := rpc.ConsumeReply(reply, &h)
	if err != nil || !h.OK() {
		return 0, 0, false
	}
	var res nfs3.ReadlinkRes
	count, k, err := nfs3.ConsumeReadlinkResHead(reply[n:], &res)
	return n + k, count, err == nil && res.Status == nfs3.NFS3_OK
}

// maxLink is the longest target of a symbolic link that is asked for, bytes (PATH_MAX).
const maxLink = 4096

// Created is a new object. A server may leave out handle and attributes.
type Created struct {
	FH    FH
	HasFH bool
	Attr  PostOpAttr
	Dir   WccData // of the directory
}

func created(o nfs3.PostOpFH, a PostOpAttr, dir WccData) Created {
	return Created{FH: o.FH, HasFH: o.Present, Attr: a, Dir: dir}
}

// CreateHow says how CREATE treats a file that is there already.
type CreateHow struct {
	Mode CreateMode // UNCHECKED: kept; GUARDED and EXCLUSIVE: NFS3ERR_EXIST
	Attr Sattr      // not for EXCLUSIVE
	Verf Verf       // EXCLUSIVE: tells a retransmission
}

// Create makes a file (CREATE).
func (m *Mount) Create(ctx context.Context, dir FH, name string, how CreateHow) (Created, error) {
	args := nfs3.CreateArgs{Where: dirOp(dir, name), Mode: how.Mode, Attr: how.Attr, Verf: how.Verf}
	var r nfs3.CreateRes
	if err := simple(ctx, m, nfs3.CREATE, &args, nfs3.AppendCreateArgs, &r, nfs3.ConsumeCreateRes); err != nil {
		return Created{}, err
	}
	return created(r.Object, r.ObjAttr, r.DirWcc), check(nfs3.CREATE, name, r.Status)
}

// orZero lets nil set nothing.
func orZero(set *Sattr) Sattr {
	if set == nil {
		return Sattr{}
	}
	return *set
}

// Mkdir makes a directory (MKDIR).
func (m *Mount) Mkdir(ctx context.Context, dir FH, name string, set *Sattr) (Created, error) {
	args := nfs3.MkdirArgs{Where: dirOp(dir, name), Attr: orZero(set)}
	var r nfs3.MkdirRes
	if err := simple(ctx, m, nfs3.MKDIR, &args, nfs3.AppendMkdirArgs, &r, nfs3.ConsumeMkdirRes); err != nil {
		return Created{}, err
	}
	return created(r.Object, r.ObjAttr, r.DirWcc), check(nfs3.MKDIR, name, r.Status)
}

// Symlink makes a symbolic link (SYMLINK).
func (m *Mount) Symlink(ctx context.Context, dir FH, name, target string, set *Sattr) (Created, error) {
	for {
		c, err := m.symlink(ctx, dir, name, target, set)
		if !m.retry(ctx, &err) {
			return c, err
		}
	}
}

func (m *Mount) symlink(ctx context.Context, dir FH, name, target string, set *Sattr) (Created, error) {
	q, err := m.get(ctx, nfs3.SYMLINK)
	if err != nil {
		return Created{}, failed("SYMLINK", err)
	}
	defer m.x.Put(q)
	args := nfs3.SymlinkArgs{Where: dirOp(dir, name), Attr: orZero(set)}
	q.Msg = nfs3.AppendSymlinkArgsHead(q.Msg, &args, uint32(len(target)))
	q.Data, q.MaxReply = []byte(target), maxReply(nfs3.SYMLINK, 0)
	body, err := m.try(ctx, q)
	if err != nil {
		return Created{}, failed("SYMLINK", err)
	}
	var r nfs3.SymlinkRes
	if _, err := nfs3.ConsumeSymlinkRes(body, &r); err != nil {
		return Created{}, badResult(nfs3.SYMLINK, err)
	}
	return created(r.Object, r.ObjAttr, r.DirWcc), check(nfs3.SYMLINK, name, r.Status)
}

// Mknod makes a device, socket or FIFO (MKNOD); spec is used for the first.
func (m *Mount) Mknod(ctx context.Context, dir FH, name string, t FType, set *Sattr, spec Spec) (Created, error) {
	args := nfs3.MknodArgs{Where: dirOp(dir, name), Type: t, Attr: orZero(set), Spec: spec}
	var r nfs3.MknodRes
	if err := simple(ctx, m, nfs3.MKNOD, &args, nfs3.AppendMknodArgs, &r, nfs3.ConsumeMknodRes); err != nil {
		return Created{}, err
	}
	return created(r.Object, r.ObjAttr, r.DirWcc), check(nfs3.MKNOD, name, r.Status)
}

// Remove removes a name that is not a directory's (REMOVE).
func (m *Mount) Remove(ctx context.Context, dir FH, name string) (WccData, error) {
	var r nfs3.RemoveRes
	args := nfs3.RemoveArgs{Object: dirOp(dir, name)}
	if err := simple(ctx, m, nfs3.REMOVE, &args, nfs3.AppendRemoveArgs, &r, nfs3.ConsumeRemoveRes); err != nil {
		return WccData{}, err
	}
	return r.DirWcc, check(nfs3.REMOVE, name, r.Status)
}

// Rmdir removes an empty directory (RMDIR).
func (m *Mount) Rmdir(ctx context.Context, dir FH, name string) (WccData, error) {
	var r nfs3.RmdirRes
	args := nfs3.RmdirArgs{Object: dirOp(dir, name)}
	if err := simple(ctx, m, nfs3.RMDIR, &args, nfs3.AppendRmdirArgs, &r, nfs3.ConsumeRmdirRes); err != nil {
		return WccData{}, err
	}
	return r.DirWcc, check(nfs3.RMDIR, name, r.Status)
}

// Rename moves a name, over what has the new one (RENAME).
func (m *Mount) Rename(ctx context.Context, from FH, name string, to FH, newName string) error {
	var r nfs3.RenameRes
	args := nfs3.RenameArgs{From: dirOp(from, name), To: dirOp(to, newName)}
	if err := simple(ctx, m, nfs3.RENAME, &args, nfs3.AppendRenameArgs, &r, nfs3.ConsumeRenameRes); err != nil {
		return err
	}
	return check(nfs3.RENAME, name, r.Status)
}

// Link gives a file another name (LINK).
func (m *Mount) Link(ctx context.Context, fh, dir FH, name string) (PostOpAttr, error) {
	var r nfs3.LinkRes
	args := nfs3.LinkArgs{File: fh, Link: dirOp(dir, name)}
	if err := simple(ctx, m, nfs3.LINK, &args, nfs3.AppendLinkArgs, &r, nfs3.ConsumeLinkRes); err != nil {
		return PostOpAttr{}, err
	}
	return r.Attr, check(nfs3.LINK, name, r.Status)
}
