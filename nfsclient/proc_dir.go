package nfsclient

import (
	"bytes"
	"context"

	"example.org/nfsrdma/internal/nfs3"
)

// ReadDir reads names of a directory behind cookie (READDIR): at first with zero cookie and verifier,
// then with those of the last entry and result, until EOF. count is the longest result in
// bytes; 0: what the server prefers. The entries are the caller's.
func (m *Mount) ReadDir(ctx context.Context, dir FH, cookie uint64, verf Verf, count uint32) (ReaddirRes, error) {
	for {
		res, err := m.readDirOnce(ctx, dir, cookie, verf, count)
		if !m.retry(ctx, &err) {
			return res, err
		}
	}
}

func (m *Mount) readDirOnce(ctx context.Context, dir FH, cookie uint64, verf Verf, count uint32) (ReaddirRes, error) {
	var res ReaddirRes
	q, err := m.get(ctx, nfs3.READDIR)
	if err != nil {
		return res, failed("READDIR", err)
	}
	defer m.x.Put(q)
	if count == 0 {
		count = m.dtsize
	}
	q.Msg = nfs3.AppendReaddirArgs(q.Msg, &nfs3.ReaddirArgs{Dir: dir, Cookie: cookie, Verf: verf, Count: count})
	q.MaxReply = maxReply(nfs3.READDIR, count)
	body, err := m.try(ctx, q)
	if err != nil {
		return res, failed("READDIR", err)
	}
	if _, err := nfs3.ConsumeReaddirRes(body, &res); err != nil {
		return ReaddirRes{}, badResult(nfs3.READDIR, err)
	}
	res.Entries = bytes.Clone(res.Entries)
	return res, check(nfs3.READDIR, "", res.Status)
}

// ReadDirPlus is ReadDir with attributes and handles (READDIRPLUS). dirCount bounds the bytes of the
// names alone; 0: as maxCount.
func (m *Mount) ReadDirPlus(ctx context.Context, dir FH, cookie uint64, verf Verf, dirCount, maxCount uint32) (ReaddirplusRes, error) {
	for {
		res, err := m.readDirPlusOnce(ctx, dir, cookie, verf, dirCount, maxCount)
		if !m.retry(ctx, &err) {
			return res, err
		}
	}
}

func (m *Mount) readDirPlusOnce(ctx context.Context, dir FH, cookie uint64, verf Verf, dirCount, maxCount uint32) (ReaddirplusRes, error) {
	var res ReaddirplusRes
	q, err := m.get(ctx, nfs3.READDIRPLUS)
	if err != nil {
		return res, failed("READDIRPLUS", err)
	}
	defer m.x.Put(q)
	if maxCount == 0 {
		maxCount = m.dtsize
	}
	if dirCount == 0 {
		dirCount = maxCount
	}
	args := nfs3.ReaddirplusArgs{Dir: dir, Cookie: cookie, Verf: verf, DirCount: dirCount, MaxCount: maxCount}
	q.Msg = nfs3.AppendReaddirplusArgs(q.Msg, &args)
	q.MaxReply = maxReply(nfs3.READDIRPLUS, maxCount)
	body, err := m.try(ctx, q)
	if err != nil {
		return res, failed("READDIRPLUS", err)
	}
	if _, err := nfs3.ConsumeReaddirplusRes(body, &res); err != nil {
		return ReaddirplusRes{}, badResult(nfs3.READDIRPLUS, err)
	}
	res.Entries = bytes.Clone(res.Entries)
	return res, check(nfs3.READDIRPLUS, "", res.Status)
}
