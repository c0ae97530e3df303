package nfsserver_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/nfsserver/vfs"
	"example.org/nfsrdma/verbs/softroce"
)

// again sends the same RPC message once more.
func (e *env) again(xid uint32, msg []byte) *answer {
	e.t.Helper()
	h := e.header(rpcrdma.RDMA_MSG)
	h.XID = xid
	return e.send(h, msg)
}

func TestReplayOfEachNonIdempotentProcedure(t *testing.T) {
	e := newEnv(t, envOpt{})
	f := e.newFile("f", nil)
	d := e.mkdir(e.root, "d", 0o777).Object.FH
	okStatus(t, e.mkdir(d, "sub", 0o777).Status)
	okStatus(t, e.create(d, "gone", 0o777).Status)
	okStatus(t, e.create(d, "from", 0o777).Status)
	ctime := nfs3.Time(e.getattr(f).Attr.Ctime)
	for _, c := range []struct {
		proc nfs3.Proc
		args []byte
	}{
		{nfs3.SETATTR, nfs3.AppendSetattrArgs(nil, &nfs3.SetattrArgs{Object: f, Attr: nfs3.Sattr3{SetMode: true, Mode: 0o600}, Guard: true, GuardCtime: ctime})},
		{nfs3.CREATE, nfs3.AppendCreateArgs(nil, &nfs3.CreateArgs{Where: dirOp(d, "new"), Mode: nfs3.GUARDED})},
		{nfs3.MKDIR, nfs3.AppendMkdirArgs(nil, &nfs3.MkdirArgs{Where: dirOp(d, "newdir")})},
		{nfs3.SYMLINK, nfs3.AppendSymlinkArgs(nil, &nfs3.SymlinkArgs{Where: dirOp(d, "newlink"), Path: []byte("x")})},
		{nfs3.MKNOD, nfs3.AppendMknodArgs(nil, &nfs3.MknodArgs{Where: dirOp(d, "newfifo"), Type: nfs3.NF3FIFO})},
		{nfs3.LINK, nfs3.AppendLinkArgs(nil, &nfs3.LinkArgs{File: f, Link: dirOp(d, "newhard")})},
		{nfs3.REMOVE, nfs3.AppendRemoveArgs(nil, &nfs3.RemoveArgs{Object: dirOp(d, "gone")})},
		{nfs3.RMDIR, nfs3.AppendRmdirArgs(nil, &nfs3.RmdirArgs{Object: dirOp(d, "sub")})},
		{nfs3.RENAME, nfs3.AppendRenameArgs(nil, &nfs3.RenameArgs{From: dirOp(d, "from"), To: dirOp(d, "to")})},
	} {
		t.Run(c.proc.String(), func(t *testing.T) {
			assert.False(t, c.proc.Idempotent())
			xid := e.nextXID()
			msg := e.rpcCall(xid, c.proc, c.args)
			first := e.again(xid, msg)
			assert.Equal(t, []byte{0, 0, 0, 0}, first.body[:4], "it succeeds")
			e.wantCount("nfs3_"+c.proc.String(), 0, func() {
				e.wantCount("drc_hits", 1, func() { assert.Equal(t, first.body, e.again(xid, msg).body) })
			})
			// From a new connection of the same client too.
			e.peer.Close()
			e.peer = e.dial(envOpt{})
			e.wantCount("drc_hits", 1, func() { assert.Equal(t, first.body, e.again(xid, msg).body) })
			// The same XID with other arguments is another call, and so is another XID.
			other := e.again(xid+1000, e.rpcCall(xid+1000, c.proc, c.args))
			assert.NotEqual(t, first.body, other.body, "executed again, it fails")
		})
	}
}

func TestDRCIsBounded(t *testing.T) {
	e := newEnv(t, envOpt{cfg: nfsserver.Config{DRCEntries: 4}})
	var first uint32
	var msg []byte
	for i := range 10 {
		xid := e.nextXID()
		m := e.rpcCall(xid, nfs3.MKDIR, nfs3.AppendMkdirArgs(nil, &nfs3.MkdirArgs{Where: dirOp(e.root, fmt.Sprint(i))}))
		e.again(xid, m)
		if i == 0 {
			first, msg = xid, m
		}
		if i == 3 { // used again, so younger than the others
			e.wantCount("drc_hits", 1, func() { e.again(first, msg) })
		}
		if i == 6 {
			e.wantCount("drc_hits", 1, func() { e.again(first, msg) })
		}
	}
	assert.EqualValues(t, 6, e.counter("drc_evictions"))
	e = newEnv(t, envOpt{cfg: nfsserver.Config{DRCEntries: -1}})
	xid := e.nextXID()
	msg = e.rpcCall(xid, nfs3.MKDIR, nfs3.AppendMkdirArgs(nil, &nfs3.MkdirArgs{Where: dirOp(e.root, "d")}))
	a, b := e.again(xid, msg), e.again(xid, msg)
	assert.NotEqual(t, a.body, b.body, "no cache: EEXIST")
}

// slowFS takes time for what changes names.
type slowFS struct {
	vfs.FS
	s *sched.Sched
	d sched.Duration
}

func (f *slowFS) Mkdir(ctx context.Context, dir vfs.ID, name string, s *vfs.SetAttr, a *vfs.Attr, w *vfs.WCC) error {
	if err := f.s.Sleep(ctx, f.d); err != nil {
		return err
	}
	return f.FS.Mkdir(ctx, dir, name, s, a, w)
}

func TestDuplicateOfRunningCallIsDropped(t *testing.T) {
	slow := &slowFS{FS: memfs.New(memfs.Options{RootMode: 0o777}), d: sched.Second}
	e := newEnv(t, envOpt{cfg: nfsserver.Config{Exports: []nfsserver.Export{{FS: slow}}, DRCEntries: 1}})
	slow.s = e.s
	h := e.header(rpcrdma.RDMA_MSG)
	msg := append(rpcrdma.AppendHeader(nil, h), e.rpcCall(h.XID, nfs3.MKDIR, nfs3.AppendMkdirArgs(nil, &nfs3.MkdirArgs{Where: dirOp(e.root, "d")}))...)
	for range 3 {
		require.NoError(t, e.peer.Send(bg, msg))
	}
	e.wantAlive()
	assert.EqualValues(t, 2, e.counter("drc_in_progress"))
	// The only entry is in use: another call runs without one.
	h2 := e.header(rpcrdma.RDMA_MSG)
	require.NoError(t, e.peer.Send(bg, append(rpcrdma.AppendHeader(nil, h2), e.rpcCall(h2.XID, nfs3.MKDIR,
		nfs3.AppendMkdirArgs(nil, &nfs3.MkdirArgs{Where: dirOp(e.root, "d2")}))...)))
	a, b := e.answer(), e.answer()
	assert.ElementsMatch(t, []uint32{h.XID, h2.XID}, []uint32{a.h.XID, b.h.XID})
	assert.EqualValues(t, 1, e.counter("drc_full"))
	assert.EqualValues(t, 2, e.counter("nfs3_MKDIR"))
	require.NoError(t, e.peer.Send(bg, msg))
	assert.Equal(t, h.XID, e.answer().h.XID)
	assert.EqualValues(t, 1, e.counter("drc_hits"))
}

func TestWhatMakesADuplicate(t *testing.T) {
	e := newEnv(t, envOpt{})
	xid := e.nextXID()
	mkdir := func(name string) *answer {
		return e.again(xid, e.rpcCall(xid, nfs3.MKDIR, nfs3.AppendMkdirArgs(nil, &nfs3.MkdirArgs{Where: dirOp(e.root, name)})))
	}
	e.wantCount("drc_hits", 0, func() {
		mkdir("a")
		mkdir("b") // other arguments
		// Arguments that differ late, and in length.
		for _, name := range []string{"n", "nnnnn"} {
			e.again(xid, e.rpcCall(xid, nfs3.RENAME, nfs3.AppendRenameArgs(nil, &nfs3.RenameArgs{
				From: dirOp(e.root, strings.Repeat("f", 255)), To: dirOp(e.root, name)})))
		}
	})
	// Another client may use the same XID for the same.
	dev, err := e.net.NewDevice("another", softroce.RoCE)
	require.NoError(t, err)
	first, cdev := e.peer, e.cdev
	e.cdev = dev
	e.peer = e.dial(envOpt{})
	e.wantCount("drc_hits", 0, func() { assert.NotEqual(t, mkdir("a").body[:4], []byte{0, 0, 0, 0}, "executed: it exists") })
	e.peer.Close()
	require.NoError(t, e.s.Sleep(bg, sched.Second))
	require.NoError(t, dev.Close())
	e.peer, e.cdev = first, cdev

	// What was not executed is not remembered.
	for range 3 {
		a := e.again(xid+1, e.rpcCall(xid+1, nfs3.MKDIR, []byte{0, 0, 0, 1}))
		assert.Equal(t, rpc.GARBAGE_ARGS, a.rpc.Accept)
	}
	h := &rpcrdma.Header{XID: xid + 2}
	for range 3 {
		mr := e.mem(4096, source)
		hdr := e.header(rpcrdma.RDMA_MSG)
		hdr.XID = h.XID
		msg := e.rpcCall(h.XID, nfs3.SYMLINK, nfs3.AppendSymlinkArgsHead(nil, &nfs3.SymlinkArgs{Where: dirOp(e.root, "l")}, 5))
		hdr.Reads = []rpcrdma.ReadSegment{{Position: uint32(len(msg)), Segment: seg(mr, 0, 6)}}
		e.wantError(e.send(hdr, msg), h, rpcrdma.ERR_CHUNK)
	}
	assert.Zero(t, e.counter("drc_in_progress"))
}
