package nfsserver

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/svc"
	"example.org/nfsrdma/internal/xprt/svcrdma"
	"example.org/nfsrdma/internal/xprt/svctcp"
)

// Server serves its exports until Close. Its methods may be called by several tasks at once.
type Server struct {
	cfg      Config
	s        *sched.Sched
	ownSched bool
	pool     *svc.Pool
	x        *svcrdma.Transport // nil without Device
	tcp      *svctcp.Transport  // nil without TCP
	exports  []*export
	verf     uint64
	drc      *drc
	mounts   mountList
	n        counters

	ctx    context.Context // of file system calls
	cancel context.CancelFunc
	group  *sched.Group

	mu         sync.Mutex
	want       int // threads
	threads    []*thread
	endedProcs procCounts
	closed     bool
}

// New starts a server: it listens when New returns.
func New(cfg Config) (*Server, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	srv := &Server{cfg: cfg, s: cfg.Sched}
	if srv.s == nil {
		srv.s, srv.ownSched = sched.NewLive(rand.Uint64()), true
	}
	srv.verf = srv.newVerf()
	srv.drc = newDRC(cfg.DRCEntries, &srv.n)
	for i := range cfg.Exports {
		srv.exports = append(srv.exports, newExport(&cfg.Exports[i]))
	}
	srv.pool = svc.NewPool(srv.s)
	if err := srv.listen(); err != nil {
		if srv.ownSched {
			_ = srv.s.Close()
		}
		return nil, err
	}
	srv.ctx, srv.cancel = srv.s.WithCancel(context.Background())
	srv.group = srv.s.NewGroup("the nfsd threads")
	srv.SetThreads(cfg.Threads)
	return srv, nil
}

// listen starts the transports.
func (s *Server) listen() (err error) {
	newState := func() svc.State { return &callState{srv: s} }
	newReplyState := func() svc.State { return &replyState{} }
	if s.cfg.Device != nil {
		c := s.cfg.rdma()
		c.Sched, c.Pool, c.NewState, c.NewReplyState = s.s, s.pool, newState, newReplyState
		if s.cfg.Trace != nil {
			c.TraceMsg, c.TraceConn = s.traceRDMA, s.traceConn
		}
		if s.x, err = svcrdma.New(c); err != nil {
			return err
		}
	}
	if len(s.cfg.TCP) > 0 {
		c := s.cfg.tcp()
		c.Sched, c.Pool, c.NewState, c.NewReplyState, c.DataAt = s.s, s.pool, newState, newReplyState, writeDataAt
		if s.cfg.Trace != nil {
			c.TraceMsg, c.TraceConn = s.traceTCP, s.traceTCPConn
		}
		if s.tcp, err = svctcp.New(c); err != nil && s.x != nil {
			s.x.Shutdown()
			s.pool.Abort()
			_ = s.x.Close()
		}
	}
	return err
}

// newVerf makes the verifier of this instance: in virtual time the same for the same seed, time and Boot.
func (s *Server) newVerf() uint64 {
	if !s.s.Virtual() {
		return rand.Uint64()
	}
	h := fnv.New64a()
	var b [24]byte
	binary.BigEndian.PutUint64(b[:], s.s.Seed())
	binary.BigEndian.PutUint64(b[8:], uint64(s.s.Now()))
	binary.BigEndian.PutUint64(b[16:], s.cfg.Boot)
	_, _ = h.Write(b[:])
	_, _ = h.Write([]byte(s.cfg.Addr))
	return h.Sum64()
}

// Addr is where it listens: on the device, or if there is none the first TCP address.
func (s *Server) Addr() string {
	if s.x == nil {
		return s.tcp.Addrs()[0]
	}
	return s.x.Addr()
}

// TCPAddrs are the addresses of Config.TCP, with the ports that were chosen for port 0.
func (s *Server) TCPAddrs() []string {
	if s.tcp == nil {
		return nil
	}
	return s.tcp.Addrs()
}

// Threads is the number of nfsd threads.
func (s *Server) Threads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.want
}

// SetThreads changes the number of nfsd threads to n, at least 1. Threads beyond it end when they have
// nothing to do.
func (s *Server) SetThreads(n int) {
	n = max(n, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	for ; s.want < n; s.want++ {
		t := newThread(s)
		s.threads = append(s.threads, t)
		s.group.Go("nfsd", t.run)
	}
	for ; s.want > n; s.want-- {
		s.pool.Stop()
	}
}

func (t *thread) run() {
	t.srv.pool.Run(t.xt, t)
	s := t.srv
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range t.procs {
		s.endedProcs[i] += t.procs[i].Load()
	}
	s.n.zeroCopyRead.Add(t.zeroCopyReads.Load())
	s.n.zeroCopyWrite.Add(t.zeroCopyWrites.Load())
	s.n.readBytes.Add(t.readBytes.Load())
	s.n.writeBytes.Add(t.writeBytes.Load())
	if i := slices.Index(s.threads, t); i >= 0 {
		s.threads = slices.Delete(s.threads, i, i+1)
	}
}

// Conn tells of a connection.
type Conn struct {
	Proto                  string // "rdma", or "tcp", which has nothing of what follows Peer
	Peer                   string // address
	InlineSend, InlineRecv int    // thresholds in force, bytes
	RemoteInvalidation     bool   // agreed by both sides
	IRD, ORD               int    // negotiated
	FreeSQ                 int    // send queue slots not in use
}

// Connections lists the connections that serve calls.
func (s *Server) Connections() []Conn {
	var out []Conn
	if s.x != nil {
		for _, c := range s.x.Conns() {
			if !c.Ready() {
				continue
			}
			send, recv := c.Inline()
			ird, ord := c.Negotiated()
			out = append(out, Conn{Proto: "rdma", Peer: c.Peer(), InlineSend: send, InlineRecv: recv,
				RemoteInvalidation: c.RemoteInvalidation(), IRD: ird, ORD: ord, FreeSQ: c.FreeSlots()})
		}
	}
	if s.tcp != nil {
		for _, c := range s.tcp.Conns() {
			out = append(out, Conn{Proto: "tcp", Peer: c.Peer()})
		}
	}
	return out
}

// Disconnect ends all connections, as a failure would; clients may connect again.
func (s *Server) Disconnect() {
	if s.x != nil {
		for _, c := range s.x.Conns() {
			c.Close()
		}
	}
	if s.tcp != nil {
		for _, c := range s.tcp.Conns() {
			c.Close()
		}
	}
}

// drainPoll is how often Shutdown looks whether the calls have ended.
const drainPoll = 5 * sched.Millisecond

// Shutdown stops listening, drops the calls that come from now on, which clients send again to who serves them next,
// waits until those that are served are answered, or ctx ends, and closes.
func (s *Server) Shutdown(ctx context.Context) error {
	if s.x != nil {
		s.x.Drain()
	}
	if s.tcp != nil {
		s.tcp.Drain()
	}
	for s.Outstanding() > 0 && s.s.Sleep(ctx, drainPoll) == nil {
		continue
	}
	return s.Close()
}

// Outstanding is the number of calls that have come and are not answered.
func (s *Server) Outstanding() int {
	n := 0
	if s.x != nil {
		n += s.x.Outstanding()
	}
	if s.tcp != nil {
		n += s.tcp.Outstanding()
	}
	return n
}

// Close ends connections and threads, cancels file system calls that wait, and gives everything back. Again,
// it does nothing.
func (s *Server) Close() error {
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.mu.Unlock()
	if again {
		return nil
	}
	if s.x != nil {
		s.x.EndConns()
	}
	if s.tcp != nil {
		s.tcp.EndConns()
	}
	s.cancel()
	if s.x != nil {
		s.x.Shutdown()
	}
	if s.tcp != nil {
		s.tcp.Shutdown()
	}
	s.pool.Close()
	_ = s.group.Wait(sched.Cleanup)
	s.pool.Abort()
	var err error
	if s.x != nil {
		err = s.x.Close()
	}
	if s.ownSched {
		if e := s.s.Close(); err == nil {
			err = e
		}
	}
	return err
}
