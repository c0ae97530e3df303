package nfsserver_test

import (
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/verbs"
)

// Stand-ins for keys and addresses in fuzzed messages, which the harness replaces by real ones. A segment with
// them is handle, length, offset.
const (
	sourceKey  = 0x6b657921
	sinkKey    = 0x6b657922
	sourceAddr = 0x6164647221
	sinkAddr   = 0x6164647222
	fuzzMem    = 128 << 10
)

func fuzzSeg(key uint32, off uint64, n int) rpcrdma.Segment {
	addr := uint64(sourceAddr)
	if key == sinkKey {
		addr = sinkAddr
	}
	return rpcrdma.Segment{Handle: key, Length: uint32(n), Offset: addr<<16 + off}
}

// relocate replaces the stand-ins in b.
func relocate(b []byte, src, dst verbs.MR) {
	for i := 0; i+4 <= len(b); i += 4 {
		switch binary.BigEndian.Uint32(b[i:]) {
		case sourceKey:
			binary.BigEndian.PutUint32(b[i:], src.RKey())
		case sinkKey:
			binary.BigEndian.PutUint32(b[i:], dst.RKey())
		}
		if i+8 > len(b) {
			continue
		}
		switch v := binary.BigEndian.Uint64(b[i:]); v >> 16 {
		case sourceAddr:
			binary.BigEndian.PutUint64(b[i:], src.Addr()+v&0xffff)
		case sinkAddr:
			binary.BigEndian.PutUint64(b[i:], dst.Addr()+v&0xffff)
		}
	}
}

// fuzzSeeds are a call of each procedure and each shape of chunk lists.
func (e *env) fuzzSeeds(f nfs3.FH) [][]byte {
	var out [][]byte
	add := func(h *rpcrdma.Header, msg []byte) { out = append(out, append(rpcrdma.AppendHeader(nil, h), msg...)) }
	for proc := range nfs3.Proc(nfs3.NumProcs) {
		h := e.header(rpcrdma.RDMA_MSG)
		add(h, e.rpcCall(h.XID, proc, e.someArgs(proc, f)))
	}
	h := e.header(rpcrdma.RDMA_MSG)
	h.Writes.Add([]rpcrdma.Segment{fuzzSeg(sinkKey, 0, 3000), fuzzSeg(sinkKey, 4096, 65536)})
	h.Writes.Add(nil)
	add(h, e.rpcCall(h.XID, nfs3.READ, e.readArgs(f, 0, 60000)))
	h = e.header(rpcrdma.RDMA_MSG)
	h.HasReply, h.Reply = true, []rpcrdma.Segment{fuzzSeg(sinkKey, 0, 70000)}
	add(h, e.rpcCall(h.XID, nfs3.READ, e.readArgs(f, 0, 60000)))
	add(h, e.rpcCall(h.XID, nfs3.READDIRPLUS, e.someArgs(nfs3.READDIRPLUS, f)))
	h = e.header(rpcrdma.RDMA_MSG)
	msg := e.rpcCall(h.XID, nfs3.WRITE, e.writeHead(f, 0, 70001, nfs3.UNSTABLE))
	for i := range 2 {
		h.Reads = append(h.Reads, rpcrdma.ReadSegment{Position: uint32(len(msg)), Segment: fuzzSeg(sourceKey, uint64(i*100), 35000+i)})
	}
	add(h, msg)
	h = e.header(rpcrdma.RDMA_MSG)
	msg = e.rpcCall(h.XID, nfs3.SYMLINK, nfs3.AppendSymlinkArgsHead(nil, &nfs3.SymlinkArgs{Where: dirOp(e.root, "l")}, 21))
	h.Reads = []rpcrdma.ReadSegment{{Position: uint32(len(msg)), Segment: fuzzSeg(sourceKey, 0, 24)}}
	add(h, msg)
	h = e.header(rpcrdma.RDMA_NOMSG)
	h.Reads = []rpcrdma.ReadSegment{{Segment: fuzzSeg(sourceKey, 0, 100)}, {Position: 128, Segment: fuzzSeg(sourceKey, 300, 5000)}}
	add(h, nil)
	for _, proc := range []rpcrdma.Proc{rpcrdma.RDMA_MSGP, rpcrdma.RDMA_DONE, rpcrdma.RDMA_ERROR} {
		h = e.header(proc)
		h.Err = rpcrdma.ERR_VERS
		add(h, make([]byte, 40))
	}
	h = e.header(rpcrdma.RDMA_MSG)
	add(h, rpc.AppendReplySuccess(nil, h.XID))
	return out
}

// FuzzReceive sends any bytes as a message. What comes may be a reply, an RDMA_ERROR, nothing, or the end of the
// connection; then the server must serve as before, and hold no more than before.
func FuzzReceive(f *testing.F) {
	fs := memfs.New(memfs.Options{RootMode: 0o777, MaxFiles: 100, Capacity: 64 << 20})
	e := newEnv(f, envOpt{cfg: nfsserver.Config{MaxPayload: 128 << 10, Exports: []nfsserver.Export{{FS: fs}}}})
	e.fs = fs
	file := e.newFile("f", pattern(100_000, 0))
	for _, b := range e.fuzzSeeds(file) {
		f.Add(b)
	}
	var src, dst verbs.MR
	connect := func() {
		src, dst = e.mem(fuzzMem, source), e.mem(fuzzMem, sink)
		// A message for long calls to find.
		copy(src.Bytes(), e.rpcCall(0x77777777, nfs3.WRITE, e.writeHead(file, 0, 5000, nfs3.UNSTABLE)))
		e.xid = 0x80000000
	}
	connect()
	f.Fuzz(func(t *testing.T, b []byte) {
		e.t = t
		b = append([]byte(nil), b[:min(len(b), 5000)]...)
		relocate(b, src, dst)
		err := e.peer.Send(bg, b)
		if err == nil {
			h := e.header(rpcrdma.RDMA_MSG)
			err = e.peer.Send(bg, append(rpcrdma.AppendHeader(nil, h), e.rpcCall(h.XID, nfs3.NULL, nil)...))
			for err == nil { // the answer to b, if any, comes before or after
				var m, e2 = e.peer.Recv(bg)
				if err = e2; err == nil && len(m.Bytes) >= 4 && binary.BigEndian.Uint32(m.Bytes) == h.XID {
					break
				}
			}
		}
		require.NoError(t, e.s.Sleep(bg, sched.Millisecond))
		if err != nil {
			e.peer.Close()
			require.NoError(t, e.s.Sleep(bg, sched.Second))
			assert.Empty(t, e.srv.Connections())
			e.peer = e.dial(envOpt{})
			connect()
		}
		for ok := true; ok; { // answers to b that came late
			_, ok = e.peer.TryRecv()
		}
		assert.Zero(t, fs.Pinned())
		e.wantAlive()
		require.NoError(t, e.s.Sleep(bg, sched.Millisecond))
		c := e.srv.Connections()
		require.Len(t, c, 1)
		assert.Equal(t, 256, c[0].FreeSQ)
	})
	e.t = f
}

// TestHostileInputDoesNotGrow sends bad messages of each kind many times, and wants the heap where it was.
func TestHostileInputDoesNotGrow(t *testing.T) {
	if raceEnabled {
		t.Skip("the heap is another one")
	}
	e := newEnv(t, envOpt{})
	fh := e.newFile("f", nil)
	mr := e.mem(4096, source)
	var bad [][]byte
	head := func(f func(h *rpcrdma.Header)) {
		h := e.header(rpcrdma.RDMA_MSG)
		msg := e.rpcCall(h.XID, nfs3.WRITE, e.writeHead(fh, 0, 1<<31-1, nfs3.UNSTABLE))
		f(h)
		bad = append(bad, append(rpcrdma.AppendHeader(nil, h), msg...))
	}
	pos := uint32(len(e.rpcCall(0, nfs3.WRITE, e.writeHead(fh, 0, 0, nfs3.UNSTABLE))))
	read := func(p, n uint32) rpcrdma.ReadSegment {
		s := seg(mr, 0, 0)
		s.Length = n
		return rpcrdma.ReadSegment{Position: p, Segment: s}
	}
	// F02, F03, F04: positions and lengths that would wrap.
	head(func(h *rpcrdma.Header) { h.Reads = []rpcrdma.ReadSegment{read(pos, 1<<31-1)} })
	head(func(h *rpcrdma.Header) { h.Reads = []rpcrdma.ReadSegment{read(pos, 1<<32-1), read(pos, 1<<32-1)} })
	head(func(h *rpcrdma.Header) { h.Reads = []rpcrdma.ReadSegment{read(pos+4, 100)} })
	head(func(h *rpcrdma.Header) { h.Reads = []rpcrdma.ReadSegment{read(1<<32-4, 100)} })
	head(func(h *rpcrdma.Header) { h.Reads = []rpcrdma.ReadSegment{read(4, 100), read(8, 100)} })
	head(func(h *rpcrdma.Header) {
		h.Proc = rpcrdma.RDMA_NOMSG
		h.Reads = []rpcrdma.ReadSegment{read(0, 1<<32-1), read(0, 1<<32-1)}
	})
	head(func(h *rpcrdma.Header) {
		for range 150 {
			h.Reads = append(h.Reads, read(pos, 1<<31))
		}
	})
	for _, count := range []uint32{1 << 28, 1<<28 + 1, 1 << 31, 1<<32 - 1} {
		h := e.header(rpcrdma.RDMA_MSG)
		b := rpcrdma.AppendHeader(nil, h)[:20]
		b = binary.BigEndian.AppendUint32(b, 1)
		b = binary.BigEndian.AppendUint32(b, count)
		bad = append(bad, append(b, make([]byte, 400)...))
	}
	run := func(n int) {
		for i := range n {
			a := e.exchange(bad[i%len(bad)])
			require.Equal(t, rpcrdma.RDMA_ERROR, a.h.Proc, "message %d", i%len(bad))
			require.Equal(t, rpcrdma.ERR_CHUNK, a.h.Err)
		}
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	run(100 * len(bad)) // each request has its chunk lists at their longest
	before := heap()
	run(300 * len(bad))
	assert.Less(t, heap(), before+64<<10)
	assert.Zero(t, e.counter("rdma_stat_read"))
	e.wantAlive()
}
