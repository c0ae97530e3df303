package verbstest

import (
	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

var readDepthChecks = []Check{
	{Name: "readdepth/one-at-a-time", Run: func(t *T) { readDepth(t, 1, 1, 1) }},
	{Name: "readdepth/ord-below-ird", Run: func(t *T) { readDepth(t, 2, 4, 2) }},
	{Name: "readdepth/ord-above-ird", Run: func(t *T) { readDepth(t, 4, 2, 2) }},
	{Name: "readdepth/both-directions", Run: readDepthBoth},
	{Name: "readdepth/work-behind-waits", Run: readDepthBehind},
	{Name: "readdepth/wish-above-device", Run: readDepthWish},
	{Name: "readdepth/ird-zero-refuses", Needs: []Need{needRawQP, needAcked}, Run: readDepthZero},
	{Name: "readdepth/ord-above-ird-by-modify", Needs: []Need{needRawQP, needAcked}, Run: readDepthExceeded},
}

// readDepth posts many READs at once; the device may have want of them
// outstanding. That shows in its counter, if it has one; and all come through.
func readDepth(t *T, ord, ird, want int) {
	if t.Client.Attr().MaxQPInitRdAtom < ord || t.Server.Attr().MaxQPRdAtom < ird {
		t.Skipf("the device's depth is smaller")
	}
	c, s := t.connect(
		opts{conn: func(p *verbs.ConnParam) { p.ORD = ord }},
		opts{conn: func(p *verbs.ConnParam) { p.IRD = ird }})
	_, got := c.id.Negotiated()
	require.Equal(t, want, got, "negotiated ORD")
	require.GreaterOrEqual(t, c.qp.Query().ORD, 0)
	const reads = 32
	n := 2*c.attr.ActiveMTU + 3
	src, sink := s.filled(reads*n, verbs.RemoteRead), c.mem(reads*n, c.sinkAccess())
	var list []verbs.SendWR
	for i := range reads {
		list = append(list, verbs.SendWR{ID: t.nextID(), Op: verbs.OpRDMARead, Flags: verbs.Signaled,
			SGEs: []verbs.SGE{sink.at(i*n, n)}, RemoteAddr: src.addr() + uint64(i*n), RKey: src.mr.RKey()})
	}
	c.post(list...)
	for _, wr := range list {
		c.wantSend(wr, verbs.Success)
	}
	sink.wantBytes(src.bytes(), "READs")
	if most, ok := t.counter("read_outstanding_max"); ok {
		require.LessOrEqual(t, most, uint64(want), "READs outstanding")
		require.NotZero(t, most)
	}
}

func readDepthBoth(t *T) {
	c, s := t.connect(opts{}, opts{})
	const reads, n = 24, 5000
	a, b := c.filled(n, verbs.RemoteRead), s.filled(n, verbs.RemoteRead)
	ca, sa := c.mem(n, c.sinkAccess()), s.mem(n, s.sinkAccess())
	var cs, ss []verbs.SendWR
	for range reads {
		cs = append(cs, c.signaled(readFrom(ca, b)))
		ss = append(ss, s.signaled(readFrom(sa, a)))
	}
	for i := range reads {
		c.wantSend(cs[i], verbs.Success)
		s.wantSend(ss[i], verbs.Success)
	}
	ca.wantBytes(b.bytes(), "READ by the client")
	sa.wantBytes(a.bytes(), "READ by the server")
}

// readDepthBehind: a SEND behind READs that wait for their turn is not sent before them.
func readDepthBehind(t *T) {
	one := func(p *verbs.ConnParam) { p.ORD, p.IRD = 1, 1 }
	c, s := t.connect(opts{conn: one}, opts{conn: one})
	n := 8 * c.attr.ActiveMTU
	src, sink := s.filled(n, verbs.RemoteRead), c.mem(n, c.sinkAccess())
	id := s.postRecv()
	var list []verbs.SendWR
	for range 8 {
		list = append(list, readFrom(sink, src))
	}
	list = append(list, verbs.SendWR{Op: verbs.OpSend})
	for i := range list {
		list[i].ID, list[i].Flags = t.nextID(), verbs.Signaled
	}
	c.post(list...)
	for _, wr := range list {
		c.wantSend(wr, verbs.Success)
	}
	s.wantMessage(id, 0)
	sink.wantBytes(src.bytes(), "READs")
}

// readDepthWish: more than the device has is refused, or cut to what it has.
func readDepthWish(t *T) {
	c := t.newSide("client", t.Client, opts{conn: func(p *verbs.ConnParam) {
		p.ORD, p.IRD = t.Client.Attr().MaxQPInitRdAtom+1, t.Client.Attr().MaxQPRdAtom+1
	}})
	s := t.newSide("server", t.Server, opts{conn: func(p *verbs.ConnParam) {
		p.ORD, p.IRD = t.Server.Attr().MaxQPInitRdAtom, t.Server.Attr().MaxQPRdAtom
	}})
	l := t.listen()
	ctx, cancel := t.within(patience)
	defer cancel()
	accept := t.start("accept", func() error { return s.accept(ctx, l) })
	err := c.connect(ctx, l.Addr())
	if err != nil {
		require.ErrorIs(t, err, verbs.ErrInvalid)
		t.close(l)
		require.Error(t, accept.wait())
		return
	}
	t.must(accept.wait(), "accept")
	ird, ord := c.id.Negotiated()
	require.LessOrEqual(t, ord, c.attr.MaxQPInitRdAtom)
	require.LessOrEqual(t, ird, c.attr.MaxQPRdAtom)
}

// readDepthZero: a responder without resources for READs answers NAK invalid request.
func readDepthZero(t *T) {
	c, s := t.rawPair(opts{}, opts{}, func(a *verbs.QPAttr) { a.ORD = 1 }, func(a *verbs.QPAttr) { a.IRD = 0 })
	src, sink := s.filled(100, verbs.RemoteRead), c.mem(100, c.sinkAccess())
	t.wantRemoteErr(c, s, readFrom(sink, src), verbs.RemInvReqErr)
	sink.wantBytes(make([]byte, 100), "sink of a refused READ")
}

// readDepthExceeded: a requester that believes in a greater depth than the
// responder has. The READs are large, so that several are in service at once.
func readDepthExceeded(t *T) {
	if t.Client.Attr().MaxQPInitRdAtom < 8 {
		t.Skipf("the device's depth is smaller")
	}
	c, s := t.rawPair(opts{}, opts{}, func(a *verbs.QPAttr) { a.ORD = 8 }, func(a *verbs.QPAttr) { a.IRD = 1 })
	n := 64 * c.attr.ActiveMTU
	src, sink := s.filled(n, verbs.RemoteRead), c.mem(8*n, c.sinkAccess())
	var list []verbs.SendWR
	for i := range 8 {
		list = append(list, verbs.SendWR{ID: t.nextID(), Op: verbs.OpRDMARead, Flags: verbs.Signaled,
			SGEs: []verbs.SGE{sink.at(i*n, n)}, RemoteAddr: src.addr(), RKey: src.mr.RKey()})
	}
	c.post(list...)
	var got []verbs.Status
	for _, wr := range list {
		wc := c.next(c.scq)
		require.Equal(t, wr.ID, wc.ID)
		got = append(got, wc.Status)
	}
	// Some come through, one is refused, the rest are flushed.
	i := 0
	for i < len(got) && got[i] == verbs.Success {
		i++
	}
	require.Less(t, i, len(got), "eight READs at once over an IRD of 1: %v", got)
	require.Equal(t, verbs.RemInvReqErr, got[i], "%v", got)
	for _, st := range got[i+1:] {
		require.Equal(t, verbs.WRFlushErr, st, "%v", got)
	}
}
