package verbstest

import (
	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

// pages is a buffer with DMA addresses: segs are those of buf, which may begin
// within the first page of what is mapped.
type pages struct {
	t    *T
	pd   verbs.PD
	mr   verbs.MR
	buf  []byte
	segs []verbs.DMASeg
	m    verbs.DMAMap
	up   bool
}

// pages maps n bytes that begin off bytes, less than a page, into one.
func (s *side) pages(off, n int) *pages {
	s.t.Helper()
	mr, err := s.pd.AllocMR(off+n, 0)
	s.t.must(err, "AllocMR")
	s.t.own(mr)
	p := &pages{t: s.t, pd: s.pd, mr: mr, buf: mr.Bytes()[off : off+n]}
	fill(p.buf, s.t.nextID())
	s.t.claimed(s.pd.MapDMA(&p.m, mr.Bytes()), "MapDMA")
	p.up = true
	s.t.own(p)
	p.segs = append(p.segs, p.m.Segs...)
	require.Greater(s.t, int(p.segs[0].Len), off, "first segment of a buffer that is aligned to a page")
	p.segs[0].Addr += uint64(off)
	p.segs[0].Len -= uint32(off)
	return p
}

func (p *pages) unmap() {
	if p.up {
		p.pd.UnmapDMA(&p.m)
		p.up = false
	}
}

// Close makes it owned.
func (p *pages) Close() error {
	p.unmap()
	return nil
}

// sges are the segments under key.
func (p *pages) sges(key uint32) []verbs.SGE {
	var out []verbs.SGE
	for _, g := range p.segs {
		out = append(out, verbs.SGE{Addr: g.Addr, Length: g.Len, LKey: key})
	}
	return out
}

// fastReg is a fast-registration region of up to n pages.
func (s *side) fastReg(n int) verbs.FastRegMR {
	s.t.Helper()
	mr, err := s.pd.AllocFastRegMR(n)
	s.t.claimed(err, "AllocFastRegMR")
	s.t.own(mr)
	return mr
}

// reg is the work request that registers p in mr, with a new key.
func (s *side) reg(mr verbs.FastRegMR, p *pages, access verbs.Access) verbs.SendWR {
	s.t.Helper()
	require.Equal(s.t, len(p.segs), mr.MapPages(p.segs), "segments that fit")
	require.Equal(s.t, len(p.buf), mr.Len(), "length of the page list")
	return verbs.SendWR{Op: verbs.OpRegMR, Reg: mr, Key: mr.NextKey(), Access: access}
}

// registered is fastReg with p registered in it.
func (s *side) registered(p *pages, access verbs.Access) verbs.FastRegMR {
	s.t.Helper()
	mr := s.fastReg(len(p.segs))
	wr := s.reg(mr, p, access)
	s.do(wr)
	require.Equal(s.t, wr.Key, mr.RKey(), "key after REG_MR")
	require.True(s.t, mr.Valid(), "valid after REG_MR")
	return mr
}

func localInv(key uint32) verbs.SendWR { return verbs.SendWR{Op: verbs.OpLocalInv, InvKey: key} }

// writeKey lets c write src to addr with rkey.
func writeKey(src *mem, addr uint64, rkey uint32) verbs.SendWR {
	return verbs.SendWR{Op: verbs.OpRDMAWrite, SGEs: []verbs.SGE{src.sge()}, RemoteAddr: addr, RKey: rkey}
}

func readKey(sink *mem, addr uint64, rkey uint32) verbs.SendWR {
	return verbs.SendWR{Op: verbs.OpRDMARead, SGEs: []verbs.SGE{sink.sge()}, RemoteAddr: addr, RKey: rkey}
}

// wantReach reads want through addr and rkey.
func (c *side) wantReach(addr uint64, rkey uint32, want []byte, what string) {
	c.t.Helper()
	sink := c.mem(len(want), c.sinkAccess())
	wc := c.do(readKey(sink, addr, rkey))
	require.EqualValues(c.t, len(want), wc.ByteLen)
	sink.wantBytes(want, what)
}
