package nfsserver_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/xprt/svcrdma/rawpeer"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/nfsserver/vfs"
)

// plainFS hides that a file system lends its memory.
type plainFS struct{ vfs.FS }

// messages are calls for the pump: each of its own file offset and client memory.
func (e *env) messages(proc nfs3.Proc, fh nfs3.FH, size, n int) [][]byte {
	e.t.Helper()
	access := sink
	if proc == nfs3.WRITE {
		access = source
	}
	mr := e.mem(max(size, 1)*n, access)
	var out [][]byte
	for i := range n {
		h := e.header(rpcrdma.RDMA_MSG)
		var msg []byte
		s := seg(mr, i*size, size)
		switch proc {
		case nfs3.READ:
			h.Writes.Add([]rpcrdma.Segment{s})
			msg = e.rpcCall(h.XID, proc, e.readArgs(fh, uint64(i*size), uint32(size)))
		case nfs3.WRITE:
			msg = e.rpcCall(h.XID, proc, e.writeHead(fh, uint64(i*size), size, nfs3.UNSTABLE))
			h.Reads = []rpcrdma.ReadSegment{{Position: uint32(len(msg)), Segment: s}}
		case nfs3.GETATTR:
			msg = e.rpcCall(h.XID, proc, nfs3.AppendGetattrArgs(nil, &nfs3.GetattrArgs{Object: fh}))
		default:
			msg = e.rpcCall(h.XID, nfs3.NULL, nil)
		}
		out = append(out, append(rpcrdma.AppendHeader(nil, h), msg...))
	}
	return out
}

type hotCase struct {
	proc  nfs3.Proc
	size  int
	plain bool
}

func hotCases() []hotCase {
	return []hotCase{
		{nfs3.NULL, 0, false}, {nfs3.GETATTR, 0, false},
		{nfs3.READ, 4 << 10, false}, {nfs3.READ, 64 << 10, false}, {nfs3.READ, 1 << 20, false}, {nfs3.READ, 4 << 10, true},
		{nfs3.WRITE, 4 << 10, false}, {nfs3.WRITE, 64 << 10, false}, {nfs3.WRITE, 1 << 20, false}, {nfs3.WRITE, 64 << 10, true},
	}
}

func (c hotCase) String() string {
	s := fmt.Sprintf("%v%dK", c.proc, c.size>>10)
	if c.plain {
		s += "-copy"
	}
	return s
}

func (c hotCase) setup(t testing.TB, live bool) (*env, *rawpeer.Pump) {
	fs := memfs.New(memfs.Options{RootMode: 0o777})
	exp := nfsserver.Export{FS: fs}
	if c.plain {
		exp.FS = plainFS{fs}
	}
	e := newEnv(t, envOpt{live: live, cfg: nfsserver.Config{Exports: []nfsserver.Export{exp}}})
	e.fs = fs
	fh := e.newFile("f", pattern(16<<20, 0))
	n := 16
	if c.size > 0 {
		n = min(64, 16<<20/c.size)
	}
	return e, e.peer.NewPump(e.messages(c.proc, fh, c.size, n)...)
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, c := range hotCases() {
		t.Run(c.String(), func(t *testing.T) {
			_, pump := c.setup(t, false)
			calls := 200
			if c.size >= 64<<10 {
				calls = 50
			}
			for range 20 { // each queue entry of the device has had each kind of work
				require.NoError(t, pump.Run(bg, calls, 32))
			}
			n := testing.AllocsPerRun(3, func() {
				if err := pump.Run(bg, calls, 32); err != nil {
					t.Error(err)
				}
			})
			assert.Less(t, n/float64(calls), 0.05, "allocations a call")
		})
	}
}

func BenchmarkHotPath(b *testing.B) {
	for _, mode := range []string{"virtual", "live"} {
		for _, c := range hotCases() {
			for _, depth := range []int{1, 32} {
				b.Run(fmt.Sprintf("%s/%v/depth%d", mode, c, depth), func(b *testing.B) {
					_, pump := c.setup(b, mode == "live")
					require.NoError(b, pump.Run(bg, 100, depth))
					b.SetBytes(int64(c.size))
					b.ReportAllocs()
					b.ResetTimer()
					if err := pump.Run(bg, b.N, depth); err != nil {
						b.Fatal(err)
					}
				})
			}
		}
	}
}
