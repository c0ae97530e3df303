package chunkfuzz

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// ResponderConfig is what NewResponder needs. Zero fields are the defaults.
type ResponderConfig struct {
	Device verbs.Device // stays the caller's
	Addr   string       // "host:20049", where it listens
	Sched  *sched.Sched // nil: live, the responder's own
	// Serve answers a call, in any way or not at all. It runs in the task of the call's connection, and may wait.
	Serve func(*Call)

	Private []byte // private data; nil says Inline and remote invalidation (RFC 8797)
	Inline  int    // largest message either way, bytes; 0 is 4096
	Recvs   int    // receives that are kept posted; 0 is 64
	IRD     int    // 0 is 16
}

// Responder is a server that keeps no rule by itself. Close frees it.
type Responder struct {
	cfg   ResponderConfig
	s     *sched.Sched
	own   bool
	ln    verbs.Listener
	pd    verbs.PD
	g     *sched.Group
	mu    sync.Mutex
	conns []*rconn
	count int   // connections ever
	err   error // of freeing some
}

// bulk is the memory of a connection for RDMA READs and WRITEs, bytes.
const bulk = 128 << 10

type rconn struct {
	r        *Responder
	id       verbs.ID
	qp       verbs.QP
	scq, rcq verbs.CQ
	mr       verbs.MR // receives, a send, bulk
	size     int      // of a receive
	q        *sched.Queue[[]byte]
	sent     *sched.Queue[verbs.WC]
	ended    atomic.Bool
}

// Call is a message of a client. What it does fails once its connection has ended.
type Call struct {
	Bytes  []byte // all of it
	Header Header // zero if it does not parse
	Msg    []byte // what is behind the header
	c      *rconn
}

// NewResponder listens.
func NewResponder(cfg ResponderConfig) (*Responder, error) {
	if cfg.Device == nil || cfg.Serve == nil {
		return nil, errors.New("chunkfuzz: no Device or no Serve")
	}
	r := &Responder{cfg: cfg, s: cfg.Sched}
	for _, d := range []struct {
		v   *int
		def int
	}{{&r.cfg.Inline, 4096}, {&r.cfg.Recvs, 64}, {&r.cfg.IRD, 16}} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if cfg.Private == nil {
		r.cfg.Private = rpcrdma.AppendPrivateData(nil, rpcrdma.PrivateData{RemoteInvalidate: true, SendSize: r.cfg.Inline, RecvSize: r.cfg.Inline})
	}
	if r.s == nil {
		r.s, r.own = sched.NewLive(0), true
	}
	r.g = r.s.NewGroup("the tasks of a raw responder")
	var err error
	if r.pd, err = cfg.Device.AllocPD(); err == nil {
		r.ln, err = cfg.Device.Listen(cfg.Addr, 8)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	r.g.Go("raw responder", r.accept)
	return r, nil
}

func (r *Responder) accept() {
	ctx := context.Background()
	for {
		id, err := r.ln.Accept(ctx)
		if err != nil {
			return
		}
		c, err := r.open(id)
		if err == nil {
			err = id.Accept(ctx, verbs.ConnParam{PrivateData: r.cfg.Private, IRD: r.cfg.IRD, ORD: 16, RetryCnt: 7, RNRRetry: 6})
		}
		if err != nil {
			_ = c.free()
			continue
		}
		r.mu.Lock()
		r.conns = append(r.conns, c)
		r.count++
		r.mu.Unlock()
		r.g.Go("raw responder's connection", c.serve)
	}
}

func (r *Responder) open(id verbs.ID) (c *rconn, err error) {
	c = &rconn{r: r, id: id, size: max(r.cfg.Inline, 4096), q: sched.NewQueue[[]byte](r.s, "a call for the raw responder"),
		sent: sched.NewQueue[verbs.WC](r.s, "a completion for the raw responder")}
	n := r.cfg.Recvs
	if c.mr, err = r.pd.AllocMR((n+1)*c.size+bulk, verbs.LocalWrite|verbs.RemoteWrite); err != nil {
		return c, err
	}
	if c.scq, err = r.cfg.Device.CreateCQ(verbs.CQInit{Depth: 1024, Handler: c.completed, Name: "raw responder send"}); err != nil {
		return c, err
	}
	if c.rcq, err = r.cfg.Device.CreateCQ(verbs.CQInit{Depth: n + 1, Handler: c.received, Name: "raw responder recv"}); err != nil {
		return c, err
	}
	if c.qp, err = id.CreateQP(r.pd, verbs.QPInit{SendCQ: c.scq, RecvCQ: c.rcq, MaxSendWR: 64, MaxRecvWR: n, MaxSendSGE: 1, MaxRecvSGE: 1, Name: "raw responder"}); err != nil {
		return c, err
	}
	id.OnEvent(func(verbs.CMEventType) { c.end() })
	c.scq.Arm(false)
	c.rcq.Arm(false)
	for i := range n {
		if err := c.post(i); err != nil {
			return c, err
		}
	}
	return c, nil
}

func (c *rconn) post(i int) error {
	_, err := c.qp.PostRecv([]verbs.RecvWR{{ID: uint64(i), SGEs: []verbs.SGE{{Addr: c.mr.Addr() + uint64(i*c.size), Length: uint32(c.size), LKey: c.mr.LKey()}}}})
	return err
}

func (c *rconn) poll(cq verbs.CQ, f func(*verbs.WC)) {
	var wc [8]verbs.WC
	for {
		n, err := cq.Poll(wc[:])
		for i := range n {
			f(&wc[i])
		}
		if err != nil || n == 0 && !cq.Arm(false) {
			return
		}
	}
}

func (c *rconn) received(cq verbs.CQ) {
	c.poll(cq, func(wc *verbs.WC) {
		if wc.Status != verbs.Success {
			c.end()
			return
		}
		i := int(wc.ID)
		c.q.Push(append([]byte(nil), c.mr.Bytes()[i*c.size:i*c.size+int(wc.ByteLen)]...))
		_ = c.post(i)
	})
}

func (c *rconn) completed(cq verbs.CQ) { c.poll(cq, func(wc *verbs.WC) { c.sent.Push(*wc) }) }

// end is idempotent, and may run in handlers.
func (c *rconn) end() {
	c.ended.Store(true)
	_ = c.id.Disconnect()
	c.q.Close()
	c.sent.Close()
}

func (c *rconn) serve() {
	defer c.retire()
	for {
		b, err := c.q.Pop(context.Background())
		if err != nil {
			return
		}
		k := &Call{Bytes: b, c: c}
		if n, err := rpcrdma.ConsumeHeader(b, &k.Header, 0); err == nil {
			k.Msg = b[n:]
		} else {
			k.Header.Reset()
		}
		c.r.cfg.Serve(k)
	}
}

// retire frees a connection that has ended, before the responder does.
func (c *rconn) retire() {
	r := c.r
	r.mu.Lock()
	i := slices.Index(r.conns, c)
	if i >= 0 {
		r.conns = slices.Delete(r.conns, i, i+1)
	}
	r.mu.Unlock()
	if i >= 0 {
		if err := c.free(); err != nil {
			r.mu.Lock()
			r.err = errors.Join(r.err, err)
			r.mu.Unlock()
		}
	}
}

func (c *rconn) free() error {
	if c == nil {
		return nil
	}
	var errs []error
	add := func(err error) { errs = append(errs, err) }
	if c.qp != nil {
		add(c.qp.Close())
	}
	add(c.id.Close())
	for _, cq := range []verbs.CQ{c.scq, c.rcq} {
		if cq != nil {
			add(cq.Close())
		}
	}
	if c.mr != nil {
		add(c.mr.Close())
	}
	return errors.Join(errs...)
}

// Connections is how many were made so far.
func (r *Responder) Connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}

// Close ends all connections and frees what the responder holds. Serve must not wait for ever.
func (r *Responder) Close() error {
	var errs []error
	if r.ln != nil {
		errs = append(errs, r.ln.Close())
	}
	r.mu.Lock()
	conns := r.conns
	r.conns = nil
	r.mu.Unlock()
	for _, c := range conns {
		c.end()
	}
	if r.ln != nil {
		errs = append(errs, r.g.Wait(context.Background()))
	}
	for _, c := range conns {
		errs = append(errs, c.free())
	}
	errs = append(errs, r.err)
	if r.pd != nil {
		errs = append(errs, r.pd.Close())
	}
	if r.own {
		errs = append(errs, r.s.Close())
	}
	return errors.Join(errs...)
}

// work posts a work request and waits for its end.
func (k *Call) work(wr verbs.SendWR) error {
	if k.c.ended.Load() {
		return verbs.ErrDisconnected
	}
	wr.Flags |= verbs.Signaled
	if _, err := k.c.qp.PostSend([]verbs.SendWR{wr}); err != nil {
		return err
	}
	wc, err := k.c.sent.Pop(context.Background())
	if err == nil && wc.Status != verbs.Success {
		err = &verbs.WCError{Status: wc.Status, Op: wr.Op}
	}
	return err
}

func (k *Call) sge(off, n int) verbs.SGE {
	return verbs.SGE{Addr: k.c.mr.Addr() + uint64(off), Length: uint32(n), LKey: k.c.mr.LKey()}
}

func (k *Call) bulk() int { return (k.c.r.cfg.Recvs + 1) * k.c.size }

// Fetch reads a segment, of at most 128 KiB (RDMA READ). A failure ends the connection.
func (k *Call) Fetch(s Segment) ([]byte, error) {
	if s.Length > bulk {
		return nil, fmt.Errorf("chunkfuzz: a segment of %d bytes", s.Length)
	}
	if k.c.ended.Load() {
		return nil, verbs.ErrDisconnected
	}
	at := k.bulk()
	err := k.work(verbs.SendWR{Op: verbs.OpRDMARead, SGEs: []verbs.SGE{k.sge(at, int(s.Length))}, RemoteAddr: s.Offset, RKey: s.Handle})
	if err != nil {
		return nil, err
	}
	return append([]byte(nil), k.c.mr.Bytes()[at:at+int(s.Length)]...), nil
}

// Store writes b, of at most 128 KiB, at a segment, whatever its length (RDMA WRITE).
func (k *Call) Store(s Segment, b []byte) error {
	if len(b) > bulk {
		return fmt.Errorf("chunkfuzz: %d bytes for a segment", len(b))
	}
	if k.c.ended.Load() {
		return verbs.ErrDisconnected
	}
	at := k.bulk()
	copy(k.c.mr.Bytes()[at:], b)
	return k.work(verbs.SendWR{Op: verbs.OpRDMAWrite, SGEs: []verbs.SGE{k.sge(at, len(b))}, RemoteAddr: s.Offset, RKey: s.Handle})
}

// Send sends any bytes as a message.
func (k *Call) Send(b []byte) error { return k.send(b, verbs.SendWR{Op: verbs.OpSend}) }

// SendInv is Send with remote invalidation of a key.
func (k *Call) SendInv(b []byte, key uint32) error {
	return k.send(b, verbs.SendWR{Op: verbs.OpSendWithInv, InvKey: key})
}

func (k *Call) send(b []byte, wr verbs.SendWR) error {
	if k.c.ended.Load() {
		return verbs.ErrDisconnected
	}
	at := k.c.r.cfg.Recvs * k.c.size
	n := copy(k.c.mr.Bytes()[at:at+k.c.size], b)
	wr.SGEs = []verbs.SGE{k.sge(at, n)}
	return k.work(wr)
}

// Disconnect ends the connection.
func (k *Call) Disconnect() { k.c.end() }

// Answer is the header of a legal answer: the XID, and the chunks with the lengths that were offered.
func (k *Call) Answer() *Header {
	h := &Header{}
	h.Reset()
	h.XID, h.Credits = k.Header.XID, 8
	for i := range k.Header.Writes.Len() {
		h.Writes.Add(k.Header.Writes.Chunk(i))
	}
	h.HasReply = k.Header.HasReply
	h.Reply = append(h.Reply, k.Header.Reply...)
	return h
}

// Fill writes b to the segments of a chunk and sets their lengths to what was written (RFC 8166 section 3.4.6).
func (k *Call) Fill(segs []Segment, b []byte) error {
	for i := range segs {
		s := &segs[i]
		n := min(int(s.Length), len(b))
		s.Length = uint32(n)
		if n > 0 {
			if err := k.Store(*s, b[:n]); err != nil {
				return err
			}
		}
		b = b[n:]
	}
	if len(b) > 0 {
		return fmt.Errorf("chunkfuzz: %d bytes too many for the chunk", len(b))
	}
	return nil
}
