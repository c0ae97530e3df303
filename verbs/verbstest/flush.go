package verbstest

import (
	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

var flushChecks = []Check{
	{Name: "flush/receives-in-order", Run: flushReceives},
	{Name: "flush/sends-in-order", Needs: []Need{needRNR}, Run: flushSends},
	{Name: "flush/posted-in-error", Run: flushInError},
	{Name: "flush/once", Needs: []Need{needRNR}, Run: flushOnce},
	{Name: "flush/after-an-error-status", Run: flushAfterError},
	{Name: "flush/on-disconnect", Run: flushDisconnect},
	{Name: "flush/nothing-after-close", Run: flushClose},
	{Name: "flush/error-is-per-queue-pair", Run: flushPerQP},
	{Name: "flush/success-before-error-kept", Run: flushKept},
}

func flushReceives(t *T) {
	_, s := t.connect(opts{}, opts{})
	var ids []uint64
	for range 20 {
		ids = append(ids, s.postRecv())
	}
	require.NoError(t, s.qp.Modify(verbs.QPAttr{State: verbs.Error}))
	for _, id := range ids {
		s.wantRecv(id, verbs.WRFlushErr)
	}
	t.settle()
	s.wantEmpty(s.rcq, "all receives were flushed")
}

// stuck posts n sends that wait for a receive for ever, every second one signaled.
func (c *side) stuck(n int) []verbs.SendWR {
	c.t.Helper()
	var list []verbs.SendWR
	for i := range n {
		wr := verbs.SendWR{ID: c.t.nextID(), Op: verbs.OpSend}
		if i%2 == 0 {
			wr.Flags = verbs.Signaled
		}
		list = append(list, wr)
	}
	c.post(list...)
	return list
}

func flushSends(t *T) {
	c, _ := t.connect(rnr(7), rnr(7))
	list := c.stuck(20)
	require.NoError(t, c.qp.Modify(verbs.QPAttr{State: verbs.Error}))
	for _, wr := range list { // the unsignaled too
		c.wantSend(wr, verbs.WRFlushErr)
	}
	t.settle()
	c.wantEmpty(c.scq, "all sends were flushed")
}

func flushInError(t *T) {
	c, _ := t.connect(opts{}, opts{})
	require.NoError(t, c.qp.Modify(verbs.QPAttr{State: verbs.Error}))
	for _, op := range []verbs.Opcode{verbs.OpSend, verbs.OpRDMAWrite, verbs.OpRDMARead} {
		wr := verbs.SendWR{ID: t.nextID(), Op: op} // unsignaled
		c.post(wr)
		c.wantSend(wr, verbs.WRFlushErr)
		c.wantRecv(c.postRecv(), verbs.WRFlushErr)
	}
}

func flushOnce(t *T) {
	c, _ := t.connect(rnr(7), rnr(7))
	list := c.stuck(8)
	id := c.postRecv()
	require.NoError(t, c.qp.Modify(verbs.QPAttr{State: verbs.Error}))
	require.NoError(t, c.qp.Modify(verbs.QPAttr{State: verbs.Error}))
	require.NoError(t, c.id.Disconnect())
	for _, wr := range list {
		c.wantSend(wr, verbs.WRFlushErr)
	}
	c.wantRecv(id, verbs.WRFlushErr)
	t.settle()
	c.wantEmpty(c.scq, "each send is flushed once")
	c.wantEmpty(c.rcq, "each receive is flushed once")
}

// flushAfterError: the one that failed has its status, all behind it are flushed.
func flushAfterError(t *T) {
	c, s := t.connect(opts{}, opts{})
	ro := s.filled(100, verbs.RemoteRead)
	rid := c.postRecv()
	src := c.filled(100, c.sinkAccess())
	list := []verbs.SendWR{readFrom(src, ro), readFrom(src, ro), readFrom(src, ro), {Op: verbs.OpSend}, readFrom(src, ro)}
	list[1].RKey ^= 0x5500
	for i := range list {
		list[i].ID = t.nextID()
	}
	list[0].Flags = verbs.Signaled
	c.post(list...)
	c.wantSend(list[0], verbs.Success)
	wc := c.next(c.scq)
	c.checkSend(wc, list[1], t.remote(verbs.OpRDMARead, verbs.RemAccessErr, wc.Status))
	for _, wr := range list[2:] {
		c.wantSend(wr, verbs.WRFlushErr)
	}
	c.wantRecv(rid, verbs.WRFlushErr)
	t.settle()
	c.wantEmpty(c.scq, "each was flushed once")
}

func flushDisconnect(t *T) {
	c, s := t.connect(opts{}, opts{})
	var cids, sids []uint64
	for range 5 {
		cids, sids = append(cids, c.postRecv()), append(sids, s.postRecv())
	}
	require.NoError(t, c.id.Disconnect())
	for i := range 5 {
		c.wantRecv(cids[i], verbs.WRFlushErr)
		s.wantRecv(sids[i], verbs.WRFlushErr)
	}
	c.wantCM(verbs.CMDisconnected)
	s.wantCM(verbs.CMDisconnected)
	for _, x := range []*side{c, s} {
		x.wantRecv(x.postRecv(), verbs.WRFlushErr)
		x.wantDown()
	}
}

func flushClose(t *T) {
	c, s := t.connect(opts{}, opts{})
	for range 5 {
		c.postRecv()
		s.postRecv()
	}
	t.close(s.qp)
	t.settle()
	s.wantEmpty(s.rcq, "a queue pair that is closed has no completions")
	t.close(c.qp)
	t.settle()
	c.wantEmpty(c.rcq, "a queue pair that is closed has no completions")
}

func flushPerQP(t *T) {
	cpd, spd := t.newPD(t.Client), t.newPD(t.Server)
	scq := t.newCQ(t.Client, verbs.CQInit{Depth: cqDepth})
	share := opts{pd: cpd, init: func(q *verbs.QPInit) { q.SendCQ = scq }}
	c1, s1 := t.connect(share, opts{pd: spd})
	c2, s2 := t.connect(share, opts{pd: spd})
	m := s1.filled(100, verbs.RemoteRead)
	t.wantAccessDenied(c1, s1, verbs.OpRDMAWrite, m.mr.RKey(), m.addr(), 10, m.bytes())
	t.wantAlive(c2, s2)
	c2.wantReach(m.addr(), m.mr.RKey(), m.bytes(), "READ over the other queue pair")
	c2.wantState(verbs.RTS)
	s2.wantState(verbs.RTS)
}

// flushKept: what succeeded before the error keeps its success, taken or not.
func flushKept(t *T) {
	c, s := t.connect(opts{}, opts{})
	id, late := s.postRecv(), s.postRecv()
	wr := c.signaled(verbs.SendWR{Op: verbs.OpSend})
	t.settle()
	require.NoError(t, s.qp.Modify(verbs.QPAttr{State: verbs.Error}))
	s.wantMessage(id, 0)
	s.wantRecv(late, verbs.WRFlushErr)
	c.wantSend(wr, verbs.Success)
}
