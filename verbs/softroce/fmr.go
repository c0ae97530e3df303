package softroce

import (
	"fmt"

	"example.org/nfsrdma/verbs"
)

// maxFMRPages is the most pages of a fast memory region (assumed; the Linux client asks for 64).
const maxFMRPages = 512

// fmr is a fast memory region: a fast-registration region that verbs map and unmap.
type fmr struct{ m fastMR }

var _ verbs.FMRDomain = (*PD)(nil)

// AllocFMR implements verbs.FMRDomain.
func (p *PD) AllocFMR(n int, access verbs.Access) (verbs.FMR, error) {
	d := p.dev
	if d.attr.Caps&verbs.CapFMR == 0 {
		return nil, fmt.Errorf("softroce: %s: fast memory regions: %w", d.name, verbs.ErrUnsupported)
	}
	if n < 1 || n > maxFMRPages {
		return nil, fmt.Errorf("softroce: %s: fast memory region of %d pages, must be 1 to %d: %w", d.name, n, maxFMRPages, verbs.ErrInvalid)
	}
	if err := checkAccess(access); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	r, err := p.addRegion(&d.res.MR, d.attr.MaxMR, "max_mr", kindFMR)
	if err != nil {
		return nil, err
	}
	r.access = access
	return &fmr{fastMR{r: r, max: n, origin: d.allocAddr(n * verbs.PageSize)}}, nil
}

// UnmapFMR implements verbs.FMRDomain.
func (p *PD) UnmapFMR(list []verbs.FMR) error {
	for _, f := range list {
		m, ok := f.(*fmr)
		if !ok || m.m.r.pd != p {
			return fmt.Errorf("softroce: %s: unmap of a region of another domain: %w", p.dev.name, verbs.ErrInvalid)
		}
	}
	for _, f := range list {
		g := &f.(*fmr).m.r.g
		g.end(g.gen.Load())
	}
	p.dev.net.sec.wait() // one for all
	return nil
}

func (f *fmr) Map(segs []verbs.DMASeg) (int, error) {
	r := f.m.r
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return 0, fmt.Errorf("softroce: %s: fast memory region: %w", r.dev.name, verbs.ErrClosed)
	case f.m.Valid():
		return 0, fmt.Errorf("softroce: %s: fast memory region %#x is mapped: %w", r.dev.name, r.key.Load(), verbs.ErrState)
	}
	n := f.m.MapPages(segs)
	if n == 0 {
		return 0, fmt.Errorf("softroce: %s: no page of a list of %d can be mapped: %w", r.dev.name, len(segs), verbs.ErrInvalid)
	}
	r.pages, f.m.next = f.m.next, r.pages
	r.addr, r.base, r.length = f.m.addr, f.m.addr, uint64(f.m.n)
	if r.access&verbs.ZeroBased != 0 {
		r.base = 0
	}
	r.key.Store(r.nextKey())
	r.user.Store(nil)
	r.g.allow()
	return n, nil
}

func (f *fmr) Addr() uint64 { return f.m.r.base }
func (f *fmr) Len() int     { return f.m.n }
func (f *fmr) RKey() uint32 { return f.m.r.key.Load() }
func (f *fmr) Close() error { return f.m.Close() }
