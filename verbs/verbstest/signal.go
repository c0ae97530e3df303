package verbstest

import (
	"errors"
	"strings"

	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

var signalChecks = []Check{
	{Name: "signal/unsignaled-has-no-completion", Run: signalNone},
	{Name: "signal/signal-all", Run: signalAll},
	{Name: "signal/slots-freed-by-later-completion", Run: signalFreed},
	{Name: "signal/unsignaled-failure-completes", Run: signalFailure},
	{Name: "signal/sq-full", Run: signalFull},
	{Name: "signal/sq-full-recovers", Run: signalFullRecovers},
	{Name: "signal/rq-full", Run: signalRecvFull},
	{Name: "signal/unsignaled-local-ops", Needs: []Need{needFastReg}, Run: signalLocalOps},
}

func signalNone(t *T) {
	c, s := t.connect(opts{}, opts{})
	src, dst := c.filled(100, c.sinkAccess()), s.mem(100, remoteRW)
	id := s.postRecv()
	end := verbs.SendWR{ID: t.nextID(), Op: verbs.OpSend, Flags: verbs.Signaled}
	c.post(writeTo(src, dst), readFrom(src, dst), writeTo(src, dst), end)
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

// fillSQ posts unsignaled work until the queue refuses it; it returns the number taken.
func (c *side) fillSQ(wr verbs.SendWR) int {
	c.t.Helper()
	for n := 0; ; n++ {
		k, err := c.qp.PostSend([]verbs.SendWR{wr})
		if err == nil && n < c.attr.MaxQPWR {
			continue
		}
		require.ErrorIs(c.t, err, verbs.ErrQueueFull)
		require.Zero(c.t, k)
		if !strings.Contains(err.Error(), c.init.Name) {
			c.t.fatalf("the error does not name the queue pair %q: %v", c.init.Name, err)
		}
		return n
	}
}

func signalFull(t *T) {
	c, s := t.connect(opts{init: shortSQ}, opts{})
	n := c.fillSQ(writeTo(c.filled(100, 0), s.mem(100, remoteRW)))
	require.GreaterOrEqual(t, n, 8, "work requests taken")
	// Still full, however long the work is done: nobody took a completion.
	t.settle()
	_, err := c.qp.PostSend([]verbs.SendWR{{Op: verbs.OpRDMAWrite}})
	require.ErrorIs(t, err, verbs.ErrQueueFull)
}

func signalFullRecovers(t *T) {
	c, s := t.connect(opts{init: shortSQ}, opts{})
	src, dst := c.filled(100, 0), s.mem(100, remoteRW)
	for range 10 {
		var list []verbs.SendWR
		for {
			wr := writeTo(src, dst)
			wr.ID, wr.Flags = t.nextID(), verbs.Signaled
			_, err := c.qp.PostSend([]verbs.SendWR{wr})
			if err != nil {
				require.ErrorIs(t, err, verbs.ErrQueueFull)
				break
			}
			list = append(list, wr)
			require.Less(t, len(list), c.attr.MaxQPWR+1)
		}
		for _, wr := range list {
			c.wantSend(wr, verbs.Success)
		}
	}
	// A list that half fits is half taken.
	list := make([]verbs.SendWR, c.attr.MaxQPWR+1)
	if len(list) > 1<<17 {
		return
	}
	for i := range list {
		list[i] = writeTo(src, dst)
	}
	n, err := c.qp.PostSend(list)
	require.ErrorIs(t, err, verbs.ErrQueueFull)
	require.GreaterOrEqual(t, n, 8)
	require.Less(t, n, len(list))
}

func signalRecvFull(t *T) {
	c, s := t.connect(opts{}, opts{init: func(q *verbs.QPInit) { q.MaxRecvWR = 8 }})
	var n int
	for {
		_, err := s.qp.PostRecv([]verbs.RecvWR{{ID: uint64(n)}})
		if err != nil {
			require.True(t, errors.Is(err, verbs.ErrQueueFull), "%v", err)
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
		require.NoError(t, err)
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
