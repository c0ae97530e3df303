package softroce

import (
	"fmt"
	"sync/atomic"

	"example.org/nfsrdma/verbs"
)

// PD is a protection domain.
type PD struct {
	dev    *Device
	users  atomic.Int32
	global map[verbs.Access]*region // guarded by dev.mu
	closed bool
}

// AllocPD implements verbs.Device.
func (d *Device) AllocPD() (verbs.PD, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.usable(); err != nil {
		return nil, err
	}
	if err := d.limit(&d.res.PD, d.attr.MaxPD, "max_pd"); err != nil {
		return nil, err
	}
	return &PD{dev: d, global: map[verbs.Access]*region{}}, nil
}

// Device implements verbs.PD.
func (p *PD) Device() verbs.Device { return p.dev }

// Close implements verbs.PD.
func (p *PD) Close() error {
	d := p.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.closed {
		return nil
	}
	if n := p.users.Load(); n != 0 {
		return fmt.Errorf("softroce: %s: protection domain with %d objects: %w", d.name, n, verbs.ErrBusy)
	}
	p.closed = true
	d.res.PD--
	for _, r := range p.global { // no work uses them: there is no queue pair
		r.g.end(r.g.gen.Load())
		d.dma.keys.Add(-1)
		d.drop(r)
	}
	return nil
}

const mwRights = verbs.RemoteRead | verbs.RemoteWrite | verbs.RemoteAtomic | verbs.ZeroBased

func checkAccess(a verbs.Access) error {
	if a&(verbs.RemoteWrite|verbs.RemoteAtomic) != 0 && a&verbs.LocalWrite == 0 {
		return fmt.Errorf("softroce: remote write or atomic access needs local write: %w", verbs.ErrInvalid)
	}
	return nil
}

// mr is a memory region.
type mr struct{ r *region }

// RegMR implements verbs.PD.
func (p *PD) RegMR(buf []byte, access verbs.Access) (verbs.MR, error) {
	d := p.dev
	if err := checkAccess(access); err != nil {
		return nil, err
	}
	if uint64(len(buf)) > d.attr.MaxMRSize {
		return nil, fmt.Errorf("softroce: %s: region of %d bytes, max_mr_size is %d: %w", d.name, len(buf), d.attr.MaxMRSize, verbs.ErrInvalid)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	r, err := p.addRegion(&d.res.MR, d.attr.MaxMR, "max_mr", kindMR)
	if err != nil {
		return nil, err
	}
	r.mem, r.access, r.length = buf, access, uint64(len(buf))
	r.addr = d.allocAddr(len(buf))
	r.base = r.addr
	if access&verbs.ZeroBased != 0 {
		r.base = 0
	}
	r.g.allow()
	return &mr{r}, nil
}

// addRegion makes a region and counts it. dev.mu is held.
func (p *PD) addRegion(count *int, limit int, name string, kind regionKind) (*region, error) {
	d := p.dev
	if err := d.usable(); err != nil {
		return nil, err
	}
	if p.closed {
		return nil, fmt.Errorf("softroce: protection domain: %w", verbs.ErrClosed)
	}
	if err := d.limit(count, limit, name); err != nil {
		return nil, err
	}
	r, err := d.newRegion(p, kind)
	if err != nil {
		*count--
		return nil, err
	}
	p.users.Add(1)
	return r, nil
}

// AllocMR implements verbs.PD.
func (p *PD) AllocMR(n int, access verbs.Access) (verbs.MR, error) {
	if n < 0 || uint64(n) > p.dev.attr.MaxMRSize {
		return nil, fmt.Errorf("softroce: %s: region of %d bytes, must be 0 to max_mr_size %d: %w", p.dev.name, n, p.dev.attr.MaxMRSize, verbs.ErrInvalid)
	}
	return p.RegMR(make([]byte, n), access)
}

func (m *mr) Addr() uint64  { return m.r.base }
func (m *mr) Len() int      { return len(m.r.mem) }
func (m *mr) Bytes() []byte { return m.r.mem }
func (m *mr) LKey() uint32  { return m.r.key.Load() }
func (m *mr) RKey() uint32  { return m.r.key.Load() }
func (m *mr) Close() error  { return m.r.close(&m.r.dev.res.MR) }

// close deregisters a region of any kind; count is its kind's.
func (r *region) close(count *int) error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	if n := r.bound.Load(); n > 0 {
		r.mu.Unlock()
		return fmt.Errorf("softroce: %s: region %#x has %d windows bound: %w", r.dev.name, r.key.Load(), n, verbs.ErrBusy)
	}
	r.closed = true
	if r.kind == kindMW {
		r.unbind()
	}
	r.mu.Unlock()
	r.g.revoke(&r.dev.net.sec)
	r.dev.drop(r)
	r.pd.users.Add(-1)
	r.dev.mu.Lock()
	*count--
	r.dev.mu.Unlock()
	return nil
}

// fastMR is a fast-registration region.
type fastMR struct {
	r      *region
	max    int
	origin uint64 // one address range for all its registrations: the key's tag tells them apart
	next   []seg  // the mapped page list, of the next REG_MR
	addr   uint64
	n      int
}

// AllocFastRegMR implements verbs.PD.
func (p *PD) AllocFastRegMR(n int) (verbs.FastRegMR, error) {
	d := p.dev
	if d.attr.Caps&verbs.CapMemMgtExtensions == 0 || d.attr.MaxFastRegPages == 0 {
		return nil, fmt.Errorf("softroce: %s: fast registration: %w", d.name, verbs.ErrUnsupported)
	}
	if n < 1 || n > d.attr.MaxFastRegPages {
		return nil, fmt.Errorf("softroce: %s: page list of %d, the limit is %d pages: %w", d.name, n, d.attr.MaxFastRegPages, verbs.ErrInvalid)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	r, err := p.addRegion(&d.res.MR, d.attr.MaxMR, "max_mr", kindFast)
	if err != nil {
		return nil, err
	}
	return &fastMR{r: r, max: n, origin: d.allocAddr(n * verbs.PageSize)}, nil
}

func (m *fastMR) MapPages(segs []verbs.DMASeg) int {
	m.next, m.n = m.next[:0], 0
	for i := range segs {
		s := &segs[i]
		start, end := s.Addr&(verbs.PageSize-1), s.Addr&(verbs.PageSize-1)+uint64(s.Len)
		if i == m.max || s.Len == 0 || i > 0 && start != 0 || end > verbs.PageSize {
			break
		}
		if i > 0 {
			if prev := &segs[i-1]; (prev.Addr+uint64(prev.Len))&(verbs.PageSize-1) != 0 {
				break
			}
		}
		f := m.r.dev.dma.frame(s.Addr)
		if f == nil || uint64(len(f.mem)) < end {
			break
		}
		if i == 0 {
			m.addr = m.origin + start
		}
		m.next = append(m.next, seg{b: f.mem[start:end]})
		m.n += int(s.Len)
	}
	return len(m.next)
}

func (m *fastMR) NextKey() uint32 { return m.r.nextKey() }
func (m *fastMR) Addr() uint64    { return m.addr }
func (m *fastMR) Len() int        { return m.n }
func (m *fastMR) RKey() uint32    { return m.r.key.Load() }
func (m *fastMR) LKey() uint32    { return m.r.key.Load() }
func (m *fastMR) Close() error    { return m.r.close(&m.r.dev.res.MR) }

func (m *fastMR) Valid() bool {
	_, ok := m.r.g.current()
	return ok
}

// register executes REG_MR.
func (m *fastMR) register(q *qp, key uint32, access verbs.Access) why {
	r := m.r
	if r.pd != q.pd {
		return badPD
	}
	q.leave()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || m.Valid() || key>>8 != r.index {
		return badKey
	}
	if len(m.next) == 0 || checkAccess(access) != nil {
		return badRights
	}
	r.pages, m.next = m.next, r.pages
	r.addr = m.addr
	r.length = uint64(m.n)
	r.base = r.addr
	if access&verbs.ZeroBased != 0 {
		r.base = 0
	}
	r.access = access
	r.key.Store(key)
	r.user.Store(nil)
	r.g.allow()
	return fine
}

// mw is a memory window.
type mw struct {
	r      *region
	typ    verbs.MWType
	posted atomic.Uint32 // type 1: the key of the bind that was posted last
}

// AllocMW implements verbs.PD.
func (p *PD) AllocMW(t verbs.MWType) (verbs.MW, error) {
	d := p.dev
	need := verbs.CapMemWindow1
	if t == verbs.MWType2B {
		need = verbs.CapMemWindow2B
	}
	if t != verbs.MWType1 && t != verbs.MWType2B || d.attr.Caps&need == 0 {
		return nil, fmt.Errorf("softroce: %s: memory window type %d: %w", d.name, t, verbs.ErrUnsupported)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	r, err := p.addRegion(&d.res.MW, d.attr.MaxMW, "max_mw", kindMW)
	if err != nil {
		return nil, err
	}
	w := &mw{r: r, typ: t}
	w.posted.Store(r.key.Load())
	return w, nil
}

func (w *mw) Type() verbs.MWType { return w.typ }
func (w *mw) NextKey() uint32    { return w.r.nextKey() }

func (w *mw) RKey() uint32 {
	if w.typ == verbs.MWType1 {
		return w.posted.Load()
	}
	return w.r.key.Load()
}

func (w *mw) Close() error { return w.r.close(&w.r.dev.res.MW) }

// bind executes a bind, of type 1 or 2.
func (w *mw) bind(q *qp, key uint32, b *verbs.Bind) why {
	r := w.r
	if r.pd != q.pd {
		return badPD
	}
	q.leave()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return badKey
	}
	if w.typ == verbs.MWType1 {
		r.unbind()
		if b.Length == 0 {
			return fine
		}
	} else if _, ok := r.g.current(); ok || key>>8 != r.index {
		return badKey // a type 2 window is bound only while invalid
	} else if b.Length == 0 {
		return badRange
	}
	m, ok := b.MR.(*mr)
	if !ok {
		return badKey
	}
	p := m.r
	if p.pd != q.pd {
		return badPD
	}
	if p.access&verbs.MWBind == 0 || b.Access&^mwRights != 0 ||
		b.Access&(verbs.RemoteWrite|verbs.RemoteAtomic) != 0 && p.access&verbs.LocalWrite == 0 ||
		w.typ == verbs.MWType1 && b.Access&verbs.ZeroBased != 0 {
		return badRights
	}
	if off := b.Addr - p.base; b.Addr < p.base || off > p.length || b.Length > p.length-off {
		return badRange
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return badKey
	}
	p.bound.Add(1)
	p.mu.Unlock()
	r.parent = p
	r.addr = p.addr + (b.Addr - p.base)
	r.base, r.length = b.Addr, b.Length
	if b.Access&verbs.ZeroBased != 0 {
		r.base = 0
	}
	r.access = b.Access
	r.qp = nil
	if w.typ == verbs.MWType2B {
		r.qp = q
		r.dev.ownWindows(r, q)
	}
	r.key.Store(key)
	r.g.allow()
	return fine
}

// GlobalKey implements verbs.PD.
func (p *PD) GlobalKey(access verbs.Access) (uint32, error) {
	if p.dev.attr.Caps&verbs.CapGlobalKey == 0 {
		return 0, fmt.Errorf("softroce: %s: all-physical key: %w", p.dev.name, verbs.ErrUnsupported)
	}
	if access&^(verbs.LocalWrite|verbs.RemoteRead|verbs.RemoteWrite) != 0 {
		return 0, fmt.Errorf("softroce: all-physical key with access %#x: %w", access, verbs.ErrInvalid)
	}
	return p.dmaKey(kindGlobal, access)
}

// LocalDMAKey implements verbs.PD.
func (p *PD) LocalDMAKey() (uint32, error) {
	if p.dev.attr.Caps&verbs.CapLocalDMAKey == 0 {
		return 0, fmt.Errorf("softroce: %s: local DMA key: %w", p.dev.name, verbs.ErrUnsupported)
	}
	return p.dmaKey(kindLocal, verbs.LocalWrite)
}

func (p *PD) dmaKey(kind regionKind, access verbs.Access) (uint32, error) {
	d := p.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.usable(); err != nil {
		return 0, err
	}
	slot := access
	if kind == kindLocal {
		slot |= 1 << 31
	}
	r := p.global[slot]
	if r == nil {
		var err error
		if r, err = d.newRegion(p, kind); err != nil {
			return 0, err
		}
		r.access = access
		if kind == kindLocal {
			// iWARP has the local key reach READ sinks as well.
			r.access |= verbs.RemoteWrite
		}
		r.g.allow()
		p.global[slot] = r
		d.dma.keys.Add(1)
	}
	return r.key.Load(), nil
}

// MapDMA implements verbs.PD.
func (p *PD) MapDMA(m *verbs.DMAMap, buf []byte) error {
	if err := p.dev.dma.mapPages(m, buf); err != nil {
		return fmt.Errorf("softroce: %s: map %d bytes: %w", p.dev.name, len(buf), err)
	}
	return nil
}

// UnmapDMA implements verbs.PD.
func (p *PD) UnmapDMA(m *verbs.DMAMap) { p.dev.dma.unmap(m, &p.dev.net.sec) }
