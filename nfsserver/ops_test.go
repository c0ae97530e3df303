package nfsserver_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/nfsserver/vfs"
)

func dirOp(dir nfs3.FH, name string) nfs3.DirOp { return nfs3.DirOp{Dir: dir, Name: []byte(name)} }

func (e *env) write(fh nfs3.FH, off uint64, data []byte, how nfs3.StableHow) *nfs3.WriteRes {
	e.t.Helper()
	return do(e, nfs3.WRITE, nfs3.AppendWriteArgs, &nfs3.WriteArgs{File: fh, Offset: off, Count: uint32(len(data)), Stable: how, Data: data}, nfs3.ConsumeWriteRes)
}

func (e *env) read(fh nfs3.FH, off uint64, n uint32) *nfs3.ReadRes {
	e.t.Helper()
	return do(e, nfs3.READ, nfs3.AppendReadArgs, &nfs3.ReadArgs{File: fh, Offset: off, Count: n}, nfs3.ConsumeReadRes)
}

func (e *env) setattr(fh nfs3.FH, s nfs3.Sattr3) *nfs3.SetattrRes {
	e.t.Helper()
	return do(e, nfs3.SETATTR, nfs3.AppendSetattrArgs, &nfs3.SetattrArgs{Object: fh, Attr: s}, nfs3.ConsumeSetattrRes)
}

func (e *env) symlink(dir nfs3.FH, name, path string) *nfs3.SymlinkRes {
	e.t.Helper()
	return do(e, nfs3.SYMLINK, nfs3.AppendSymlinkArgs, &nfs3.SymlinkArgs{Where: dirOp(dir, name), Path: []byte(path)}, nfs3.ConsumeSymlinkRes)
}

func (e *env) rename(from nfs3.FH, a string, to nfs3.FH, b string) *nfs3.RenameRes {
	e.t.Helper()
	return do(e, nfs3.RENAME, nfs3.AppendRenameArgs, &nfs3.RenameArgs{From: dirOp(from, a), To: dirOp(to, b)}, nfs3.ConsumeRenameRes)
}

func (e *env) link(fh, dir nfs3.FH, name string) *nfs3.LinkRes {
	e.t.Helper()
	return do(e, nfs3.LINK, nfs3.AppendLinkArgs, &nfs3.LinkArgs{File: fh, Link: dirOp(dir, name)}, nfs3.ConsumeLinkRes)
}

func (e *env) rmdir(dir nfs3.FH, name string) *nfs3.RmdirRes {
	e.t.Helper()
	return do(e, nfs3.RMDIR, nfs3.AppendRmdirArgs, &nfs3.RmdirArgs{Object: dirOp(dir, name)}, nfs3.ConsumeRmdirRes)
}

func (e *env) access(fh nfs3.FH, bits uint32) uint32 {
	e.t.Helper()
	r := do(e, nfs3.ACCESS, nfs3.AppendAccessArgs, &nfs3.AccessArgs{Object: fh, Access: bits}, nfs3.ConsumeAccessRes)
	okStatus(e.t, r.Status)
	assert.True(e.t, r.ObjAttr.Present)
	return r.Access
}

// wantWcc wants both parts, and a change if changed is set.
func wantWcc(t testing.TB, w *nfs3.WccData, changed bool) {
	t.Helper()
	require.True(t, w.Before.Present && w.After.Present, "%v", w)
	same := w.Before.Ctime == w.After.Attr.Ctime
	assert.Equal(t, !changed, same, "%v", w)
}

func TestGetattr(t *testing.T) {
	e := newEnv(t, envOpt{})
	fh := e.newFile("f", pattern(5000, 0))
	r := e.getattr(fh)
	okStatus(t, r.Status)
	a := r.Attr
	assert.Equal(t, nfs3.NF3REG, a.Type)
	assert.EqualValues(t, 0o644, a.Mode)
	assert.EqualValues(t, 5000, a.Size)
	assert.EqualValues(t, 1, a.Nlink)
	assert.EqualValues(t, 1, a.FSID)
	assert.Equal(t, e.idOf(fh).Ino, a.FileID)
	assert.Equal(t, nfs3.NF3DIR, e.getattr(e.root).Attr.Type)
}

func TestHandles(t *testing.T) {
	e := newEnv(t, envOpt{})
	bad := func(b []byte) nfs3.Status {
		fh, ok := nfs3.MakeFH(b)
		require.True(t, ok)
		return e.getattr(fh).Status
	}
	good := e.root.Bytes()
	e.wantCount("nfs_badhandle", 5, func() {
		assert.Equal(t, nfs3.NFS3ERR_BADHANDLE, bad(nil))
		assert.Equal(t, nfs3.NFS3ERR_BADHANDLE, bad(good[:23]))
		assert.Equal(t, nfs3.NFS3ERR_BADHANDLE, bad(append(slices.Clone(good), 0)))
		assert.Equal(t, nfs3.NFS3ERR_BADHANDLE, bad(bytes.Repeat([]byte{0xff}, 24)))
		assert.Equal(t, nfs3.NFS3ERR_BADHANDLE, bad(make([]byte, 64)))
	})
	e.wantCount("nfs_stale", 3, func() {
		assert.Equal(t, nfs3.NFS3ERR_STALE, e.getattr(nfsserver.MakeHandle(9, e.idOf(e.root))).Status, "no such export")
		assert.Equal(t, nfs3.NFS3ERR_STALE, e.getattr(nfsserver.MakeHandle(1, vfs.ID{Ino: 1 << 60, Gen: 1})).Status)
		fh := e.newFile("f", nil)
		e.remove(e.root, "f")
		assert.Equal(t, nfs3.NFS3ERR_STALE, e.getattr(fh).Status)
	})
}

func TestSetattr(t *testing.T) {
	e := newEnv(t, envOpt{})
	fh := e.newFile("f", pattern(5000, 0))
	r := e.setattr(fh, nfs3.Sattr3{SetMode: true, Mode: 0o600, SetUID: true, UID: 7, SetGID: true, GID: 8, SetSize: true, Size: 100,
		AtimeHow: nfs3.SET_TO_CLIENT_TIME, Atime: nfs3.Time{Sec: 5, Nsec: 6}, MtimeHow: nfs3.SET_TO_CLIENT_TIME, Mtime: nfs3.Time{Sec: 7, Nsec: 8}})
	okStatus(t, r.Status)
	wantWcc(t, &r.ObjWcc, true)
	assert.EqualValues(t, 5000, r.ObjWcc.Before.Size)
	a := e.getattr(fh).Attr
	assert.Equal(t, []any{uint32(0o600), uint32(7), uint32(8), uint64(100), nfs3.Time{Sec: 5, Nsec: 6}, nfs3.Time{Sec: 7, Nsec: 8}},
		[]any{a.Mode, a.UID, a.GID, a.Size, a.Atime, a.Mtime})
	assert.Equal(t, pattern(5000, 0)[:100], e.contents(fh))

	guarded := func(ctime nfs3.Time) nfs3.Status {
		return do(e, nfs3.SETATTR, nfs3.AppendSetattrArgs, &nfs3.SetattrArgs{Object: fh, Attr: nfs3.Sattr3{SetMode: true, Mode: 0o640},
			Guard: true, GuardCtime: ctime}, nfs3.ConsumeSetattrRes).Status
	}
	assert.Equal(t, nfs3.NFS3ERR_NOT_SYNC, guarded(nfs3.Time{Sec: 1}))
	okStatus(t, guarded(a.Ctime))
	r = e.setattr(e.root, nfs3.Sattr3{SetSize: true})
	assert.NotEqual(t, nfs3.NFS3_OK, r.Status)
	wantWcc(t, &r.ObjWcc, false)
}

func TestLookup(t *testing.T) {
	e := newEnv(t, envOpt{})
	fh := e.newFile("f", nil)
	d := e.mkdir(e.root, "d", 0o755)
	okStatus(t, d.Status)
	r := e.lookup(e.root, "f")
	okStatus(t, r.Status)
	assert.Equal(t, fh, r.Object)
	assert.True(t, r.ObjAttr.Present && r.DirAttr.Present)
	assert.Equal(t, e.root, e.lookup(d.Object.FH, "..").Object)
	assert.Equal(t, e.root, e.lookup(e.root, "..").Object, "above an export there is nothing")
	assert.Equal(t, d.Object.FH, e.lookup(d.Object.FH, ".").Object)

	for name, want := range map[string]nfs3.Status{
		"nothing": nfs3.NFS3ERR_NOENT, "": nfs3.NFS3ERR_ACCES, "a/b": nfs3.NFS3ERR_ACCES, "a\x00b": nfs3.NFS3ERR_ACCES,
		strings.Repeat("n", 255): nfs3.NFS3ERR_NOENT, strings.Repeat("n", 256): nfs3.NFS3ERR_NAMETOOLONG,
	} {
		r := e.lookup(e.root, name)
		assert.Equal(t, want, r.Status, "%.20q", name)
		assert.True(t, r.DirAttr.Present)
	}
	assert.Equal(t, nfs3.NFS3ERR_NOTDIR, e.lookup(fh, "x").Status)
}

func TestReadlink(t *testing.T) {
	e := newEnv(t, envOpt{})
	readlink := func(fh nfs3.FH) *nfs3.ReadlinkRes {
		return do(e, nfs3.READLINK, nfs3.AppendReadlinkArgs, &nfs3.ReadlinkArgs{Symlink: fh}, nfs3.ConsumeReadlinkRes)
	}
	for i, path := range []string{"x", "abc", "a/b/../c", strings.Repeat("p", 1023)} {
		s := e.symlink(e.root, fmt.Sprint(i), path)
		okStatus(t, s.Status)
		wantWcc(t, &s.DirWcc, true)
		assert.Equal(t, nfs3.NF3LNK, s.ObjAttr.Attr.Type)
		r := readlink(s.Object.FH)
		okStatus(t, r.Status)
		assert.Equal(t, path, string(r.Path))
		assert.True(t, r.Attr.Present)
	}
	assert.Equal(t, nfs3.NFS3ERR_INVAL, readlink(e.root).Status)
	assert.Equal(t, nfs3.NFS3ERR_EXIST, e.symlink(e.root, "0", "x").Status)
}

func TestRead(t *testing.T) {
	for _, lends := range []bool{true, false} {
		t.Run(fmt.Sprintf("lends=%t", lends), func(t *testing.T) {
			e := newDataEnv(t, lends)
			want := pattern(300_001, 3)
			fh := e.newFile("f", want)
			mr := e.mem(400_000, sink)
			for _, c := range []struct{ off, n int }{
				{0, 300_001}, {0, 1}, {1, 1}, {4095, 2}, {65535, 3}, {65536, 65536}, {100_000, 200_000}, {299_999, 100}, {300_001, 10}, {400_000, 10}, {7, 0},
			} {
				for i := range mr.Bytes() {
					mr.Bytes()[i] = 0xaa
				}
				lo, hi := min(c.off, len(want)), min(c.off+c.n, len(want))
				a, _ := e.readChunked(fh, uint64(c.off), uint32(c.n), []rpcrdma.Segment{seg(mr, 3, 5), seg(mr, 100, 4096), seg(mr, 8001, 390_000)})
				r := e.readRes(a, true)
				okStatus(t, r.Status)
				assert.EqualValues(t, hi-lo, r.Count, "%+v", c)
				assert.Equal(t, c.off+c.n >= len(want), r.EOF, "%+v", c)
				got := slices.Concat(mr.Bytes()[3:8], mr.Bytes()[100:4196], mr.Bytes()[8001:])[:hi-lo]
				assert.True(t, bytes.Equal(want[lo:hi], got), "%+v", c)
				assert.True(t, r.Attr.Present)
				if c.n < 3000 {
					r := e.read(fh, uint64(c.off), uint32(c.n))
					assert.True(t, bytes.Equal(want[lo:hi], r.Data), "inline %+v", c)
				}
			}
			assert.Equal(t, lends, e.counter("zero_copy_reads") > 0)
			assert.NotEqual(t, nfs3.NFS3_OK, e.read(e.root, 0, 10).Status)
		})
	}
}

// newDataEnv has a file system that lends its memory, or not.
func newDataEnv(t *testing.T, lends bool) *env {
	t.Helper()
	fs := memfs.New(memfs.Options{RootMode: 0o777})
	exp := nfsserver.Export{FS: fs}
	if !lends {
		exp.FS = plainFS{fs}
	}
	e := newEnv(t, envOpt{cfg: nfsserver.Config{Exports: []nfsserver.Export{exp}}})
	e.fs = fs
	return e
}

func TestReadIsCutToMaxPayload(t *testing.T) {
	e := newEnv(t, envOpt{cfg: nfsserver.Config{MaxPayload: 64 << 10}})
	want := pattern(200_000, 0)
	fh := e.newFile("f", want)
	mr := e.mem(200_000, sink)
	a, _ := e.readChunked(fh, 0, 200_000, []rpcrdma.Segment{seg(mr, 0, 200_000)})
	r := e.readRes(a, true)
	assert.EqualValues(t, 64<<10, r.Count)
	assert.False(t, r.EOF)
	assert.True(t, bytes.Equal(want[:64<<10], mr.Bytes()[:64<<10]))
}

func TestWrite(t *testing.T) {
	for _, lends := range []bool{true, false} {
		t.Run(fmt.Sprintf("lends=%t", lends), func(t *testing.T) {
			e := newDataEnv(t, lends)
			fh := e.newFile("f", nil)
			want := make([]byte, 600_000)
			mr := e.mem(600_000, source)
			end := 0
			for i, c := range []struct{ off, n int }{
				{0, 65536}, {65536, 131072}, {0, 1}, {1, 3}, {4095, 4097}, {65530, 10}, {131072, 65537}, {200_000, 399_999}, {0, 500_000}, {65536, 0},
			} {
				data := pattern(c.n, byte(i+1))
				copy(want[c.off:], data)
				if c.n > 0 {
					end = max(end, c.off+c.n)
				}
				copy(mr.Bytes(), data)
				a := e.writeChunked(fh, uint64(c.off), c.n, nfs3.UNSTABLE, seg(mr, 0, c.n/2), seg(mr, c.n/2, c.n-c.n/2))
				r := e.writeRes(a)
				okStatus(t, r.Status)
				assert.EqualValues(t, c.n, r.Count)
				assert.Equal(t, nfs3.UNSTABLE, r.Committed)
				wantWcc(t, &r.FileWcc, c.n > 0)
				require.True(t, bytes.Equal(want[:end], e.contents(fh)), "%+v", c)
				if c.n < 3000 {
					r := e.write(fh, uint64(c.off), data, nfs3.DATA_SYNC)
					okStatus(t, r.Status)
					assert.Equal(t, nfs3.FILE_SYNC, r.Committed)
				}
			}
			assert.Equal(t, lends, e.counter("zero_copy_writes") > 0)
			assert.NotEqual(t, nfs3.NFS3_OK, e.write(e.root, 0, []byte("x"), nfs3.UNSTABLE).Status)
			a := e.writeChunked(e.root, 0, 5, nfs3.UNSTABLE, seg(mr, 0, 5))
			assert.NotEqual(t, nfs3.NFS3_OK, e.writeRes(a).Status)
		})
	}
}

func TestWriteBeyondMaxPayload(t *testing.T) {
	e := newEnv(t, envOpt{cfg: nfsserver.Config{MaxPayload: 64 << 10}})
	fh := e.newFile("f", nil)
	mr := e.mem(128<<10, source)
	h := &rpcrdma.Header{XID: e.xid + 1}
	e.wantCount("rdma_stat_read", 0, func() {
		e.wantCount("bad_chunk", 1, func() {
			e.wantError(e.writeChunked(fh, 0, 64<<10+4, nfs3.UNSTABLE, seg(mr, 0, 64<<10+4)), h, rpcrdma.ERR_CHUNK)
		})
		h.XID++
		e.wantError(e.writeChunked(fh, 0, 64<<10+4, nfs3.UNSTABLE, seg(mr, 0, 64<<10+4)), h, rpcrdma.ERR_CHUNK)
		h.XID++
		e.wantError(e.writeChunked(fh, 0, 64<<10+1, nfs3.UNSTABLE, seg(mr, 0, 64<<10+1)), h, rpcrdma.ERR_CHUNK)
	})
	okStatus(t, e.writeRes(e.writeChunked(fh, 0, 64<<10, nfs3.UNSTABLE, seg(mr, 0, 64<<10))).Status)
}

func TestCreate(t *testing.T) {
	e := newEnv(t, envOpt{})
	e.setUID(5)
	r := e.create(e.root, "f", 0o640)
	okStatus(t, r.Status)
	wantWcc(t, &r.DirWcc, true)
	assert.EqualValues(t, 5, r.ObjAttr.Attr.UID)
	assert.EqualValues(t, 5, r.ObjAttr.Attr.GID)
	assert.EqualValues(t, 0o640, r.ObjAttr.Attr.Mode)
	okStatus(t, e.write(r.Object.FH, 0, []byte("data"), nfs3.UNSTABLE).Status)

	create := func(a nfs3.CreateArgs) *nfs3.CreateRes {
		return do(e, nfs3.CREATE, nfs3.AppendCreateArgs, &a, nfs3.ConsumeCreateRes)
	}
	again := create(nfs3.CreateArgs{Where: dirOp(e.root, "f")})
	okStatus(t, again.Status)
	assert.Equal(t, r.Object, again.Object)
	assert.EqualValues(t, 4, again.ObjAttr.Attr.Size)
	assert.Equal(t, nfs3.NFS3ERR_EXIST, create(nfs3.CreateArgs{Where: dirOp(e.root, "f"), Mode: nfs3.GUARDED}).Status)
	assert.Zero(t, create(nfs3.CreateArgs{Where: dirOp(e.root, "f"), Attr: nfs3.Sattr3{SetSize: true}}).ObjAttr.Attr.Size)

	ex := nfs3.CreateArgs{Where: dirOp(e.root, "x"), Mode: nfs3.EXCLUSIVE, Verf: nfs3.Verf{1, 2, 3}}
	okStatus(t, create(ex).Status)
	okStatus(t, create(ex).Status)
	ex.Verf[0] = 9
	assert.Equal(t, nfs3.NFS3ERR_EXIST, create(ex).Status)
	for name, want := range map[string]nfs3.Status{"": nfs3.NFS3ERR_ACCES, "a/b": nfs3.NFS3ERR_ACCES, strings.Repeat("n", 256): nfs3.NFS3ERR_NAMETOOLONG} {
		r := create(nfs3.CreateArgs{Where: dirOp(e.root, name)})
		assert.Equal(t, want, r.Status)
		wantWcc(t, &r.DirWcc, false)
	}
	for _, name := range []string{".", ".."} {
		assert.NotEqual(t, nfs3.NFS3_OK, create(nfs3.CreateArgs{Where: dirOp(e.root, name)}).Status)
	}
}

func TestMkdirRmdirRemove(t *testing.T) {
	e := newEnv(t, envOpt{})
	d := e.mkdir(e.root, "d", 0o2755)
	okStatus(t, d.Status)
	wantWcc(t, &d.DirWcc, true)
	okStatus(t, e.create(d.Object.FH, "f", 0o644).Status)
	assert.Equal(t, nfs3.NFS3ERR_NOTEMPTY, e.rmdir(e.root, "d").Status)
	rm := func(dir nfs3.FH, name string) *nfs3.RemoveRes {
		return do(e, nfs3.REMOVE, nfs3.AppendRemoveArgs, &nfs3.RemoveArgs{Object: dirOp(dir, name)}, nfs3.ConsumeRemoveRes)
	}
	assert.Equal(t, nfs3.NFS3ERR_ISDIR, rm(e.root, "d").Status)
	assert.Equal(t, nfs3.NFS3ERR_NOTDIR, e.rmdir(d.Object.FH, "f").Status)
	r := rm(d.Object.FH, "f")
	okStatus(t, r.Status)
	wantWcc(t, &r.DirWcc, true)
	r = rm(d.Object.FH, "f")
	assert.Equal(t, nfs3.NFS3ERR_NOENT, r.Status)
	wantWcc(t, &r.DirWcc, false)
	okStatus(t, e.rmdir(e.root, "d").Status)
	assert.Equal(t, nfs3.NFS3ERR_STALE, e.create(d.Object.FH, "f", 0o644).Status)
	assert.NotEqual(t, nfs3.NFS3_OK, e.rmdir(e.root, ".").Status)
}

func TestMknod(t *testing.T) {
	e := newEnv(t, envOpt{})
	mknod := func(typ nfs3.FType, name string) *nfs3.MknodRes {
		return do(e, nfs3.MKNOD, nfs3.AppendMknodArgs, &nfs3.MknodArgs{Where: dirOp(e.root, name), Type: typ,
			Attr: nfs3.Sattr3{SetMode: true, Mode: 0o600}, Spec: nfs3.Spec{Major: 3, Minor: 4}}, nfs3.ConsumeMknodRes)
	}
	for _, typ := range []nfs3.FType{nfs3.NF3CHR, nfs3.NF3BLK, nfs3.NF3SOCK, nfs3.NF3FIFO} {
		r := mknod(typ, typ.String())
		okStatus(t, r.Status)
		assert.Equal(t, typ, r.ObjAttr.Attr.Type)
	}
	assert.Equal(t, nfs3.Spec{Major: 3, Minor: 4}, e.lookup(e.root, "CHR").ObjAttr.Attr.Rdev)
	assert.Equal(t, nfs3.NFS3ERR_BADTYPE, mknod(nfs3.NF3REG, "r").Status)
	assert.Equal(t, nfs3.NFS3ERR_BADTYPE, mknod(nfs3.NF3DIR, "d").Status)
	e.setUID(5)
	assert.Equal(t, nfs3.NFS3ERR_PERM, mknod(nfs3.NF3CHR, "no").Status)
	okStatus(t, mknod(nfs3.NF3FIFO, "yes").Status)
}

func TestRenameAndLink(t *testing.T) {
	second := memfs.New(memfs.Options{RootMode: 0o777})
	first := memfs.New(memfs.Options{RootMode: 0o777})
	e := newEnv(t, envOpt{cfg: nfsserver.Config{Exports: []nfsserver.Export{{Path: "/a", FS: first}, {Path: "/b", FS: second}}}})
	e.fs = first
	other := e.rootFH(second, 2)
	fh := e.newFile("f", []byte("f"))
	d := e.mkdir(e.root, "d", 0o755).Object.FH

	r := e.rename(e.root, "f", d, "g")
	okStatus(t, r.Status)
	wantWcc(t, &r.FromDirWcc, true)
	wantWcc(t, &r.ToDirWcc, true)
	assert.Equal(t, fh, e.lookup(d, "g").Object)
	assert.Equal(t, nfs3.NFS3ERR_NOENT, e.lookup(e.root, "f").Status)
	e.newFile("h", []byte("h"))
	okStatus(t, e.rename(e.root, "h", d, "g").Status)
	assert.Equal(t, nfs3.NFS3ERR_STALE, e.getattr(fh).Status, "replaced")
	assert.Equal(t, nfs3.NFS3ERR_INVAL, e.rename(e.root, "d", d, "d").Status, "below itself")
	assert.Equal(t, nfs3.NFS3ERR_NOENT, e.rename(e.root, "x", d, "y").Status)
	assert.Equal(t, nfs3.NFS3ERR_XDEV, e.rename(e.root, "d", other, "d").Status)
	assert.Equal(t, nfs3.NFS3ERR_BADHANDLE, e.rename(e.root, "d", nfs3.FH{}, "d").Status)

	g := e.lookup(d, "g").Object
	l := e.link(g, e.root, "l")
	okStatus(t, l.Status)
	wantWcc(t, &l.LinkDirWcc, true)
	assert.EqualValues(t, 2, l.Attr.Attr.Nlink)
	l = e.link(g, e.root, "l")
	assert.Equal(t, nfs3.NFS3ERR_EXIST, l.Status)
	assert.True(t, l.Attr.Present)
	assert.Equal(t, nfs3.NFS3ERR_XDEV, e.link(g, other, "l").Status)
	assert.NotEqual(t, nfs3.NFS3_OK, e.link(d, e.root, "dl").Status)
}

func TestReaddir(t *testing.T) {
	e := newEnv(t, envOpt{})
	want := []string{".", ".."}
	for i := range 100 {
		name := fmt.Sprintf("%0*d", i+1, i)
		okStatus(t, e.create(e.root, name, 0o644).Status)
		want = append(want, name)
	}
	slices.Sort(want)
	mr := e.mem(64<<10, sink)
	// long exchanges with a Reply chunk for what exceeds inline.
	long := func(proc nfs3.Proc, args []byte) *answer {
		h := e.header(rpcrdma.RDMA_MSG)
		h.HasReply, h.Reply = true, []rpcrdma.Segment{seg(mr, 0, 64<<10)}
		a := e.send(h, e.rpcCall(h.XID, proc, args))
		if a.h.Proc == rpcrdma.RDMA_NOMSG {
			e.decodeRPC(a, mr.Bytes()[:a.h.Reply[0].Length])
		}
		require.True(t, a.rpc.OK(), "%v", &a.h)
		return a
	}
	for _, count := range []uint32{500, 3000, 40000, 1 << 31} {
		var names []string
		a := nfs3.ReaddirArgs{Dir: e.root, Count: count}
		for calls := 0; ; calls++ {
			require.Less(t, calls, 200)
			ans := long(nfs3.READDIR, nfs3.AppendReaddirArgs(nil, &a))
			assert.LessOrEqual(t, len(ans.body)-4, int(min(count, 64<<10)))
			var r nfs3.ReaddirRes
			_, err := nfs3.ConsumeReaddirRes(ans.body, &r)
			require.NoError(t, err)
			okStatus(t, r.Status)
			assert.True(t, r.DirAttr.Present)
			var ent nfs3.Entry
			for l := r.Entries; l.Next(&ent); {
				names = append(names, string(ent.Name))
				a.Cookie = ent.Cookie
			}
			a.Verf = r.Verf
			if r.EOF {
				break
			}
		}
		slices.Sort(names)
		assert.Equal(t, want, names, "count %d", count)
	}
	for _, c := range []struct{ dir, most uint32 }{{600, 1000}, {1 << 20, 30000}, {200, 1 << 31}, {0, 8000}} {
		var names []string
		a := nfs3.ReaddirplusArgs{Dir: e.root, DirCount: c.dir, MaxCount: c.most}
		for calls := 0; ; calls++ {
			require.Less(t, calls, 200)
			ans := long(nfs3.READDIRPLUS, nfs3.AppendReaddirplusArgs(nil, &a))
			assert.LessOrEqual(t, len(ans.body)-4, int(min(c.most, 64<<10)))
			var r nfs3.ReaddirplusRes
			_, err := nfs3.ConsumeReaddirplusRes(ans.body, &r)
			require.NoError(t, err)
			okStatus(t, r.Status)
			var ent nfs3.EntryPlus
			for l := r.Entries; l.Next(&ent); {
				names = append(names, string(ent.Name))
				a.Cookie = ent.Cookie
				require.True(t, ent.Attr.Present && ent.FH.Present)
				assert.Equal(t, ent.FileID, ent.Attr.Attr.FileID)
				assert.Equal(t, ent.FileID, e.idOf(ent.FH.FH).Ino)
			}
			a.Verf = r.Verf
			if r.EOF {
				break
			}
		}
		slices.Sort(names)
		assert.Equal(t, want, names, "%+v", c)
	}
	rd := func(a nfs3.ReaddirArgs) *nfs3.ReaddirRes {
		return do(e, nfs3.READDIR, nfs3.AppendReaddirArgs, &a, nfs3.ConsumeReaddirRes)
	}
	assert.Equal(t, nfs3.NFS3ERR_TOOSMALL, rd(nfs3.ReaddirArgs{Dir: e.root, Count: 110}).Status)
	assert.Equal(t, nfs3.NFS3ERR_TOOSMALL, rd(nfs3.ReaddirArgs{Dir: e.root}).Status)
	assert.Equal(t, nfs3.NFS3ERR_BAD_COOKIE, rd(nfs3.ReaddirArgs{Dir: e.root, Cookie: 3, Verf: nfs3.Verf{9, 9, 9}, Count: 1000}).Status)
	assert.Equal(t, nfs3.NFS3ERR_NOTDIR, rd(nfs3.ReaddirArgs{Dir: e.newFile("file", nil), Count: 1000}).Status)
}

func TestFsstatFsinfoPathconf(t *testing.T) {
	e := newEnv(t, envOpt{cfg: nfsserver.Config{MaxPayload: 256 << 10}})
	st := do(e, nfs3.FSSTAT, nfs3.AppendFsstatArgs, &nfs3.FsstatArgs{Root: e.root}, nfs3.ConsumeFsstatRes)
	okStatus(t, st.Status)
	assert.NotZero(t, st.TotalBytes)
	assert.True(t, st.ObjAttr.Present)
	info := do(e, nfs3.FSINFO, nfs3.AppendFsinfoArgs, &nfs3.FsinfoArgs{Root: e.root}, nfs3.ConsumeFsinfoRes)
	okStatus(t, info.Status)
	assert.EqualValues(t, 256<<10, info.RtMax)
	assert.EqualValues(t, 256<<10, info.WtMax)
	assert.EqualValues(t, nfs3.FSF3_LINK|nfs3.FSF3_SYMLINK|nfs3.FSF3_HOMOGENEOUS|nfs3.FSF3_CANSETTIME, info.Properties)
	pc := do(e, nfs3.PATHCONF, nfs3.AppendPathconfArgs, &nfs3.PathconfArgs{Object: e.root}, nfs3.ConsumePathconfRes)
	okStatus(t, pc.Status)
	assert.EqualValues(t, 255, pc.NameMax)
	assert.True(t, pc.NoTrunc && pc.ChownRestricted && pc.CasePreserving && !pc.CaseInsensitive)
}

func (e *env) commit(fh nfs3.FH, off uint64, n uint32) *nfs3.CommitRes {
	e.t.Helper()
	return do(e, nfs3.COMMIT, nfs3.AppendCommitArgs, &nfs3.CommitArgs{File: fh, Offset: off, Count: n}, nfs3.ConsumeCommitRes)
}

func TestCommitAndVerifier(t *testing.T) {
	e := newEnv(t, envOpt{memfs: memfs.Options{TrackUnstable: true}})
	fh := e.newFile("f", nil)
	w := e.write(fh, 0, []byte("committed"), nfs3.UNSTABLE)
	c := e.commit(fh, 0, 0)
	okStatus(t, c.Status)
	wantWcc(t, &c.FileWcc, false)
	assert.Equal(t, w.Verf, c.Verf)
	assert.Equal(t, w.Verf, e.write(fh, 9, []byte(" lost"), nfs3.UNSTABLE).Verf)
	e.fs.Crash()
	assert.Equal(t, "committed", string(e.contents(fh)))
	c = e.commit(fh, 0, 0)
	okStatus(t, c.Status)
	assert.NotEqual(t, w.Verf, c.Verf, "the client must learn that data was lost")

	other := newEnv(t, envOpt{cfg: nfsserver.Config{Boot: 1}})
	same := newEnv(t, envOpt{cfg: nfsserver.Config{Boot: 1}})
	v := func(e *env) nfs3.Verf { return e.write(e.newFile("f", nil), 0, nil, nfs3.UNSTABLE).Verf }
	assert.NotEqual(t, w.Verf, v(other), "another boot")
	assert.Equal(t, v(other), v(same))
	assert.NotEqual(t, nfs3.NFS3_OK, e.commit(e.root, 0, 0).Status)
}
