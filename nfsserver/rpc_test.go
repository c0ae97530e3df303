package nfsserver_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/mount3"
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/xdr"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/nfsserver/memfs"
)

// rpcAnswer sends an RPC message inline and gives the RPC reply.
func (e *env) rpcAnswer(msg func(xid uint32) []byte) *rpc.Reply {
	e.t.Helper()
	h := e.header(rpcrdma.RDMA_MSG)
	a := e.send(h, msg(h.XID))
	require.Equal(e.t, rpcrdma.RDMA_MSG, a.h.Proc, "%v", &a.h)
	return &a.rpc
}

func TestRPCErrors(t *testing.T) {
	e := newEnv(t, envOpt{})
	sys := e.auth
	accepted := func(s rpc.AcceptStat) rpc.Reply { return rpc.Reply{Accept: s} }
	authError := func(s rpc.AuthStat) rpc.Reply {
		return rpc.Reply{Stat: rpc.MSG_DENIED, Reject: rpc.AUTH_ERROR, Auth: s}
	}
	call := func(c rpc.Call) func(uint32) []byte {
		return func(xid uint32) []byte {
			c.XID = xid
			return rpc.AppendCall(nil, &c)
		}
	}
	null := rpc.Call{Prog: nfs3.Program, Vers: nfs3.Version, Cred: sys}
	with := func(f func(*rpc.Call)) func(uint32) []byte {
		c := null
		f(&c)
		return call(c)
	}
	for _, c := range []struct {
		name    string
		msg     func(uint32) []byte
		want    rpc.Reply
		counter string
	}{
		{"NULL", call(null), accepted(rpc.SUCCESS), ""},
		{"another program", with(func(c *rpc.Call) { c.Prog = 100099 }), accepted(rpc.PROG_UNAVAIL), "rpc_prog_unavail"},
		{"NFS 4", with(func(c *rpc.Call) { c.Vers = 4 }), rpc.Reply{Accept: rpc.PROG_MISMATCH, Low: 3, High: 3}, "rpc_prog_mismatch"},
		{"MOUNT 1", with(func(c *rpc.Call) { c.Prog, c.Vers = mount3.Program, 1 }), rpc.Reply{Accept: rpc.PROG_MISMATCH, Low: 3, High: 3}, "rpc_prog_mismatch"},
		{"NFS procedure 22", with(func(c *rpc.Call) { c.Proc = 22 }), accepted(rpc.PROC_UNAVAIL), "rpc_proc_unavail"},
		{"MOUNT procedure 6", with(func(c *rpc.Call) { c.Prog, c.Proc = mount3.Program, 6 }), accepted(rpc.PROC_UNAVAIL), "rpc_proc_unavail"},
		{"no arguments", with(func(c *rpc.Call) { c.Proc = 1 }), accepted(rpc.GARBAGE_ARGS), "rpc_garbage_args"},
		{"RPC version 3", func(xid uint32) []byte {
			b := call(null)(xid)
			b[11] = 3
			return b
		}, rpc.Reply{Stat: rpc.MSG_DENIED, Reject: rpc.RPC_MISMATCH, Low: 2, High: 2}, "rpc_mismatch"},
		{"a header cut short", func(xid uint32) []byte { return call(null)(xid)[:30] }, accepted(rpc.GARBAGE_ARGS), "bad_rpc"},
		{"no message", func(uint32) []byte { return nil }, accepted(rpc.GARBAGE_ARGS), "bad_rpc"},
		{"AUTH_NONE", with(func(c *rpc.Call) { c.Cred = rpc.Auth{} }), accepted(rpc.SUCCESS), ""},
		{"AUTH_NONE with a body", with(func(c *rpc.Call) { c.Cred = rpc.Auth{Body: make([]byte, 4)} }), authError(rpc.AUTH_BADCRED), "rpc_auth_error"},
		{"AUTH_SYS cut short", with(func(c *rpc.Call) { c.Cred.Body = c.Cred.Body[:8] }), authError(rpc.AUTH_BADCRED), "rpc_auth_error"},
		{"AUTH_SYS with bytes behind", with(func(c *rpc.Call) { c.Cred.Body = append(slices.Clone(c.Cred.Body), 0, 0, 0, 0) }), authError(rpc.AUTH_BADCRED), "rpc_auth_error"},
		{"AUTH_SYS with 17 groups", with(func(c *rpc.Call) {
			b := rpc.AppendAuthSys(nil, &rpc.AuthSys{})
			b[len(b)-1] = 17
			c.Cred.Body = append(b, make([]byte, 4*17)...)
		}), authError(rpc.AUTH_BADCRED), "rpc_auth_error"},
		{"RPCSEC_GSS", with(func(c *rpc.Call) { c.Cred.Flavor = rpc.RPCSEC_GSS }), authError(rpc.AUTH_REJECTEDCRED), "rpc_auth_error"},
		{"a verifier", with(func(c *rpc.Call) { c.Verf = rpc.Auth{Flavor: rpc.AUTH_SYS} }), authError(rpc.AUTH_BADVERF), "rpc_auth_error"},
		{"a credential of 404 bytes", with(func(c *rpc.Call) { c.Cred.Body = make([]byte, 404) }), authError(rpc.AUTH_BADCRED), "rpc_auth_error"},
		{"a verifier of 404 bytes", with(func(c *rpc.Call) { c.Verf.Body = make([]byte, 404) }), authError(rpc.AUTH_BADVERF), "rpc_auth_error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := uint64(0)
			if c.counter != "" {
				before = e.counter(c.counter)
			}
			got := *e.rpcAnswer(c.msg)
			c.want.XID, c.want.Verf = got.XID, rpc.Auth{}
			got.Verf = rpc.Auth{}
			assert.Equal(t, c.want.String(), got.String())
			if c.counter != "" {
				assert.Equal(t, before+1, e.counter(c.counter))
			}
		})
	}
	// A reply is no call, and gets no answer.
	h := e.header(rpcrdma.RDMA_MSG)
	require.NoError(t, e.peer.Send(bg, append(rpcrdma.AppendHeader(nil, h), rpc.AppendReplySuccess(nil, h.XID)...)))
	e.wantAlive()
	assert.EqualValues(t, 1, e.counter("bad_reverse"))
}

// TestTruncatedCalls cuts calls of all procedures at every length: each gets some answer.
func TestTruncatedCalls(t *testing.T) {
	e := newEnv(t, envOpt{})
	f := e.newFile("f", pattern(100, 0))
	for proc := range nfs3.Proc(nfs3.NumProcs) {
		args := e.someArgs(proc, f)
		for n := range args {
			h := e.header(rpcrdma.RDMA_MSG)
			a := e.send(h, e.rpcCall(h.XID, proc, args[:n]))
			require.Equal(t, rpcrdma.RDMA_MSG, a.h.Proc)
			assert.Equal(t, rpc.GARBAGE_ARGS, a.rpc.Accept, "%v cut at %d of %d", proc, n, len(args))
		}
	}
}

// someArgs are arguments of proc that parse.
func (e *env) someArgs(proc nfs3.Proc, f nfs3.FH) []byte {
	where := dirOp(e.root, "name")
	switch proc {
	case nfs3.GETATTR:
		return nfs3.AppendGetattrArgs(nil, &nfs3.GetattrArgs{Object: f})
	case nfs3.SETATTR:
		return nfs3.AppendSetattrArgs(nil, &nfs3.SetattrArgs{Object: f, Attr: nfs3.Sattr3{SetMode: true, Mode: 0o600}})
	case nfs3.LOOKUP:
		return nfs3.AppendLookupArgs(nil, &nfs3.LookupArgs{What: where})
	case nfs3.ACCESS:
		return nfs3.AppendAccessArgs(nil, &nfs3.AccessArgs{Object: f, Access: 63})
	case nfs3.READLINK:
		return nfs3.AppendReadlinkArgs(nil, &nfs3.ReadlinkArgs{Symlink: f})
	case nfs3.READ:
		return e.readArgs(f, 0, 100)
	case nfs3.WRITE:
		return nfs3.AppendWriteArgs(nil, &nfs3.WriteArgs{File: f, Count: 9, Data: []byte("ninebytes")})
	case nfs3.CREATE:
		return nfs3.AppendCreateArgs(nil, &nfs3.CreateArgs{Where: where})
	case nfs3.MKDIR:
		return nfs3.AppendMkdirArgs(nil, &nfs3.MkdirArgs{Where: where})
	case nfs3.SYMLINK:
		return nfs3.AppendSymlinkArgs(nil, &nfs3.SymlinkArgs{Where: where, Path: []byte("target")})
	case nfs3.MKNOD:
		return nfs3.AppendMknodArgs(nil, &nfs3.MknodArgs{Where: where, Type: nfs3.NF3CHR})
	case nfs3.REMOVE:
		return nfs3.AppendRemoveArgs(nil, &nfs3.RemoveArgs{Object: where})
	case nfs3.RMDIR:
		return nfs3.AppendRmdirArgs(nil, &nfs3.RmdirArgs{Object: where})
	case nfs3.RENAME:
		return nfs3.AppendRenameArgs(nil, &nfs3.RenameArgs{From: where, To: where})
	case nfs3.LINK:
		return nfs3.AppendLinkArgs(nil, &nfs3.LinkArgs{File: f, Link: where})
	case nfs3.READDIR:
		return nfs3.AppendReaddirArgs(nil, &nfs3.ReaddirArgs{Dir: e.root, Count: 1000})
	case nfs3.READDIRPLUS:
		return nfs3.AppendReaddirplusArgs(nil, &nfs3.ReaddirplusArgs{Dir: e.root, DirCount: 1000, MaxCount: 2000})
	case nfs3.FSSTAT:
		return nfs3.AppendFsstatArgs(nil, &nfs3.FsstatArgs{Root: e.root})
	case nfs3.FSINFO:
		return nfs3.AppendFsinfoArgs(nil, &nfs3.FsinfoArgs{Root: e.root})
	case nfs3.PATHCONF:
		return nfs3.AppendPathconfArgs(nil, &nfs3.PathconfArgs{Object: e.root})
	case nfs3.COMMIT:
		return nfs3.AppendCommitArgs(nil, &nfs3.CommitArgs{File: f})
	}
	return nil
}

func (e *env) mountCall(proc mount3.Proc, args []byte) []byte {
	e.t.Helper()
	h := e.header(rpcrdma.RDMA_MSG)
	a := e.send(h, append(rpc.AppendCall(nil, &rpc.Call{XID: h.XID, Prog: mount3.Program, Vers: mount3.Version, Proc: uint32(proc), Cred: e.auth}), args...))
	require.True(e.t, a.rpc.OK(), "%v", &a.rpc)
	return a.body
}

func TestMount(t *testing.T) {
	a, b := memfs.New(memfs.Options{RootMode: 0o777}), memfs.New(memfs.Options{})
	e := newEnv(t, envOpt{cfg: nfsserver.Config{Exports: []nfsserver.Export{{Path: "/data", FS: a}, {Path: "/data/inner", FS: b}}}})
	e.fs = a
	sub := e.mkdir(e.root, "sub", 0o755).Object.FH
	deep := e.mkdir(sub, "deep", 0o755).Object.FH
	e.newFile("file", nil)
	mnt := func(path string) *mount3.MntRes {
		var r mount3.MntRes
		body := e.mountCall(mount3.MNT, mount3.AppendPathArgs(nil, &mount3.PathArgs{Path: []byte(path)}))
		_, err := mount3.ConsumeMntRes(body, &r)
		require.NoError(t, err)
		return &r
	}
	for path, want := range map[string]nfs3.FH{
		"/data": e.root, "/data/": e.root, "/data/sub": sub, "/data/sub/deep/": deep, "/data/inner": e.rootFH(b, 2), "/data/sub/..": e.root,
	} {
		r := mnt(path)
		assert.Equal(t, mount3.MNT3_OK, r.Status, path)
		assert.Equal(t, want, r.FH, path)
		assert.Contains(t, r.Flavors, rpc.AUTH_SYS)
	}
	for path, want := range map[string]mount3.Status{
		"/": mount3.MNT3ERR_ACCES, "": mount3.MNT3ERR_ACCES, "data": mount3.MNT3ERR_ACCES, "/datax": mount3.MNT3ERR_ACCES,
		"/data/none": mount3.MNT3ERR_NOENT, "/data/file": mount3.MNT3ERR_NOTDIR, "/data/file/x": mount3.MNT3ERR_NOTDIR,
	} {
		assert.Equal(t, want, mnt(path).Status, path)
	}
	dump := func() []string {
		var r mount3.DumpRes
		_, err := mount3.ConsumeDumpRes(e.mountCall(mount3.DUMP, nil), &r)
		require.NoError(t, err)
		var out []string
		for _, m := range r.Mounts {
			out = append(out, string(m.Hostname)+" "+string(m.Path))
		}
		return out
	}
	assert.Len(t, dump(), 6)
	assert.Contains(t, dump(), "client /data/sub")
	e.mountCall(mount3.UMNT, mount3.AppendPathArgs(nil, &mount3.PathArgs{Path: []byte("/data/sub")}))
	assert.NotContains(t, dump(), "client /data/sub")
	e.mountCall(mount3.UMNTALL, nil)
	assert.Empty(t, dump())
	var ex mount3.ExportRes
	_, err := mount3.ConsumeExportRes(e.mountCall(mount3.EXPORT, nil), &ex)
	require.NoError(t, err)
	require.Len(t, ex.Exports, 2)
	assert.Equal(t, "/data", string(ex.Exports[0].Path))
	assert.Empty(t, e.mountCall(mount3.NULL, nil))

	h := e.header(rpcrdma.RDMA_MSG)
	long := xdr.AppendString(nil, strings.Repeat("x", 1025))
	assert.Equal(t, rpc.GARBAGE_ARGS, e.send(h, append(rpc.AppendCall(nil, &rpc.Call{XID: h.XID, Prog: mount3.Program, Vers: 3, Proc: 1, Cred: e.auth}), long...)).rpc.Accept)
}
