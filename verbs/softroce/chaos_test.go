package softroce

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/link"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// Regions of the chaos tests: what is sent from and never changes, then what is
// written to, each byte by one request at most.
const (
	chaosSource = 8 << 10
	chaosSize   = 128 << 10
	chaosMax    = 1600 // longest message: more than six packets of 256
)

// chaosSide does random work, and knows what must come of it.
type chaosSide struct {
	*end
	t      testing.TB
	p      *pair
	r      *rand.Rand
	peer   *chaosSide
	attr   verbs.QPAttr
	image  []byte // what the region must hold at the end
	free   int    // start of what is not written to yet
	sends  []verbs.WC
	signed []verbs.WC // completions that must come, in order
	recvs  []verbs.WC
	want   []verbs.WC // receives that must complete, in order
	bufs   []int      // offsets of the receives
	posted int        // receives
	wake   *sched.Waiter
	all    bool // is posted
}

func newChaos(t testing.TB, seed uint64, rate float64) (a, b *chaosSide) {
	r := rand.New(rand.NewPCG(seed, 7))
	l := &link.Config{BitsPerSecond: 10e9, Delay: time.Microsecond, Overhead: 58, Loss: rate, Duplicate: rate, Reorder: rate}
	a, b = &chaosSide{}, &chaosSide{}
	p := newTestPair(t, pairConfig{
		seed: seed, link: l, size: chaosSize, depth: 4 + r.IntN(13),
		raw: func(x, y *verbs.QPAttr) {
			for _, q := range []*verbs.QPAttr{x, y} {
				q.PathMTU, q.Timeout, q.MinRNR = 256, 6, 1
				q.IRD = 1 + r.IntN(4)
			}
			x.ORD, y.ORD = 1+r.IntN(y.IRD), 1+r.IntN(x.IRD)
			x.SQPSN = (psnMask - 40 + r.Uint32N(80)) & psnMask
			x.RQPSN = r.Uint32N(psnMask)
			y.SQPSN, y.RQPSN = x.RQPSN, x.SQPSN
			a.attr, b.attr = *x, *y
		},
		init: func(x, y *verbs.QPInit) { x.MaxRecvWR, y.MaxRecvWR = 64, 64 },
		events: func(e *end) func(verbs.CQ) {
			if e.dev.name == "a" {
				return a.handle
			}
			return b.handle
		},
	})
	for _, x := range []struct{ s, peer *chaosSide }{{a, b}, {b, a}} {
		*x.s = chaosSide{t: t, p: p, peer: x.peer, attr: x.s.attr, image: make([]byte, chaosSize), free: chaosSource}
	}
	a.end, b.end = &p.a, &p.b
	for _, s := range []*chaosSide{a, b} {
		s.r = rand.New(rand.NewPCG(seed, uint64(s.qp.Num())))
		s.wake = p.s.NewWaiter("a completion of " + s.dev.name)
		for i := range chaosSource {
			s.mr.Bytes()[i] = byte(s.r.Uint32())
		}
		copy(s.image, s.mr.Bytes()[:chaosSource])
		s.cq.Arm(false)
	}
	return a, b
}

// handle takes completions as they come.
func (s *chaosSide) handle(cq verbs.CQ) {
	var wc [8]verbs.WC
	for {
		n, err := cq.Poll(wc[:])
		require.NoError(s.t, err)
		for _, w := range wc[:n] {
			require.Equal(s.t, verbs.Success, w.Status)
			if w.ID >= 1<<32 {
				s.received(w)
			} else {
				s.sends = append(s.sends, w)
			}
		}
		if n == 0 && !cq.Arm(false) {
			break
		}
	}
	s.q().check(s.t)
	s.wake.Wake()
}

// received compares a message with what was sent, as soon as it is there.
func (s *chaosSide) received(w verbs.WC) {
	i := len(s.recvs)
	s.recvs = append(s.recvs, w)
	require.Less(s.t, i, len(s.want), "a receive of nothing")
	want := s.want[i]
	want.ID, want.QPN = uint64(i)+1<<32, s.qp.Num()
	require.Equal(s.t, want, w)
	if w.Op == verbs.OpRecv {
		n := s.bufs[i]
		require.Equal(s.t, s.image[n:n+int(w.ByteLen)], s.mr.Bytes()[n:n+int(w.ByteLen)])
	}
}

// room is n bytes that nothing is written to yet.
func (s *chaosSide) room(n int) int {
	off := s.free
	s.free += n
	require.LessOrEqual(s.t, s.free, chaosSize)
	return off
}

// pieces is [off, off+n) in one to four SGEs.
func (s *chaosSide) pieces(off, n int) []verbs.SGE {
	var list []verbs.SGE
	for k := 1 + s.r.IntN(4); k > 1; k-- {
		m := s.r.IntN(n + 1)
		list = append(list, s.sge(off, m)...)
		off, n = off+m, n-m
	}
	return append(list, s.sge(off, n)...)
}

// request makes random work, and notes what it must do.
func (s *chaosSide) request(id uint64) verbs.SendWR {
	n := s.r.IntN(chaosMax + 1)
	if s.r.IntN(3) == 0 {
		n = s.r.IntN(3) * 256
	}
	src := s.r.IntN(chaosSource - n + 1)
	wr := verbs.SendWR{ID: id, Imm: s.r.Uint32()}
	if s.r.IntN(3) > 0 {
		wr.Flags |= verbs.Signaled
	}
	if s.r.IntN(8) == 0 {
		wr.Flags |= verbs.Fence
	}
	data := s.image[src : src+n]
	remote := func(off int) { wr.RemoteAddr, wr.RKey = s.peer.mr.Addr()+uint64(off), s.peer.mr.RKey() }
	expect := func(op verbs.Opcode, imm bool) {
		w := verbs.WC{Op: op, ByteLen: uint32(n)}
		if imm {
			w.Flags, w.Imm = verbs.WCWithImm, wr.Imm
		}
		s.peer.want = append(s.peer.want, w)
	}
	wc := verbs.WC{ID: id, QPN: s.qp.Num()}
	switch k := s.r.IntN(6); k {
	case 0, 1:
		wr.Op = verbs.OpSend + verbs.Opcode(k)
		expect(verbs.OpRecv, k == 1)
		for len(s.peer.bufs) < len(s.peer.want) {
			s.peer.bufs = append(s.peer.bufs, s.peer.room(chaosMax)) // the receive is posted later
		}
		copy(s.peer.image[s.peer.bufs[len(s.peer.want)-1]:], data)
	case 2, 3:
		wr.Op = verbs.OpRDMAWrite + verbs.Opcode(k-2)
		off := s.peer.room(n)
		remote(off)
		copy(s.peer.image[off:], data)
		if k == 3 {
			expect(verbs.OpRecvRDMAWithImm, true)
			for len(s.peer.bufs) < len(s.peer.want) {
				s.peer.bufs = append(s.peer.bufs, s.peer.room(0))
			}
		}
	default:
		wr.Op = verbs.OpRDMARead
		off := s.room(n)
		remote(src)
		copy(s.image[off:], s.peer.image[src:src+n])
		wr.SGEs = s.pieces(off, n)
		wc.ByteLen = uint32(n)
	}
	switch {
	case wr.Op == verbs.OpRDMARead:
	case n <= 64 && s.r.IntN(2) == 0:
		wr.Flags |= verbs.Inline
		wr.Data = data
	default:
		wr.SGEs = s.pieces(src, n)
	}
	wc.Op = wr.Op
	if wr.Flags&verbs.Signaled != 0 {
		s.signed = append(s.signed, wc)
	}
	return wr
}

// run posts n requests, and receives as the peer's sends need them, sooner or later.
func (s *chaosSide) run(n int) {
	for id := range uint64(n) {
		wr := s.request(id)
		if id == uint64(n-1) && wr.Flags&verbs.Signaled == 0 {
			wr.Flags |= verbs.Signaled // the last tells of all
			wc := verbs.WC{ID: id, Op: wr.Op, QPN: s.qp.Num()}
			for i := range wr.SGEs {
				if wr.Op == verbs.OpRDMARead {
					wc.ByteLen += wr.SGEs[i].Length
				}
			}
			s.signed = append(s.signed, wc)
		}
		for {
			k, _ := s.qp.PostSend([]verbs.SendWR{wr})
			s.q().check(s.t)
			if k == 1 {
				break
			}
			s.supply() // the peer's queue may be as full
			s.pause()
		}
		if s.r.IntN(4) == 0 {
			s.pause()
		}
		if s.r.IntN(3) > 0 {
			s.supply()
		}
	}
	s.all = true
	for !s.peer.all || len(s.sends) < len(s.signed) || len(s.recvs) < len(s.want) || len(s.peer.sends) < len(s.peer.signed) {
		s.supply()
		s.pause()
	}
}

// supply posts the receives that the peer's sends need.
func (s *chaosSide) supply() {
	for s.posted < len(s.want) {
		n := 0
		if s.want[s.posted].Op == verbs.OpRecv {
			n = chaosMax
		}
		s.p.recv(s.end, uint64(s.posted)+1<<32, s.bufs[s.posted], n)
		s.posted++
	}
}

func (s *chaosSide) pause() {
	require.NoError(s.t, s.p.s.Sleep(bg, sched.Duration(s.r.IntN(20))*sched.Microsecond))
}

// TestChaos: random work in both directions over wires that lose, double and reorder packets
// moves exactly the right bytes, and completes once and in order.
func TestChaos(t *testing.T) {
	for _, rate := range []float64{0, 0.01, 0.1, 0.2} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			n := uint64(chaosSeeds)
			if rate == 0 {
				n /= 4
			}
			for seed := range n {
				chaosRun(t, seed, rate)
			}
		})
	}
}

func chaosRun(t *testing.T, seed uint64, rate float64) {
	a, b := newChaos(t, seed, rate)
	p := a.p
	defer p.close()
	p.s.SetLimit(sched.Time(10 * sched.Second))
	g := p.s.NewGroup("both sides")
	for _, s := range []*chaosSide{a, b} {
		g.Go(s.dev.name, func() { s.run(24) })
	}
	require.NoError(t, g.Wait(bg), "seed %d", seed)
	for _, s := range []*chaosSide{a, b} {
		require.Equal(t, s.signed, s.sends, "seed %d", seed)
		require.Len(t, s.recvs, len(s.want))
		require.True(t, string(s.image) == string(s.mr.Bytes()), "seed %d: data of %s", seed, s.dev.name)
	}
}

// check compares what the requester counts with its queue.
func (q *qp) check(t testing.TB) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state != verbs.RTS {
		return
	}
	h := q.head.Load()
	require.True(t, h <= q.next && q.next <= q.tail.Load() && q.tail.Load()-h <= uint64(q.init.MaxSendWR))
	reads := 0
	for i := h; i < q.next; i++ {
		if e := q.wqe(i); e.wr.Op == verbs.OpRDMARead && !e.done {
			reads++
		}
	}
	require.Equal(t, reads, q.readsOut)
	require.LessOrEqual(t, reads, q.attr.ORD)
	require.GreaterOrEqual(t, psnDiff(q.sendPSN, q.una), int32(0))
	require.Equal(t, h == q.sentTo() && q.rnrUntil == 0 || q.timerSet, true, "work is under way without a timer")
	require.False(t, h < q.next && q.wqe(h).done, "the head is done and has no completion")
}
