package verbstest

import (
	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

var signalChecks = []Check{
	{Name: "signal/unsignaled-has-no-completion", Run: signalNone},
	{Name: "signal/signal-all", Run: signalAll},
	{Name: "signal/slots-freed-by-later-completion", Run: signalFreed},
	{Name: "signal/unsignaled-failure-completes", Run: signalFailure},
	{Name: "signal/sq-full", Needs: []Need{needRNR}, Run: signalFull},
	{Name: "signal/sq-full-recovers", Needs: []Need{needRNR}, Run: signalFullRecovers},
	{Name: "signal/rq-full", Run: signalRecvFull},
	{Name: "signal/unsignaled-local-ops", Needs: []Need{needFastReg}, Run: signalLocalOps},
}

func signalNone(t *T) {
	c, s := t.connect(opts{}, opts{})
	src, dst, sink := c.filled(100, 0), s.mem(100, remoteRW), c.mem(100, c.sinkAccess())
	id := s.postRecv()
	end := verbs.SendWR{ID: t.nextID(), Op: verbs.OpSend, Flags: verbs.Signaled}
	c.post(writeTo(src, dst), readFrom(sink, dst), writeTo(src, s.mem(100, remoteRW)), end)
	c.wantSend(end, verbs.Success)
	s.wantMessage(id, 0)
	c.wantEmpty(c.scq, "only the last was signaled")
}

func signalAll(t *T) {
	c, s := t.connect(opts{init: func(q *verbs.QPInit) { q.SignalAll = true }}, opts{})
	src, dst := c.filled(100, 0), s.mem(100, remoteRW)
	for range 3 {
		wr := writeTo(src, dst)
		wr.ID = t.nextID()
		c.post(wr)
		c.wantSend(wr, verbs.Success)
	}
}

func shortSQ(q *verbs.QPInit) { q.MaxSendWR = 8 }

// signalFreed posts far more than the queue holds; each eighth is signaled.
func signalFreed(t *T) {
	c, s := t.connect(opts{init: shortSQ}, opts{})
	src, dst := c.filled(100, 0), s.mem(100, remoteRW)
	for range 200 {
		list := make([]verbs.SendWR, 8)
		for i := range list {
			list[i] = writeTo(src, dst)
		}
		list[7].ID, list[7].Flags = t.nextID(), verbs.Signaled
		c.post(list...)
		c.wantSend(list[7], verbs.Success)
	}
}

func signalFailure(t *T) {
	c, s := t.connect(opts{}, opts{})
	dst := s.mem(100, remoteRW)
	wr := writeTo(c.filled(100, 0), dst)
	wr.ID, wr.SGEs[0].LKey = t.nextID(), wr.SGEs[0].LKey^0x1000
	c.post(wr)
	c.wantSend(wr, verbs.LocProtErr)
}

// fillSQ posts sends that find no receive until the queue refuses one. Work that is done may
// free its place before its completion is taken, so it takes work that cannot be done.
func (c *side) fillSQ() []verbs.SendWR {
	c.t.Helper()
	var list []verbs.SendWR
	for {
		wr := verbs.SendWR{ID: c.t.nextID(), Op: verbs.OpSend}
		if len(list)%2 == 0 {
			wr.Flags = verbs.Signaled
		}
		n, err := c.qp.PostSend([]verbs.SendWR{wr})
		if err != nil {
			require.ErrorIs(c.t, err, verbs.ErrQueueFull)
			require.Zero(c.t, n)
			require.Contains(c.t, err.Error(), c.init.Name, "the error names the queue pair")
			require.GreaterOrEqual(c.t, len(list), c.init.MaxSendWR, "work requests taken")
			return list
		}
		list = append(list, wr)
		require.LessOrEqual(c.t, len(list), c.attr.MaxQPWR, "a queue that does not fill")
	}
}

func shortStuck() opts {
	o := rnr(7)
	o.init = shortSQ
	return o
}

func signalFull(t *T) {
	c, _ := t.connect(shortStuck(), rnr(7))
	c.fillSQ()
	t.settle()
	_, err := c.qp.PostSend([]verbs.SendWR{{Op: verbs.OpRDMAWrite}})
	require.ErrorIs(t, err, verbs.ErrQueueFull, "still full: nothing is done")
	n, err := c.qp.PostSend(make([]verbs.SendWR, 3))
	require.ErrorIs(t, err, verbs.ErrQueueFull)
	require.Zero(t, n)
}

// signalFullRecovers fills the queue and empties it.
func signalFullRecovers(t *T) {
	c, s := t.connect(shortStuck(), opts{init: func(q *verbs.QPInit) { q.MaxRecvWR = min(1024, t.Server.Attr().MaxQPWR) }, conn: rnr(7).conn})
	list := c.fillSQ()
	last := verbs.SendWR{ID: t.nextID(), Op: verbs.OpSend, Flags: verbs.Signaled}
	for range list {
		s.postRecv()
	}
	for i := range list {
		if list[i].Flags&verbs.Signaled != 0 {
			c.wantSend(list[i], verbs.Success)
		}
		require.Equal(t, verbs.Success, s.next(s.rcq).Status)
	}
	// The completion of a later signaled one frees those before it.
	s.postRecv()
	c.post(last)
	c.wantSend(last, verbs.Success)
	require.Equal(t, verbs.Success, s.next(s.rcq).Status)
	// A list that half fits is half taken.
	n, err := c.qp.PostSend(make([]verbs.SendWR, 10*len(list)))
	require.ErrorIs(t, err, verbs.ErrQueueFull)
	require.GreaterOrEqual(t, n, 4)
	require.LessOrEqual(t, n, len(list))
}

func signalRecvFull(t *T) {
	c, s := t.connect(opts{}, opts{init: func(q *verbs.QPInit) { q.MaxRecvWR = 8 }})
	var n int
	for {
		_, err := s.qp.PostRecv([]verbs.RecvWR{{ID: uint64(n)}})
		if err != nil {
			require.ErrorIs(t, err, verbs.ErrQueueFull)
			break
		}
		if n++; n > s.attr.MaxQPWR {
			t.fatalf("a receive queue of 8 took %d", n)
		}
	}
	require.GreaterOrEqual(t, n, 8)
	for i := range n { // each message frees one
		c.do(verbs.SendWR{Op: verbs.OpSend})
		s.wantMessage(uint64(i), 0)
	}
	for i := range n {
		_, err := s.qp.PostRecv([]verbs.RecvWR{{ID: uint64(i)}})
		t.must(err, "PostRecv")
	}
}

func signalLocalOps(t *T) {
	c, s := t.connect(opts{}, opts{init: shortSQ})
	p := s.pages(0, 4096)
	mr := s.fastReg(1)
	for range 20 {
		reg := s.reg(mr, p, verbs.RemoteRead)
		inv := localInv(reg.Key)
		inv.ID, inv.Flags = t.nextID(), verbs.Signaled
		s.post(reg, inv)
		s.wantSend(inv, verbs.Success)
		require.False(t, mr.Valid())
	}
	s.wantEmpty(s.scq, "only LOCAL_INV was signaled")
	t.wantAlive(c, s)
}
