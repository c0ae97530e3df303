package verbstest

import (
	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

var dmaChecks = []Check{
	{Name: "dma/one-segment-a-page", Needs: []Need{needGlobal}, Run: dmaSegments},
	{Name: "dma/map-reuses-storage", Needs: []Need{needGlobal}, Run: dmaReuse},
	{Name: "globalkey/page-by-page", Needs: []Need{needGlobal}, Run: globalPages},
	{Name: "globalkey/across-pages", Needs: []Need{needGlobal}, Run: globalAcross},
	{Name: "globalkey/outside-any-mapping", Needs: []Need{needGlobal}, Run: globalOutside},
	{Name: "globalkey/after-unmap", Needs: []Need{needGlobal}, Run: globalUnmapped},
	{Name: "globalkey/read-only", Needs: []Need{needGlobal}, Run: func(t *T) { globalRights(t, verbs.RemoteRead, verbs.OpRDMAWrite) }},
	{Name: "globalkey/write-only", Needs: []Need{needGlobal}, Run: func(t *T) { globalRights(t, verbs.LocalWrite|verbs.RemoteWrite, verbs.OpRDMARead) }},
	{Name: "globalkey/pd-mismatch", Needs: []Need{needGlobal}, Run: globalPD},
	{Name: "dmakey/send-and-receive", Needs: []Need{needDMAKey}, Run: dmaKeySend},
	{Name: "dmakey/read-sink", Needs: []Need{needDMAKey, needTransport(verbs.IWARP, "a READ sink needs remote write there")}, Run: dmaKeySink},
	{Name: "dmakey/not-remote", Needs: []Need{needDMAKey}, Run: dmaKeyRemote},
	{Name: "dmakey/after-unmap", Needs: []Need{needDMAKey}, Run: dmaKeyUnmapped},
	{Name: "dmakey/outside-any-mapping", Needs: []Need{needDMAKey}, Run: dmaKeyOutside},
}

const rw = verbs.LocalWrite | verbs.RemoteRead | verbs.RemoteWrite

func (s *side) globalKey(access verbs.Access) uint32 {
	s.t.Helper()
	key, err := s.pd.GlobalKey(access)
	s.t.claimed(err, "GlobalKey")
	return key
}

func (s *side) dmaKey() uint32 {
	s.t.Helper()
	key, err := s.pd.LocalDMAKey()
	s.t.claimed(err, "LocalDMAKey")
	return key
}

func dmaSegments(t *T) {
	_, s := t.connect(opts{}, opts{})
	before := s.dev.Resources().DMAMap
	for _, x := range []struct{ off, n, segs int }{
		{0, 1, 1}, {0, 4096, 1}, {0, 4097, 2}, {4095, 1, 1}, {4095, 2, 2}, {100, 8192, 3}, {0, 64 << 10, 16}, {10, 64 << 10, 17},
	} {
		p := s.pages(x.off, x.n)
		require.Len(t, p.m.Segs, x.segs, "segments of %d bytes", x.off+x.n)
		sum := 0
		for i, g := range p.segs {
			sum += int(g.Len)
			require.NotZero(t, g.Len)
			first, last := g.Addr/verbs.PageSize, (g.Addr+uint64(g.Len)-1)/verbs.PageSize
			require.Equal(t, first, last, "segment %d is not within one page", i)
			if i > 0 {
				require.Zero(t, g.Addr%verbs.PageSize, "segment %d begins within a page", i)
				before := p.segs[i-1]
				require.NotEqual(t, before.Addr+uint64(before.Len), g.Addr, "neighbouring pages have neighbouring addresses")
			}
		}
		require.Equal(t, x.n, sum)
	}
	require.Equal(t, before+8, s.dev.Resources().DMAMap)
}

func dmaReuse(t *T) {
	pd := t.newPD(t.Server)
	mr, err := pd.AllocMR(8*verbs.PageSize, 0)
	t.must(err, "AllocMR")
	t.own(mr)
	var m verbs.DMAMap
	for range 50 {
		require.NoError(t, pd.MapDMA(&m, mr.Bytes()))
		require.Len(t, m.Segs, 8)
		pd.UnmapDMA(&m)
		require.Empty(t, m.Segs)
		require.GreaterOrEqual(t, cap(m.Segs), 8)
	}
	pd.UnmapDMA(&m) // of an empty map: nothing
}

func globalPages(t *T) {
	c, s := t.connect(opts{}, opts{})
	key := s.globalKey(rw)
	p := s.pages(100, 5*verbs.PageSize)
	off := 0
	for _, g := range p.segs {
		c.wantReach(g.Addr, key, p.buf[off:off+int(g.Len)], "READ of a page")
		off += int(g.Len)
	}
	src := c.filled(len(p.buf), 0)
	around := append([]byte(nil), p.mr.Bytes()...)
	copy(around[100:], src.bytes())
	off = 0
	for _, g := range p.segs {
		wr := verbs.SendWR{Op: verbs.OpRDMAWrite, SGEs: []verbs.SGE{src.at(off, int(g.Len))}, RemoteAddr: g.Addr, RKey: key}
		c.do(wr)
		off += int(g.Len)
	}
	wantSame(t, around, p.mr.Bytes(), "pages after WRITEs")
}

// globalAcross goes from one page over into whatever has the next address.
func globalAcross(t *T) {
	cpd, spd := t.newPD(t.Client), t.newPD(t.Server)
	for _, op := range []verbs.Opcode{verbs.OpRDMARead, verbs.OpRDMAWrite} {
		c, s := t.connectIn(cpd, spd)
		key := s.globalKey(rw)
		p := s.pages(0, 2*verbs.PageSize)
		t.wantAccessDenied(c, s, op, key, p.segs[0].Addr, 2*verbs.PageSize, p.buf)
	}
}

func globalOutside(t *T) {
	cpd, spd := t.newPD(t.Client), t.newPD(t.Server)
	for _, addr := range []uint64{0, 8, ^uint64(0) - 4096} {
		c, s := t.connectIn(cpd, spd)
		key := s.globalKey(rw)
		p := s.pages(0, 2*verbs.PageSize)
		t.wantAccessDenied(c, s, verbs.OpRDMAWrite, key, addr, 100, p.buf)
	}
}

func globalUnmapped(t *T) {
	c, s := t.connect(opts{}, opts{})
	key := s.globalKey(rw)
	p := s.pages(0, 4096)
	addr := p.segs[0].Addr
	c.wantReach(addr, key, p.buf, "READ while mapped")
	p.unmap()
	require.Empty(t, p.m.Segs)
	t.wantAccessDenied(c, s, verbs.OpRDMAWrite, key, addr, 100, p.buf)
}

func globalRights(t *T, access verbs.Access, denied verbs.Opcode) {
	c, s := t.connect(opts{}, opts{})
	key := s.globalKey(access)
	p := s.pages(0, 4096)
	t.wantAccessDenied(c, s, denied, key, p.segs[0].Addr, 100, p.buf)
}

func globalPD(t *T) {
	c, s := t.connect(opts{}, opts{})
	other, err := t.newPD(t.Server).GlobalKey(rw)
	t.claimed(err, "GlobalKey")
	p := s.pages(0, 4096)
	t.wantAccessDenied(c, s, verbs.OpRDMARead, other, p.segs[0].Addr, 100, p.buf)
}

func dmaKeySend(t *T) {
	if min(t.Client.Attr().MaxSGE, t.Server.Attr().MaxSGE) < 3 {
		t.Skipf("fewer than 3 SGEs")
	}
	c, s := t.connect(opts{}, opts{})
	out, in := c.pages(50, 9000), s.pages(3000, 9000)
	id := s.postRecv(in.sges(s.dmaKey())...)
	c.do(verbs.SendWR{Op: verbs.OpSend, SGEs: out.sges(c.dmaKey())})
	s.wantMessage(id, 9000)
	wantSame(t, out.buf, in.buf, "message from and to scattered pages")
}

func dmaKeySink(t *T) {
	c, s := t.connect(opts{}, opts{})
	src := s.filled(4096, verbs.RemoteRead)
	in := c.pages(0, 4096)
	c.do(verbs.SendWR{Op: verbs.OpRDMARead, SGEs: in.sges(c.dmaKey()), RemoteAddr: src.addr(), RKey: src.mr.RKey()})
	wantSame(t, src.bytes(), in.buf, "READ into a page")
}

func dmaKeyRemote(t *T) {
	cpd, spd := t.newPD(t.Client), t.newPD(t.Server)
	for _, op := range []verbs.Opcode{verbs.OpRDMARead, verbs.OpRDMAWrite} {
		c, s := t.connectIn(cpd, spd)
		p := s.pages(0, 4096)
		t.wantAccessDenied(c, s, op, s.dmaKey(), p.segs[0].Addr, 100, p.buf)
	}
}

func dmaKeyUnmapped(t *T) {
	c, s := t.connect(opts{}, opts{})
	dst := s.mem(4096, remoteRW)
	p := c.pages(0, 4096)
	wr := verbs.SendWR{Op: verbs.OpRDMAWrite, SGEs: p.sges(c.dmaKey()), RemoteAddr: dst.addr(), RKey: dst.mr.RKey()}
	p.unmap()
	t.wantLocalErr(c, wr, verbs.LocProtErr)
	dst.wantBytes(make([]byte, 4096), "target of a WRITE from an unmapped page")
}

func dmaKeyOutside(t *T) {
	c, s := t.connect(opts{}, opts{})
	dst := s.mem(4096, remoteRW)
	p := c.pages(0, 2*4096)
	wr := verbs.SendWR{Op: verbs.OpRDMAWrite, SGEs: p.sges(c.dmaKey())[:1], RemoteAddr: dst.addr(), RKey: dst.mr.RKey()}
	wr.SGEs[0].Length++
	t.wantLocalErr(c, wr, verbs.LocProtErr)
}
