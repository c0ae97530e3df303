package nfsserver_test

import (
	"context"
	"fmt"
	"math/rand/v2"
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

// mix is calls of all kinds for the pump, whose memory is of e.peer. With names, one of them is not idempotent: the pump
// repeats it, and a duplicate that comes while it runs gets no answer.
func (e *env) mix(fh nfs3.FH, names bool) [][]byte {
	msgs := append(e.messages(nfs3.READ, fh, 64<<10, 4), e.messages(nfs3.WRITE, fh, 64<<10, 4)...)
	msgs = append(msgs, e.messages(nfs3.WRITE, fh, 5000, 2)...)
	msgs = append(msgs, e.messages(nfs3.GETATTR, fh, 0, 2)...)
	src := e.mem(64<<10, source)
	dst := e.mem(64<<10, sink)
	h := e.header(rpcrdma.RDMA_NOMSG)
	msg := e.rpcCall(h.XID, nfs3.WRITE, e.writeHead(fh, 0, 50_000, nfs3.UNSTABLE))
	pz := e.mem(len(msg), source)
	copy(pz.Bytes(), msg)
	h.Reads = []rpcrdma.ReadSegment{{Segment: seg(pz, 0, len(msg))}, {Position: uint32(len(msg)), Segment: seg(src, 0, 50_000)}}
	msgs = append(msgs, rpcrdma.AppendHeader(nil, h))
	h = e.header(rpcrdma.RDMA_MSG)
	h.HasReply, h.Reply = true, []rpcrdma.Segment{seg(dst, 0, 64<<10)}
	msgs = append(msgs, append(rpcrdma.AppendHeader(nil, h), e.rpcCall(h.XID, nfs3.READDIRPLUS,
		nfs3.AppendReaddirplusArgs(nil, &nfs3.ReaddirplusArgs{Dir: e.root, DirCount: 8000, MaxCount: 32000}))...))
	if names {
		h = e.header(rpcrdma.RDMA_MSG)
		msgs = append(msgs, append(rpcrdma.AppendHeader(nil, h), e.rpcCall(h.XID, nfs3.MKDIR,
			nfs3.AppendMkdirArgs(nil, &nfs3.MkdirArgs{Where: dirOp(e.root, fmt.Sprint("d", h.XID))}))...))
	}
	return msgs
}

// dozeFS takes a random while for each READ and WRITE, so that threads are found inside.
type dozeFS struct {
	vfs.PageWriter
	vfs.FS
	s   **sched.Sched
	rng *rand.Rand
}

func (f *dozeFS) Attr(ctx context.Context, id vfs.ID, a *vfs.Attr) error {
	if f.rng != nil && f.rng.IntN(4) == 0 {
		if err := (*f.s).Sleep(ctx, sched.Duration(f.rng.IntN(50))*sched.Microsecond); err != nil {
			return err
		}
	}
	return f.FS.Attr(ctx, id, a)
}

// TestTeardownAtAnyMoment ends server, peers, connections or the scheduler while calls of all kinds run. The end of
// each env checks that nothing is left.
func TestTeardownAtAnyMoment(t *testing.T) {
	seeds := 200
	if raceEnabled || testing.Short() {
		seeds = 30
	}
	for seed := range uint64(seeds) {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { teardown(t, seed) }) {
			break
		}
	}
}

func teardown(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	personalities := softroce.Personalities()
	p := personalities[rng.IntN(len(personalities))]
	fs := memfs.New(memfs.Options{RootMode: 0o777})
	var s *sched.Sched
	cfg := nfsserver.Config{Threads: 1 + rng.IntN(8), Credits: 4 + rng.IntN(30), Exports: []nfsserver.Export{{FS: fs}}}
	if rng.IntN(2) == 0 {
		cfg.Exports[0].FS = plainFS{fs}
	}
	if rng.IntN(2) == 0 {
		cfg.Exports[0].FS = &dozeFS{PageWriter: fs, FS: fs, s: &s, rng: rng}
	}
	if rng.IntN(3) == 0 {
		cfg.SQDepth = 8
	}
	if rng.IntN(3) == 0 {
		cfg.MaxPayload, cfg.PayloadMemory = 64<<10, 1
	}
	cfg.RegisterSink = rng.IntN(3) == 0
	e := newEnv(t, envOpt{seed: seed, personality: &p, cfg: cfg, link: &link.Config{BitsPerSecond: 8e9, Delay: time.Duration(rng.IntN(30)) * time.Microsecond}})
	s, e.fs = e.s, fs
	e.setUID(1)
	fh := e.newFile("f", pattern(1<<20, 0))
	load := e.s.NewGroup("the load")
	first := e.peer
	for i := range 3 {
		if i > 0 {
			e.peer = e.dial(envOpt{})
		}
		peer := e.peer
		pump := peer.NewPump(e.mix(fh, true)...)
		load.Go(fmt.Sprint("load ", i), func() {
			_ = pump.Run(bg, 1_000_000, 4+rng.IntN(cfg.Credits-3))
			peer.Close()
		})
	}
	e.peer = nil
	stop := false
	load.Go("dialer", func() { // connections that come up while others end
		for !stop {
			p, err := rawpeer.Dial(bg, rawpeer.Config{Device: e.cdev, Sched: e.s, Addr: e.srv.Addr()})
			if err != nil || e.s.Sleep(bg, 50*sched.Microsecond) != nil {
				stop = true
			}
			if err == nil {
				p.Close()
			}
		}
	})
	defer func() { stop = true }()
	require.NoError(t, e.s.Sleep(bg, sched.Duration(rng.IntN(600))*sched.Microsecond))
	switch rng.IntN(5) {
	case 0: // server first
		assert.NoError(t, e.srv.Close())
	case 1: // one client, then the server
		first.Disconnect()
		require.NoError(t, e.s.Sleep(bg, sched.Duration(rng.IntN(100))*sched.Microsecond))
		assert.NoError(t, e.srv.Close())
	case 2: // connections, by the server
		e.srv.Disconnect()
	case 3: // a client with all its work, at once
		first.Close()
		require.NoError(t, e.s.Sleep(bg, sched.Duration(rng.IntN(100))*sched.Microsecond))
		e.srv.Disconnect()
		assert.NoError(t, e.srv.Close())
	case 4: // the scheduler
		assert.NoError(t, e.s.Close())
		return
	}
	stop = true
	require.NoError(t, load.Wait(bg))
}

// TestOwnScheduler leaves Config.Sched nil.
func TestOwnScheduler(t *testing.T) {
	s := sched.NewLive(1)
	net := softroce.NewNetwork(s, softroce.NetConfig{})
	dev, err := net.NewDevice("d", softroce.RoCE)
	require.NoError(t, err)
	for range 2 {
		srv, err := nfsserver.New(nfsserver.Config{Device: dev, Exports: []nfsserver.Export{{FS: memfs.New(memfs.Options{})}}})
		require.NoError(t, err)
		p, err := rawpeer.Dial(bg, rawpeer.Config{Device: dev, Sched: s, Addr: srv.Addr()})
		require.NoError(t, err)
		require.NoError(t, p.NewPump(nullMsg()).Run(bg, 100, 8))
		p.Close()
		require.NoError(t, srv.Close())
		require.NoError(t, srv.Close(), "again")
	}
	require.Equal(t, verbs.Resources{}, dev.Resources())
	require.NoError(t, dev.Close())
	require.NoError(t, net.Close())
	require.NoError(t, s.Close())
}

func nullMsg() []byte {
	var h rpcrdma.Header
	h.Reset()
	return append(rpcrdma.AppendHeader(nil, &h), rpc.AppendCall(nil, &rpc.Call{Prog: nfs3.Program, Vers: nfs3.Version})...)
}

func TestLiveLoad(t *testing.T) {
	e := newEnv(t, envOpt{live: true})
	fh := e.newFile("f", pattern(1<<20, 0))
	load := e.s.NewGroup("the load")
	peers := 3
	for i := range peers {
		if i > 0 {
			e.peer = e.dial(envOpt{})
		}
		peer := e.peer
		pump := peer.NewPump(e.mix(fh, false)...)
		load.Go(fmt.Sprint("load ", i), func() {
			assert.NoError(t, pump.Run(bg, 500, 32))
			peer.Close()
		})
	}
	e.peer = nil
	for n := range 6 {
		e.srv.SetThreads(1 + n*3%7)
		_ = e.srv.Stats()
		_ = e.srv.Connections()
		require.NoError(t, e.s.Sleep(bg, sched.Millisecond))
	}
	require.NoError(t, load.Wait(bg))
	assert.Zero(t, e.counter("nfs_errors"))
	assert.Zero(t, e.counter("err_chunk_sent"))
}

func TestLiveTeardown(t *testing.T) {
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 1))
		e := newEnv(t, envOpt{live: true, seed: seed, cfg: nfsserver.Config{RegisterSink: seed%2 == 0}})
		fh := e.newFile("f", pattern(1<<20, 0))
		load := e.s.NewGroup("the load")
		for i := range 2 {
			if i > 0 {
				e.peer = e.dial(envOpt{})
			}
			peer := e.peer
			pump := peer.NewPump(e.mix(fh, true)...)
			load.Go(fmt.Sprint("load ", i), func() {
				_ = pump.Run(bg, 1_000_000, 32)
				peer.Close()
			})
		}
		e.peer = nil
		require.NoError(t, e.s.Sleep(bg, sched.Duration(rng.IntN(2000))*sched.Microsecond))
		if seed%3 == 0 {
			e.srv.Disconnect()
		} else {
			assert.NoError(t, e.srv.Close())
		}
		require.NoError(t, load.Wait(bg))
	}
}
