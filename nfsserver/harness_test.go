package nfsserver_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/link"
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/svcrdma/rawpeer"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/nfsserver/vfs"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
)

var bg = context.Background()

// env is a server on one device of a network, and a raw peer on another.
type env struct {
	t    testing.TB
	s    *sched.Sched
	net  *softroce.Network
	sdev *softroce.Device
	cdev *softroce.Device
	srv  *nfsserver.Server
	fs   *memfs.FS // of the first export, if it is one
	peer *rawpeer.Peer
	xid  uint32
	auth rpc.Auth
	root nfs3.FH
}

type envOpt struct {
	live        bool
	seed        uint64
	personality *softroce.Personality
	cfg         nfsserver.Config // Device and Sched are set; no Exports: "/" is a memfs
	memfs       memfs.Options
	peer        rawpeer.Config
	noPeer      bool
	noPrivate   bool         // the peer sends no private data
	link        *link.Config // nil: a direct wire
}

// newEnv makes an env that is torn down, and checked for leaks, at the end of the test.
func newEnv(t testing.TB, o envOpt) *env {
	t.Helper()
	e := &env{t: t, xid: 0x1000}
	if o.live {
		e.s = sched.NewLive(o.seed)
	} else {
		e.s = sched.NewVirtual(o.seed)
	}
	e.net = softroce.NewNetwork(e.s, softroce.NetConfig{Link: o.link})
	p := softroce.RoCE
	if o.personality != nil {
		p = *o.personality
	}
	var err error
	e.sdev, err = e.net.NewDevice("server", p)
	require.NoError(t, err)
	e.cdev, err = e.net.NewDevice("client", p)
	require.NoError(t, err)
	cfg := o.cfg
	cfg.Device, cfg.Sched = e.sdev, e.s
	if len(cfg.Exports) == 0 {
		o.memfs.RootMode = 0o777
		e.fs = memfs.New(o.memfs)
		cfg.Exports = []nfsserver.Export{{FS: e.fs}}
	}
	e.srv, err = nfsserver.New(cfg)
	require.NoError(t, err)
	e.setUID(0)
	if !o.noPeer {
		e.peer = e.dial(o)
		e.root = e.rootFH(cfg.Exports[0].FS, 1)
	}
	t.Cleanup(e.close)
	return e
}

func (e *env) dial(o envOpt) *rawpeer.Peer {
	e.t.Helper()
	pc := o.peer
	pc.Device, pc.Sched, pc.Addr = e.cdev, e.s, e.srv.Addr()
	if pc.PrivateData == nil && !o.noPrivate {
		// Plain regions cannot be invalidated, so that is not offered.
		pc.PrivateData = rpcrdma.AppendPrivateData(nil, rpcrdma.PrivateData{SendSize: 4096, RecvSize: 4096})
	}
	p, err := rawpeer.Dial(bg, pc)
	require.NoError(e.t, err)
	return p
}

func (e *env) close() {
	if e.peer != nil {
		e.peer.Close()
	}
	assert.NoError(e.t, e.srv.Close())
	if e.fs != nil {
		assert.Zero(e.t, e.fs.Pinned(), "pages that are still lent")
		assert.NoError(e.t, e.fs.CheckConsistent())
	}
	assert.Equal(e.t, verbs.Resources{}, e.sdev.Resources(), "server device")
	assert.Equal(e.t, verbs.Resources{}, e.cdev.Resources(), "client device")
	assert.NoError(e.t, e.sdev.Close())
	assert.NoError(e.t, e.cdev.Close())
	assert.NoError(e.t, e.net.Close())
	if e.s.Virtual() { // live, the goroutine of a task ends a little later
		assert.Empty(e.t, e.s.Tasks())
	}
	assert.NoError(e.t, e.s.Close())
}

// rootFH makes the handle of a file system's root as the server does.
func (e *env) rootFH(fs vfs.FS, fsid uint32) nfs3.FH {
	return nfsserver.MakeHandle(fsid, fs.Root())
}

// setUID makes later calls come from uid and, as its group, gid uid.
func (e *env) setUID(uid uint32, groups ...uint32) {
	sys := rpc.AuthSys{Machine: []byte("test"), UID: uid, GID: uid, NumGIDs: len(groups)}
	copy(sys.GIDs[:], groups)
	e.auth = rpc.Auth{Flavor: rpc.AUTH_SYS, Body: rpc.AppendAuthSys(nil, &sys)}
}

// rpcCall encodes an NFS call with the env's credential.
func (e *env) rpcCall(xid uint32, proc nfs3.Proc, args []byte) []byte {
	return append(rpc.AppendCall(nil, &rpc.Call{XID: xid, Prog: nfs3.Program, Vers: nfs3.Version, Proc: uint32(proc), Cred: e.auth}), args...)
}

func (e *env) nextXID() uint32 {
	e.xid++
	return e.xid
}

// header gives a header for the next call.
func (e *env) header(proc rpcrdma.Proc) *rpcrdma.Header {
	h := &rpcrdma.Header{}
	h.Reset()
	h.XID, h.Proc, h.Credits = e.nextXID(), proc, 32
	return h
}

// answer is a decoded message of the server.
type answer struct {
	h    rpcrdma.Header
	rpc  rpc.Reply
	body []byte // results
	msg  rawpeer.Msg
}

// exchange sends a message and decodes the answer.
func (e *env) exchange(msg []byte) *answer {
	e.t.Helper()
	require.NoError(e.t, e.peer.Send(bg, msg))
	return e.answer()
}

func (e *env) answer() *answer {
	e.t.Helper()
	m, err := e.peer.Recv(bg)
	require.NoError(e.t, err)
	a := &answer{msg: m}
	n, err := rpcrdma.ConsumeHeader(m.Bytes, &a.h, 0)
	require.NoError(e.t, err, "header of %x", m.Bytes)
	assert.NotZero(e.t, a.h.Credits, "C02: credits granted")
	assert.Empty(e.t, a.h.Reads, "C21: Read list of a reply")
	if a.h.Proc == rpcrdma.RDMA_MSG {
		e.decodeRPC(a, m.Bytes[n:])
	}
	return a
}

func (e *env) decodeRPC(a *answer, b []byte) {
	e.t.Helper()
	n, err := rpc.ConsumeReply(b, &a.rpc)
	require.NoError(e.t, err, "RPC reply %x", b)
	assert.Equal(e.t, a.h.XID, a.rpc.XID, "C18: XIDs of header and reply")
	a.body = b[n:]
}

// send encodes a header and an RPC message, and exchanges.
func (e *env) send(h *rpcrdma.Header, rpcMsg []byte) *answer {
	e.t.Helper()
	a := e.exchange(append(rpcrdma.AppendHeader(nil, h), rpcMsg...))
	assert.Equal(e.t, h.XID, a.h.XID, "XID of the answer")
	return a
}

// call sends a call inline, and wants a SUCCESS.
func (e *env) call(proc nfs3.Proc, args []byte) []byte {
	e.t.Helper()
	h := e.header(rpcrdma.RDMA_MSG)
	a := e.send(h, e.rpcCall(h.XID, proc, args))
	require.Equal(e.t, rpcrdma.RDMA_MSG, a.h.Proc, "answer to %v: %v", proc, &a.h)
	require.True(e.t, a.rpc.OK(), "answer to %v: %v", proc, &a.rpc)
	return a.body
}

// wantError wants an RDMA_ERROR with the XID and version of h (C30).
func (e *env) wantError(a *answer, h *rpcrdma.Header, code rpcrdma.ErrCode) {
	e.t.Helper()
	require.Equal(e.t, rpcrdma.RDMA_ERROR, a.h.Proc, "answer %v, RPC %v", &a.h, &a.rpc)
	assert.Equal(e.t, code, a.h.Err)
	assert.Equal(e.t, h.XID, a.h.XID)
}

// wantAlive wants the connection to serve still.
func (e *env) wantAlive() {
	e.t.Helper()
	e.call(nfs3.NULL, nil)
}

// mem makes memory of the peer with the given rights.
func (e *env) mem(n int, access verbs.Access) verbs.MR {
	e.t.Helper()
	mr, err := e.peer.Mem(n, access)
	require.NoError(e.t, err)
	return mr
}

const (
	sink   = verbs.LocalWrite | verbs.RemoteWrite
	source = verbs.LocalWrite | verbs.RemoteRead
)

// seg is a segment of mr.
func seg(mr verbs.MR, off, n int) rpcrdma.Segment {
	return rpcrdma.Segment{Handle: mr.RKey(), Length: uint32(n), Offset: mr.Addr() + uint64(off)}
}

// pattern is n bytes that differ with their place and the seed.
func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7+i>>8*13) + seed
	}
	return b
}

// do calls a procedure inline and decodes its result.
func do[A, R any](e *env, proc nfs3.Proc, add func([]byte, *A) []byte, args *A, consume func([]byte, *R) (int, error)) *R {
	e.t.Helper()
	body := e.call(proc, add(nil, args))
	var r R
	n, err := consume(body, &r)
	require.NoError(e.t, err)
	require.Equal(e.t, len(body), n, "bytes behind the result of %v", proc)
	return &r
}

func (e *env) getattr(fh nfs3.FH) *nfs3.GetattrRes {
	e.t.Helper()
	return do(e, nfs3.GETATTR, nfs3.AppendGetattrArgs, &nfs3.GetattrArgs{Object: fh}, nfs3.ConsumeGetattrRes)
}

func (e *env) lookup(dir nfs3.FH, name string) *nfs3.LookupRes {
	e.t.Helper()
	return do(e, nfs3.LOOKUP, nfs3.AppendLookupArgs, &nfs3.LookupArgs{What: nfs3.DirOp{Dir: dir, Name: []byte(name)}}, nfs3.ConsumeLookupRes)
}

func (e *env) create(dir nfs3.FH, name string, mode uint32) *nfs3.CreateRes {
	e.t.Helper()
	return do(e, nfs3.CREATE, nfs3.AppendCreateArgs, &nfs3.CreateArgs{
		Where: nfs3.DirOp{Dir: dir, Name: []byte(name)}, Attr: nfs3.Sattr3{SetMode: true, Mode: mode},
	}, nfs3.ConsumeCreateRes)
}

func (e *env) mkdir(dir nfs3.FH, name string, mode uint32) *nfs3.MkdirRes {
	e.t.Helper()
	return do(e, nfs3.MKDIR, nfs3.AppendMkdirArgs, &nfs3.MkdirArgs{
		Where: nfs3.DirOp{Dir: dir, Name: []byte(name)}, Attr: nfs3.Sattr3{SetMode: true, Mode: mode},
	}, nfs3.ConsumeMkdirRes)
}

// newFile makes a file with data in it.
func (e *env) newFile(name string, data []byte) nfs3.FH {
	e.t.Helper()
	r := e.create(e.root, name, 0o644)
	require.Equal(e.t, nfs3.NFS3_OK, r.Status)
	id := e.idOf(r.Object.FH)
	if len(data) > 0 {
		require.NoError(e.t, e.fs.Write(bg, id, 0, data, true, &vfs.WCC{}))
	}
	return r.Object.FH
}

func (e *env) idOf(fh nfs3.FH) vfs.ID {
	e.t.Helper()
	id, ok := nfsserver.HandleID(fh)
	require.True(e.t, ok)
	return id
}

// contents reads a file through the file system.
func (e *env) contents(fh nfs3.FH) []byte {
	e.t.Helper()
	var a vfs.Attr
	require.NoError(e.t, e.fs.Attr(bg, e.idOf(fh), &a))
	b := make([]byte, a.Size)
	n, _, err := e.fs.Read(bg, e.idOf(fh), 0, b, &a)
	require.NoError(e.t, err)
	return b[:n]
}

// counter is a count of the server by name.
func (e *env) counter(name string) uint64 {
	e.t.Helper()
	st := e.srv.Stats()
	for _, c := range st.Counters() {
		if c.Name == name {
			return c.Value
		}
	}
	e.t.Fatalf("no counter %q", name)
	return 0
}

// wantCount runs f, and wants the counter to grow by n.
func (e *env) wantCount(name string, n int, f func()) {
	e.t.Helper()
	before := e.counter(name)
	f()
	assert.Equal(e.t, before+uint64(n), e.counter(name), name)
}

func (e *env) readArgs(fh nfs3.FH, off uint64, n uint32) []byte {
	return nfs3.AppendReadArgs(nil, &nfs3.ReadArgs{File: fh, Offset: off, Count: n})
}

// writeHead encodes a WRITE up to the data's count word.
func (e *env) writeHead(fh nfs3.FH, off uint64, n int, stable nfs3.StableHow) []byte {
	return nfs3.AppendWriteArgsHead(nil, &nfs3.WriteArgs{File: fh, Offset: off, Count: uint32(n), Stable: stable}, uint32(n))
}

func (e *env) writeRes(a *answer) *nfs3.WriteRes {
	e.t.Helper()
	require.Equal(e.t, rpcrdma.RDMA_MSG, a.h.Proc, "answer %v", &a.h)
	require.True(e.t, a.rpc.OK(), "%v", &a.rpc)
	var r nfs3.WriteRes
	_, err := nfs3.ConsumeWriteRes(a.body, &r)
	require.NoError(e.t, err)
	return &r
}

func (e *env) readRes(a *answer, reduced bool) *nfs3.ReadRes {
	e.t.Helper()
	require.True(e.t, a.rpc.OK(), "%v %v", &a.h, &a.rpc)
	var r nfs3.ReadRes
	if !reduced {
		n, err := nfs3.ConsumeReadRes(a.body, &r)
		require.NoError(e.t, err)
		require.Equal(e.t, len(a.body), n)
		return &r
	}
	dataLen, n, err := nfs3.ConsumeReadResHead(a.body, &r)
	require.NoError(e.t, err)
	require.Equal(e.t, len(a.body), n, "bytes behind a reduced result")
	require.Equal(e.t, r.Count, dataLen)
	return &r
}

func okStatus(t testing.TB, st nfs3.Status) {
	t.Helper()
	require.Equal(t, nfs3.NFS3_OK, st)
}

// newLinkEnv has a link of 8 Gb/s and 20 us, so that work is outstanding for a while.
func newLinkEnv(t testing.TB, cfg nfsserver.Config) *env {
	t.Helper()
	return newEnv(t, envOpt{cfg: cfg, link: &link.Config{BitsPerSecond: 8e9, Delay: 20 * time.Microsecond}})
}
