package nfsserver_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/svcrdma/rawpeer"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
)

// TestReadWorkRequests counts the RDMA READs of a WRITE: one a segment, but no more SGEs than the device takes, which
// on iWARP is one, a page long, unless the sink is registered.
func TestReadWorkRequests(t *testing.T) {
	for _, c := range []struct {
		p         softroce.Personality
		cfg       nfsserver.Config
		size, seg int
		reads     int
	}{
		{softroce.RoCE, nfsserver.Config{}, 64 << 10, 64 << 10, 1},
		{softroce.RoCE, nfsserver.Config{}, 1 << 20, 1 << 20, 1},
		{softroce.RoCE, nfsserver.Config{}, 64 << 10, 4096, 16},
		{softroce.RoCE, nfsserver.Config{}, 100_000, 33_333, 4},
		{softroce.RoCE, nfsserver.Config{RegisterSink: true}, 1 << 20, 1 << 20, 1},
		{softroce.MT25208, nfsserver.Config{}, 64 << 10, 4096, 16},
		{softroce.MT25208, nfsserver.Config{SinkSGE: 4096}, 64 << 10, 64 << 10, 1},
		{softroce.MT25208, nfsserver.Config{SinkSGE: 4096}, 256 << 10, 256 << 10, 3},
		{softroce.T310, nfsserver.Config{}, 64 << 10, 64 << 10, 16},
		{softroce.T310, nfsserver.Config{}, 64 << 10, 4096, 16},
		{softroce.T310, nfsserver.Config{}, 4097, 4097, 2},
		{softroce.T310, nfsserver.Config{SinkSGE: -1}, 64 << 10, 64 << 10, 1},
		{softroce.T310, nfsserver.Config{RegisterSink: true}, 64 << 10, 64 << 10, 1},
		{softroce.T310, nfsserver.Config{RegisterSink: true}, 64 << 10, 4096, 16},
		{softroce.T310, nfsserver.Config{RegisterSink: true}, 96 << 10, 96 << 10, 1}, // 24 pages, the longest list
		{softroce.T310, nfsserver.Config{RegisterSink: true}, 128 << 10, 128 << 10, 2},
		{softroce.T310, nfsserver.Config{RegisterSink: true}, 1 << 20, 1 << 20, 11},
	} {
		for _, lends := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/register=%t/sge=%d/%d by %d/lends=%t", c.p.Name, c.cfg.RegisterSink, c.cfg.SinkSGE, c.size, c.seg, lends), func(t *testing.T) {
				fs := memfs.New(memfs.Options{RootMode: 0o777})
				exp := nfsserver.Export{FS: fs}
				if !lends {
					exp.FS = plainFS{fs}
				}
				c.cfg.Exports = []nfsserver.Export{exp}
				e := newEnv(t, envOpt{personality: &c.p, cfg: c.cfg})
				e.fs = fs
				fh := e.newFile("f", nil)
				mr := e.mem(c.size, source)
				for i := range 3 { // regions are used again
					want := pattern(c.size, byte(i))
					copy(mr.Bytes(), want)
					var segs []rpcrdma.Segment
					for at := 0; at < c.size; at += c.seg {
						segs = append(segs, seg(mr, at, min(c.seg, c.size-at)))
					}
					e.wantCount("rdma_stat_read", c.reads, func() {
						okStatus(t, e.writeRes(e.writeChunked(fh, 0, c.size, nfs3.UNSTABLE, segs...)).Status)
					})
					require.True(t, bytes.Equal(want, e.contents(fh)))
				}
				assert.Zero(t, e.counter("sink_unregistered"))
				// And out again.
				dst := e.mem(c.size, sink)
				a, _ := e.readChunked(fh, 0, uint32(c.size), []rpcrdma.Segment{seg(dst, 0, c.size)})
				e.readRes(a, true)
				assert.True(t, bytes.Equal(e.contents(fh), dst.Bytes()))
			})
		}
	}
}

func TestRegisterSinkNeedsTheDevice(t *testing.T) {
	s := sched.NewVirtual(0)
	net := softroce.NewNetwork(s, softroce.NetConfig{})
	p := softroce.RoCE
	p.Attr.MaxFastRegPages = 0
	dev, err := net.NewDevice("d", p)
	require.NoError(t, err)
	_, err = nfsserver.New(nfsserver.Config{Device: dev, Sched: s, RegisterSink: true, Exports: []nfsserver.Export{{FS: memfs.New(memfs.Options{})}}})
	require.ErrorIs(t, err, verbs.ErrUnsupported)
	require.NoError(t, dev.Close())
	require.NoError(t, net.Close())
	require.NoError(t, s.Close())
}

func TestSmallSendQueue(t *testing.T) {
	for _, depth := range []int{4, 5, 16} {
		e := newEnv(t, envOpt{cfg: nfsserver.Config{SQDepth: depth}})
		want := pattern(200_000, 1)
		fh := e.newFile("f", nil)
		src, dst := e.mem(200_000, source), e.mem(200_000, sink)
		copy(src.Bytes(), want)
		var in, out []rpcrdma.Segment
		for i := range 40 {
			in = append(in, seg(src, i*5000, 5000))
			out = append(out, seg(dst, i*5000, 5000))
		}
		okStatus(t, e.writeRes(e.writeChunked(fh, 0, 200_000, nfs3.UNSTABLE, in...)).Status)
		a, _ := e.readChunked(fh, 0, 200_000, out)
		e.readRes(a, true)
		assert.True(t, bytes.Equal(want, dst.Bytes()))
		assert.EqualValues(t, 40, e.counter("rdma_stat_read"))
		assert.EqualValues(t, 40, e.counter("rdma_stat_write"))

		// Many at a time, on one queue.
		pump := e.peer.NewPump(append(e.messages(nfs3.READ, fh, 4096, 16), e.messages(nfs3.WRITE, fh, 4096, 16)...)...)
		require.NoError(t, pump.Run(bg, 500, 32))
		assert.Equal(t, depth, e.srv.Connections()[0].FreeSQ, "all slots come back")
	}
}

func TestSendQueueStarvesOnALink(t *testing.T) {
	e := newLinkEnv(t, nfsserver.Config{SQDepth: 8})
	fh := e.newFile("f", pattern(1<<20, 0))
	pump := e.peer.NewPump(e.messages(nfs3.READ, fh, 64<<10, 16)...)
	require.NoError(t, pump.Run(bg, 200, 16))
	assert.NotZero(t, e.counter("rdma_stat_sq_starve"))
	require.NoError(t, e.s.Sleep(bg, sched.Second)) // the last acknowledgement
	assert.Equal(t, 8, e.srv.Connections()[0].FreeSQ)
}

func TestLittlePayloadMemory(t *testing.T) {
	for _, lends := range []bool{true, false} {
		t.Run(fmt.Sprintf("lends=%t", lends), func(t *testing.T) { littlePayloadMemory(t, lends) })
	}
}

func littlePayloadMemory(t *testing.T, lends bool) {
	fs := memfs.New(memfs.Options{RootMode: 0o777})
	exp := nfsserver.Export{FS: fs}
	if !lends {
		exp.FS = plainFS{fs}
	}
	e := newLinkEnv(t, nfsserver.Config{MaxPayload: 64 << 10, PayloadMemory: 1, Exports: []nfsserver.Export{exp}})
	e.fs = fs
	fh := e.newFile("f", pattern(1<<20, 0))
	msgs := append(e.messages(nfs3.READ, fh, 64<<10, 8), e.messages(nfs3.WRITE, fh, 60<<10, 8)...) // suits the file system only at 0
	msgs = append(msgs, e.messages(nfs3.WRITE, fh, 64<<10, 8)...)
	msgs = append(msgs, e.messages(nfs3.READ, fh, 100, 4)...)
	// Long calls with a Read chunk need both kinds of memory.
	src := e.mem(64<<10, source)
	for range 8 {
		h := e.header(rpcrdma.RDMA_NOMSG)
		msg := e.rpcCall(h.XID, nfs3.WRITE, e.writeHead(fh, 0, 50_000, nfs3.UNSTABLE))
		pz := e.mem(len(msg), source)
		copy(pz.Bytes(), msg)
		h.Reads = []rpcrdma.ReadSegment{{Segment: seg(pz, 0, len(msg))}, {Position: uint32(len(msg)), Segment: seg(src, 0, 50_000)}}
		msgs = append(msgs, rpcrdma.AppendHeader(nil, h))
	}
	pump := e.peer.NewPump(msgs...)
	require.NoError(t, pump.Run(bg, 50*len(msgs), 32))
	assert.NotZero(t, e.counter("memory_wait"))
	assert.Zero(t, e.counter("err_chunk_sent"))
	assert.Zero(t, e.counter("nfs_errors"))
}

func TestNoReadsWithoutORD(t *testing.T) {
	e := newEnv(t, envOpt{peer: rawpeer.Config{IRD: -1}})
	fh := e.newFile("f", nil)
	mr := e.mem(4096, source)
	h := &rpcrdma.Header{XID: e.xid + 1}
	e.wantError(e.writeChunked(fh, 0, 4096, nfs3.UNSTABLE, seg(mr, 0, 4096)), h, rpcrdma.ERR_CHUNK)
	e.wantAlive()
}

func TestTooManyConnections(t *testing.T) {
	e := newEnv(t, envOpt{cfg: nfsserver.Config{MaxConns: 2}})
	p := e.dial(envOpt{})
	_, err := rawpeer.Dial(bg, rawpeer.Config{Device: e.cdev, Sched: e.s, Addr: e.srv.Addr()})
	require.ErrorIs(t, err, verbs.ErrRefused)
	assert.EqualValues(t, 1, e.counter("conn_rejected"))
	p.Close()
	require.NoError(t, e.s.Sleep(bg, sched.Second))
	e.dial(envOpt{}).Close()
	e.wantAlive()
}

// TestBadKeysEndOneConnection gives keys that the server may not use, which is an error of the transport: that
// connection ends, and what the calls held comes back.
func TestBadKeysEndOneConnection(t *testing.T) {
	for _, lends := range []bool{true, false} {
		e := newDataEnv(t, lends)
		fh := e.newFile("f", pattern(100_000, 0))
		good := e.peer
		for i := range 6 {
			e.peer = e.dial(envOpt{})
			mr := e.mem(64<<10, []verbs.Access{source, sink}[i%2])
			s := seg(mr, 0, 64<<10)
			switch i / 2 {
			case 0:
				s.Handle ^= 0x100
			case 1:
				s.Length++
			}
			h := e.header(rpcrdma.RDMA_MSG)
			var msg []byte
			if i%2 == 1 { // READ from what is only for writing, and the other way round
				msg = e.rpcCall(h.XID, nfs3.WRITE, e.writeHead(fh, 0, int(s.Length), nfs3.UNSTABLE))
				h.Reads = []rpcrdma.ReadSegment{{Position: uint32(len(msg)), Segment: s}}
			} else {
				h.Writes.Add([]rpcrdma.Segment{s})
				msg = e.rpcCall(h.XID, nfs3.READ, e.readArgs(fh, 0, s.Length))
			}
			e.wantCount("conn_ended", 1, func() {
				require.NoError(t, e.peer.Send(bg, append(rpcrdma.AppendHeader(nil, h), msg...)))
				_, err := e.peer.Recv(bg)
				require.ErrorIs(t, err, rawpeer.ErrEnded)
				e.peer.Close()
				require.NoError(t, e.s.Sleep(bg, sched.Second))
			})
			e.peer = good
			e.wantAlive()
		}
		assert.Equal(t, pattern(100_000, 0), e.contents(fh))
	}
}

func TestDisconnectByServer(t *testing.T) {
	e := newEnv(t, envOpt{})
	e.wantAlive()
	e.srv.Disconnect()
	_, err := e.peer.Recv(bg)
	require.ErrorIs(t, err, rawpeer.ErrEnded)
	e.peer.Close()
	e.peer = e.dial(envOpt{})
	e.wantAlive()
}

func TestSetThreads(t *testing.T) {
	slow := &slowFS{FS: memfs.New(memfs.Options{RootMode: 0o777}), d: sched.Second}
	e := newEnv(t, envOpt{cfg: nfsserver.Config{Exports: []nfsserver.Export{{FS: slow}}, Threads: 2}})
	slow.s = e.s
	run := func() sched.Duration {
		start := e.s.Now()
		for range 12 {
			h := e.header(rpcrdma.RDMA_MSG)
			args := nfs3.AppendMkdirArgs(nil, &nfs3.MkdirArgs{Where: dirOp(e.root, fmt.Sprint(h.XID))})
			require.NoError(t, e.peer.Send(bg, append(rpcrdma.AppendHeader(nil, h), e.rpcCall(h.XID, nfs3.MKDIR, args)...)))
		}
		for range 12 {
			e.answer()
		}
		return e.s.Now().Sub(start)
	}
	assert.Equal(t, 6*sched.Second, run())
	e.srv.SetThreads(6)
	assert.Equal(t, 2*sched.Second, run())
	e.srv.SetThreads(0)
	assert.Equal(t, 12*sched.Second, run())
	assert.EqualValues(t, 1, e.counter("threads"))
	assert.EqualValues(t, 36, e.counter("nfs3_MKDIR"), "counts of threads that ended stay")
}

func TestTrace(t *testing.T) {
	var lines []string
	e := newEnv(t, envOpt{cfg: nfsserver.Config{Trace: func(l string) { lines = append(lines, l) }}})
	fh := e.newFile("f", nil)
	mr := e.mem(4096, source)
	okStatus(t, e.writeRes(e.writeChunked(fh, 0, 4096, nfs3.UNSTABLE, seg(mr, 0, 4096))).Status)
	require.NoError(t, e.peer.Send(bg, []byte("short")))
	e.wantAlive()
	all := strings.Join(lines, "\n")
	for _, want := range []string{
		"accepted", "server:20049 < client:", "server:20049 > client:", "| CALL xid=", "| CREATE where=", "RDMA_MSG", "reads=[@",
		"| WRITE file=", "reduced=4096", "| REPLY xid=", "SUCCESS", "| WRITE NFS3_OK", "| bad: ",
	} {
		assert.Contains(t, all, want)
	}
	for _, l := range lines {
		assert.NotContains(t, l, "\n")
	}
}

func TestConfigErrors(t *testing.T) {
	s := sched.NewVirtual(0)
	net := softroce.NewNetwork(s, softroce.NetConfig{})
	dev, err := net.NewDevice("d", softroce.RoCE)
	require.NoError(t, err)
	exp := []nfsserver.Export{{FS: memfs.New(memfs.Options{})}}
	for name, cfg := range map[string]nfsserver.Config{
		"no device":           {Exports: exp},
		"no exports":          {Device: dev},
		"an export with none": {Device: dev, Exports: []nfsserver.Export{{}}},
		"same path":           {Device: dev, Exports: []nfsserver.Export{{Path: "/a", FS: exp[0].FS}, {Path: "/a/", FS: exp[0].FS}}},
		"same FSID":           {Device: dev, Exports: []nfsserver.Export{{Path: "/a", FS: exp[0].FS, FSID: 2}, {Path: "/b", FS: exp[0].FS}}},
		"payload too small":   {Device: dev, Exports: exp, MaxPayload: 100},
		"credits too many":    {Device: dev, Exports: exp, Credits: 1 << 21},
		"address":             {Device: dev, Exports: exp, Addr: "elsewhere:20049"},
	} {
		cfg.Sched = s
		_, err := nfsserver.New(cfg)
		assert.Error(t, err, name)
	}
	assert.Equal(t, verbs.Resources{}, dev.Resources())
	require.NoError(t, dev.Close())
	require.NoError(t, net.Close())
	assert.Empty(t, s.Tasks())
	require.NoError(t, s.Close())
}
