package nfsserver_test

import (
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/svcrdma/rawpeer"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/verbs"
)

func heapInUse() int64 {
	var m runtime.MemStats
	for range 2 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// perConnection bounds what a connection costs both ends of this test with 4 credits, bytes: receives and reply buffers
// of the thresholds, and queues. See nfsserver.Config.MaxConns.
const perConnection = 1 << 20

// TestManyConnections: a client that connects again and again costs the server MaxConns connections, and what it is
// refused costs nothing.
func TestManyConnections(t *testing.T) {
	if raceEnabled {
		t.Skip("the heap is another one")
	}
	const most = 32
	tries := 500
	if os.Getenv("NFSRDMA_LONG") != "" {
		tries = 10_000
	}
	o := envOpt{cfg: nfsserver.Config{MaxConns: most, Credits: 4}, peer: rawpeer.Config{Recvs: 4, SendSize: 4096}}
	e := newEnv(t, o)
	peers := []*rawpeer.Peer{}
	defer func() {
		for _, p := range peers {
			p.Close()
		}
	}()
	pc := rawpeer.Config{Device: e.cdev, Sched: e.s, Addr: e.srv.Addr(), Recvs: 4, SendSize: 4096,
		PrivateData: rpcrdma.AppendPrivateData(nil, rpcrdma.DefaultPrivateData)}
	before := heapInUse()
	for range most - 1 {
		p, err := rawpeer.Dial(bg, pc)
		require.NoError(t, err)
		peers = append(peers, p)
	}
	full := heapInUse()
	t.Logf("%d bytes a connection, of both ends", (full-before)/(most-1))
	assert.Less(t, full-before, int64(most*perConnection))
	for range tries {
		_, err := rawpeer.Dial(bg, pc)
		require.ErrorIs(t, err, verbs.ErrRefused)
	}
	assert.Less(t, heapInUse(), full+1<<20, "bytes, after %d that were refused", tries)
	assert.Equal(t, most, e.srv.Stats().Transport.Open)
	assert.EqualValues(t, tries, e.srv.Stats().Transport.Rejected)
	e.wantAlive()

	// One that leaves makes room for one.
	peers[0].Close()
	peers = peers[1:]
	require.NoError(t, e.s.Sleep(bg, sched.Second))
	p, err := rawpeer.Dial(bg, pc)
	require.NoError(t, err)
	peers = append(peers, p)
}

// TestNoReceives: a client that calls and never posts receives for the replies loses its connection when the retries
// are over, and the server has everything back.
func TestNoReceives(t *testing.T) {
	if raceEnabled {
		t.Skip("the heap is another one")
	}
	e := newEnv(t, envOpt{cfg: nfsserver.Config{Credits: 64}})
	fh := e.newFile("f", pattern(4096, 1))
	one := func() {
		p := e.dial(envOpt{peer: rawpeer.Config{Recvs: 1, SendSize: 64 << 10}})
		defer p.Close()
		p.HoldReceives()
		for range 64 { // as many as there may be, of inline READs
			h := e.header(rpcrdma.RDMA_MSG)
			msg := e.rpcCall(h.XID, nfs3.READ, nfs3.AppendReadArgs(nil, &nfs3.ReadArgs{File: fh, Count: 1000}))
			if err := p.Send(bg, append(rpcrdma.AppendHeader(nil, h), msg...)); err != nil {
				break // the connection has ended
			}
		}
		require.NoError(t, e.s.Sleep(bg, 60*sched.Second)) // seven times 655 ms, and some
		assert.Equal(t, 1, e.srv.Stats().Transport.Open, "connections")
	}
	for range 5 {
		one()
	}
	before := heapInUse()
	for range 20 {
		one()
	}
	assert.Less(t, heapInUse(), before+256<<10)
	e.wantAlive()
}
