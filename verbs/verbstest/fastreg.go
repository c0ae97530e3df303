package verbstest

import (
	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

var fastRegChecks = []Check{
	{Name: "fastreg/read-and-write", Needs: []Need{needFastReg}, Run: fastRegReadWrite},
	{Name: "fastreg/partial-pages", Needs: []Need{needFastReg}, Run: fastRegPartial},
	{Name: "fastreg/gap-in-page-list", Needs: []Need{needFastReg}, Run: fastRegGap},
	{Name: "fastreg/page-list-limit", Needs: []Need{needFastReg}, Run: fastRegLimit},
	{Name: "fastreg/longest-page-list", Needs: []Need{needFastReg}, Run: fastRegLongest},
	{Name: "fastreg/bounds-write", Needs: []Need{needFastReg}, Run: func(t *T) { fastRegBounds(t, verbs.OpRDMAWrite) }},
	{Name: "fastreg/bounds-read", Needs: []Need{needFastReg}, Run: func(t *T) { fastRegBounds(t, verbs.OpRDMARead) }},
	{Name: "fastreg/read-only", Needs: []Need{needFastReg}, Run: func(t *T) { fastRegRights(t, verbs.OpRDMAWrite, verbs.LocalWrite|verbs.RemoteRead) }},
	{Name: "fastreg/write-only", Needs: []Need{needFastReg}, Run: func(t *T) { fastRegRights(t, verbs.OpRDMARead, verbs.LocalWrite|verbs.RemoteWrite) }},
	{Name: "fastreg/zero-based", Needs: []Need{needFastReg}, Run: fastRegZeroBased},
	{Name: "fastreg/zero-based-bounds", Needs: []Need{needFastReg}, Run: fastRegZeroBasedBounds},
	{Name: "fastreg/local-sink", Needs: []Need{needFastReg}, Run: fastRegSink},
	{Name: "fastreg/local-sink-read-only", Needs: []Need{needFastReg}, Run: fastRegSinkReadOnly},
	{Name: "fastreg/reg-then-send-on-one-queue", Needs: []Need{needFastReg}, Run: fastRegThenSend},
	{Name: "fastreg/used-by-another-qp", Needs: []Need{needFastReg}, Run: fastRegOtherQP},
	{Name: "fastreg/qp-of-another-pd", Needs: []Need{needFastReg}, Run: fastRegOtherPD},
}

func fastRegReadWrite(t *T) {
	c, s := t.connect(opts{}, opts{})
	p := s.pages(0, 3*verbs.PageSize)
	mr := s.registered(p, remoteRW)
	c.wantReach(mr.Addr(), mr.RKey(), p.buf, "READ of a fast-registered region")
	src := c.filled(len(p.buf), 0)
	c.do(writeKey(src, mr.Addr(), mr.RKey()))
	wantSame(t, src.bytes(), p.buf, "WRITE to a fast-registered region")
	// In the middle, across a page boundary.
	c.wantReach(mr.Addr()+4000, mr.RKey(), p.buf[4000:4300], "READ across pages")
	s.do(localInv(mr.RKey()))
	require.False(t, mr.Valid(), "valid after LOCAL_INV")
}

// fastRegPartial has a first page that begins, and a last one that ends, within.
func fastRegPartial(t *T) {
	c, s := t.connect(opts{}, opts{})
	for _, x := range []struct{ off, n int }{
		{100, 50}, {100, 4096 - 100}, {100, 5000}, {4095, 2}, {1, 3*4096 - 1}, {0, 4097}, {4000, 4096 + 96},
	} {
		p := s.pages(x.off, x.n)
		mr := s.registered(p, remoteRW)
		c.wantReach(mr.Addr(), mr.RKey(), p.buf, "READ of partial pages")
		src := c.filled(x.n, 0)
		around := append([]byte(nil), p.mr.Bytes()...)
		copy(around[x.off:], src.bytes())
		c.do(writeKey(src, mr.Addr(), mr.RKey()))
		wantSame(t, around, p.mr.Bytes(), "memory around a WRITE to partial pages")
		s.do(localInv(mr.RKey()))
	}
}

// fastRegGap: what ends within a page cannot be followed, what begins within one cannot follow.
func fastRegGap(t *T) {
	_, s := t.connect(opts{}, opts{})
	mr := s.fastReg(4)
	p := s.pages(0, 4*verbs.PageSize)
	g := p.segs
	require.Len(t, g, 4)
	short := g[1]
	short.Len -= 8
	late := g[1]
	late.Addr += 8
	late.Len -= 8
	for _, x := range []struct {
		why  string
		segs []verbs.DMASeg
		want int
	}{
		{"whole pages", g, 4},
		{"a page that ends early", []verbs.DMASeg{g[0], short, g[2]}, 2},
		{"a page that begins late", []verbs.DMASeg{g[0], late, g[2]}, 1},
		{"a last page that ends early", []verbs.DMASeg{g[0], short}, 2},
		{"a first page that begins late", []verbs.DMASeg{late, g[2]}, 2},
		{"a first page that ends early", []verbs.DMASeg{short, g[2]}, 1},
	} {
		require.Equal(t, x.want, mr.MapPages(x.segs), x.why)
		n := 0
		for _, seg := range x.segs[:x.want] {
			n += int(seg.Len)
		}
		require.Equal(t, n, mr.Len(), x.why)
	}
}

func fastRegLimit(t *T) {
	pd := t.newPD(t.Server)
	limit := t.Server.Attr().MaxFastRegPages
	_, err := pd.AllocFastRegMR(limit + 1)
	require.Error(t, err, "a page list beyond MaxFastRegPages")
	require.NotErrorIs(t, err, verbs.ErrUnsupported)
	_, err = pd.AllocFastRegMR(0)
	require.ErrorIs(t, err, verbs.ErrInvalid, "an empty page list")
	_, err = pd.AllocFastRegMR(-1)
	require.ErrorIs(t, err, verbs.ErrInvalid, "a negative page list")
	if limit < 3 {
		return
	}
	_, s := t.connect(opts{}, opts{})
	p := s.pages(0, 3*verbs.PageSize)
	require.Equal(t, 2, s.fastReg(2).MapPages(p.segs), "pages of three that fit in two")
}

func fastRegLongest(t *T) {
	c, s := t.connect(opts{}, opts{})
	n := min(s.attr.MaxFastRegPages, 512)
	p := s.pages(0, n*verbs.PageSize)
	mr := s.registered(p, verbs.RemoteRead)
	c.wantReach(mr.Addr(), mr.RKey(), p.buf, "READ of the longest page list")
}

func fastRegBounds(t *T, op verbs.Opcode) {
	cpd, spd := t.newPD(t.Client), t.newPD(t.Server)
	for _, x := range []struct{ off, n int }{{-1, 4}, {6000, 1}, {5999, 2}, {0, 6001}, {-4096, 16}, {6000, 4096}} {
		c, s := t.connectIn(cpd, spd)
		p := s.pages(50, 6000)
		mr := s.registered(p, remoteRW)
		t.wantAccessDenied(c, s, op, mr.RKey(), mr.Addr()+uint64(x.off), x.n, p.mr.Bytes())
	}
}

func fastRegRights(t *T, op verbs.Opcode, access verbs.Access) {
	c, s := t.connect(opts{}, opts{})
	p := s.pages(0, 6000)
	mr := s.registered(p, access)
	t.wantAccessDenied(c, s, op, mr.RKey(), mr.Addr(), 100, p.buf)
}

func fastRegZeroBased(t *T) {
	c, s := t.connect(opts{}, opts{})
	p := s.pages(300, 6000)
	mr := s.registered(p, remoteRW|verbs.ZeroBased)
	c.wantReach(0, mr.RKey(), p.buf, "READ at 0")
	c.wantReach(5000, mr.RKey(), p.buf[5000:], "READ at 5000")
}

func fastRegZeroBasedBounds(t *T) {
	c, s := t.connect(opts{}, opts{})
	p := s.pages(300, 6000)
	mr := s.registered(p, remoteRW|verbs.ZeroBased)
	t.wantAccessDenied(c, s, verbs.OpRDMARead, mr.RKey(), 5999, 2, p.buf)
}

// fastRegSink reads into a fast-registered region of the reader's own.
func fastRegSink(t *T) {
	c, s := t.connect(opts{}, opts{})
	src := s.filled(6000, verbs.RemoteRead)
	p := c.pages(200, 6000)
	mr := c.registered(p, c.sinkAccess())
	c.do(verbs.SendWR{Op: verbs.OpRDMARead, RemoteAddr: src.addr(), RKey: src.mr.RKey(),
		SGEs: []verbs.SGE{{Addr: mr.Addr(), Length: 6000, LKey: mr.LKey()}}})
	wantSame(t, src.bytes(), p.buf, "fast-registered sink")
	c.do(localInv(mr.RKey()))
	t.wantLocalErr(c, verbs.SendWR{Op: verbs.OpRDMARead, RemoteAddr: src.addr(), RKey: src.mr.RKey(),
		SGEs: []verbs.SGE{{Addr: mr.Addr(), Length: 6000, LKey: mr.LKey()}}}, verbs.LocProtErr)
}

func fastRegSinkReadOnly(t *T) {
	c, s := t.connect(opts{}, opts{})
	src := s.filled(6000, verbs.RemoteRead)
	p := c.pages(0, 6000)
	want := append([]byte(nil), p.buf...)
	mr := c.registered(p, verbs.RemoteRead)
	t.wantLocalErr(c, verbs.SendWR{Op: verbs.OpRDMARead, RemoteAddr: src.addr(), RKey: src.mr.RKey(),
		SGEs: []verbs.SGE{{Addr: mr.Addr(), Length: 6000, LKey: mr.LKey()}}}, verbs.LocProtErr)
	wantSame(t, want, p.buf, "read-only fast-registered sink")
}

// fastRegThenSend posts REG_MR and, at once, the message with its key: the peer may use the key when it has the message.
func fastRegThenSend(t *T) {
	c, s := t.connect(opts{}, opts{})
	msg := s.filled(16, 0)
	in := c.mem(16, verbs.LocalWrite)
	mr := s.fastReg(2)
	for range 16 {
		p := s.pages(0, 2*verbs.PageSize)
		id := c.postRecv(in.sge())
		reg := s.reg(mr, p, remoteRW)
		send := sendOf(msg)
		reg.ID, send.ID = t.nextID(), t.nextID()
		send.Flags = verbs.Signaled
		s.post(reg, send)
		c.wantMessage(id, 16)
		c.wantReach(mr.Addr(), reg.Key, p.buf, "READ after the message that follows REG_MR")
		s.wantSend(send, verbs.Success)
		s.do(localInv(reg.Key))
		p.unmap()
	}
}

// fastRegOtherQP: a region belongs to its domain, not to the queue pair that registered it.
func fastRegOtherQP(t *T) {
	cpd, spd := t.newPD(t.Client), t.newPD(t.Server)
	_, s1 := t.connectIn(cpd, spd)
	c2, s2 := t.connectIn(cpd, spd)
	p := s1.pages(0, 5000)
	mr := s1.registered(p, verbs.RemoteRead)
	c2.wantReach(mr.Addr(), mr.RKey(), p.buf, "READ over another queue pair")
	s2.do(localInv(mr.RKey()))
	require.False(t, mr.Valid())
}

func fastRegOtherPD(t *T) {
	_, s := t.connect(opts{}, opts{})
	pd := t.newPD(t.Server)
	mr, err := pd.AllocFastRegMR(1)
	t.claimed(err, "AllocFastRegMR")
	t.own(mr)
	p := s.pages(0, 4096)
	mr.MapPages(p.segs)
	s.wantManagementErr(verbs.SendWR{Op: verbs.OpRegMR, Reg: mr, Key: mr.NextKey(), Access: verbs.RemoteRead})
	require.False(t, mr.Valid())
}

// wantManagementErr posts a REG_MR, BIND_MW or LOCAL_INV that must fail: when
// it is posted, as libraries do that look, or with the memory management
// operation error, as hardware does.
func (s *side) wantManagementErr(wr verbs.SendWR) {
	s.t.Helper()
	wr.ID, wr.Flags = s.t.nextID(), wr.Flags|verbs.Signaled
	n, err := s.qp.PostSend([]verbs.SendWR{wr})
	if err != nil {
		require.ErrorIs(s.t, err, verbs.ErrInvalid)
		require.Zero(s.t, n)
		return
	}
	s.wantSend(wr, verbs.MWBindErr)
	s.wantDown()
}
