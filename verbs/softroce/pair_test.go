package softroce

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"example.org/nfsrdma/internal/link"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var bg = context.Background()

// end is one side of a connected pair.
type end struct {
	dev *Device
	pd  verbs.PD
	cq  verbs.CQ
	id  verbs.ID
	qp  verbs.QP
	mr  verbs.MR
}

// pair is two connected queue pairs with a region each.
type pair struct {
	tb   testing.TB
	s    *sched.Sched
	net  *Network
	a, b end
}

type pairConfig struct {
	live   bool
	seed   uint64
	link   *link.Config
	pers   Personality
	depth  int
	size   int // of each region
	param  verbs.ConnParam
	accept verbs.ConnParam
	trace  func(string)
	raw    func(a, b *verbs.QPAttr)    // connect by Modify, after this changed what both sides get
	alloc  func(*pair)                 // gets the pair before anything is made
	init   func(a, b *verbs.QPInit)    // changes the queue pairs
	events func(e *end) func(verbs.CQ) // makes the handler of a side's queue
}

const allRights = verbs.LocalWrite | verbs.RemoteRead | verbs.RemoteWrite

func newTestPair(tb testing.TB, c pairConfig) *pair {
	tb.Helper()
	if c.seed == 0 {
		c.seed = 1
	}
	if c.depth == 0 {
		c.depth = 64
	}
	if c.size == 0 {
		c.size = 1 << 20
	}
	if c.pers.Name == "" {
		c.pers = RoCE
	}
	if c.param.IRD == 0 {
		c.param = verbs.ConnParam{IRD: 16, ORD: 16, RetryCnt: 7, RNRRetry: 7}
	}
	if c.accept.IRD == 0 {
		c.accept = c.param
	}
	p := &pair{tb: tb}
	if c.alloc != nil {
		c.alloc(p)
	}
	if c.live {
		p.s = sched.NewLive(c.seed)
	} else {
		p.s = sched.NewVirtual(c.seed)
	}
	p.net = NewNetwork(p.s, NetConfig{Link: c.link, Trace: c.trace})
	var err error
	p.b.dev, err = p.net.NewDevice("b", c.pers)
	require.NoError(tb, err)
	p.a.dev, err = p.net.NewDevice("a", c.pers)
	require.NoError(tb, err)
	setup := func(e *end) verbs.QPInit {
		e.pd, err = e.dev.AllocPD()
		require.NoError(tb, err)
		ci := verbs.CQInit{Depth: 4 * c.depth, Name: e.dev.name}
		if c.events != nil {
			ci.Handler = c.events(e)
		}
		e.cq, err = e.dev.CreateCQ(ci)
		require.NoError(tb, err)
		e.mr, err = e.pd.AllocMR(c.size, allRights|verbs.MWBind)
		require.NoError(tb, err)
		sge := min(c.pers.Attr.MaxSGE, 4)
		return verbs.QPInit{SendCQ: e.cq, RecvCQ: e.cq, MaxSendWR: c.depth, MaxRecvWR: c.depth, MaxSendSGE: sge, MaxRecvSGE: sge, MaxInline: 64, Name: e.dev.name}
	}
	ai, bi := setup(&p.a), setup(&p.b)
	if c.init != nil {
		c.init(&ai, &bi)
	}
	if c.raw != nil {
		p.a.qp, err = p.a.pd.CreateQP(ai)
		require.NoError(tb, err)
		p.b.qp, err = p.b.pd.CreateQP(bi)
		require.NoError(tb, err)
		p.modify(c.raw)
		return p
	}
	l, err := p.b.dev.Listen("b:1", 1)
	require.NoError(tb, err)
	g := p.s.NewGroup("accept")
	g.Go("accept", func() {
		id, err := l.Accept(bg)
		if !assert.NoError(tb, err) {
			return
		}
		p.b.id = id
		p.b.qp, err = id.CreateQP(p.b.pd, bi)
		assert.NoError(tb, err)
		assert.NoError(tb, id.Accept(bg, c.accept))
	})
	p.a.id, err = p.a.dev.Resolve(bg, "b:1")
	require.NoError(tb, err)
	p.a.qp, err = p.a.id.CreateQP(p.a.pd, ai)
	require.NoError(tb, err)
	_, err = p.a.id.Connect(bg, c.param)
	require.NoError(tb, err)
	require.NoError(tb, g.Wait(bg))
	require.NoError(tb, l.Close())
	return p
}

// modify takes both queue pairs from RESET to RTS.
func (p *pair) modify(change func(a, b *verbs.QPAttr)) {
	p.tb.Helper()
	attr := func(peer *end) verbs.QPAttr {
		return verbs.QPAttr{
			Access: verbs.RemoteRead | verbs.RemoteWrite, DestAddr: peer.dev.name, DestQPN: peer.qp.Num(), RQPSN: 100, SQPSN: 100,
			IRD: 4, ORD: 4, MinRNR: 12, Timeout: 8, RetryCnt: 7, RNRRetry: 7,
		}
	}
	a, b := attr(&p.b), attr(&p.a)
	change(&a, &b)
	for _, st := range []verbs.QPState{verbs.Init, verbs.RTR, verbs.RTS} {
		a.State, b.State = st, st
		require.NoError(p.tb, p.a.qp.Modify(a))
		require.NoError(p.tb, p.b.qp.Modify(b))
	}
}

func same(a, b *verbs.QPAttr) {}

func (p *pair) close() {
	p.tb.Helper()
	for _, e := range []*end{&p.a, &p.b} {
		if e.id != nil {
			require.NoError(p.tb, e.id.Disconnect())
		}
		require.NoError(p.tb, e.qp.Close())
		if e.id != nil {
			require.NoError(p.tb, e.id.Close())
		}
		require.NoError(p.tb, e.mr.Close())
		require.NoError(p.tb, e.cq.Close())
		require.NoError(p.tb, e.pd.Close())
	}
	require.NoError(p.tb, p.s.Close())
	require.NoError(p.tb, p.a.dev.Close())
	require.NoError(p.tb, p.b.dev.Close())
	require.NoError(p.tb, p.net.Close())
}

// settle lets virtual time pass.
func (p *pair) settle(d sched.Duration) {
	p.tb.Helper()
	require.NoError(p.tb, p.s.Sleep(bg, d))
}

// write, read and send are work requests from offset off of the own region to
// or from offset to of the peer's.
func (e *end) write(peer *end, id uint64, off, n, to int) verbs.SendWR {
	return verbs.SendWR{ID: id, Op: verbs.OpRDMAWrite, Flags: verbs.Signaled, SGEs: e.sge(off, n),
		RemoteAddr: peer.mr.Addr() + uint64(to), RKey: peer.mr.RKey()}
}

func (e *end) read(peer *end, id uint64, off, n, to int) verbs.SendWR {
	wr := e.write(peer, id, off, n, to)
	wr.Op = verbs.OpRDMARead
	return wr
}

func (e *end) send(id uint64, off, n int) verbs.SendWR {
	return verbs.SendWR{ID: id, Op: verbs.OpSend, Flags: verbs.Signaled, SGEs: e.sge(off, n)}
}

// none says that no completion is there.
func (p *pair) none(e *end) {
	p.tb.Helper()
	var wc [1]verbs.WC
	n, err := e.cq.Poll(wc[:])
	require.NoError(p.tb, err)
	require.Zero(p.tb, n, "%v", wc)
}

func (e *end) q() *qp { return e.qp.(*qp) }

// fill writes random bytes.
func (p *pair) fill(e *end) {
	r := p.s.Rand("data of " + e.dev.name)
	b := e.mr.Bytes()
	for i := 0; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], r.Uint64())
	}
}

func (e *end) sge(off, n int) []verbs.SGE {
	return []verbs.SGE{{Addr: e.mr.Addr() + uint64(off), Length: uint32(n), LKey: e.mr.LKey()}}
}

func (p *pair) post(e *end, wr verbs.SendWR) {
	p.tb.Helper()
	_, err := e.qp.PostSend([]verbs.SendWR{wr})
	require.NoError(p.tb, err)
}

func (p *pair) recv(e *end, id uint64, off, n int) {
	p.tb.Helper()
	_, err := e.qp.PostRecv([]verbs.RecvWR{{ID: id, SGEs: e.sge(off, n)}})
	require.NoError(p.tb, err)
}

// next is the next completion, waiting for it.
func (p *pair) next(e *end) verbs.WC {
	p.tb.Helper()
	var wc [1]verbs.WC
	for {
		n, err := e.cq.Poll(wc[:])
		require.NoError(p.tb, err)
		if n == 1 {
			return wc[0]
		}
		if e.cq.Arm(false) {
			continue
		}
		require.NoError(p.tb, e.cq.Wait(bg))
	}
}

func (p *pair) want(e *end, id uint64, op verbs.Opcode, status verbs.Status) verbs.WC {
	p.tb.Helper()
	wc := p.next(e)
	require.Equal(p.tb, fmt.Sprintf("%d %v %v", id, op, status), fmt.Sprintf("%d %v %v", wc.ID, wc.Op, wc.Status))
	return wc
}

func TestBasics(t *testing.T) {
	sdr := link.IBSDR
	for name, c := range map[string]pairConfig{
		"virtual direct": {}, "virtual link": {link: &sdr}, "live direct": {live: true}, "live link": {live: true, link: &sdr},
		"iwarp": {pers: T310},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTestPair(t, c)
			defer p.close()
			p.fill(&p.a)
			p.recv(&p.b, 7, 100, 10000)
			p.post(&p.a, verbs.SendWR{ID: 1, Op: verbs.OpSend, Flags: verbs.Signaled, SGEs: p.a.sge(5, 9000)})
			wc := p.want(&p.b, 7, verbs.OpRecv, verbs.Success)
			assert.EqualValues(t, 9000, wc.ByteLen)
			p.want(&p.a, 1, verbs.OpSend, verbs.Success)
			assert.Equal(t, p.a.mr.Bytes()[5:9005], p.b.mr.Bytes()[100:9100])

			p.post(&p.a, verbs.SendWR{ID: 2, Op: verbs.OpRDMAWrite, Flags: verbs.Signaled, SGEs: p.a.sge(0, 300000), RemoteAddr: p.b.mr.Addr() + 50000, RKey: p.b.mr.RKey()})
			p.want(&p.a, 2, verbs.OpRDMAWrite, verbs.Success)
			assert.Equal(t, p.a.mr.Bytes()[:300000], p.b.mr.Bytes()[50000:350000])

			clear(p.b.mr.Bytes())
			p.post(&p.b, verbs.SendWR{ID: 3, Op: verbs.OpRDMARead, Flags: verbs.Signaled, SGEs: p.b.sge(3, 300001), RemoteAddr: p.a.mr.Addr() + 50, RKey: p.a.mr.RKey()})
			p.want(&p.b, 3, verbs.OpRDMARead, verbs.Success)
			assert.Equal(t, p.a.mr.Bytes()[50:300051], p.b.mr.Bytes()[3:300004])

			p.post(&p.a, verbs.SendWR{ID: 4, Op: verbs.OpRDMAWrite, SGEs: p.a.sge(0, 10), RemoteAddr: p.b.mr.Addr() + uint64(p.b.mr.Len()) - 9, RKey: p.b.mr.RKey()})
			p.want(&p.a, 4, verbs.OpRDMAWrite, verbs.RemAccessErr)
			assert.Equal(t, verbs.Error, p.a.qp.Query().State)
			p.recv(&p.b, 8, 0, 10)
			p.want(&p.b, 8, verbs.OpRecv, verbs.WRFlushErr)
		})
	}
}
