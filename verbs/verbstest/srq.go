package verbstest

import (
	"errors"

	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

var srqChecks = []Check{
	{Name: "srq/shared-by-two", Needs: []Need{needSRQ}, Run: srqShared},
	{Name: "srq/in-order", Needs: []Need{needSRQ}, Run: srqOrder},
	{Name: "srq/qp-takes-no-receives", Needs: []Need{needSRQ}, Run: srqQPRecv},
	{Name: "srq/full", Needs: []Need{needSRQ}, Run: srqFull},
	{Name: "srq/limit-event", Needs: []Need{needSRQ}, Run: srqLimit},
	{Name: "srq/busy-and-closed", Needs: []Need{needSRQ}, Run: srqBusy},
	{Name: "srq/survives-a-queue-pair", Needs: []Need{needSRQ}, Run: srqSurvives},
	{Name: "srq/last-wqe-event", Needs: []Need{needSRQ, needTransport(verbs.IWARP, "it has no such event")}, Run: srqLastWQE},
	{Name: "srq/too-many-sges", Needs: []Need{needSRQ}, Run: srqSGEs},
	{Name: "srq/pd-of-buffers", Needs: []Need{needSRQ, needAcked}, Run: srqPD},
	{Name: "srq/empty-is-rnr", Needs: []Need{needSRQ, needRNR}, Run: srqEmpty},
}

type shared struct {
	t   *T
	pd  verbs.PD
	srq verbs.SRQ
}

func (t *T) newSRQ(init verbs.SRQInit) *shared {
	t.Helper()
	pd := t.newPD(t.Server)
	srq, err := pd.CreateSRQ(init)
	t.claimed(err, "CreateSRQ")
	t.own(srq)
	return &shared{t, pd, srq}
}

func (h *shared) opts() opts {
	return opts{pd: h.pd, init: func(q *verbs.QPInit) { q.SRQ = h.srq; q.MaxRecvWR = 0 }}
}

func (h *shared) post(sges ...verbs.SGE) uint64 {
	h.t.Helper()
	id := h.t.nextID()
	n, err := h.srq.PostRecv([]verbs.RecvWR{{ID: id, SGEs: sges}})
	h.t.claimed(err, "SRQ.PostRecv")
	require.Equal(h.t, 1, n)
	return id
}

func srqShared(t *T) {
	h := t.newSRQ(verbs.SRQInit{MaxWR: 32, MaxSGE: 1})
	c1, s1 := t.connect(opts{}, h.opts())
	c2, s2 := t.connect(opts{}, h.opts())
	buf := s1.mem(100, verbs.LocalWrite)
	for i := range 20 {
		c, s := c1, s1
		if i%2 == 1 {
			c, s = c2, s2
		}
		src := c.filled(100, 0)
		id := h.post(buf.sge())
		c.do(sendOf(src))
		s.wantMessage(id, 100) // on the queue of the pair that the message came to
		buf.wantBytes(src.bytes(), "message through a shared receive queue")
	}
}

func srqOrder(t *T) {
	h := t.newSRQ(verbs.SRQInit{MaxWR: 32, MaxSGE: 1})
	c1, s1 := t.connect(opts{}, h.opts())
	c2, s2 := t.connect(opts{}, h.opts())
	var ids []uint64
	for range 8 {
		ids = append(ids, h.post())
	}
	for i, id := range ids {
		c, s := c1, s1
		if i%3 == 1 {
			c, s = c2, s2
		}
		c.do(verbs.SendWR{Op: verbs.OpSend})
		s.wantMessage(id, 0)
	}
}

func srqQPRecv(t *T) {
	h := t.newSRQ(verbs.SRQInit{MaxWR: 8, MaxSGE: 1})
	_, s := t.connect(opts{}, h.opts())
	n, err := s.qp.PostRecv([]verbs.RecvWR{{}})
	require.ErrorIs(t, err, verbs.ErrInvalid)
	require.Zero(t, n)
}

func srqFull(t *T) {
	h := t.newSRQ(verbs.SRQInit{MaxWR: 8, MaxSGE: 1})
	limit := t.Server.Attr().MaxSRQWR
	for n := 0; ; n++ {
		_, err := h.srq.PostRecv([]verbs.RecvWR{{}})
		if err != nil {
			require.ErrorIs(t, err, verbs.ErrQueueFull)
			require.GreaterOrEqual(t, n, 8)
			break
		}
		require.Less(t, n, limit, "a queue that does not fill")
	}
	_, err := h.pd.CreateSRQ(verbs.SRQInit{MaxWR: limit + 1, MaxSGE: 1})
	if !errors.Is(err, verbs.ErrInvalid) && !errors.Is(err, verbs.ErrNoResources) {
		t.fatalf("a queue of MaxSRQWR+1: %v", err)
	}
}

func srqLimit(t *T) {
	h := t.newSRQ(verbs.SRQInit{MaxWR: 32, MaxSGE: 1, Limit: 4})
	c, s := t.connect(opts{}, h.opts())
	events := t.deviceEvents(t.Server)
	use := func(n int) {
		t.Helper()
		for range n {
			c.do(verbs.SendWR{Op: verbs.OpSend})
			require.Equal(t, verbs.Success, s.next(s.rcq).Status)
		}
		t.settle()
	}
	for range 8 {
		h.post()
	}
	use(4)
	require.Zero(t, events.count(verbs.EventSRQLimitReached), "event with 4 receives left and the limit 4")
	use(1)
	e := events.want(verbs.EventSRQLimitReached)
	require.True(t, e.SRQ == h.srq, "the event names another queue")
	use(2)
	require.Zero(t, events.count(verbs.EventSRQLimitReached), "one event, until the limit is set again")
	for range 8 {
		h.post()
	}
	require.NoError(t, h.srq.SetLimit(6))
	use(3) // of 9: 6 left
	require.Zero(t, events.count(verbs.EventSRQLimitReached))
	use(1)
	events.want(verbs.EventSRQLimitReached)
}

func srqBusy(t *T) {
	h := t.newSRQ(verbs.SRQInit{MaxWR: 8, MaxSGE: 1})
	_, s := t.connect(opts{}, h.opts())
	require.ErrorIs(t, h.srq.Close(), verbs.ErrBusy)
	h.post()
	t.close(s.qp)
	t.close(h.srq)
	n, err := h.srq.PostRecv([]verbs.RecvWR{{}})
	require.ErrorIs(t, err, verbs.ErrClosed)
	require.Zero(t, n)
	require.Error(t, h.srq.SetLimit(1))
}

// srqSurvives: an error of one queue pair leaves the receives to the others.
func srqSurvives(t *T) {
	h := t.newSRQ(verbs.SRQInit{MaxWR: 8, MaxSGE: 1})
	_, s1 := t.connect(opts{}, h.opts())
	c2, s2 := t.connect(opts{}, h.opts())
	id := h.post()
	require.NoError(t, s1.qp.Modify(verbs.QPAttr{State: verbs.Error}))
	t.settle()
	s1.wantEmpty(s1.rcq, "the receive is the shared queue's")
	c2.do(verbs.SendWR{Op: verbs.OpSend})
	s2.wantMessage(id, 0)
}

// srqLastWQE: of a queue pair in ERR no further receive of the shared queue completes (IB specification 11.6.3.1).
func srqLastWQE(t *T) {
	h := t.newSRQ(verbs.SRQInit{MaxWR: 8, MaxSGE: 1})
	_, s := t.connect(opts{}, h.opts())
	events := t.deviceEvents(t.Server)
	require.NoError(t, s.qp.Modify(verbs.QPAttr{State: verbs.Error}))
	e := events.want(verbs.EventQPLastWQEReached)
	require.True(t, e.QP == s.qp, "the event names another queue pair")
}

func srqSGEs(t *T) {
	h := t.newSRQ(verbs.SRQInit{MaxWR: 8, MaxSGE: 1})
	n, err := h.srq.PostRecv([]verbs.RecvWR{{SGEs: make([]verbs.SGE, t.Server.Attr().MaxSGE+1)}})
	require.ErrorIs(t, err, verbs.ErrInvalid)
	require.Zero(t, n)
	_, err = h.pd.CreateSRQ(verbs.SRQInit{MaxWR: 8, MaxSGE: t.Server.Attr().MaxSGE + 1})
	require.Error(t, err)
}

// srqPD: the buffers of a shared receive belong to the domain of the shared queue.
func srqPD(t *T) {
	h := t.newSRQ(verbs.SRQInit{MaxWR: 8, MaxSGE: 1})
	c, s := t.connect(opts{}, h.opts())
	other := t.newMem(t.newPD(t.Server), 100, verbs.LocalWrite)
	id := h.post(other.sge())
	wr := c.signaled(sendOf(c.filled(100, 0)))
	c.wantSend(wr, verbs.RemOpErr)
	s.wantRecv(id, verbs.LocProtErr)
	other.wantBytes(make([]byte, 100), "buffer of a foreign domain")
}

func srqEmpty(t *T) {
	h := t.newSRQ(verbs.SRQInit{MaxWR: 8, MaxSGE: 1})
	c, _ := t.connect(rnr(0), h.opts())
	c.wantSend(c.signaled(verbs.SendWR{Op: verbs.OpSend}), verbs.RNRRetryExcErr)
}
