package xprtrdma

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var bg = context.Background()

const (
	serverAddr = "server:20049"
	second     = sched.Second
)

// rig is a transport and a peer that answers as its script says, joined by soft-RoCE.
type rig struct {
	t    testing.TB
	s    *sched.Sched
	net  *softroce.Network
	cdev *softroce.Device
	peer *peer
	x    *Xprt

	mu    sync.Mutex
	trace []string // messages, as the transport traces them
}

type rigOption func(*rigConfig)

type rigConfig struct {
	live        bool
	personality softroce.Personality
	cfg         Config
	peer        peerConfig
	noConnect   bool
	faults      *faultDevice // around the client's device
}

func live(c *rigConfig)      { c.live = true }
func noConnect(c *rigConfig) { c.noConnect = true }

func withConfig(f func(*Config)) rigOption   { return func(c *rigConfig) { f(&c.cfg) } }
func withPeer(f func(*peerConfig)) rigOption { return func(c *rigConfig) { f(&c.peer) } }
func serve(f func(*call)) rigOption          { return func(c *rigConfig) { c.peer.serve = f } }

func newRig(t testing.TB, opts ...rigOption) *rig {
	t.Helper()
	c := rigConfig{
		personality: softroce.RoCE,
		cfg: Config{Addr: serverAddr, Mode: FastReg, MaxDataSegs: 16, Credits: 8, InlineSend: 4096, InlineRecv: 4096,
			RetryCnt: 6, ReconnectMin: 5 * second, ReconnectMax: 30 * second, Timeout: 60 * second, Retrans: 2},
		peer: peerConfig{credits: 8, recvs: 32, send: 4096, recv: 4096, private: true, inv: true,
			serve: func(c *call) { c.reply() }},
	}
	for _, o := range opts {
		o(&c)
	}
	r := &rig{t: t}
	if c.live {
		r.s = sched.NewLive(1)
	} else {
		r.s = sched.NewVirtual(1)
	}
	r.net = softroce.NewNetwork(r.s, softroce.NetConfig{})
	var err error
	r.cdev, err = r.net.NewDevice("client", c.personality)
	require.NoError(t, err)
	sdev, err := r.net.NewDevice("server", c.personality)
	require.NoError(t, err)
	r.peer = newPeer(t, r.s, sdev, c.peer)
	c.cfg.Sched, c.cfg.Device = r.s, r.cdev
	if c.faults != nil {
		c.faults.Device = r.cdev
		c.cfg.Device = c.faults
	}
	c.cfg.Trace = func(line string) {
		r.mu.Lock()
		r.trace = append(r.trace, line)
		r.mu.Unlock()
	}
	r.x, err = New(c.cfg)
	require.NoError(t, err)
	t.Cleanup(r.close)
	if !c.noConnect {
		require.NoError(t, r.x.Connect(bg))
	}
	return r
}

// close ends both sides and wants nothing left.
func (r *rig) close() {
	if r.x == nil {
		return
	}
	assert.NoError(r.t, r.x.Close())
	r.wantSettled()
	r.x = nil
	r.peer.close()
	assert.Equal(r.t, verbs.Resources{}, r.cdev.Resources(), "left on the client's device")
	assert.NoError(r.t, r.cdev.Close())
	assert.NoError(r.t, r.peer.dev.Close())
	assert.NoError(r.t, r.net.Close())
	assert.NoError(r.t, r.s.Close())
}

// wantSettled wants a closed transport to have every slot back and nothing in it.
func (r *rig) wantSettled() {
	assert.Equal(r.t, len(r.x.reqs), r.x.slots.Free(), "free slots")
	for i := range r.x.reqs {
		q := &r.x.reqs[i]
		assert.Equal(r.t, uint8(idle), stateOf(q.word.Load()), "slot %d", i)
		assert.Zero(r.t, q.nmaps)
		assert.Empty(r.t, q.regs)
	}
}

func (r *rig) wantCounter(name string, want int) {
	r.t.Helper()
	assert.EqualValues(r.t, want, r.x.Counters().Get(name), name)
}

// callSpec is a call to make.
type callSpec struct {
	args     int // bytes of arguments behind the RPC header, a multiple of 4
	data     []byte
	sink     []byte
	maxReply int
	inline   bool // SinkInline
}

// do makes a call and gives the RPC reply behind its header.
func (r *rig) do(ctx context.Context, c callSpec) ([]byte, error) {
	q, err := r.x.Get(ctx)
	if err != nil {
		return nil, err
	}
	defer r.x.Put(q)
	return r.doReq(ctx, q, c)
}

func (r *rig) doReq(ctx context.Context, q *Req, c callSpec) ([]byte, error) {
	q.Msg = rpc.AppendCall(q.Msg, &rpc.Call{XID: q.XID(), Prog: 100003, Vers: 3})
	for i := range c.args {
		q.Msg = append(q.Msg, byte(i))
	}
	q.Data, q.Sink, q.SinkInline = c.data, c.sink, c.inline
	if q.MaxReply = c.maxReply; q.MaxReply == 0 {
		q.MaxReply = rpc.SuccessLen + 4
	}
	if err := q.Do(ctx); err != nil {
		return nil, err
	}
	return append([]byte(nil), q.Reply[rpc.SuccessLen:]...), nil
}

func (r *rig) mustDo(c callSpec) []byte {
	r.t.Helper()
	b, err := r.do(bg, c)
	require.NoError(r.t, err)
	return b
}

// goDo starts a call in a task; the result comes when the task has ended.
func (r *rig) goDo(ctx context.Context, c callSpec) *pendingCall {
	p := &pendingCall{r: r, g: r.s.NewGroup("a call of the test")}
	p.g.Go("call", func() { p.reply, p.err = r.do(ctx, c) })
	return p
}

type pendingCall struct {
	r     *rig
	g     *sched.Group
	reply []byte
	err   error
}

func (p *pendingCall) wait() error {
	p.r.t.Helper()
	require.NoError(p.r.t, p.g.Wait(bg))
	return p.err
}

// sleep lets virtual time pass.
func (r *rig) sleep(d sched.Duration) {
	r.t.Helper()
	require.NoError(r.t, r.s.Sleep(bg, d))
}

func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)*7 + byte(i>>8) + seed
	}
	return b
}

// peerConfig is how a scripted responder behaves.
type peerConfig struct {
	credits    uint32
	recvs      int // posted
	send, recv int // private data
	private    bool
	inv        bool // offers remote invalidation
	serve      func(*call)
	accept     func(p *peer, n int) bool // false: refused; n counts requests from 1
	ird        int
}

// peer is a scripted responder: it can send any bytes. One task a connection serves its calls in order.
type peer struct {
	t    testing.TB
	s    *sched.Sched
	dev  verbs.Device
	cfg  peerConfig
	ln   verbs.Listener
	pd   verbs.PD
	g    *sched.Group
	mu   sync.Mutex
	cons []*peerConn
}

type peerConn struct {
	p    *peer
	id   verbs.ID
	qp   verbs.QP
	scq  verbs.CQ
	rcq  verbs.CQ
	mr   verbs.MR // receives, then a send and an RDMA buffer
	q    *sched.Queue[[]byte]
	seen int // calls
}

const (
	peerBuf  = 65536
	peerRDMA = 2 << 20
)

func newPeer(t testing.TB, s *sched.Sched, dev verbs.Device, cfg peerConfig) *peer {
	p := &peer{t: t, s: s, dev: dev, cfg: cfg, g: s.NewGroup("the peer's tasks")}
	var err error
	p.pd, err = dev.AllocPD()
	require.NoError(t, err)
	p.ln, err = dev.Listen(serverAddr, 8)
	require.NoError(t, err)
	p.g.Go("peer accept", p.acceptLoop)
	return p
}

func (p *peer) acceptLoop() {
	for n := 1; ; n++ {
		id, err := p.ln.Accept(bg)
		if err != nil {
			return
		}
		if p.cfg.accept != nil && !p.cfg.accept(p, n) {
			id.Reject(nil)
			id.Close()
			continue
		}
		c, err := p.open(id)
		if !assert.NoError(p.t, err) {
			return
		}
		if id.Accept(bg, c.param()) != nil { // the client is gone already
			c.close()
			c.free()
			continue
		}
		p.mu.Lock()
		p.cons = append(p.cons, c)
		p.mu.Unlock()
		p.g.Go("peer serve", c.serveLoop)
	}
}

func (p *peer) open(id verbs.ID) (c *peerConn, err error) {
	c = &peerConn{p: p, id: id, q: sched.NewQueue[[]byte](p.s, "a call at the peer")}
	n := p.cfg.recvs
	if c.mr, err = p.pd.AllocMR((n+1)*peerBuf+peerRDMA, verbs.LocalWrite|verbs.RemoteWrite); err != nil {
		return nil, err
	}
	if c.scq, err = p.dev.CreateCQ(verbs.CQInit{Depth: 4096, Name: "peer send"}); err != nil {
		return nil, err
	}
	if c.rcq, err = p.dev.CreateCQ(verbs.CQInit{Depth: n + 1, Handler: c.received, Name: "peer recv"}); err != nil {
		return nil, err
	}
	c.qp, err = id.CreateQP(p.pd, verbs.QPInit{SendCQ: c.scq, RecvCQ: c.rcq, MaxSendWR: 4096, MaxRecvWR: n,
		MaxSendSGE: 1, MaxRecvSGE: 1, Name: "peer"})
	if err != nil {
		return nil, err
	}
	id.OnEvent(func(verbs.CMEventType) { c.q.Close() })
	c.received(c.rcq)
	for i := range n {
		if err := c.post(i); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *peerConn) param() verbs.ConnParam {
	p := c.p
	ird := p.cfg.ird
	if ird == 0 {
		ird = 16
	}
	param := verbs.ConnParam{IRD: ird, ORD: 16, RetryCnt: 6}
	if p.cfg.private {
		param.PrivateData = rpcrdma.AppendPrivateData(nil, rpcrdma.PrivateData{
			RemoteInvalidate: p.cfg.inv, SendSize: p.cfg.send, RecvSize: p.cfg.recv})
	}
	return param
}

func (c *peerConn) post(i int) error {
	_, err := c.qp.PostRecv([]verbs.RecvWR{{ID: uint64(i),
		SGEs: []verbs.SGE{{Addr: c.mr.Addr() + uint64(i*peerBuf), Length: peerBuf, LKey: c.mr.LKey()}}}})
	return err
}

func (c *peerConn) received(cq verbs.CQ) {
	var wc [4]verbs.WC
	for {
		n, _ := cq.Poll(wc[:])
		for _, w := range wc[:n] {
			if w.Status != verbs.Success {
				c.close() // as a server does: the client may not hear of the queue pair's end otherwise
				continue
			}
			i := int(w.ID)
			c.q.Push(append([]byte(nil), c.mr.Bytes()[i*peerBuf:i*peerBuf+int(w.ByteLen)]...))
			c.post(i)
		}
		if n == 0 && !cq.Arm(false) {
			return
		}
	}
}

func (c *peerConn) serveLoop() {
	for {
		msg, err := c.q.Pop(bg)
		if err != nil {
			return
		}
		k := &call{c: c}
		n, err := rpcrdma.ConsumeHeader(msg, &k.hdr, 0)
		if !assert.NoError(c.p.t, err, "header of a call") {
			return
		}
		k.msg = msg[n:]
		wantLegal(c.p.t, k)
		c.seen++
		k.n = c.seen
		c.p.cfg.serve(k)
	}
}

// wantLegal wants what every call must hold: C11, C16, C18, C19, C20, C37, C38 and C42 of a requester.
func wantLegal(t testing.TB, k *call) {
	h := &k.hdr
	assert.EqualValues(t, rpcrdma.Version, h.Vers)
	assert.Contains(t, []rpcrdma.Proc{rpcrdma.RDMA_MSG, rpcrdma.RDMA_NOMSG}, h.Proc)
	assert.NotZero(t, h.Credits)
	chunks := 0
	for list := h.Reads; len(list) > 0; chunks++ {
		_, list = rpcrdma.ReadChunk(list)
	}
	assert.LessOrEqual(t, chunks, 1, "Read chunks")
	assert.LessOrEqual(t, h.Writes.Len(), 1, "Write chunks")
	type place struct {
		key uint32
		at  uint64
	}
	seen := map[place]bool{}
	once := func(s rpcrdma.Segment) {
		assert.NotZero(t, s.Length)
		assert.False(t, seen[place{s.Handle, s.Offset}], "segment %v twice", s)
		seen[place{s.Handle, s.Offset}] = true
	}
	for _, s := range h.Reads {
		once(s.Segment)
		assert.Zero(t, s.Position%4, "position")
		assert.Equal(t, h.Proc == rpcrdma.RDMA_NOMSG, s.Position == 0, "position zero is for RDMA_NOMSG")
		assert.LessOrEqual(t, int(s.Position), len(k.msg))
	}
	for i := range h.Writes.Len() {
		for _, s := range h.Writes.Chunk(i) {
			once(s)
		}
	}
	for _, s := range h.Reply {
		once(s)
	}
	if h.Proc == rpcrdma.RDMA_NOMSG {
		assert.Empty(t, k.msg)
		assert.Equal(t, 1, chunks, "a position-zero Read chunk")
		return
	}
	xid, mtype, n := rpc.ConsumeMsgType(k.msg)
	assert.Positive(t, n)
	assert.Equal(t, h.XID, xid)
	assert.Equal(t, rpc.CALL, mtype)
}

func (c *peerConn) close() {
	c.id.Disconnect()
	c.q.Close()
}

func (c *peerConn) free() {
	t := c.p.t
	assert.NoError(t, c.qp.Close())
	assert.NoError(t, c.id.Close())
	assert.NoError(t, c.scq.Close())
	assert.NoError(t, c.rcq.Close())
	assert.NoError(t, c.mr.Close())
}

func (p *peer) close() {
	p.ln.Close()
	p.dropAll()
	assert.NoError(p.t, p.g.Wait(bg))
	for _, c := range p.cons {
		c.free()
	}
	assert.NoError(p.t, p.pd.Close())
}

// dropAll ends every connection.
func (p *peer) dropAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.cons {
		c.close()
	}
}

func (p *peer) conns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.cons)
}

// call is a call as the peer got it.
type call struct {
	c   *peerConn
	hdr rpcrdma.Header
	msg []byte // behind the header
	n   int    // counts the calls of a connection, from 1
}

// rdma posts one work request and waits for it; an error ends the connection for the script.
func (k *call) rdma(wr verbs.SendWR) error {
	wr.Flags |= verbs.Signaled
	if _, err := k.c.qp.PostSend([]verbs.SendWR{wr}); err != nil {
		return err
	}
	var wc [1]verbs.WC
	for {
		if n, err := k.c.scq.Poll(wc[:]); n > 0 || err != nil {
			if err == nil && wc[0].Status != verbs.Success {
				err = &verbs.WCError{Status: wc[0].Status, Op: wr.Op}
			}
			return err
		}
		if !k.c.scq.Arm(false) {
			ctx, cancel := k.c.p.s.WithTimeout(bg, second)
			err := k.c.scq.Wait(ctx)
			cancel()
			if err != nil {
				return err
			}
		}
	}
}

func (c *peerConn) buf() ([]byte, verbs.SGE) {
	off := c.p.cfg.recvs * peerBuf
	return c.mr.Bytes()[off : off+peerBuf], verbs.SGE{Addr: c.mr.Addr() + uint64(off), LKey: c.mr.LKey()}
}

func (c *peerConn) bulk() ([]byte, verbs.SGE) {
	off := (c.p.cfg.recvs + 1) * peerBuf
	return c.mr.Bytes()[off:], verbs.SGE{Addr: c.mr.Addr() + uint64(off), LKey: c.mr.LKey()}
}

// fetch reads the Read chunk at a position.
func (k *call) fetch(pos uint32) []byte {
	var out []byte
	for _, s := range k.hdr.Reads {
		if s.Position != pos {
			continue
		}
		b, sge := k.c.bulk()
		sge.Length = s.Length
		err := k.rdma(verbs.SendWR{Op: verbs.OpRDMARead, SGEs: []verbs.SGE{sge}, RemoteAddr: s.Offset, RKey: s.Handle})
		if err != nil {
			return nil
		}
		out = append(out, b[:s.Length]...)
	}
	return out
}

// store writes data to segments and sets their lengths.
func (k *call) store(segs []rpcrdma.Segment, data []byte) error {
	for i := range segs {
		s := &segs[i]
		n := min(int(s.Length), len(data))
		b, sge := k.c.bulk()
		copy(b, data[:n])
		sge.Length = uint32(n)
		if n > 0 {
			err := k.rdma(verbs.SendWR{Op: verbs.OpRDMAWrite, SGEs: []verbs.SGE{sge}, RemoteAddr: s.Offset, RKey: s.Handle})
			if err != nil {
				return err
			}
		}
		s.Length = uint32(n)
		data = data[n:]
	}
	if len(data) > 0 {
		return fmt.Errorf("%d bytes too many for the chunk", len(data))
	}
	return nil
}

// answer is a header that answers the call: its XID, the peer's credits, its Write list and Reply chunk.
func (k *call) answer() *rpcrdma.Header {
	h := &rpcrdma.Header{}
	h.Reset()
	h.XID, h.Credits = k.hdr.XID, k.c.p.cfg.credits
	for i := range k.hdr.Writes.Len() {
		h.Writes.Add(k.hdr.Writes.Chunk(i))
	}
	return h
}

// success is an RPC reply with SUCCESS and body.
func success(xid uint32, body []byte) []byte {
	return append(rpc.AppendReplySuccess(nil, xid), body...)
}

var okBody = []byte("okay")

// reply answers with SUCCESS and okBody. A Write chunk gets a pattern that depends on the XID.
func (k *call) reply() {
	h := k.answer()
	for i := range h.Writes.Len() {
		segs := h.Writes.Chunk(i)
		k.store(segs, pattern(int(rpcrdma.ChunkLen(segs)), byte(h.XID)))
	}
	k.send(h, success(h.XID, okBody), 0)
}

// replyLong answers through the Reply chunk.
func (k *call) replyLong(body []byte) {
	h := k.answer()
	h.Proc, h.HasReply = rpcrdma.RDMA_NOMSG, true
	h.Reply = append(h.Reply, k.hdr.Reply...)
	k.store(h.Reply, success(h.XID, body))
	k.send(h, nil, 0)
}

// send sends a header and what follows, invalidating a key of the client if it is not 0.
func (k *call) send(h *rpcrdma.Header, msg []byte, inv uint32) error {
	return k.raw(append(rpcrdma.AppendHeader(nil, h), msg...), inv)
}

// raw sends any bytes.
func (k *call) raw(msg []byte, inv uint32) error {
	b, sge := k.c.buf()
	sge.Length = uint32(copy(b, msg))
	wr := verbs.SendWR{Op: verbs.OpSend, SGEs: []verbs.SGE{sge}}
	if inv != 0 {
		wr.Op, wr.InvKey = verbs.OpSendWithInv, inv
	}
	return k.rdma(wr)
}

// aKey is a key of the call, 0 if it has none.
func (k *call) aKey() uint32 {
	for _, s := range k.hdr.Reads {
		return s.Handle
	}
	for i := range k.hdr.Writes.Len() {
		for _, s := range k.hdr.Writes.Chunk(i) {
			return s.Handle
		}
	}
	for _, s := range k.hdr.Reply {
		return s.Handle
	}
	return 0
}
