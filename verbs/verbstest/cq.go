package verbstest

import (
	"context"
	"errors"
	"sync/atomic"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

var cqChecks = []Check{
	{Name: "cq/poll-empty", Run: cqPollEmpty},
	{Name: "cq/poll-takes-no-more-than-asked", Run: cqPollSome},
	{Name: "cq/arm-reports-missed", Run: cqMissed},
	{Name: "cq/wait", Run: cqWait},
	{Name: "cq/wait-deadline", Run: cqWaitDeadline},
	{Name: "cq/wait-ends-at-close", Run: cqWaitClosed},
	{Name: "cq/handler-takes-the-event", Run: cqHandlerOrWait},
	{Name: "cq/handler-once-per-arm", Run: cqHandlerOnce},
	{Name: "cq/handler-not-without-arm", Run: cqHandlerUnarmed},
	{Name: "cq/handler-may-post-and-poll", Run: cqHandlerPosts},
	{Name: "cq/shared-by-queue-pairs", Run: cqShared},
	{Name: "cq/send-and-receive-on-one", Run: cqBoth},
	{Name: "cq/solicited-only", Run: cqSolicited},
	{Name: "cq/solicited-raised-by-failure", Run: cqSolicitedFailure},
	{Name: "cq/armed-for-all-fires-on-unsolicited", Run: cqArmedForAll},
	{Name: "cq/overflow", Run: cqOverflow},
	{Name: "cq/full-is-no-overflow", Run: cqExactlyFull},
}

func cqPollEmpty(t *T) {
	c, s := t.connect(opts{}, opts{})
	wc := make([]verbs.WC, 8)
	for _, cq := range []verbs.CQ{c.scq, c.rcq} {
		n, err := cq.Poll(wc)
		t.must(err, "Poll")
		require.Zero(t, n)
	}
	s.postRecv()
	c.do(verbs.SendWR{Op: verbs.OpSend})
	n, err := s.rcq.Poll(nil)
	t.must(err, "Poll")
	require.Zero(t, n, "completions into no room")
	require.Equal(t, verbs.Success, s.next(s.rcq).Status)
}

func cqPollSome(t *T) {
	c, s := t.connect(opts{}, opts{})
	var ids []uint64
	for range 10 {
		ids = append(ids, s.postRecv())
	}
	for range 10 {
		c.do(verbs.SendWR{Op: verbs.OpSend})
	}
	var got []uint64
	wc := make([]verbs.WC, 3)
	for len(got) < 10 {
		n, err := s.rcq.Poll(wc)
		t.must(err, "Poll")
		require.LessOrEqual(t, n, 3)
		if n == 0 { // live: the last may still be on the way
			got = append(got, s.next(s.rcq).ID)
			continue
		}
		for _, w := range wc[:n] {
			got = append(got, w.ID)
		}
	}
	require.Equal(t, ids, got)
	s.wantEmpty(s.rcq, "all were taken")
}

// cqMissed: who arms after a completion came must be told, or would wait for ever.
func cqMissed(t *T) {
	c, s := t.connect(opts{}, opts{})
	id := s.postRecv()
	c.do(verbs.SendWR{Op: verbs.OpSend})
	s.wantMessage(id, 0)
	id = s.postRecv()
	c.do(verbs.SendWR{Op: verbs.OpSend})
	// The completion of the send says that the message is in; its receive may be a moment later.
	if !s.rcq.Arm(false) {
		ctx, cancel := t.within(patience)
		defer cancel()
		t.must(s.rcq.Wait(ctx), "Wait of a queue that is armed, with nothing missed")
	}
	s.wantMessage(id, 0)
	if t.Sched.Virtual() {
		s.postRecv()
		c.do(verbs.SendWR{Op: verbs.OpSend})
		t.settle()
		require.True(t, s.rcq.Arm(false), "a completion is there")
	}
}

func cqWait(t *T) {
	c, s := t.connect(opts{}, opts{})
	for range 5 {
		id := s.postRecv()
		for s.rcq.Arm(false) {
			s.wantEmpty(s.rcq, "nothing was sent")
		}
		ctx, cancel := t.within(patience)
		waiter := t.start("waiter", func() error { return verb("Wait", s.rcq.Wait(ctx)) })
		t.settle()
		c.do(verbs.SendWR{Op: verbs.OpSend})
		require.NoError(t, waiter.wait())
		cancel()
		s.wantMessage(id, 0)
	}
}

func cqWaitDeadline(t *T) {
	c, s := t.connect(opts{}, opts{})
	for s.rcq.Arm(false) {
		s.wantEmpty(s.rcq, "nothing was sent")
	}
	ctx, cancel := t.within(sched.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.rcq.Wait(ctx), context.DeadlineExceeded, "Wait")
	ctx, cancel = t.Sched.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, s.rcq.Wait(ctx), context.Canceled, "Wait")
	t.wantAlive(c, s) // and it works as before
}

func cqWaitClosed(t *T) {
	ctx, cancel := t.within(patience)
	defer cancel()
	cq := t.newCQ(t.Client, verbs.CQInit{Depth: 4})
	require.False(t, cq.Arm(false))
	waiter := t.start("waiter", func() error { return verb("Wait", cq.Wait(ctx)) })
	t.settle()
	t.close(cq)
	require.ErrorIs(t, waiter.wait(), verbs.ErrClosed, "a Wait under way when the queue closes")
	cq = t.newCQ(t.Client, verbs.CQInit{Depth: 4})
	t.close(cq)
	require.ErrorIs(t, cq.Wait(ctx), verbs.ErrClosed, "Wait of a closed queue")
}

// cqHandlerOrWait: an event is delivered once, and a handler comes first.
func cqHandlerOrWait(t *T) {
	h := t.newHandled(t.Server)
	c, s := t.connect(opts{}, opts{init: func(q *verbs.QPInit) { q.RecvCQ = h.cq }})
	h.n.Store(0)
	s.postRecv()
	require.False(t, h.cq.Arm(false))
	c.do(verbs.SendWR{Op: verbs.OpSend})
	h.want(1)
	ctx, cancel := t.within(5 * sched.Millisecond)
	defer cancel()
	require.ErrorIs(t, h.cq.Wait(ctx), context.DeadlineExceeded, "Wait of a queue with a handler")
	h.take(1)
}

// handled is a completion queue with a handler that counts.
type handled struct {
	t  *T
	cq verbs.CQ
	n  atomic.Int64
	w  *sched.Waiter
}

func (t *T) newHandled(d verbs.Device) *handled {
	t.Helper()
	h := &handled{t: t, w: t.Sched.NewWaiter("a completion event")}
	h.cq = t.newCQ(d, verbs.CQInit{Depth: cqDepth, Handler: func(verbs.CQ) {
		h.n.Add(1)
		h.w.Wake()
	}})
	return h
}

// want waits until the handler has been called n times in all.
func (h *handled) want(n int64) {
	h.t.Helper()
	ctx, cancel := h.t.within(patience)
	defer cancel()
	for h.n.Load() < n {
		require.NoError(h.t, h.w.Wait(ctx), "event %d of the completion queue", n)
	}
	require.Equal(h.t, n, h.n.Load(), "events of the completion queue")
}

// take polls until it has n completions. It does not arm.
func (h *handled) take(n int) []verbs.WC {
	h.t.Helper()
	var out []verbs.WC
	wc := make([]verbs.WC, 16)
	for range 20000 {
		k, err := h.cq.Poll(wc)
		h.t.must(err, "Poll")
		out = append(out, wc[:k]...)
		if len(out) >= n {
			return out
		}
		h.t.sleep(100 * sched.Microsecond)
	}
	h.t.fatalf("%d completions of %d", len(out), n)
	return nil
}

func cqHandlerOnce(t *T) {
	h := t.newHandled(t.Server)
	c, s := t.connect(opts{}, opts{init: func(q *verbs.QPInit) { q.RecvCQ = h.cq }})
	h.n.Store(0)
	for round := int64(1); round <= 3; round++ {
		for range 4 {
			s.postRecv()
		}
		require.False(t, h.cq.Arm(false))
		for range 4 {
			c.do(verbs.SendWR{Op: verbs.OpSend})
		}
		h.want(round)
		h.take(4)
		t.settle()
		h.want(round)
	}
}

func cqHandlerUnarmed(t *T) {
	h := t.newHandled(t.Server)
	c, s := t.connect(opts{}, opts{init: func(q *verbs.QPInit) { q.RecvCQ = h.cq }})
	h.n.Store(0)
	s.postRecv()
	c.do(verbs.SendWR{Op: verbs.OpSend})
	h.take(1)
	t.settle()
	h.want(0)
}

// cqHandlerPosts answers each message from within the handler.
func cqHandlerPosts(t *T) {
	var s *side
	var bad atomic.Int64
	answer := func(cq verbs.CQ) {
		for {
			var wc [4]verbs.WC
			n, err := cq.Poll(wc[:])
			if err != nil {
				bad.Add(1)
				return
			}
			for _, w := range wc[:n] {
				if _, err := s.qp.PostRecv([]verbs.RecvWR{{ID: w.ID}}); err != nil {
					bad.Add(1)
				}
				if _, err := s.qp.PostSend([]verbs.SendWR{{Op: verbs.OpSend, ID: w.ID}}); err != nil {
					bad.Add(1)
				}
			}
			if n == 0 && !cq.Arm(false) {
				return
			}
		}
	}
	cq := t.newCQ(t.Server, verbs.CQInit{Depth: cqDepth, Handler: answer})
	c, srv := t.connect(opts{}, opts{init: func(q *verbs.QPInit) { q.RecvCQ = cq; q.MaxRecvWR, q.MaxSendWR = depth, depth }})
	s = srv
	for range 4 {
		s.postRecv()
	}
	for cq.Arm(false) {
		var wc [1]verbs.WC
		_, err := cq.Poll(wc[:])
		t.must(err, "Poll")
	}
	for range depth / 2 { // the answers are never signaled: fewer than the queue holds
		id := c.postRecv()
		c.do(verbs.SendWR{Op: verbs.OpSend})
		c.wantMessage(id, 0)
	}
	require.Zero(t, bad.Load(), "errors in the handler")
}

// cqShared puts two connections on one queue. Each keeps its order, and what was complete first comes first.
func cqShared(t *T) {
	cq := t.newCQ(t.Client, verbs.CQInit{Depth: cqDepth})
	share := opts{init: func(q *verbs.QPInit) { q.SendCQ = cq }}
	c1, s1 := t.connect(share, opts{})
	c2, s2 := t.connect(share, opts{})
	type key struct {
		qpn uint32
		id  uint64
	}
	var want []key
	for i := range 20 {
		c, s := c1, s1
		if i%3 == 0 {
			c, s = c2, s2
		}
		id := s.postRecv()
		wr := c.signaled(verbs.SendWR{Op: verbs.OpSend})
		s.wantMessage(id, 0)
		want = append(want, key{c.qp.Num(), wr.ID})
		t.settle() // its acknowledgement comes in before the next post
	}
	for _, k := range want {
		wc := c1.next(cq)
		require.Equal(t, k, key{wc.QPN, wc.ID}, "order of completions of two queue pairs")
	}
}

func cqBoth(t *T) {
	cq := t.newCQ(t.Client, verbs.CQInit{Depth: cqDepth})
	c, s := t.connect(opts{init: func(q *verbs.QPInit) { q.SendCQ, q.RecvCQ = cq, cq }}, opts{})
	rid, sid := c.postRecv(), s.postRecv()
	out := c.signaled(verbs.SendWR{Op: verbs.OpSend})
	s.wantMessage(sid, 0)
	s.do(verbs.SendWR{Op: verbs.OpSend})
	seen := map[uint64]verbs.Opcode{}
	for range 2 {
		wc := c.next(cq)
		require.Equal(t, verbs.Success, wc.Status)
		seen[wc.ID] = wc.Op
	}
	require.Equal(t, map[uint64]verbs.Opcode{rid: verbs.OpRecv, out.ID: verbs.OpSend}, seen)
}

func cqSolicited(t *T) {
	h := t.newHandled(t.Server)
	c, s := t.connect(opts{}, opts{init: func(q *verbs.QPInit) { q.RecvCQ = h.cq }})
	h.n.Store(0)
	for range 4 {
		s.postRecv()
	}
	require.False(t, h.cq.Arm(true))
	c.do(verbs.SendWR{Op: verbs.OpSend})
	c.do(verbs.SendWR{Op: verbs.OpSend})
	h.take(2)
	t.settle()
	h.want(0)
	c.do(verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Solicited})
	h.want(1)
	h.take(1)
	c.do(verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Solicited})
	h.take(1)
	t.settle()
	h.want(1)
}

func cqSolicitedFailure(t *T) {
	h := t.newHandled(t.Server)
	_, s := t.connect(opts{}, opts{init: func(q *verbs.QPInit) { q.RecvCQ = h.cq }})
	h.n.Store(0)
	s.postRecv()
	require.False(t, h.cq.Arm(true))
	require.NoError(t, s.qp.Modify(verbs.QPAttr{State: verbs.Error}))
	h.want(1)
	require.Equal(t, verbs.WRFlushErr, h.take(1)[0].Status)
}

func cqArmedForAll(t *T) {
	h := t.newHandled(t.Server)
	c, s := t.connect(opts{}, opts{init: func(q *verbs.QPInit) { q.RecvCQ = h.cq }})
	h.n.Store(0)
	s.postRecv()
	// The later, wider wish holds.
	h.cq.Arm(true)
	h.cq.Arm(false)
	c.do(verbs.SendWR{Op: verbs.OpSend})
	h.want(1)
}

// cqOverflow lets many more completions come than a short queue holds, also where
// the device rounds its depth up.
func cqOverflow(t *T) {
	cq := t.newCQ(t.Client, verbs.CQInit{Depth: 4, Name: "short"})
	n := min(1024, t.Client.Attr().MaxQPWR)
	c, s := t.connect(opts{init: func(q *verbs.QPInit) { q.SendCQ, q.MaxSendWR = cq, n }}, opts{})
	other, peer := t.connect(opts{}, opts{})
	events := t.deviceEvents(t.Client)
	dst := s.mem(8, remoteRW)
	src := c.mem(8, 0)
	for range n {
		wr := writeTo(src, dst)
		wr.ID, wr.Flags = t.nextID(), verbs.Signaled
		if _, err := c.qp.PostSend([]verbs.SendWR{wr}); err != nil {
			break
		}
	}
	e := events.want(verbs.EventCQErr)
	require.True(t, e.CQ == cq, "the event names another queue")
	wc := make([]verbs.WC, 2*n)
	_, err := cq.Poll(wc)
	for err == nil { // what was in it before may still be taken
		var k int
		if k, err = cq.Poll(wc); k == 0 {
			break
		}
	}
	require.ErrorIs(t, err, verbs.ErrCQOverflow)
	c.wantState(verbs.Error)
	t.wantAlive(other, peer)
}

func cqExactlyFull(t *T) {
	cq := t.newCQ(t.Client, verbs.CQInit{Depth: 8})
	c, s := t.connect(opts{init: func(q *verbs.QPInit) { q.SendCQ, q.MaxSendWR = cq, 8 }}, opts{})
	src, dst := c.mem(8, 0), s.mem(8, remoteRW)
	for range 5 {
		var list []verbs.SendWR
		for range 8 {
			wr := writeTo(src, dst)
			wr.ID, wr.Flags = t.nextID(), verbs.Signaled
			list = append(list, wr)
		}
		c.post(list...)
		t.settle() // all eight are in the queue
		for _, wr := range list {
			c.wantSend(wr, verbs.Success)
		}
	}
	if _, err := cq.Poll(make([]verbs.WC, 1)); errors.Is(err, verbs.ErrCQOverflow) {
		t.fatalf("eight completions overflow a queue of eight")
	}
}
