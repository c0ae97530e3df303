package svctcp

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/svc"
)

type handlerFunc func(t *svc.Thread, r svc.Request)

func (f handlerFunc) Serve(t *svc.Thread, r svc.Request) { f(t, r) }

// counted is a State that counts its releases.
type counted struct{ n *int }

var countMu sync.Mutex

func (c counted) Release() {
	countMu.Lock()
	defer countMu.Unlock()
	*c.n++
}

// rig is a transport with two threads and a handler, and a client.
type rig struct {
	t        *testing.T
	x        *Transport
	c        net.Conn
	requests int // releases of request states
	replies  int
}

// itemAt 8 is the data item of a call: XID, CALL, count, bytes.
func itemAt(msg []byte) (pos int, n uint32, ok bool) {
	return 12, binary.BigEndian.Uint32(msg[8:]), true
}

func newRig(t *testing.T, cfg Config, f handlerFunc) *rig {
	t.Helper()
	s := sched.NewLive(1)
	r := &rig{t: t}
	cfg.Sched, cfg.Pool, cfg.Addrs, cfg.DataAt = s, svc.NewPool(s), []string{"127.0.0.1:0"}, itemAt
	cfg.NewState = func() svc.State { return counted{&r.requests} }
	cfg.NewReplyState = func() svc.State { return counted{&r.replies} }
	x, err := New(cfg)
	require.NoError(t, err)
	r.x = x
	threads := s.NewGroup("threads")
	for range 2 {
		th := cfg.Pool.NewThread()
		threads.Go("thread", func() { cfg.Pool.Run(th, f) })
	}
	r.c, err = net.Dial("tcp", x.Addrs()[0])
	require.NoError(t, err)
	require.NoError(t, r.c.SetDeadline(time.Now().Add(20*time.Second)))
	t.Cleanup(func() {
		r.c.Close()
		x.Shutdown()
		cfg.Pool.Close()
		require.NoError(t, threads.Wait(sched.Cleanup))
		cfg.Pool.Abort()
		assert.Zero(t, x.Outstanding())
		limit := max(x.cfg.PayloadMemory-x.cfg.PayloadMemory/4, x.cfg.MaxPayload+headRoom)
		assert.Equal(t, limit, x.data.left.Free(), "memory for data")
		require.NoError(t, s.Close())
	})
	return r
}

// send sends a call with a data item of n bytes, all of them b.
func (r *rig) send(xid uint32, n int, b byte) {
	r.t.Helper()
	msg := binary.BigEndian.AppendUint32(nil, xid)
	msg = binary.BigEndian.AppendUint32(msg, uint32(rpc.CALL))
	msg = binary.BigEndian.AppendUint32(msg, uint32(n))
	msg = append(msg, bytes.Repeat([]byte{b}, (n+3)&^3)...)
	_, err := r.c.Write(append(rpc.AppendRecordMark(nil, len(msg), true), msg...))
	require.NoError(r.t, err)
}

// recv gives the next record.
func (r *rig) recv() []byte {
	r.t.Helper()
	var mark [4]byte
	_, err := io.ReadFull(r.c, mark[:])
	require.NoError(r.t, err)
	n, _, _ := rpc.ConsumeRecordMark(mark[:])
	b := make([]byte, n)
	_, err = io.ReadFull(r.c, b)
	require.NoError(r.t, err)
	return b
}

// TestItemsWaitForMemory: there is memory for one item at a time, and every call gets its own data, whichever way it
// asks for memory.
func TestItemsWaitForMemory(t *testing.T) {
	const size = 100_000
	lent := make([]byte, size)
	var mu sync.Mutex
	r := newRig(t, Config{MaxPayload: size, PayloadMemory: 1}, func(th *svc.Thread, r svc.Request) {
		_, n, chunk := r.ReadChunk()
		if !chunk {
			t.Error("no data item")
		}
		reserve := r.XID()%2 == 0
		if !r.Pulled() {
			if reserve {
				if r.Reserve(int(n)) {
					mu.Lock()
					r.Pull(th, []svc.Mem{{Bytes: lent[:10], Len: 10}, {Bytes: lent[10:], Len: uint32(n) - 10}}, int(n))
				}
				return
			}
			m, err := r.Need(int(n))
			if err != nil {
				t.Error(err)
			}
			if m != nil {
				r.Pull(th, []svc.Mem{m.Slice(0, int(n))}, int(n))
			}
			return
		}
		p := r.Reply(th)
		p.Msg = binary.BigEndian.AppendUint32(p.Msg, r.XID())
		if reserve {
			p.Msg = append(p.Msg, lent[n-1])
			mu.Unlock()
		} else {
			p.EndWithItem()
			p.AddBuffer(r, int(n))
		}
		p.Send(th, r)
	})
	go func() {
		for i := range 20 {
			r.send(uint32(i), size, byte(i))
		}
	}()
	seen := map[uint32]bool{}
	for range 20 {
		b := r.recv()
		xid := binary.BigEndian.Uint32(b)
		want := bytes.Repeat([]byte{byte(xid)}, size)
		if xid%2 == 0 {
			want = want[:1]
		}
		require.True(t, bytes.Equal(want, b[4:]), "call %d", xid)
		seen[xid] = true
	}
	assert.Len(t, seen, 20)
	assert.Positive(t, r.x.Stats().MemoryWait)
}

// TestEndsOfARequest without its data: the next call is read all the same.
func TestEndsOfARequest(t *testing.T) {
	r := newRig(t, Config{MaxPayload: 1 << 20}, func(th *svc.Thread, r svc.Request) {
		switch r.XID() % 4 {
		case 0:
			r.Drop()
		case 1:
			r.Fail(th)
		case 2:
			p := r.Reply(th)
			p.AddData(svc.Mem{Bytes: []byte("gone"), Len: 4})
			p.Discard()
			p = r.Reply(th)
			p.Msg = append(p.Msg, "again"...)
			p.Send(th, r)
		default:
			if m, _ := r.Need(50_000); m == nil {
				t.Error("no memory")
			}
			p := r.Reply(th)
			p.UseBuffer(r)
			p.Msg = append(p.Msg, make([]byte, min(50_000, p.Room()))...)
			p.AddData(svc.Mem{Bytes: []byte("tail"), Len: 4})
			p.Send(th, r)
		}
	})
	for i := range 4 {
		r.send(uint32(4*i), 200_000, 1)
		r.send(uint32(4*i+1), 200_000, 1)
		var p rpc.Reply
		_, err := rpc.ConsumeReply(r.recv(), &p)
		require.NoError(t, err)
		assert.Equal(t, rpc.GARBAGE_ARGS, p.Accept)
		r.send(uint32(4*i+2), 200_000, 1)
		assert.Equal(t, "again", string(r.recv()))
		r.send(uint32(4*i+3), 10, 1)
		assert.Equal(t, append(make([]byte, 50_000), "tail"...), r.recv())
	}
	st := r.x.Stats()
	assert.EqualValues(t, 4, st.Dropped)
	assert.EqualValues(t, 4, st.BadItem)
	assert.Zero(t, st.Pulls)
	assert.Zero(t, r.requests, "no request was aborted")
}

func TestMemoryClasses(t *testing.T) {
	for _, payload := range []int{1024, 64 << 10, 100_000, 1 << 20, 5 << 20} {
		m := &memory{x: &Transport{cfg: Config{MaxPayload: payload}}}
		most := classOf(payload + headRoom)
		rapid.Check(t, func(t *rapid.T) {
			n := rapid.IntRange(0, payload+headRoom).Draw(t, "n")
			k := classOf(n)
			require.LessOrEqual(t, k, most)
			require.GreaterOrEqual(t, m.classLen(k), n)
		})
	}
}

func TestConfig(t *testing.T) {
	s := sched.NewLive(1)
	good := Config{Sched: s, Pool: svc.NewPool(s), Addrs: []string{"127.0.0.1:0"}, DataAt: itemAt,
		NewState: func() svc.State { return counted{} }, NewReplyState: func() svc.State { return counted{} }}
	for want, change := range map[string]func(*Config){
		"no address":     func(c *Config) { c.Addrs = nil },
		"slots":          func(c *Config) { c.Slots = 1 << 20 },
		"MaxPayload":     func(c *Config) { c.MaxPayload = 10 },
		"no upper layer": func(c *Config) { c.DataAt = nil },
		"nowhere":        func(c *Config) { c.Addrs = []string{"127.0.0.1:0", "nowhere"} },
	} {
		c := good
		change(&c)
		_, err := New(c)
		assert.ErrorContains(t, err, want)
	}
	require.NoError(t, s.Close())
}
