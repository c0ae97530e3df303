package verbstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

var cmChecks = []Check{
	{Name: "cm/private-data", Run: cmPrivate},
	{Name: "cm/private-data-limits", Run: cmPrivateLimits},
	{Name: "cm/private-data-too-long-connect", Run: cmPrivateTooLong},
	{Name: "cm/private-data-too-long-accept", Run: cmPrivateTooLongAccept},
	{Name: "cm/request-tells-the-wish", Run: cmRequest},
	{Name: "cm/negotiated-depths", Run: cmNegotiated},
	{Name: "cm/reject", Run: cmReject},
	{Name: "cm/refused-no-listener", Run: cmNoListener},
	{Name: "cm/unknown-address", Run: cmUnknown},
	{Name: "cm/bad-address", Run: cmBadAddress},
	{Name: "cm/double-listen", Run: cmDoubleListen},
	{Name: "cm/listener-address", Run: cmListenerAddr},
	{Name: "cm/addresses-of-both-ends", Run: cmAddrs},
	{Name: "cm/many-connections", Run: cmMany},
	{Name: "cm/data-right-after-accept", Needs: []Need{needTransport(verbs.IWARP, "the initiator speaks first")}, Run: cmDataAfterAccept},
	{Name: "cm/data-right-after-connect", Run: cmDataAfterConnect},
	{Name: "cm/connect-twice", Run: cmConnectTwice},
	{Name: "cm/connect-without-queue-pair", Run: cmNoQP},
}

// idOnly resolves addr without a queue pair.
func (t *T) idOnly(addr string) verbs.ID {
	t.Helper()
	ctx, cancel := t.within(patience)
	defer cancel()
	id, err := t.Client.Resolve(ctx, addr)
	t.must(err, "Resolve %s", addr)
	t.own(id)
	return id
}

// initiator is a client side with its queue pair, not yet connected.
func (t *T) initiator(addr string, o opts) *side {
	t.Helper()
	c := t.newSide("client", t.Client, o)
	ctx, cancel := t.within(patience)
	defer cancel()
	id, err := c.dev.Resolve(ctx, addr)
	t.must(err, "Resolve %s", addr)
	t.must(c.createQP(id), "client")
	return c
}

// acceptor takes the next request of l, with its queue pair, not yet answered.
func (t *T) acceptor(l verbs.Listener, o opts) *side {
	t.Helper()
	s := t.newSide("server", t.Server, o)
	ctx, cancel := t.within(patience)
	defer cancel()
	id, err := l.Accept(ctx)
	if err != nil {
		err = errors.Join(err, t.dialErr())
	}
	t.must(err, "Listener.Accept")
	t.must(s.createQP(id), "server")
	t.must(s.postHello(), "server")
	return s
}

// dial starts Connect as a task.
func (t *T) dial(c *side) (j *job, peer *verbs.ConnParam) {
	peer = new(verbs.ConnParam)
	return t.start("connect", func() error {
		ctx, cancel := t.within(patience)
		defer cancel()
		p, err := c.id.Connect(ctx, c.conn)
		*peer = p
		if err = verb("Connect", err); err != nil {
			t.mu.Lock()
			t.dialed = append(t.dialed, err)
			t.mu.Unlock()
		}
		return err
	}), peer
}

// dialErr says why the requests of dial that have ended failed.
func (t *T) dialErr() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return errors.Join(t.dialed...)
}

func (s *side) accepted() error {
	ctx, cancel := s.t.within(patience)
	defer cancel()
	return verb("ID.Accept", s.id.Accept(ctx, s.conn))
}

// wantPrivate compares private data; some transports pad it with zeros.
func (t *T) wantPrivate(want, got []byte, what string) {
	t.Helper()
	if len(got) < len(want) || !bytes.Equal(want, got[:len(want)]) || len(bytes.Trim(got[len(want):], "\x00")) > 0 {
		t.fatalf("%s: private data is %x, not %x", what, got, want)
	}
}

// exchange connects with the given private data, and checks that it arrives.
func (t *T) exchange(request, reply []byte) {
	t.Helper()
	l := t.listen()
	c := t.initiator(l.Addr(), opts{conn: func(p *verbs.ConnParam) { p.PrivateData = request }})
	j, peer := t.dial(c)
	s := t.acceptor(l, opts{conn: func(p *verbs.ConnParam) { p.PrivateData = reply }})
	t.wantPrivate(request, s.id.Request().PrivateData, "request")
	require.NoError(t, s.accepted())
	require.NoError(t, j.wait())
	t.wantPrivate(reply, peer.PrivateData, "reply")
	t.hello(c, s)
	t.wantAlive(c, s)
}

func cmPrivate(t *T) {
	t.exchange([]byte("from the client"), []byte("and from the server"))
	t.exchange(nil, nil)
	t.exchange([]byte{1, 2, 3}, nil)
	t.exchange(nil, []byte{0, 0, 9})
}

func cmPrivateLimits(t *T) {
	a, b := make([]byte, t.Client.Attr().MaxConnPrivate), make([]byte, t.Server.Attr().MaxAcceptPrivate)
	fill(a, 1)
	fill(b, 2)
	t.exchange(a, b)
}

func cmPrivateTooLong(t *T) {
	l := t.listen()
	c := t.initiator(l.Addr(), opts{conn: func(p *verbs.ConnParam) { p.PrivateData = make([]byte, t.Client.Attr().MaxConnPrivate+1) }})
	j, _ := t.dial(c)
	require.ErrorIs(t, j.wait(), verbs.ErrInvalid)
}

func cmPrivateTooLongAccept(t *T) {
	l := t.listen()
	c := t.initiator(l.Addr(), opts{})
	j, _ := t.dial(c)
	s := t.acceptor(l, opts{conn: func(p *verbs.ConnParam) { p.PrivateData = make([]byte, t.Server.Attr().MaxAcceptPrivate+1) }})
	require.ErrorIs(t, s.accepted(), verbs.ErrInvalid)
	t.must(s.id.Reject(nil), "Reject")
	require.ErrorIs(t, j.wait(), verbs.ErrRefused)
}

func cmRequest(t *T) {
	l := t.listen()
	ird, ord := min(3, t.Client.Attr().MaxQPRdAtom), min(2, t.Client.Attr().MaxQPInitRdAtom)
	c := t.initiator(l.Addr(), opts{conn: func(p *verbs.ConnParam) { p.IRD, p.ORD = ird, ord }})
	j, _ := t.dial(c)
	s := t.acceptor(l, opts{})
	require.Equal(t, ird, s.id.Request().IRD)
	require.Equal(t, ord, s.id.Request().ORD)
	require.NoError(t, s.accepted())
	require.NoError(t, j.wait())
}

// cmNegotiated: the ORD in force is the lesser of the own wish and the peer's
// IRD; the IRD serves that, and is no more than was wished.
func cmNegotiated(t *T) {
	lim := min(t.Client.Attr().MaxQPRdAtom, t.Client.Attr().MaxQPInitRdAtom, t.Server.Attr().MaxQPRdAtom, t.Server.Attr().MaxQPInitRdAtom)
	for _, x := range []struct{ cird, cord, sird, sord int }{
		{4, 4, 4, 4}, {1, 4, 4, 4}, {4, 1, 4, 4}, {4, 4, 1, 4}, {4, 4, 4, 1}, {8, 8, 2, 2}, {2, 2, 8, 8}, {16, 1, 1, 16}, {1, 16, 16, 1}, {5, 7, 3, 6},
	} {
		if max(x.cird, x.cord, x.sird, x.sord) > lim {
			continue
		}
		what := fmt.Sprintf("client IRD %d ORD %d, server IRD %d ORD %d", x.cird, x.cord, x.sird, x.sord)
		c, s := t.connect(opts{conn: func(p *verbs.ConnParam) { p.IRD, p.ORD = x.cird, x.cord }},
			opts{conn: func(p *verbs.ConnParam) { p.IRD, p.ORD = x.sird, x.sord }})
		cird, cord := c.id.Negotiated()
		sird, sord := s.id.Negotiated()
		require.Equal(t, min(x.cord, x.sird), cord, "%s: client ORD", what)
		require.Equal(t, min(x.sord, x.cird), sord, "%s: server ORD", what)
		require.LessOrEqual(t, cird, x.cird, what)
		require.LessOrEqual(t, sird, x.sird, what)
		require.GreaterOrEqual(t, cird, sord, what)
		require.GreaterOrEqual(t, sird, cord, what)
		src, sink := s.filled(500, verbs.RemoteRead), c.mem(500, c.sinkAccess())
		c.do(readFrom(sink, src))
		sink.wantBytes(src.bytes(), what)
	}
}

func cmReject(t *T) {
	l := t.listen()
	for _, private := range [][]byte{[]byte("not today"), nil} {
		c := t.initiator(l.Addr(), opts{})
		j, _ := t.dial(c)
		ctx, cancel := t.within(patience)
		req, err := l.Accept(ctx)
		cancel()
		t.must(err, "Listener.Accept")
		t.own(req)
		require.NoError(t, req.Reject(private))
		err = j.wait()
		require.ErrorIs(t, err, verbs.ErrRefused)
		var rej *verbs.RejectError
		require.True(t, errors.As(err, &rej), "%T is no RejectError", err)
		require.NotEmpty(t, rej.Reason)
		t.wantPrivate(private, rej.PrivateData, "reject")
		require.Error(t, req.Accept(context.Background(), verbs.ConnParam{}), "Accept after Reject")
		_, ok := c.events.TryPop()
		require.False(t, ok, "an event of a connection that never was")
	}
}

func cmNoListener(t *T) {
	addr := t.ServerAddr()
	c := t.initiator(addr, opts{})
	j, _ := t.dial(c)
	require.ErrorIs(t, j.wait(), verbs.ErrRefused)
	// And once there is one, the same address works.
	l, err := t.Server.Listen(addr, 4)
	t.must(err, "Listen")
	t.own(l)
	c, s := t.newSide("client", t.Client, opts{}), t.newSide("server", t.Server, opts{})
	t.link(l, c, s)
	t.hello(c, s)
	t.wantAlive(c, s)
}

func cmUnknown(t *T) {
	if t.UnknownAddr == "" {
		t.Skipf("no address is known to be unreachable")
	}
	ctx, cancel := t.within(patience)
	defer cancel()
	_, err := t.Client.Resolve(ctx, t.UnknownAddr)
	require.ErrorIs(t, err, verbs.ErrUnreachable)
}

func cmBadAddress(t *T) {
	ctx, cancel := t.within(patience)
	defer cancel()
	for _, addr := range []string{"", "nonsense", ":::", "host:port:more", "host:-1", "host:99999"} {
		_, err := t.Client.Resolve(ctx, addr)
		require.Error(t, err, "Resolve %q", addr)
		require.NotErrorIs(t, err, verbs.ErrUnsupported, "Resolve %q", addr)
	}
	for _, addr := range []string{"nonsense", "host:port:more", "host:-1"} {
		_, err := t.Server.Listen(addr, 1)
		require.Error(t, err, "Listen %q", addr)
		require.NotErrorIs(t, err, verbs.ErrUnsupported, "Listen %q", addr)
	}
}

func cmDoubleListen(t *T) {
	l := t.listen()
	_, err := t.Server.Listen(l.Addr(), 1)
	require.ErrorIs(t, err, verbs.ErrAddrInUse)
	addr := l.Addr()
	t.close(l)
	l, err = t.Server.Listen(addr, 1)
	t.must(err, "Listen at an address that is free again")
	t.own(l)
}

func cmListenerAddr(t *T) {
	addr := t.ServerAddr()
	l, err := t.Server.Listen(addr, 1)
	t.must(err, "Listen")
	t.own(l)
	require.Equal(t, addr, l.Addr())
}

func cmAddrs(t *T) {
	c, s := t.connect(opts{}, opts{})
	require.NotEmpty(t, c.id.LocalAddr())
	require.Equal(t, c.id.PeerAddr(), s.id.LocalAddr())
	require.Equal(t, s.id.PeerAddr(), c.id.LocalAddr())
}

func cmMany(t *T) {
	l := t.listen()
	cpd, spd := t.newPD(t.Client), t.newPD(t.Server)
	small := func(q *verbs.QPInit) { q.MaxSendWR, q.MaxRecvWR = 4, 4 }
	type conn struct{ c, s *side }
	n := min(32, t.Client.Attr().MaxQP/4, t.Server.Attr().MaxQP/4)
	var all []conn
	qpns := map[uint32]bool{}
	for i := range n {
		x := conn{t.newSide(fmt.Sprint("client ", i), t.Client, opts{pd: cpd, init: small}),
			t.newSide(fmt.Sprint("server ", i), t.Server, opts{pd: spd, init: small})}
		t.link(l, x.c, x.s)
		t.hello(x.c, x.s)
		all = append(all, x)
		qpns[x.c.qp.Num()], qpns[x.s.qp.Num()] = true, true
	}
	if t.Client == t.Server {
		require.Len(t, qpns, 2*n, "queue pair numbers")
	}
	src, dst := all[0].c.filled(n*8, 0), all[0].s.mem(n*8, verbs.LocalWrite)
	var ids []uint64
	for i, x := range all {
		ids = append(ids, x.s.postRecv(dst.at(i*8, 8)))
	}
	for i, x := range all {
		x.c.signaled(verbs.SendWR{Op: verbs.OpSend, SGEs: []verbs.SGE{src.at(i*8, 8)}})
	}
	for i, x := range all {
		x.s.wantMessage(ids[i], 8)
		require.Equal(t, verbs.Success, x.c.next(x.c.scq).Status)
	}
	dst.wantBytes(src.bytes(), "messages of many connections")
}

// cmDataAfterAccept sends as soon as Accept is done: the initiator, who posted
// its receive before Connect, must get it even while it is still connecting.
func cmDataAfterAccept(t *T) {
	l := t.listen()
	var dst *mem
	var id uint64
	c := t.initiator(l.Addr(), opts{})
	dst = c.mem(100, verbs.LocalWrite)
	id = c.postRecv(dst.sge())
	j, _ := t.dial(c)
	s := t.acceptor(l, opts{})
	src := s.filled(100, 0)
	require.NoError(t, s.accepted())
	s.do(sendOf(src))
	require.NoError(t, j.wait())
	c.wantMessage(id, 100)
	dst.wantBytes(src.bytes(), "first message of the acceptor")
}

func cmDataAfterConnect(t *T) {
	l := t.listen()
	c := t.initiator(l.Addr(), opts{})
	src := c.filled(100, 0)
	send := verbs.SendWR{ID: t.nextID(), Op: verbs.OpSend, Flags: verbs.Signaled, SGEs: []verbs.SGE{src.sge()}}
	j := t.start("connect and send", func() error {
		ctx, cancel := t.within(patience)
		defer cancel()
		if _, err := c.id.Connect(ctx, c.conn); err != nil {
			return err
		}
		_, err := c.qp.PostSend([]verbs.SendWR{send})
		return err
	})
	s := t.newSide("server", t.Server, opts{})
	ctx, cancel := t.within(patience)
	defer cancel()
	req, err := l.Accept(ctx)
	t.must(err, "Listener.Accept")
	t.must(s.createQP(req), "server")
	dst := s.mem(100, verbs.LocalWrite)
	id := s.postRecv(dst.sge())
	require.NoError(t, s.accepted())
	require.NoError(t, j.wait())
	s.wantMessage(id, 100)
	c.wantSend(send, verbs.Success)
	dst.wantBytes(src.bytes(), "first message of the initiator")
}

func cmConnectTwice(t *T) {
	c, s := t.connect(opts{}, opts{})
	ctx, cancel := t.within(sched.Second)
	defer cancel()
	_, err := c.id.Connect(ctx, c.conn)
	require.Error(t, err, "Connect of a connected ID")
	require.Error(t, s.id.Accept(ctx, s.conn), "Accept of an accepted ID")
	require.Error(t, s.id.Reject(nil), "Reject of an accepted ID")
	_, err = c.id.CreateQP(c.pd, c.init)
	require.Error(t, err, "a second queue pair of one ID")
	t.wantAlive(c, s)
}

func cmNoQP(t *T) {
	l := t.listen()
	id := t.idOnly(l.Addr())
	ctx, cancel := t.within(sched.Second)
	defer cancel()
	_, err := id.Connect(ctx, verbs.ConnParam{})
	require.Error(t, err, "Connect without a queue pair")
}
