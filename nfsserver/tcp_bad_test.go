package nfsserver_test

import (
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/mount3"
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/nfsserver/vfs"
)

// rawTCP is a client that writes what it likes.
type rawTCP struct {
	t   testing.TB
	c   net.Conn
	xid uint32
}

func dialRaw(t testing.TB, srv *nfsserver.Server) *rawTCP {
	t.Helper()
	c, err := net.Dial("tcp", srv.TCPAddrs()[0])
	require.NoError(t, err)
	require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second))) // so that a failure does not hang
	t.Cleanup(func() { c.Close() })
	return &rawTCP{t: t, c: c, xid: rand.Uint32()}
}

// call makes a call message.
func (r *rawTCP) call(prog, vers, proc uint32, args []byte) []byte {
	r.xid++
	return append(rpc.AppendCall(nil, &rpc.Call{XID: r.xid, Prog: prog, Vers: vers, Proc: proc, Cred: rootCred()}), args...)
}

func rootCred() rpc.Auth {
	return rpc.Auth{Flavor: rpc.AUTH_SYS, Body: rpc.AppendAuthSys(nil, &rpc.AuthSys{Machine: []byte("raw")})}
}

// send sends a record in fragments of so many bytes; 0 is one.
func (r *rawTCP) send(msg []byte, size int) {
	r.t.Helper()
	var b []byte
	for {
		n := len(msg)
		if size > 0 {
			n = min(n, size)
		}
		last := n == len(msg)
		b = append(rpc.AppendRecordMark(b, n, last), msg[:n]...)
		if msg = msg[n:]; last {
			break
		}
	}
	r.write(b)
}

func (r *rawTCP) write(b []byte) {
	r.t.Helper()
	_, err := r.c.Write(b)
	require.NoError(r.t, err)
}

// recv gives the next reply and its results.
func (r *rawTCP) recv() (p rpc.Reply, body []byte) {
	r.t.Helper()
	var mark [4]byte
	_, err := io.ReadFull(r.c, mark[:])
	require.NoError(r.t, err)
	n, last, _ := rpc.ConsumeRecordMark(mark[:])
	require.True(r.t, last)
	msg := make([]byte, n)
	_, err = io.ReadFull(r.c, msg)
	require.NoError(r.t, err)
	k, err := rpc.ConsumeReply(msg, &p)
	require.NoError(r.t, err)
	return p, msg[k:]
}

// wantNull says that the connection still works.
func (r *rawTCP) wantNull() {
	r.t.Helper()
	r.send(r.call(nfs3.Program, nfs3.Version, 0, nil), 0)
	p, _ := r.recv()
	require.True(r.t, p.OK(), "%v", &p)
	require.Equal(r.t, r.xid, p.XID)
}

// wantClosed waits for the server to end the connection.
func (r *rawTCP) wantClosed() {
	r.t.Helper()
	_, err := io.Copy(io.Discard, r.c)
	assert.NotErrorIs(r.t, err, os.ErrDeadlineExceeded, "the connection is still open")
}

// root is the handle of /.
func (r *rawTCP) root() nfs3.FH {
	r.t.Helper()
	r.send(r.call(mount3.Program, mount3.Version, uint32(mount3.MNT), mount3.AppendPathArgs(nil, &mount3.PathArgs{Path: []byte("/")})), 0)
	_, body := r.recv()
	var res mount3.MntRes
	_, err := mount3.ConsumeMntRes(body, &res)
	require.NoError(r.t, err)
	require.Equal(r.t, mount3.MNT3_OK, res.Status)
	return res.FH
}

// create makes a file.
func (r *rawTCP) create(name string) nfs3.FH {
	r.t.Helper()
	root := r.root()
	args := nfs3.CreateArgs{Where: nfs3.DirOp{Dir: root, Name: []byte(name)}}
	r.send(r.call(nfs3.Program, nfs3.Version, uint32(nfs3.CREATE), nfs3.AppendCreateArgs(nil, &args)), 0)
	_, body := r.recv()
	var res nfs3.CreateRes
	_, err := nfs3.ConsumeCreateRes(body, &res)
	require.NoError(r.t, err)
	require.Equal(r.t, nfs3.NFS3_OK, res.Status)
	return res.Object.FH
}

func (r *rawTCP) writeCall(fh nfs3.FH, off uint64, data []byte) []byte {
	args := nfs3.WriteArgs{File: fh, Offset: off, Count: uint32(len(data)), Stable: nfs3.UNSTABLE, Data: data}
	return r.call(nfs3.Program, nfs3.Version, uint32(nfs3.WRITE), nfs3.AppendWriteArgs(nil, &args))
}

func TestTCPProgramsAndVersions(t *testing.T) {
	srv, _ := newTCP(t)
	r := dialRaw(t, srv)
	const nfsACL, nlm, portmap = 100227, 100021, 100000
	for _, c := range []struct {
		prog, vers, proc uint32
		want             rpc.Reply
	}{
		{nfs3.Program, 3, 0, rpc.Reply{}},
		{mount3.Program, 3, 0, rpc.Reply{}},
		{nfsACL, 3, 0, rpc.Reply{Accept: rpc.PROG_UNAVAIL}},
		{nlm, 4, 0, rpc.Reply{Accept: rpc.PROG_UNAVAIL}},
		{portmap, 2, 0, rpc.Reply{Accept: rpc.PROG_UNAVAIL}},
		{nfs3.Program, 4, 0, rpc.Reply{Accept: rpc.PROG_MISMATCH, Low: 3, High: 3}},
		{nfs3.Program, 2, 0, rpc.Reply{Accept: rpc.PROG_MISMATCH, Low: 3, High: 3}},
		{mount3.Program, 1, 0, rpc.Reply{Accept: rpc.PROG_MISMATCH, Low: 3, High: 3}},
		{nfs3.Program, 3, 22, rpc.Reply{Accept: rpc.PROC_UNAVAIL}},
		{mount3.Program, 3, 6, rpc.Reply{Accept: rpc.PROC_UNAVAIL}},
		{nfs3.Program, 3, uint32(nfs3.GETATTR), rpc.Reply{Accept: rpc.GARBAGE_ARGS}},
	} {
		r.send(r.call(c.prog, c.vers, c.proc, nil), 0)
		got, _ := r.recv()
		c.want.XID = r.xid
		got.Verf.Body = nil
		assert.Equal(t, c.want, got, "program %d version %d procedure %d", c.prog, c.vers, c.proc)
	}
	// AUTH_NONE, as a mount command sends its NULL.
	r.send(rpc.AppendCall(nil, &rpc.Call{XID: 7, Prog: mount3.Program, Vers: 3}), 0)
	got, _ := r.recv()
	assert.True(t, got.OK())
}

func TestTCPWritesInAnyFragments(t *testing.T) {
	srv, _ := newTCP(t)
	r := dialRaw(t, srv)
	fh := r.create("f")
	off := uint64(0)
	want := []byte{}
	for _, n := range []int{0, 1, 1000, 16_000, 17_000, 100_000, 1 << 20} {
		for _, size := range []int{0, 1000, 9000, 300_000} {
			data := randomBytes(n)
			r.send(r.writeCall(fh, off, data), size)
			p, body := r.recv()
			require.True(t, p.OK(), "%d bytes in fragments of %d: %v", n, size, &p)
			var res nfs3.WriteRes
			_, err := nfs3.ConsumeWriteRes(body, &res)
			require.NoError(t, err)
			require.Equal(t, nfs3.NFS3_OK, res.Status)
			require.EqualValues(t, n, res.Count)
			off += uint64(n)
			want = append(want, data...)
		}
	}
	m := mountTCP(t, srv)
	got, err := m.ReadFile(bg, "f")
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

func TestTCPBadRecords(t *testing.T) {
	for _, c := range []struct {
		name string
		send func(r *rawTCP)
		got  func(s *nfsserver.Stats) uint64
	}{
		{"huge length", func(r *rawTCP) { r.write([]byte{0xff, 0xff, 0xff, 0xff}) }, func(s *nfsserver.Stats) uint64 { return s.TCP.TooLong }},
		{"longer than a call", func(r *rawTCP) { r.write(rpc.AppendRecordMark(nil, 1<<20+4097, true)) }, func(s *nfsserver.Stats) uint64 { return s.TCP.TooLong }},
		{"long in fragments", func(r *rawTCP) {
			for range 3 {
				r.write(append(rpc.AppendRecordMark(nil, 400_000, false), make([]byte, 400_000)...))
			}
		}, func(s *nfsserver.Stats) uint64 { return s.TCP.TooLong }},
		{"empty fragments", func(r *rawTCP) { r.write(make([]byte, 4*5000)) }, func(s *nfsserver.Stats) uint64 { return s.TCP.Fragments }},
		{"empty record", func(r *rawTCP) { r.write([]byte{0x80, 0, 0, 0}) }, func(s *nfsserver.Stats) uint64 { return s.TCP.Short }},
		{"no RPC message", func(r *rawTCP) { r.write([]byte{0x80, 0, 0, 4, 1, 2, 3, 4}) }, func(s *nfsserver.Stats) uint64 { return s.TCP.Short }},
		{"cut off", func(r *rawTCP) {
			r.write(append(rpc.AppendRecordMark(nil, 100, true), 1, 2, 3))
			_ = r.c.(*net.TCPConn).CloseWrite()
		}, func(s *nfsserver.Stats) uint64 { return s.TCP.Truncated }},
		{"half a mark", func(r *rawTCP) {
			r.write([]byte{0x80, 0})
			_ = r.c.(*net.TCPConn).CloseWrite()
		}, func(s *nfsserver.Stats) uint64 { return s.TCP.Truncated }},
		{"slow", func(r *rawTCP) { r.write(append(rpc.AppendRecordMark(nil, 100, true), 1)) }, func(s *nfsserver.Stats) uint64 { return s.TCP.Stalled }},
		{"data cut off", func(r *rawTCP) {
			b := r.writeCall(r.create("f"), 0, make([]byte, 500_000))
			r.write(append(rpc.AppendRecordMark(nil, len(b), true), b[:200_000]...))
			_ = r.c.(*net.TCPConn).CloseWrite()
		}, func(s *nfsserver.Stats) uint64 { return s.TCP.Truncated }},
		{"slow data", func(r *rawTCP) {
			b := r.writeCall(r.create("f"), 0, make([]byte, 500_000))
			r.write(append(rpc.AppendRecordMark(nil, len(b), true), b[:200_000]...))
		}, func(s *nfsserver.Stats) uint64 { return s.TCP.Stalled }},
		{"long call cut off", func(r *rawTCP) {
			r.write(append(rpc.AppendRecordMark(nil, 500_000, true), make([]byte, 200_000)...))
			_ = r.c.(*net.TCPConn).CloseWrite()
		}, func(s *nfsserver.Stats) uint64 { return s.TCP.Truncated }},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv, _ := newTCP(t, func(c *nfsserver.Config) { c.Stall = 100 * time.Millisecond })
			bystander := dialRaw(t, srv)
			bystander.wantNull()
			r := dialRaw(t, srv)
			r.wantNull()
			c.send(r)
			r.wantClosed()
			bystander.wantNull()
			st := srv.Stats()
			assert.EqualValues(t, 1, c.got(&st))
		})
	}
}

// TestTCPBadCallsKeepTheConnection: what is wrong with a call alone is answered, or dropped.
func TestTCPBadCallsKeepTheConnection(t *testing.T) {
	srv, _ := newTCP(t)
	r := dialRaw(t, srv)
	fh := r.create("f")

	// A reply: dropped.
	r.send(rpc.AppendReplySuccess(nil, 99), 0)
	r.wantNull()
	assert.EqualValues(t, 1, srv.Stats().TCP.Reverse)

	// Another version of RPC.
	b := r.call(nfs3.Program, 3, 0, nil)
	binary.BigEndian.PutUint32(b[8:], 3)
	r.send(b, 0)
	p, _ := r.recv()
	assert.Equal(t, rpc.MSG_DENIED, p.Stat)

	// Long garbage.
	b = r.call(nfs3.Program, 3, uint32(nfs3.LOOKUP), make([]byte, 300_000))
	for i := len(b) - 300_000; i < len(b); i++ {
		b[i] = 0xa5
	}
	r.send(b, 0)
	p, _ = r.recv()
	assert.Equal(t, rpc.GARBAGE_ARGS, p.Accept)

	// A WRITE whose data is shorter, or longer, than it says.
	for _, d := range []int{-40_000, -4, 4, 40_000} {
		b = r.writeCall(fh, 0, make([]byte, 100_000))
		if d < 0 {
			b = b[:len(b)+d]
		} else {
			b = append(b, make([]byte, d)...)
		}
		r.send(b, 0)
		p, _ = r.recv()
		if d < 0 {
			assert.Equal(t, rpc.GARBAGE_ARGS, p.Accept, "%d", d)
		} else {
			assert.True(t, p.OK(), "what follows the arguments is ignored, as elsewhere")
		}
	}

	// A WRITE to nothing: its data is passed over.
	args := nfs3.WriteArgs{File: fh, Count: 200_000, Data: make([]byte, 200_000)}
	bad, _ := nfs3.MakeFH([]byte("no such handle"))
	args.File = bad
	r.send(r.call(nfs3.Program, 3, uint32(nfs3.WRITE), nfs3.AppendWriteArgs(nil, &args)), 0)
	p, body := r.recv()
	require.True(t, p.OK())
	var res nfs3.WriteRes
	_, err := nfs3.ConsumeWriteRes(body, &res)
	require.NoError(t, err)
	assert.Equal(t, nfs3.NFS3ERR_BADHANDLE, res.Status)
	r.wantNull()
}

// TestTCPClientThatDoesNotRead costs its own slots only, and its connection after a while.
func TestTCPClientThatDoesNotRead(t *testing.T) {
	srv, _ := newTCP(t, func(c *nfsserver.Config) {
		c.Stall, c.Threads, c.Credits = 200*time.Millisecond, 2, 32
	})
	m := mountTCP(t, srv)
	require.NoError(t, m.WriteFile(bg, "f", randomBytes(1<<20), 0o644))
	r := dialRaw(t, srv)
	root := r.root()
	r.send(r.call(nfs3.Program, 3, uint32(nfs3.LOOKUP), nfs3.AppendLookupArgs(nil, &nfs3.LookupArgs{What: nfs3.DirOp{Dir: root, Name: []byte("f")}})), 0)
	_, body := r.recv()
	var l nfs3.LookupRes
	_, err := nfs3.ConsumeLookupRes(body, &l)
	require.NoError(t, err)
	for range 60 {
		r.send(r.call(nfs3.Program, 3, uint32(nfs3.READ), nfs3.AppendReadArgs(nil, &nfs3.ReadArgs{File: l.Object, Count: 1 << 20})), 0)
	}
	for range 50 { // the threads are free
		require.NoError(t, m.Null(bg))
	}
	for srv.Stats().TCP.Stalled == 0 {
		require.NoError(t, m.Null(bg))
	}
	r.wantClosed()
}

// heldFS holds FSSTAT.
type heldFS struct {
	vfs.FS
	hold, busy chan struct{}
}

func (f *heldFS) Stat(ctx context.Context) (vfs.Stat, error) {
	f.busy <- struct{}{}
	<-f.hold
	return f.FS.Stat(ctx)
}

func TestTCPSlotsBoundAConnection(t *testing.T) {
	slow := &heldFS{FS: memfs.New(memfs.Options{}), hold: make(chan struct{}), busy: make(chan struct{}, 100)}
	srv, err := nfsserver.New(nfsserver.Config{TCP: []string{"127.0.0.1:0"}, Credits: 3, Threads: 8,
		Exports: []nfsserver.Export{{FS: slow}}})
	require.NoError(t, err)
	defer srv.Close()
	r := dialRaw(t, srv)
	root := r.root()
	for range 10 {
		r.send(r.call(nfs3.Program, 3, uint32(nfs3.FSSTAT), nfs3.AppendFsstatArgs(nil, &nfs3.FsstatArgs{Root: root})), 0)
	}
	for range 3 {
		<-slow.busy
	}
	for srv.Stats().TCP.SlotWait == 0 { // the reader waits with the fourth
		dialRaw(t, srv).wantNull()
	}
	assert.Equal(t, 3, srv.Outstanding())
	assert.Empty(t, slow.busy)
	close(slow.hold)
	for range 10 {
		p, _ := r.recv()
		assert.True(t, p.OK())
	}
}

func TestTCPMaxConns(t *testing.T) {
	srv, _ := newTCP(t, func(c *nfsserver.Config) { c.MaxConns = 2 })
	a, b := dialRaw(t, srv), dialRaw(t, srv)
	a.wantNull()
	b.wantNull()
	dialRaw(t, srv).wantClosed()
	assert.EqualValues(t, 1, srv.Stats().TCP.Rejected)
	a.wantNull()
}

// TestTCPDuplicateRequest: a call that is sent again over another connection is not executed again.
func TestTCPDuplicateRequest(t *testing.T) {
	srv, _ := newTCP(t)
	r := dialRaw(t, srv)
	root := r.root()
	args := nfs3.CreateArgs{Where: nfs3.DirOp{Dir: root, Name: []byte("once")}, Mode: nfs3.GUARDED}
	b := r.call(nfs3.Program, 3, uint32(nfs3.CREATE), nfs3.AppendCreateArgs(nil, &args))
	var first []byte
	for i := range 3 {
		r.send(b, 0)
		p, body := r.recv()
		require.True(t, p.OK())
		if i == 0 {
			first = body
		}
		assert.Equal(t, first, body)
		require.NoError(t, r.c.Close())
		r = dialRaw(t, srv)
	}
	assert.EqualValues(t, 2, srv.Stats().DRCHits)
}

// TestTCPGarbage sends streams of good calls with some bytes changed, cut and repeated.
func TestTCPGarbage(t *testing.T) {
	srv, _ := newTCP(t, func(c *nfsserver.Config) { c.Stall = 100 * time.Millisecond })
	maker := dialRaw(t, srv)
	fh := maker.create("f")
	rng := rand.New(rand.NewPCG(1, 2))
	for range 150 {
		r := dialRaw(t, srv)
		var b []byte
		for range 1 + rng.IntN(6) {
			var msg []byte
			switch rng.IntN(3) {
			case 0:
				msg = r.writeCall(fh, 0, make([]byte, []int{10, 20_000, 60_000}[rng.IntN(3)]))
			case 1:
				msg = r.call(nfs3.Program, 3, rng.Uint32N(23), nfs3.AppendReadArgs(nil, &nfs3.ReadArgs{File: fh, Count: 9000}))
			default:
				msg = r.call(mount3.Program, 3, rng.Uint32N(7), mount3.AppendPathArgs(nil, &mount3.PathArgs{Path: []byte("/")}))
			}
			b = append(rpc.AppendRecordMark(b, len(msg), rng.IntN(8) > 0), msg...)
		}
		for range rng.IntN(4) {
			b[rng.IntN(len(b))] ^= byte(1 << rng.IntN(8))
		}
		_, _ = r.c.Write(b[:rng.IntN(len(b)+1)]) // the server may have ended the connection
		_ = r.c.(*net.TCPConn).CloseWrite()
		r.wantClosed()
	}
	maker.wantNull()
}
