package conformance

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/svcrdma/rawpeer"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
)

// Target is a server to check: where it is, and over which device.
type Target struct {
	Device verbs.Device
	Sched  *sched.Sched
	Addr   string // "host:port"
	Export string // a directory that may be written to

	MountAddr string // where MOUNT is asked over TCP; "": over the connection itself
	UID, GID  uint32
}

// responderRun is a check of a server: a raw requester, and a client that prepares files.
type responderRun struct {
	run
	t     Target
	own   *nfsserver.Server // nil: not ours
	m     *nfsclient.Mount
	peer  *rawpeer.Peer
	priv  rpcrdma.PrivateData // the server's
	mine  rpcrdma.PrivateData
	cred  rpc.Auth
	xid   uint32
	names []string // to be removed
	regs  []func() // free the peer's fast registrations
	close []func() // last first

	check  string    // its name, with the row's
	known  *Known    // of the server, or nil
	spared []Differs // cases that were not made, since they end the server's machine

	careful bool // cases that end a known server's machine are not made, though this one is not known
}

// answerWait is how long the server may take, and how long one waits to see that no answer comes.
const answerWait = 5 * sched.Second

// checkTime is how long a check may take: one end that does not give up is a broken rule, not a hang.
const checkTime = 1200 * sched.Second

// defaultPrivate is what the raw requester offers. Its plain regions cannot be invalidated.
var defaultPrivate = rpcrdma.PrivateData{SendSize: 4096, RecvSize: 4096}

// begin takes t, or a server of its own if t is nil.
func (r *responderRun) begin(t *Target, seed uint64) {
	r.xid = 0x43000000
	if t != nil {
		r.t = *t
	} else {
		r.startOwn(seed, nfsserver.Config{})
	}
	var cancel context.CancelFunc
	r.ctx, cancel = r.t.Sched.WithTimeout(r.ctx, checkTime)
	r.defers(cancel)
	sys := rpc.AuthSys{Machine: []byte("conformance"), UID: r.t.UID, GID: r.t.GID}
	r.cred = rpc.Auth{Flavor: rpc.AUTH_SYS, Body: rpc.AppendAuthSys(nil, &sys)}
}

// startOwn makes a server in virtual time.
func (r *responderRun) startOwn(seed uint64, cfg nfsserver.Config) {
	s := sched.NewVirtual(seed)
	net := softroce.NewNetwork(s, softroce.NetConfig{})
	sdev, err := net.NewDevice("server", softroce.RoCE)
	r.noErr(err, "device")
	cdev, err := net.NewDevice("client", softroce.RoCE)
	r.noErr(err, "device")
	fs := memfs.New(memfs.Options{RootMode: 0o777})
	cfg.Device, cfg.Sched, cfg.Exports = sdev, s, []nfsserver.Export{{FS: fs}}
	srv, err := nfsserver.New(cfg)
	r.noErr(err, "server")
	r.own = srv
	r.t = Target{Device: cdev, Sched: s, Addr: srv.Addr(), Export: "/"}
	r.defers(func() {
		err := errors.Join(srv.Close(), fs.CheckConsistent())
		if left := sdev.Resources(); left != (verbs.Resources{}) {
			err = errors.Join(err, fmt.Errorf("left on the server's device: %+v", left))
		}
		if left := cdev.Resources(); left != (verbs.Resources{}) {
			err = errors.Join(err, fmt.Errorf("left on the requester's device: %+v", left))
		}
		err = errors.Join(err, cdev.Close(), sdev.Close(), net.Close(), s.Close())
		r.want(err == nil, "at the end: %v", err)
	})
}

func (r *responderRun) defers(f func()) { r.close = append(r.close, f) }

// end removes what the check made.
func (r *responderRun) end() {
	if r.m != nil {
		for _, n := range r.names {
			_, _ = r.m.Remove(r.ctx, r.m.Root(), n)
		}
		_ = r.m.Close()
	}
	r.hangUp()
	for i := len(r.close) - 1; i >= 0; i-- {
		r.close[i]()
	}
}

// mount is the client that prepares files and looks at them.
func (r *responderRun) mount() *nfsclient.Mount {
	if r.m != nil {
		return r.m
	}
	m, err := nfsclient.New(r.ctx, nfsclient.Config{
		Device: r.t.Device, Sched: r.t.Sched, Addr: r.t.Addr, Export: r.t.Export, MountAddr: r.t.MountAddr, ResvPort: r.t.MountAddr != "",
		Cred: nfsclient.Cred{UID: r.t.UID, GID: r.t.GID}, Credits: 8, Soft: true,
	})
	r.noErr(err, "mount")
	r.m = m
	return m
}

// file makes a file with data in it.
func (r *responderRun) file(data []byte) nfs3.FH {
	m := r.mount()
	name := fmt.Sprintf("conformance-%d-%d", r.t.Sched.Now()/1000, len(r.names))
	c, err := m.Create(r.ctx, m.Root(), name, nfsclient.CreateHow{Mode: nfsclient.UNCHECKED, Attr: nfsclient.Sattr{SetMode: true, Mode: 0o644, SetSize: true}})
	r.noErr(err, "CREATE")
	r.names = append(r.names, name)
	for at := 0; at < len(data); {
		n := min(len(data)-at, m.WSize())
		w, err := m.Write(r.ctx, c.FH, uint64(at), data[at:at+n], nfsclient.FILE_SYNC)
		r.noErr(err, "WRITE")
		at += w.Count
	}
	return c.FH
}

// wantContents wants a file to hold exactly data.
func (r *responderRun) wantContents(fh nfs3.FH, data []byte, what string) {
	m := r.mount()
	b := make([]byte, len(data)+64)
	at := 0
	for at < len(b) {
		n, eof, err := m.Read(r.ctx, fh, uint64(at), b[at:min(len(b), at+m.RSize())])
		r.noErr(err, "READ")
		at += n
		if eof || n == 0 {
			break
		}
	}
	r.want(bytes.Equal(data, b[:at]), "%s: the file has %d bytes that are not the %d written", what, at, len(data))
}

// hangUp ends the raw requester's connection.
func (r *responderRun) hangUp() {
	for _, f := range r.regs {
		f()
	}
	r.regs = nil
	if r.peer != nil {
		r.peer.Close()
		r.peer = nil
	}
}

// dial connects the raw requester with the given private data; nil is none.
func (r *responderRun) dial(private []byte, cfg rawpeer.Config) {
	r.hangUp()
	r.mine = rpcrdma.DefaultPrivateData
	if p, ok := rpcrdma.ConsumePrivateData(private); ok {
		r.mine = p
	}
	cfg.Device, cfg.Sched, cfg.Addr, cfg.PrivateData = r.t.Device, r.t.Sched, r.t.Addr, private
	ctx, cancel := r.t.Sched.WithTimeout(r.ctx, answerWait)
	defer cancel()
	p, err := rawpeer.Dial(ctx, cfg)
	r.noErr(err, "connect")
	r.peer = p
	r.priv, _ = rpcrdma.ConsumePrivateData(p.Private)
}

// conn is the connection, made when it is first needed.
func (r *responderRun) conn() *rawpeer.Peer {
	if r.peer == nil {
		r.dial(rpcrdma.AppendPrivateData(nil, defaultPrivate), rawpeer.Config{})
	}
	return r.peer
}

// header gives a header for the next call.
func (r *responderRun) header(proc rpcrdma.Proc) *rpcrdma.Header {
	h := &rpcrdma.Header{}
	h.Reset()
	r.xid++
	h.XID, h.Proc, h.Credits = r.xid, proc, 32
	return h
}

// rpcCall encodes an NFS call.
func (r *responderRun) rpcCall(xid uint32, proc nfs3.Proc, args []byte) []byte {
	return append(rpc.AppendCall(nil, &rpc.Call{XID: xid, Prog: nfs3.Program, Vers: nfs3.Version, Proc: uint32(proc), Cred: r.cred}), args...)
}

// answer is a decoded message of the server.
type answer struct {
	h    rpcrdma.Header
	rpc  rpc.Reply
	body []byte // results
	msg  rawpeer.Msg
}

// send sends bytes.
func (r *responderRun) send(msg []byte) {
	ctx, cancel := r.t.Sched.WithTimeout(r.ctx, answerWait)
	defer cancel()
	r.noErr(r.conn().Send(ctx, msg), "SEND")
}

// recv takes the next message; it ends the check if none comes.
func (r *responderRun) recv() rawpeer.Msg {
	ctx, cancel := r.t.Sched.WithTimeout(r.ctx, answerWait)
	defer cancel()
	m, err := r.conn().Recv(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		r.must(false, "no answer within %v", answerWait)
	}
	r.noErr(err, "answer")
	return m
}

// tryAnswer is answer where the connection may end instead.
func (r *responderRun) tryAnswer() (*answer, error) {
	ctx, cancel := r.t.Sched.WithTimeout(r.ctx, answerWait)
	defer cancel()
	m, err := r.conn().Recv(ctx)
	if err != nil {
		return nil, err
	}
	return r.decode(m), nil
}

// answer decodes the next message, and wants what each reply must hold: C02, C18 and C21.
func (r *responderRun) answer() *answer { return r.decode(r.recv()) }

func (r *responderRun) decode(m rawpeer.Msg) *answer {
	a := &answer{msg: m}
	n, err := rpcrdma.ConsumeHeader(a.msg.Bytes, &a.h, 0)
	r.must(err == nil, "the answer's header does not parse: %v", err)
	r.want(a.h.Credits > 0, "C02: no credit granted by %v", &a.h)
	r.want(len(a.h.Reads) == 0, "C21: a Read list in %v", &a.h)
	if a.h.Proc == rpcrdma.RDMA_MSG {
		r.decodeRPC(a, a.msg.Bytes[n:])
	}
	return a
}

func (r *responderRun) decodeRPC(a *answer, b []byte) {
	n, err := rpc.ConsumeReply(b, &a.rpc)
	r.must(err == nil, "the RPC reply does not parse: %v", err)
	r.want(a.h.XID == a.rpc.XID, "C18: the XIDs of header and RPC message differ")
	a.body = b[n:]
}

// exchange sends a header and an RPC message, and wants an answer with its XID.
func (r *responderRun) exchange(h *rpcrdma.Header, msg []byte) *answer {
	r.conn()
	r.send(append(rpcrdma.AppendHeader(nil, h), msg...))
	a := r.answer()
	r.must(a.h.XID == h.XID, "the answer's XID is %#x, not %#x", a.h.XID, h.XID)
	return a
}

// call makes an inline call and wants SUCCESS.
func (r *responderRun) call(proc nfs3.Proc, args []byte) *answer {
	h := r.header(rpcrdma.RDMA_MSG)
	a := r.exchange(h, r.rpcCall(h.XID, proc, args))
	r.wantOK(a)
	return a
}

func (r *responderRun) null() *answer { return r.call(nfs3.NULL, nil) }

// wantOK ends the check unless a holds an RPC reply with results.
func (r *responderRun) wantOK(a *answer) {
	r.must(a.h.Proc != rpcrdma.RDMA_ERROR && a.rpc.OK(), "the answer is %v", a)
}

// String says what the answer is, without what differs from run to run.
func (a *answer) String() string {
	switch a.h.Proc {
	case rpcrdma.RDMA_ERROR:
		return fmt.Sprintf("%v %v", a.h.Proc, a.h.Err)
	case rpcrdma.RDMA_MSG:
		if a.rpc.Stat != rpc.MSG_ACCEPTED {
			return fmt.Sprintf("%v %s", a.h.Proc, [...]string{"RPC_MISMATCH", "AUTH_ERROR"}[a.rpc.Reject&1])
		}
		return fmt.Sprintf("%v %v", a.h.Proc, a.rpc.Accept)
	}
	return a.h.Proc.String()
}

// wantErr wants an RDMA_ERROR (C30: with the call's XID).
func (r *responderRun) wantErr(a *answer, code rpcrdma.ErrCode, what string) bool {
	return r.want(a.h.Proc == rpcrdma.RDMA_ERROR && a.h.Err == code, "%s: want %v, got %v", what, code, a)
}

// wantErrChunk wants ERR_CHUNK and the connection to serve on.
func (r *responderRun) wantErrChunk(a *answer) {
	r.want(a.h.Proc == rpcrdma.RDMA_ERROR && a.h.Err == rpcrdma.ERR_CHUNK, "want ERR_CHUNK, got %v", a)
	r.wantAlive()
}

// each makes one case of several: what ends it does not end the next, which then has a connection of its own.
func (r *responderRun) each(what string, f func()) {
	if d := r.known.crash(r.check, what); d != nil {
		r.spared = append(r.spared, d.differs())
		return
	}
	if d := crashOfAny(r.check, what); d != nil && r.careful {
		r.leaveOut(what, "not sent: it would end a machine with Linux")
		return
	}
	n, ended, skipped := len(r.fails), true, r.skipped
	r.skipped = ""
	r.guard(func() {
		f()
		ended = false
	})
	why := r.skipped
	if r.skipped = skipped; why != "" {
		r.leaveOut(what, why)
	}
	for i := range r.fails[n:] {
		r.fails[n+i] = what + ": " + r.fails[n+i]
	}
	if ended {
		r.hangUp()
	}
}

// leaveOut notes a case that was not made, or not to its end.
func (r *responderRun) leaveOut(what, why string) {
	why = ": " + why
	switch {
	case strings.HasSuffix(r.skipped, why):
		r.skipped = strings.TrimSuffix(r.skipped, why) + ", " + what + why
	case r.skipped != "":
		r.skipped += "; " + what + why
	default:
		r.skipped = what + why
	}
}

// wantSilence wants no answer to a message, and the connection to serve on.
func (r *responderRun) wantSilence(msg []byte, what string) {
	r.send(msg)
	if n, last := r.strays(); n > 0 {
		r.wrong("%s: answered with %s", what, last)
	}
}

// quiet is how long an answer may be overtaken by those of later calls.
const quiet = 50 * sched.Millisecond

// strays makes a call, and gives the number of other answers that come before its reply or soon after, and the last of them.
func (r *responderRun) strays() (n int, last string) {
	h := r.header(rpcrdma.RDMA_MSG)
	r.send(append(rpcrdma.AppendHeader(nil, h), r.rpcCall(h.XID, nfs3.NULL, nil)...))
	for {
		m := r.recv()
		if len(m.Bytes) >= rpcrdma.MinHeaderLen && binary.BigEndian.Uint32(m.Bytes) == h.XID {
			r.wantOK(r.decode(m))
			break
		}
		n, last = n+1, errorName(m.Bytes)
	}
	for {
		ctx, cancel := r.t.Sched.WithTimeout(r.ctx, quiet)
		m, err := r.peer.Recv(ctx)
		cancel()
		if err != nil {
			r.must(errors.Is(err, context.DeadlineExceeded), "the connection ends behind the answer: %v", err)
			return n, last
		}
		n, last = n+1, errorName(m.Bytes)
	}
}

// errorName says what an answer is whose XID and version may be nonsense.
func errorName(b []byte) string {
	if len(b) < 20 || rpcrdma.Proc(binary.BigEndian.Uint32(b[12:])) != rpcrdma.RDMA_ERROR {
		return fmt.Sprintf("%d bytes", len(b))
	}
	return fmt.Sprintf("%v %v", rpcrdma.RDMA_ERROR, rpcrdma.ErrCode(binary.BigEndian.Uint32(b[16:])))
}

// wantAlive wants the connection to serve on behind an answer. One that ends may answer a call yet, and be silent for a while.
func (r *responderRun) wantAlive() {
	for range 3 {
		h := r.header(rpcrdma.RDMA_MSG)
		ctx, cancel := r.t.Sched.WithTimeout(r.ctx, answerWait)
		err := r.conn().Send(ctx, append(rpcrdma.AppendHeader(nil, h), r.rpcCall(h.XID, nfs3.NULL, nil)...))
		cancel()
		if err == nil {
			_, err = r.tryAnswer()
		}
		if err == nil {
			ctx, cancel := r.t.Sched.WithTimeout(r.ctx, quiet)
			if _, err = r.peer.Recv(ctx); errors.Is(err, context.DeadlineExceeded) {
				err = nil
			}
			cancel()
		}
		if err != nil {
			r.wrong("the connection ends behind the answer")
			r.hangUp()
			return
		}
	}
}

// Rights of memory that the server writes or reads.
const (
	sink   = verbs.LocalWrite | verbs.RemoteWrite
	source = verbs.LocalWrite | verbs.RemoteRead
)

// mem makes memory that the server may reach.
func (r *responderRun) mem(n int, access verbs.Access) verbs.MR {
	mr, err := r.conn().Mem(n, access)
	r.noErr(err, "memory")
	return mr
}

// seg is a segment of mr.
func seg(mr verbs.MR, off, n int) rpcrdma.Segment {
	return rpcrdma.Segment{Handle: mr.RKey(), Length: uint32(n), Offset: mr.Addr() + uint64(off)}
}

func readArgs(fh nfs3.FH, off uint64, n int) []byte {
	return nfs3.AppendReadArgs(nil, &nfs3.ReadArgs{File: fh, Offset: off, Count: uint32(n)})
}

// writeHead encodes a WRITE up to the data's count word.
func writeHead(fh nfs3.FH, n int, stable nfs3.StableHow) []byte {
	return nfs3.AppendWriteArgsHead(nil, &nfs3.WriteArgs{File: fh, Count: uint32(n), Stable: stable}, uint32(n))
}

// readChunked reads with the given Write chunks.
func (r *responderRun) readChunked(fh nfs3.FH, off uint64, n int, chunks ...[]rpcrdma.Segment) *answer {
	r.conn()
	h := r.header(rpcrdma.RDMA_MSG)
	for _, c := range chunks {
		h.Writes.Add(c)
	}
	return r.exchange(h, r.rpcCall(h.XID, nfs3.READ, readArgs(fh, off, n)))
}

// readRes decodes a READ result; reduced ones have their data in a chunk.
func (r *responderRun) readRes(a *answer, reduced bool) *nfs3.ReadRes {
	r.wantOK(a)
	var res nfs3.ReadRes
	if !reduced {
		n, err := nfs3.ConsumeReadRes(a.body, &res)
		r.must(err == nil, "READ result of %d bytes: %v", len(a.body), err)
		r.want(n == len(a.body), "%d bytes behind the READ result", len(a.body)-n)
	} else {
		dataLen, n, err := nfs3.ConsumeReadResHead(a.body, &res)
		r.must(err == nil, "reduced READ result of %d bytes: %v", len(a.body), err)
		r.want(n == len(a.body), "%d bytes behind the reduced READ result", len(a.body)-n)
		r.want(dataLen == res.Count, "count %d and length word %d of READ differ", res.Count, dataLen)
	}
	r.must(res.Status == nfs3.NFS3_OK, "READ: %v", res.Status)
	return &res
}

// writeChunked writes with the data in a Read chunk.
func (r *responderRun) writeChunked(fh nfs3.FH, n int, segs ...rpcrdma.Segment) *answer {
	h := r.header(rpcrdma.RDMA_MSG)
	msg := r.rpcCall(h.XID, nfs3.WRITE, writeHead(fh, n, nfs3.FILE_SYNC))
	for _, s := range segs {
		h.Reads = append(h.Reads, rpcrdma.ReadSegment{Position: uint32(len(msg)), Segment: s})
	}
	return r.exchange(h, msg)
}

func (r *responderRun) wantWritten(a *answer, n int) {
	r.wantOK(a)
	var res nfs3.WriteRes
	_, err := nfs3.ConsumeWriteRes(a.body, &res)
	r.must(err == nil, "WRITE result: %v", err)
	r.must(res.Status == nfs3.NFS3_OK, "WRITE: %v", res.Status)
	r.want(int(res.Count) == n, "%d bytes of %d written", res.Count, n)
}

// longCall sends an RDMA_NOMSG call, its message in segments of at most segLen bytes.
func (r *responderRun) longCall(h *rpcrdma.Header, msg []byte, segLen int) *answer {
	mr := r.mem(len(msg), source)
	copy(mr.Bytes(), msg)
	var pz []rpcrdma.ReadSegment
	for at := 0; at < len(msg); at += segLen {
		pz = append(pz, rpcrdma.ReadSegment{Segment: seg(mr, at, min(segLen, len(msg)-at))})
	}
	h.Reads = append(pz, h.Reads...)
	return r.exchange(h, nil)
}

func segsEqual(a, b []rpcrdma.Segment) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
