package verbstest

import (
	"context"
	"errors"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

var cmEndChecks = []Check{
	{Name: "cm/disconnect-by-initiator", Run: func(t *T) { cmDisconnect(t, true) }},
	{Name: "cm/disconnect-by-acceptor", Run: func(t *T) { cmDisconnect(t, false) }},
	{Name: "cm/disconnect-by-both", Run: cmDisconnectBoth},
	{Name: "cm/disconnect-twice", Run: cmDisconnectTwice},
	{Name: "cm/disconnect-unconnected", Run: cmDisconnectUnconnected},
	{Name: "cm/disconnect-with-work-outstanding", Run: cmDisconnectBusy},
	{Name: "cm/close-is-a-disconnect-to-the-peer", Run: cmCloseDisconnects},
	{Name: "cm/connect-cancelled", Run: cmCancelled},
	{Name: "cm/connect-deadline", Run: cmDeadline},
	{Name: "cm/connect-cancelled-before", Run: cmCancelledBefore},
	{Name: "cm/accept-after-initiator-gave-up", Run: cmAcceptLate},
	{Name: "cm/listener-accept-deadline", Run: cmListenerDeadline},
	{Name: "cm/listener-close-ends-accept", Run: cmListenerCloseAccept},
	{Name: "cm/listener-close-refuses-pending", Run: cmListenerClosePending},
	{Name: "cm/listener-close-keeps-connections", Run: cmListenerCloseKeeps},
	{Name: "cm/request-dropped", Run: cmRequestDropped},
	{Name: "cm/connect-again", Run: cmAgain},
}

// wantCM waits for an event of the connection.
func (s *side) wantCM(want verbs.CMEventType) {
	s.t.Helper()
	ctx, cancel := s.t.within(patience)
	defer cancel()
	e, err := s.events.Pop(ctx)
	if err != nil {
		s.t.fatalf("%s: no event %v: %v", s.name, want, err)
	}
	require.Equal(s.t, want, e, "%s: event of the connection", s.name)
}

func (s *side) wantNoCM(why string) {
	s.t.Helper()
	if e, ok := s.events.TryPop(); ok {
		s.t.fatalf("%s: event %v, although %s", s.name, e, why)
	}
}

func cmDisconnect(t *T, byClient bool) {
	c, s := t.connect(opts{}, opts{})
	t.wantAlive(c, s)
	c.wantNoCM("nothing happened")
	s.wantNoCM("nothing happened")
	if byClient {
		require.NoError(t, c.id.Disconnect())
	} else {
		require.NoError(t, s.id.Disconnect())
	}
	for _, x := range []*side{c, s} {
		x.wantCM(verbs.CMDisconnected)
	}
	t.settle()
	for _, x := range []*side{c, s} {
		x.wantNoCM("each side is told once")
		x.wantDown()
	}
}

func cmDisconnectBoth(t *T) {
	c, s := t.connect(opts{}, opts{})
	j := t.start("disconnect", s.id.Disconnect)
	require.NoError(t, c.id.Disconnect())
	require.NoError(t, j.wait())
	for _, x := range []*side{c, s} {
		x.wantCM(verbs.CMDisconnected)
	}
	t.settle()
	for _, x := range []*side{c, s} {
		x.wantNoCM("each side is told once")
		x.wantState(verbs.Error)
	}
}

func cmDisconnectTwice(t *T) {
	c, s := t.connect(opts{}, opts{})
	require.NoError(t, c.id.Disconnect())
	require.NoError(t, c.id.Disconnect())
	s.wantCM(verbs.CMDisconnected)
	require.NoError(t, s.id.Disconnect())
	c.wantCM(verbs.CMDisconnected)
	require.NoError(t, c.id.Disconnect())
	t.settle()
	c.wantNoCM("a second disconnect does nothing")
	s.wantNoCM("a second disconnect does nothing")
}

func cmDisconnectUnconnected(t *T) {
	l := t.listen()
	c := t.initiator(l.Addr(), opts{})
	_ = c.id.Disconnect() // an error or nothing: but nothing follows
	t.settle()
	c.wantNoCM("there was no connection")
}

// cmDisconnectBusy ends a connection in the middle of transfers: each work request has one completion.
func cmDisconnectBusy(t *T) {
	for _, byClient := range []bool{true, false} {
		c, s := t.connect(opts{}, opts{})
		n := 30 * c.attr.ActiveMTU
		src, sink := s.filled(n, verbs.RemoteRead), c.mem(n, c.sinkAccess())
		out, dst := c.filled(n, 0), s.mem(n, remoteRW)
		var list []verbs.SendWR
		for i := range 24 {
			wr := readFrom(sink, src)
			if i%3 == 0 {
				wr = writeTo(out, dst)
			}
			wr.ID, wr.Flags = t.nextID(), verbs.Signaled
			list = append(list, wr)
		}
		c.post(list...)
		end := s
		if byClient {
			end = c
		}
		require.NoError(t, end.id.Disconnect())
		flushed := false
		for _, wr := range list {
			wc := c.next(c.scq)
			require.Equal(t, wr.ID, wc.ID, "order of completions")
			switch wc.Status {
			case verbs.Success:
				require.False(t, flushed, "a success behind a flushed one")
			case verbs.WRFlushErr:
				flushed = true
			default:
				require.False(t, byClient || flushed, "status %v of work at a disconnect", wc.Status)
				flushed = true
			}
		}
		c.wantCM(verbs.CMDisconnected)
		s.wantCM(verbs.CMDisconnected)
		t.settle()
		c.wantEmpty(c.scq, "each work request has one completion")
	}
}

// cmCloseDisconnects: who closes without a word still ends the connection.
func cmCloseDisconnects(t *T) {
	c, s := t.connect(opts{}, opts{})
	t.close(s.qp)
	t.close(s.id)
	c.wantCM(verbs.CMDisconnected)
	c.wantDown()
}

// giveUp starts a Connect that nobody answers, and ends its context.
func (t *T) giveUp(l verbs.Listener) (*side, error) {
	t.Helper()
	c := t.initiator(l.Addr(), opts{})
	ctx, cancel := t.Sched.WithCancel(context.Background())
	defer cancel()
	j := t.start("connect", func() error {
		_, err := c.id.Connect(ctx, c.conn)
		return verb("Connect", err)
	})
	t.settle()
	cancel()
	return c, j.wait()
}

func cmCancelled(t *T) {
	l := t.listen()
	c, err := t.giveUp(l)
	require.ErrorIs(t, err, context.Canceled)
	c.wantNoCM("there was no connection")
}

func cmDeadline(t *T) {
	l := t.listen()
	c := t.initiator(l.Addr(), opts{})
	ctx, cancel := t.within(20 * sched.Millisecond)
	defer cancel()
	_, err := c.id.Connect(ctx, c.conn)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func cmCancelledBefore(t *T) {
	l := t.listen()
	ctx, cancel := t.Sched.WithCancel(context.Background())
	cancel()
	c := t.initiator(l.Addr(), opts{})
	_, err := c.id.Connect(ctx, c.conn)
	require.ErrorIs(t, err, context.Canceled)
	_, err = l.Accept(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

// cmAcceptLate: the request of an initiator that is gone is either no longer there, or its Accept fails.
func cmAcceptLate(t *T) {
	l := t.listen()
	c, err := t.giveUp(l)
	require.ErrorIs(t, err, context.Canceled)
	t.close(c.qp)
	t.close(c.id)
	s := t.newSide("server", t.Server, opts{})
	ctx, cancel := t.within(50 * sched.Millisecond)
	id, err := l.Accept(ctx)
	cancel()
	if err == nil {
		err := s.createQP(id)
		if err == nil {
			ctx, cancel := t.within(sched.Second)
			defer cancel()
			err = id.Accept(ctx, s.conn)
		}
		require.Error(t, err, "CreateQP and Accept of a request that was withdrawn")
	} else {
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	// The listener goes on.
	c, s = t.newSide("client", t.Client, opts{}), t.newSide("server", t.Server, opts{})
	t.link(l, c, s)
	t.hello(c, s)
	t.wantAlive(c, s)
}

func cmListenerDeadline(t *T) {
	l := t.listen()
	ctx, cancel := t.within(sched.Millisecond)
	defer cancel()
	_, err := l.Accept(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func cmListenerCloseAccept(t *T) {
	l := t.listen()
	j := t.start("accept", func() error {
		ctx, cancel := t.within(patience)
		defer cancel()
		_, err := l.Accept(ctx)
		return verb("Listener.Accept", err)
	})
	t.settle()
	t.close(l)
	require.ErrorIs(t, j.wait(), verbs.ErrClosed)
	_, err := l.Accept(context.Background())
	require.ErrorIs(t, err, verbs.ErrClosed)
}

func cmListenerClosePending(t *T) {
	l := t.listen()
	a, b := t.initiator(l.Addr(), opts{}), t.initiator(l.Addr(), opts{})
	ja, _ := t.dial(a)
	jb, _ := t.dial(b)
	t.settle()
	t.close(l)
	require.ErrorIs(t, ja.wait(), verbs.ErrRefused)
	require.ErrorIs(t, jb.wait(), verbs.ErrRefused)
	c := t.initiator(l.Addr(), opts{})
	jc, _ := t.dial(c)
	require.ErrorIs(t, jc.wait(), verbs.ErrRefused)
}

func cmListenerCloseKeeps(t *T) {
	c, s := t.connect(opts{}, opts{}) // it closes the listener
	t.wantAlive(c, s)
	l := t.listen()
	c = t.initiator(l.Addr(), opts{})
	j, _ := t.dial(c)
	s = t.acceptor(l, opts{})
	t.close(l)
	require.NoError(t, s.accepted(), "a request that was taken before the listener closed")
	require.NoError(t, j.wait())
	t.hello(c, s)
	t.wantAlive(c, s)
}

// cmRequestDropped closes a request without an answer: that is a refusal.
func cmRequestDropped(t *T) {
	l := t.listen()
	c := t.initiator(l.Addr(), opts{})
	j, _ := t.dial(c)
	ctx, cancel := t.within(patience)
	defer cancel()
	id, err := l.Accept(ctx)
	t.must(err, "Listener.Accept")
	t.must(id.Close(), "closing the request")
	err = j.wait()
	require.True(t, errors.Is(err, verbs.ErrRefused), "%v", err)
}

// cmAgain connects anew, many times, after disconnects.
func cmAgain(t *T) {
	l := t.listen()
	for i := range 20 {
		c, s := t.newSide("client", t.Client, opts{}), t.newSide("server", t.Server, opts{})
		t.link(l, c, s)
		t.hello(c, s)
		t.wantAlive(c, s)
		if i%2 == 0 {
			require.NoError(t, c.id.Disconnect())
			s.wantCM(verbs.CMDisconnected)
		}
		for _, x := range []*side{s, c} {
			t.close(x.qp)
			t.close(x.id)
		}
	}
}
