package verbstest

import (
	"errors"

	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

var sendChecks = []Check{
	{Name: "send/sizes", Run: sendSizes},
	{Name: "send/no-sge", Run: sendNoSGE},
	{Name: "send/1MiB", Run: sendMiB},
	{Name: "send/gather-odd-splits", Run: sendGather},
	{Name: "send/scatter-odd-splits", Run: sendScatter},
	{Name: "send/many-in-order", Run: sendMany},
	{Name: "send/both-directions", Run: sendBoth},
	{Name: "send/too-many-sges", Run: sendTooManySGEs},
	{Name: "send/bad-opcode", Run: sendBadOpcode},
	{Name: "send/wr-copied-when-posted", Run: sendWRCopied},
	{Name: "send/post-list-stops-at-bad", Run: sendListStops},
	{Name: "send/recv-larger", Run: sendRecvLarger},
	{Name: "send/recv-too-small", Needs: []Need{needAcked}, Run: sendRecvTooSmall},
	{Name: "send/recv-too-small-large", Needs: []Need{needAcked}, Run: sendRecvTooSmallLarge},
	{Name: "send/recv-without-sge", Needs: []Need{needAcked}, Run: sendRecvNoSGE},
	{Name: "send/message-too-long", Run: sendTooLong},
	{Name: "inline/data-taken-when-posted", Needs: []Need{needInline}, Run: inlineTaken},
	{Name: "inline/sizes", Needs: []Need{needInline}, Run: inlineSizes},
	{Name: "inline/above-limit", Run: inlineAbove},
	{Name: "inline/write", Needs: []Need{needInline}, Run: inlineWrite},
}

// sizes are those around the packet boundaries.
func (t *T) sizes() []int {
	mtu := t.Client.Attr().ActiveMTU
	return []int{0, 1, 2, 3, 4, 5, mtu - 1, mtu, mtu + 1, 2 * mtu, 3*mtu + 1, 16*mtu - 1}
}

func sendSizes(t *T) {
	c, s := t.connect(opts{}, opts{})
	for _, n := range t.sizes() {
		src, dst := c.filled(max(n, 1), 0), s.mem(n+7, verbs.LocalWrite)
		want := make([]byte, n+7)
		copy(want, src.bytes()[:n])
		id := s.postRecv(dst.sge())
		c.do(verbs.SendWR{Op: verbs.OpSend, SGEs: []verbs.SGE{src.at(0, n)}})
		s.wantMessage(id, n)
		dst.wantBytes(want, "message")
	}
}

func sendNoSGE(t *T) {
	c, s := t.connect(opts{}, opts{})
	id := s.postRecv()
	c.do(verbs.SendWR{Op: verbs.OpSend})
	s.wantMessage(id, 0)
	dst := s.mem(10, verbs.LocalWrite)
	id = s.postRecv(dst.sge())
	c.do(verbs.SendWR{Op: verbs.OpSend})
	s.wantMessage(id, 0)
	dst.wantBytes(make([]byte, 10), "buffer of an empty message")
}

func sendMiB(t *T) {
	c, s := t.connect(opts{}, opts{})
	src, dst := c.filled(1<<20, 0), s.mem(1<<20, verbs.LocalWrite)
	id := s.postRecv(dst.sge())
	c.do(sendOf(src))
	s.wantMessage(id, 1<<20)
	dst.wantBytes(src.bytes(), "message")
}

// splits cuts n bytes into at most limit pieces in ways that fall across packets.
func splits(n, mtu, limit int) [][]int {
	var out [][]int
	for _, cut := range [][]int{{n}, {1, n - 1}, {n - 1, 1}, {3, 5, n - 8}, {mtu - 1, 2, n - mtu - 1}, {7, mtu, 1, n - mtu - 8}} {
		if len(cut) <= limit {
			out = append(out, cut)
		}
	}
	return out
}

func sendGather(t *T) {
	c, s := t.connect(opts{}, opts{})
	mtu := c.attr.ActiveMTU
	n := 3*mtu + 11
	dst := s.mem(n, verbs.LocalWrite)
	for _, cut := range splits(n, mtu, c.init.MaxSendSGE) {
		var sges []verbs.SGE
		var want []byte
		for _, k := range cut {
			m := c.filled(k+9, 0)
			sges = append(sges, m.at(4, k))
			want = append(want, m.bytes()[4:4+k]...)
		}
		id := s.postRecv(dst.sge())
		c.do(verbs.SendWR{Op: verbs.OpSend, SGEs: sges})
		s.wantMessage(id, n)
		dst.wantBytes(want, "gathered message")
	}
}

func sendScatter(t *T) {
	c, s := t.connect(opts{}, opts{})
	mtu := c.attr.ActiveMTU
	n := 3*mtu + 11
	src := c.filled(n, 0)
	for _, cut := range splits(n, mtu, s.init.MaxRecvSGE) {
		var sges []verbs.SGE
		var parts []*mem
		for _, k := range cut {
			m := s.mem(k, verbs.LocalWrite)
			parts = append(parts, m)
			sges = append(sges, m.sge())
		}
		id := s.postRecv(sges...)
		c.do(sendOf(src))
		s.wantMessage(id, n)
		off := 0
		for _, m := range parts {
			m.wantBytes(src.bytes()[off:off+m.len()], "part of a scattered message")
			off += m.len()
		}
	}
}

func sendMany(t *T) {
	c, s := t.connect(opts{}, opts{})
	const n = 3 * depth
	src, dst := c.mem(n*8, 0), s.mem(n*8, verbs.LocalWrite)
	src.fill(5)
	var ids []uint64
	for i := range n {
		ids = append(ids, s.postRecv(dst.at(i*8, 8)))
		c.do(verbs.SendWR{Op: verbs.OpSend, SGEs: []verbs.SGE{src.at(i*8, 8)}})
		s.wantMessage(ids[i], 8)
	}
	dst.wantBytes(src.bytes(), "messages")
}

func sendBoth(t *T) {
	c, s := t.connect(opts{}, opts{})
	const n, k = 40, 700
	type dir struct {
		from, to *side
		src, dst *mem
		ids      []uint64
		wrs      []verbs.SendWR
	}
	dirs := []*dir{{from: c, to: s}, {from: s, to: c}}
	for _, d := range dirs {
		d.src, d.dst = d.from.filled(n*k, 0), d.to.mem(n*k, verbs.LocalWrite)
		for i := range n {
			d.ids = append(d.ids, d.to.postRecv(d.dst.at(i*k, k)))
		}
	}
	for i := range n {
		for _, d := range dirs {
			d.wrs = append(d.wrs, d.from.signaled(verbs.SendWR{Op: verbs.OpSend, SGEs: []verbs.SGE{d.src.at(i*k, k)}}))
		}
	}
	for _, d := range dirs {
		for i := range n {
			d.from.wantSend(d.wrs[i], verbs.Success)
			d.to.wantMessage(d.ids[i], k)
		}
		d.dst.wantBytes(d.src.bytes(), "messages")
	}
}

func sendTooManySGEs(t *T) {
	c, s := t.connect(opts{}, opts{})
	m := c.filled(1000, verbs.LocalWrite)
	sges := make([]verbs.SGE, c.attr.MaxSGE+1)
	for i := range sges {
		sges[i] = m.at(i, 1)
	}
	n, err := c.qp.PostSend([]verbs.SendWR{{Op: verbs.OpSend, SGEs: sges, Flags: verbs.Signaled}})
	require.ErrorIs(t, err, verbs.ErrInvalid)
	require.Zero(t, n)
	n, err = c.qp.PostRecv([]verbs.RecvWR{{SGEs: sges}})
	require.ErrorIs(t, err, verbs.ErrInvalid)
	require.Zero(t, n)
	t.wantAlive(c, s)
}

func sendBadOpcode(t *T) {
	c, s := t.connect(opts{}, opts{})
	for _, op := range []verbs.Opcode{verbs.OpRecv, verbs.OpRecvRDMAWithImm, verbs.OpRecvRDMAWithImm + 1, 255} {
		n, err := c.qp.PostSend([]verbs.SendWR{{Op: op, Flags: verbs.Signaled}})
		if !errors.Is(err, verbs.ErrInvalid) && !errors.Is(err, verbs.ErrUnsupported) {
			t.fatalf("posting opcode %d: %v", op, err)
		}
		require.Zero(t, n)
	}
	t.wantAlive(c, s)
}

// sendWRCopied changes work requests as soon as they are posted.
func sendWRCopied(t *T) {
	c, s := t.connect(opts{}, opts{})
	src, dst := c.filled(100, 0), s.mem(100, verbs.LocalWrite)
	rsge := []verbs.SGE{dst.sge()}
	rwr := []verbs.RecvWR{{ID: 11, SGEs: rsge}}
	_, err := s.qp.PostRecv(rwr)
	t.must(err, "PostRecv")
	rsge[0], rwr[0] = verbs.SGE{}, verbs.RecvWR{}
	// A second that waits behind the first.
	_, err = s.qp.PostRecv([]verbs.RecvWR{{ID: 12}})
	t.must(err, "PostRecv")
	sge := []verbs.SGE{src.sge()}
	wr := []verbs.SendWR{{ID: 21, Op: verbs.OpSend, Flags: verbs.Signaled, SGEs: sge}, {ID: 22, Op: verbs.OpSend, Flags: verbs.Signaled}}
	n, err := c.qp.PostSend(wr)
	t.must(err, "PostSend")
	require.Equal(t, 2, n)
	sge[0], wr[0], wr[1] = verbs.SGE{}, verbs.SendWR{}, verbs.SendWR{}
	c.wantSend(verbs.SendWR{ID: 21, Op: verbs.OpSend}, verbs.Success)
	c.wantSend(verbs.SendWR{ID: 22, Op: verbs.OpSend}, verbs.Success)
	s.wantMessage(11, 100)
	s.wantMessage(12, 0)
	dst.wantBytes(src.bytes(), "message")
}

func sendListStops(t *T) {
	c, s := t.connect(opts{}, opts{})
	a, b := s.postRecv(), s.postRecv()
	bad := make([]verbs.SGE, c.attr.MaxSGE+1)
	ok := verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled}
	wrs := []verbs.SendWR{ok, ok, {Op: verbs.OpSend, SGEs: bad}, ok}
	for i := range wrs {
		wrs[i].ID = uint64(100 + i)
	}
	n, err := c.qp.PostSend(wrs)
	require.ErrorIs(t, err, verbs.ErrInvalid)
	require.Equal(t, 2, n, "taken before the bad one")
	c.wantSend(wrs[0], verbs.Success)
	c.wantSend(wrs[1], verbs.Success)
	s.wantMessage(a, 0)
	s.wantMessage(b, 0)
	t.wantAlive(c, s) // the fourth would come before this
}

func sendRecvLarger(t *T) {
	c, s := t.connect(opts{}, opts{})
	n := 2*c.attr.ActiveMTU + 5
	src, dst := c.filled(n, 0), s.filled(3*n, verbs.LocalWrite)
	want := dst.copy()
	copy(want, src.bytes())
	id := s.postRecv(dst.split(3, n)...)
	c.do(sendOf(src))
	s.wantMessage(id, n)
	dst.wantBytes(want, "receive larger than the message")
}

// wantTooLong sends n bytes into a receive of room bytes.
func (t *T) wantTooLong(n, room int) {
	t.Helper()
	c, s := t.connect(opts{}, opts{})
	var sges []verbs.SGE
	if room > 0 {
		sges = []verbs.SGE{s.mem(room, verbs.LocalWrite).sge()}
	}
	id, next := s.postRecv(sges...), s.postRecv()
	wr := c.signaled(sendOf(c.filled(n, 0)))
	c.wantSend(wr, verbs.RemInvReqErr)
	s.wantRecv(id, verbs.LocLenErr)
	s.wantRecv(next, verbs.WRFlushErr)
	s.wantState(verbs.Error)
	c.wantDown()
}

func sendRecvTooSmall(t *T) { t.wantTooLong(101, 100) }

func sendRecvTooSmallLarge(t *T) {
	mtu := t.Client.Attr().ActiveMTU
	t.wantTooLong(3*mtu+1, 3*mtu)
	t.wantTooLong(5*mtu, 2*mtu)
	t.wantTooLong(5*mtu, mtu-1)
}

func sendRecvNoSGE(t *T) { t.wantTooLong(1, 0) }

// sendTooLong posts more than the largest message, from one region many times over.
func sendTooLong(t *T) {
	c, s := t.connect(opts{}, opts{})
	if c.attr.MaxMsgSize >= 1<<31 {
		// Lengths that only fit when they wrap.
		m := c.filled(64, 0)
		wr := sendOf(m)
		wr.SGEs[0].Length = 1<<32 - 1
		n, err := c.qp.PostSend([]verbs.SendWR{wr})
		if err != nil {
			require.ErrorIs(t, err, verbs.ErrInvalid)
			require.Zero(t, n)
			return
		}
		wc := c.next(c.scq)
		require.True(t, t.sameStatus(wc.Status, verbs.LocLenErr) || t.sameStatus(wc.Status, verbs.LocProtErr), "%v", wc.Status)
		return
	}
	m := c.filled(1<<20, 0)
	wr := verbs.SendWR{ID: 1, Op: verbs.OpRDMAWrite, Flags: verbs.Signaled}
	wr.SGEs = []verbs.SGE{m.sge()}
	wr.SGEs[0].Length = c.attr.MaxMsgSize + 1
	n, err := c.qp.PostSend([]verbs.SendWR{wr})
	if err != nil {
		require.ErrorIs(t, err, verbs.ErrInvalid)
		require.Zero(t, n)
		t.wantAlive(c, s)
		return
	}
	wc := c.next(c.scq)
	require.True(t, t.sameStatus(wc.Status, verbs.LocLenErr) || t.sameStatus(wc.Status, verbs.LocProtErr), "%v", wc.Status)
}

func inlineOpts(t *T) opts {
	return opts{init: func(q *verbs.QPInit) { q.MaxInline = min(64, t.Client.Attr().MaxInline) }}
}

func inlineTaken(t *T) {
	c, s := t.connect(inlineOpts(t), opts{})
	n := c.init.MaxInline
	dst := s.mem(n, verbs.LocalWrite)
	id := s.postRecv(dst.sge())
	data := make([]byte, n)
	fill(data, 4)
	want := append([]byte(nil), data...)
	// Behind other work, so that it may not have gone out yet.
	big, far := c.filled(1<<18, 0), s.mem(1<<18, remoteRW)
	first := c.signaled(writeTo(big, far))
	wr := c.signaled(verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Inline, Data: data})
	clear(data)
	c.wantSend(first, verbs.Success)
	c.wantSend(wr, verbs.Success)
	s.wantMessage(id, n)
	dst.wantBytes(want, "inline data")
}

func inlineSizes(t *T) {
	c, s := t.connect(inlineOpts(t), opts{})
	for _, n := range []int{0, 1, 7, c.init.MaxInline - 1, c.init.MaxInline} {
		data := make([]byte, n)
		fill(data, uint64(n))
		dst := s.mem(n+5, verbs.LocalWrite)
		want := make([]byte, n+5)
		copy(want, data)
		id := s.postRecv(dst.sge())
		c.do(verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Inline, Data: data})
		s.wantMessage(id, n)
		dst.wantBytes(want, "inline data")
	}
}

func inlineAbove(t *T) {
	c, s := t.connect(inlineOpts(t), opts{})
	data := make([]byte, c.attr.MaxInline+1)
	n, err := c.qp.PostSend([]verbs.SendWR{{Op: verbs.OpSend, Flags: verbs.Inline, Data: data}})
	require.ErrorIs(t, err, verbs.ErrInvalid)
	require.Zero(t, n)
	t.wantAlive(c, s)
}

func inlineWrite(t *T) {
	c, s := t.connect(inlineOpts(t), opts{})
	dst := s.mem(100, remoteRW)
	data := make([]byte, c.init.MaxInline)
	fill(data, 9)
	want := make([]byte, 100)
	copy(want[3:], data)
	c.do(verbs.SendWR{Op: verbs.OpRDMAWrite, Flags: verbs.Inline, Data: data, RemoteAddr: dst.addr() + 3, RKey: dst.mr.RKey()})
	dst.wantBytes(want, "inline WRITE")
}
