package nfsclient

import (
	"context"
	"fmt"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/xdr"
	"example.org/nfsrdma/internal/xprt/clnt"
)

// Null does nothing, at the server (NULL).
func (m *Mount) Null(ctx context.Context) error {
	q, err := m.getWith(ctx, m.heads.null, nfs3.NULL)
	if err != nil {
		return failed("NULL", err)
	}
	defer m.x.Put(q)
	q.MaxReply = rpc.MaxReplyLen
	_, err = m.do(ctx, q)
	return failed("NULL", err)
}

// GetAttr gives the attributes of a file (GETATTR).
func (m *Mount) GetAttr(ctx context.Context, fh FH) (Fattr, error) {
	for {
		a, err := m.getAttr(ctx, fh)
		if !m.retry(ctx, &err) {
			return a, err
		}
	}
}

func (m *Mount) getAttr(ctx context.Context, fh FH) (Fattr, error) {
	var res nfs3.GetattrRes
	q, err := m.get(ctx, nfs3.GETATTR)
	if err != nil {
		return res.Attr, failed("GETATTR", err)
	}
	defer m.x.Put(q)
	q.Msg = nfs3.AppendGetattrArgs(q.Msg, &nfs3.GetattrArgs{Object: fh})
	q.MaxReply = maxReply(nfs3.GETATTR, 0)
	body, err := m.try(ctx, q)
	if err != nil {
		return res.Attr, failed("GETATTR", err)
	}
	if _, err := nfs3.ConsumeGetattrRes(body, &res); err != nil {
		return res.Attr, badResult(nfs3.GETATTR, err)
	}
	return res.Attr, check(nfs3.GETATTR, "", res.Status)
}

// Read reads len(buf) bytes at off, or fewer at the end of the file (READ). buf is at most what a
// chunk carries; RSize always fits.
func (m *Mount) Read(ctx context.Context, fh FH, off uint64, buf []byte) (n int, eof bool, err error) {
	var res ReadRes
	if err := m.ReadRes(ctx, fh, off, buf, &res); err != nil {
		return 0, false, err
	}
	return int(res.Count), res.EOF, nil
}

// ReadRes is Read with all of the result; res.Data is not set.
func (m *Mount) ReadRes(ctx context.Context, fh FH, off uint64, buf []byte, res *ReadRes) error {
	for {
		err := m.readRes(ctx, fh, off, buf, res)
		if !m.retry(ctx, &err) {
			return err
		}
	}
}

func (m *Mount) readRes(ctx context.Context, fh FH, off uint64, buf []byte, res *ReadRes) error {
	q, err := m.get(ctx, nfs3.READ)
	if err != nil {
		return failed("READ", err)
	}
	defer m.x.Put(q)
	q.Msg = nfs3.AppendReadArgs(q.Msg, &nfs3.ReadArgs{File: fh, Offset: off, Count: uint32(len(buf))})
	q.Sink, q.SinkHead, q.MaxReply = buf, readHead, maxReply(nfs3.READ, 0)
	body, err := m.try(ctx, q)
	if err != nil {
		return failed("READ", err)
	}
	dataLen, n, err := nfs3.ConsumeReadResHead(body, res)
	if err != nil {
		return badResult(nfs3.READ, err)
	}
	if res.Status != nfs3.NFS3_OK {
		return check(nfs3.READ, "", res.Status)
	}
	if dataLen != res.Count {
		return badResult(nfs3.READ, fmt.Errorf("count %d with data of %d bytes", res.Count, dataLen))
	}
	if err := sunk(q, buf, body[n:], dataLen); err != nil {
		return badResult(nfs3.READ, err)
	}
	q.CountRead(int(dataLen))
	return nil
}

// readHead finds the data of a READ reply; see clnt.Call.
func readHead(reply []byte) (pos int, count uint32, ok bool) {
	var h rpc.Reply
	n, err := rpc.ConsumeReply(reply, &h)
	if err != nil || !h.OK() {
		return 0, 0, false
	}
	var res ReadRes
	count, k, err := nfs3.ConsumeReadResHead(reply[n:], &res)
	return n + k, count, err == nil && res.Status == nfs3.NFS3_OK
}

// sunk sees to it that a DDP-eligible result of n bytes is in buf: placed there by the server, or
// inline behind its length word.
func sunk(q *clnt.Call, buf, inline []byte, n uint32) error {
	switch got := q.SinkLen; {
	case uint64(n) > uint64(len(buf)):
		return fmt.Errorf("data of %d bytes, %d wanted", n, len(buf))
	case n == 0:
	case got >= int(n) && got <= xdr.Roundup(int(n)): // RFC 8166 section 3.4.6.2: no pad; some send it
	case got <= 0 && len(inline) >= int(n):
		copy(buf, inline[:n])
		q.CountFixup(int(n))
	default:
		return fmt.Errorf("data of %d bytes, of which the chunk has %d, and %d are inline", n, got, len(inline))
	}
	return nil
}

// WriteResult is what a WRITE did.
type WriteResult struct {
	Count     int       // bytes written, at least one
	Committed StableHow // how far
	Verf      Verf      // changes when the server may have lost UNSTABLE data
}

// Write writes data at off (WRITE). data is at most what a chunk carries; WSize always fits. The
// server may write less.
func (m *Mount) Write(ctx context.Context, fh FH, off uint64, data []byte, how StableHow) (WriteResult, error) {
	var res WriteRes
	if err := m.WriteRes(ctx, fh, off, data, how, &res); err != nil {
		return WriteResult{}, err
	}
	return WriteResult{Count: int(res.Count), Committed: res.Committed, Verf: res.Verf}, nil
}

// WriteRes is Write with all of the result.
func (m *Mount) WriteRes(ctx context.Context, fh FH, off uint64, data []byte, how StableHow, res *WriteRes) error {
	for {
		err := m.writeRes(ctx, fh, off, data, how, res)
		if !m.retry(ctx, &err) {
			return err
		}
	}
}

func (m *Mount) writeRes(ctx context.Context, fh FH, off uint64, data []byte, how StableHow, res *WriteRes) error {
	q, err := m.get(ctx, nfs3.WRITE)
	if err != nil {
		return failed("WRITE", err)
	}
	defer m.x.Put(q)
	n := uint32(len(data))
	q.Msg = nfs3.AppendWriteArgsHead(q.Msg, &nfs3.WriteArgs{File: fh, Offset: off, Count: n, Stable: how}, n)
	q.Data, q.MaxReply = data, maxReply(nfs3.WRITE, 0)
	body, err := m.try(ctx, q)
	if err != nil {
		return failed("WRITE", err)
	}
	if _, err := nfs3.ConsumeWriteRes(body, res); err != nil {
		return badResult(nfs3.WRITE, err)
	}
	if res.Status == nfs3.NFS3_OK && (res.Count > n || res.Count == 0 && n > 0) {
		return badResult(nfs3.WRITE, fmt.Errorf("count %d of %d", res.Count, n))
	}
	if res.Status == nfs3.NFS3_OK {
		q.CountWrite(int(res.Count))
	}
	return check(nfs3.WRITE, "", res.Status)
}

// Commit makes unstable data of a range stable (COMMIT); count 0 is up to the end of the file. Another
// verifier than that of the WRITEs means that their data may be lost.
func (m *Mount) Commit(ctx context.Context, fh FH, off uint64, count uint32) (Verf, error) {
	var res nfs3.CommitRes
	err := simple(ctx, m, nfs3.COMMIT, &nfs3.CommitArgs{File: fh, Offset: off, Count: count}, nfs3.AppendCommitArgs,
		&res, nfs3.ConsumeCommitRes)
	if err != nil {
		return Verf{}, err
	}
	return res.Verf, check(nfs3.COMMIT, "", res.Status)
}
