package verbstest

import (
	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

var needFMR = needCap("fast memory regions", verbs.CapFMR)

var fmrChecks = []Check{
	{Name: "fmr/map-and-use", Needs: []Need{needFMR}, Run: fmrUse},
	{Name: "fmr/partial-pages", Needs: []Need{needFMR}, Run: fmrPartial},
	{Name: "fmr/gap-in-page-list", Needs: []Need{needFMR}, Run: fmrGap},
	{Name: "fmr/before-map", Needs: []Need{needFMR}, Run: fmrBefore},
	{Name: "fmr/unmap", Needs: []Need{needFMR}, Run: fmrUnmap},
	{Name: "fmr/unmap-several", Needs: []Need{needFMR}, Run: fmrUnmapSeveral},
	{Name: "fmr/map-of-mapped", Needs: []Need{needFMR}, Run: fmrTwice},
	{Name: "fmr/bounds", Needs: []Need{needFMR}, Run: fmrBounds},
	{Name: "fmr/rights", Needs: []Need{needFMR}, Run: fmrRights},
	{Name: "fmr/close-of-mapped", Needs: []Need{needFMR}, Run: fmrClose},
	{Name: "fmr/qp-of-another-pd", Needs: []Need{needFMR}, Run: fmrOtherPD},
	{Name: "fmr/not-invalidated", Needs: []Need{needFMR, needFastReg}, Run: fmrLocalInv},
}

// fmr is a fast memory region of up to n pages.
func (s *side) fmr(n int, access verbs.Access) verbs.FMR {
	s.t.Helper()
	d, ok := s.pd.(verbs.FMRDomain)
	require.True(s.t, ok, "a device with CapFMR has PDs that are FMRDomains")
	f, err := d.AllocFMR(n, access)
	s.t.claimed(err, "AllocFMR")
	s.t.own(f)
	return f
}

func (s *side) unmapFMR(list ...verbs.FMR) {
	s.t.Helper()
	s.t.claimed(s.pd.(verbs.FMRDomain).UnmapFMR(list), "UnmapFMR")
}

// mapped is a fast memory region of all of p.
func (s *side) mapped(p *pages, access verbs.Access) verbs.FMR {
	s.t.Helper()
	f := s.fmr(len(p.segs), access)
	n, err := f.Map(p.segs)
	s.t.claimed(err, "Map")
	require.Equal(s.t, len(p.segs), n, "segments mapped")
	require.Equal(s.t, len(p.buf), f.Len())
	return f
}

func fmrUse(t *T) {
	c, s := t.connect(opts{}, opts{})
	p := s.pages(0, 3*verbs.PageSize)
	f := s.mapped(p, remoteRW)
	c.wantReach(f.Addr(), f.RKey(), p.buf, "READ of a fast memory region")
	src := c.filled(len(p.buf), 0)
	c.do(writeKey(src, f.Addr(), f.RKey()))
	wantSame(t, src.bytes(), p.buf, "WRITE to a fast memory region")
	s.unmapFMR(f)
}

func fmrPartial(t *T) {
	c, s := t.connect(opts{}, opts{})
	for _, x := range []struct{ off, n int }{{100, 50}, {100, 5000}, {4095, 2}, {1, 3*4096 - 1}, {0, 4097}} {
		p := s.pages(x.off, x.n)
		f := s.mapped(p, remoteRW)
		src := c.filled(x.n, 0)
		around := append([]byte(nil), p.mr.Bytes()...)
		copy(around[x.off:], src.bytes())
		c.do(writeKey(src, f.Addr(), f.RKey()))
		wantSame(t, around, p.mr.Bytes(), "memory around a WRITE to partial pages")
		s.unmapFMR(f)
	}
}

func fmrGap(t *T) {
	_, s := t.connect(opts{}, opts{})
	p, q := s.pages(100, 500), s.pages(100, 500)
	f := s.fmr(2, remoteRW)
	n, err := f.Map(append(append([]verbs.DMASeg(nil), p.segs...), q.segs...))
	t.claimed(err, "Map")
	require.Equal(t, 1, n, "what ends within a page cannot be followed")
	s.unmapFMR(f)
	_, err = f.Map(nil)
	require.ErrorIs(t, err, verbs.ErrInvalid, "no page")
}

func fmrBefore(t *T) {
	c, s := t.connect(opts{}, opts{})
	p := s.pages(0, verbs.PageSize)
	f := s.fmr(1, remoteRW)
	t.wantAccessDenied(c, s, verbs.OpRDMARead, f.RKey(), f.Addr(), 8, p.buf)
}

func fmrUnmap(t *T) {
	c, s := t.connect(opts{}, opts{})
	p, q := s.pages(0, verbs.PageSize), s.pages(0, verbs.PageSize)
	f := s.mapped(p, remoteRW)
	old := f.RKey()
	c.wantReach(f.Addr(), old, p.buf, "READ of a fast memory region")
	s.unmapFMR(f)
	_, err := f.Map(q.segs)
	t.claimed(err, "Map again")
	require.NotEqual(t, old, f.RKey(), "the key of the next mapping")
	c.wantReach(f.Addr(), f.RKey(), q.buf, "READ of the next mapping")
	t.wantAccessDenied(c, s, verbs.OpRDMAWrite, old, f.Addr(), 100, q.buf)
}

func fmrUnmapSeveral(t *T) {
	cpd, spd := t.newPD(t.Client), t.newPD(t.Server)
	var list []verbs.FMR
	var bufs []*pages
	c, s := t.connectIn(cpd, spd)
	for range 4 {
		p := s.pages(0, verbs.PageSize)
		bufs = append(bufs, p)
		list = append(list, s.mapped(p, remoteRW))
	}
	s.unmapFMR(list[:3]...)
	c.wantReach(list[3].Addr(), list[3].RKey(), bufs[3].buf, "READ of the one that is mapped")
	for i := range 3 {
		c, s := t.connectIn(cpd, spd)
		t.wantAccessDenied(c, s, verbs.OpRDMAWrite, list[i].RKey(), list[i].Addr(), 100, bufs[i].buf)
	}
	s.unmapFMR(list...) // those that are unmapped do no harm
}

func fmrTwice(t *T) {
	c, s := t.connect(opts{}, opts{})
	p, q := s.pages(0, verbs.PageSize), s.pages(0, verbs.PageSize)
	f := s.mapped(p, remoteRW)
	_, err := f.Map(q.segs)
	require.ErrorIs(t, err, verbs.ErrState)
	c.wantReach(f.Addr(), f.RKey(), p.buf, "READ of what is mapped still")
}

func fmrBounds(t *T) {
	cpd, spd := t.newPD(t.Client), t.newPD(t.Server)
	for _, x := range []struct{ off, n int }{{-1, 2}, {5000, 1}, {4999, 2}, {0, 5001}} {
		c, s := t.connectIn(cpd, spd)
		p := s.pages(100, 5000)
		f := s.mapped(p, remoteRW)
		t.wantAccessDenied(c, s, verbs.OpRDMAWrite, f.RKey(), f.Addr()+uint64(x.off), x.n, p.mr.Bytes())
	}
}

func fmrRights(t *T) {
	cpd, spd := t.newPD(t.Client), t.newPD(t.Server)
	for _, x := range []struct {
		access verbs.Access
		denied verbs.Opcode
	}{
		{verbs.RemoteRead, verbs.OpRDMAWrite}, {verbs.LocalWrite | verbs.RemoteWrite, verbs.OpRDMARead},
	} {
		c, s := t.connectIn(cpd, spd)
		p := s.pages(0, verbs.PageSize)
		f := s.mapped(p, x.access)
		t.wantAccessDenied(c, s, x.denied, f.RKey(), f.Addr(), 100, p.buf)
	}
	s := t.newPD(t.Server).(verbs.FMRDomain)
	_, err := s.AllocFMR(1, verbs.RemoteWrite)
	require.ErrorIs(t, err, verbs.ErrInvalid, "remote write without local write")
	_, err = s.AllocFMR(0, verbs.RemoteRead)
	require.ErrorIs(t, err, verbs.ErrInvalid, "no page")
}

func fmrClose(t *T) {
	c, s := t.connect(opts{}, opts{})
	p := s.pages(0, verbs.PageSize)
	f := s.mapped(p, remoteRW)
	t.close(f)
	t.wantAccessDenied(c, s, verbs.OpRDMAWrite, f.RKey(), f.Addr(), 100, p.buf)
	_, err := f.Map(p.segs)
	require.ErrorIs(t, err, verbs.ErrClosed)
}

func fmrOtherPD(t *T) {
	c, s := t.connect(opts{}, opts{})
	_, other := t.connect(opts{}, opts{})
	p := other.pages(0, verbs.PageSize)
	f := other.mapped(p, remoteRW)
	require.ErrorIs(t, s.pd.(verbs.FMRDomain).UnmapFMR([]verbs.FMR{f}), verbs.ErrInvalid, "unmap in another domain")
	t.wantAccessDenied(c, s, verbs.OpRDMAWrite, f.RKey(), f.Addr(), 100, p.buf)
}

// fmrLocalInv: a fast memory region is unmapped by its verb alone.
func fmrLocalInv(t *T) {
	cpd, spd := t.newPD(t.Client), t.newPD(t.Server)
	_, s := t.connectIn(cpd, spd)
	p := s.pages(0, verbs.PageSize)
	f := s.mapped(p, remoteRW)
	s.wantManagementErr(localInv(f.RKey()))
	c, _ := t.connectIn(cpd, spd)
	c.wantReach(f.Addr(), f.RKey(), p.buf, "READ after the attempt")
}
