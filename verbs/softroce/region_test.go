package softroce

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// both calls f and g at the same time.
func both(f, g func()) {
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		f()
	}()
	g()
	wg.Wait()
}

// Of two who invalidate a region at the same time, as LOCAL_INV and the peer's
// SEND_WITH_INV may, one does, and it is invalid.
func TestInvalidatedOnce(t *testing.T) {
	p := newTestPair(t, pairConfig{live: true})
	defer p.close()
	q := p.a.q()
	x, err := p.a.pd.AllocFastRegMR(1)
	require.NoError(t, err)
	m := x.(*fastMR)
	var pages verbs.DMAMap
	require.NoError(t, p.a.pd.MapDMA(&pages, make([]byte, 4096)))
	for range 3000 {
		m.MapPages(pages.Segs)
		require.Equal(t, fine, m.register(q, m.NextKey(), verbs.RemoteRead))
		var got [2]why
		both(func() { got[0] = p.a.dev.invalidate(q, m.RKey()) }, func() { got[1] = p.a.dev.invalidate(q, m.RKey()) })
		require.False(t, m.Valid())
		require.ElementsMatch(t, []why{fine, badKey}, got[:])
	}
	p.a.pd.UnmapDMA(&pages)
	require.NoError(t, m.Close())
}

// A bind that comes to its turn after the window was closed does not hold its region.
func TestBindOfClosedWindow(t *testing.T) {
	p := newRawPair(t, same)
	defer p.close()
	for _, typ := range []verbs.MWType{verbs.MWType1, verbs.MWType2B} {
		w, err := p.a.pd.AllocMW(typ)
		require.NoError(t, err)
		p.post(&p.a, p.a.read(&p.b, 1, 0, 10, 0))
		b := verbs.Bind{MR: p.a.mr, Addr: p.a.mr.Addr(), Length: 10, Access: verbs.RemoteRead}
		if typ == verbs.MWType1 {
			require.NoError(t, p.a.qp.BindMW(w, 2, verbs.Signaled|verbs.Fence, b))
		} else {
			p.post(&p.a, verbs.SendWR{ID: 2, Op: verbs.OpBindMW, Flags: verbs.Signaled | verbs.Fence, MW: w, Bind: b, Key: w.NextKey()})
		}
		require.NoError(t, w.Close())
		p.want(&p.a, 1, verbs.OpRDMARead, verbs.Success)
		p.want(&p.a, 2, verbs.OpBindMW, verbs.MWBindErr)
		p.modifyReset(same)
	}
	require.NoError(t, p.a.mr.Close())
}

// Windows that are bound, invalidated and closed at the same time leave nothing bound.
func TestBindAndCloseAtOnce(t *testing.T) {
	p := newTestPair(t, pairConfig{live: true})
	defer p.close()
	q := p.a.q()
	b := verbs.Bind{MR: p.a.mr, Addr: p.a.mr.Addr(), Length: 10, Access: verbs.RemoteRead}
	for range 2000 {
		x, err := p.a.pd.AllocMW(verbs.MWType2B)
		require.NoError(t, err)
		w := x.(*mw)
		key := w.NextKey()
		both(func() {
			w.bind(q, key, &b)
			p.a.dev.invalidate(q, key)
		}, func() { assert.NoError(t, w.Close()) })
	}
	require.NoError(t, p.a.mr.Close())
}

// Ending a copy of a mapping again does nothing, also when its frames are in use again.
func TestUnmapTwice(t *testing.T) {
	p := newTestPair(t, pairConfig{raw: same})
	defer p.close()
	var m, other verbs.DMAMap
	buf := make([]byte, 3*4096)
	require.NoError(t, p.a.pd.MapDMA(&m, buf))
	twin := verbs.DMAMap{Segs: append([]verbs.DMASeg(nil), m.Segs...)}
	again := verbs.DMAMap{Segs: append([]verbs.DMASeg(nil), m.Segs...)}
	p.a.pd.UnmapDMA(&m)
	p.a.pd.UnmapDMA(&twin)
	assert.Empty(t, twin.Segs)
	assert.Zero(t, p.a.dev.Resources().DMAMap)
	require.NoError(t, p.a.pd.MapDMA(&m, buf))
	require.NoError(t, p.a.pd.MapDMA(&other, buf))
	for _, x := range m.Segs {
		for _, y := range other.Segs {
			require.NotEqual(t, x.Addr, y.Addr)
		}
	}
	p.a.pd.UnmapDMA(&m)
	p.a.pd.UnmapDMA(&other)
	assert.Equal(t, verbs.DMAMap{Segs: again.Segs}, again)
	p.a.pd.UnmapDMA(&verbs.DMAMap{Segs: []verbs.DMASeg{{Addr: 1, Len: 1}, {Addr: 1 << 62, Len: 1}}})
	assert.Zero(t, p.a.dev.Resources().DMAMap)
}

// The fence of a LOCAL_INV is for all work before it: what WRITEs from the region is not cut off.
func TestFencedLocalInv(t *testing.T) {
	for name, c := range map[string]pairConfig{"direct": {raw: same}, "link": {raw: same, link: micro()}} {
		t.Run(name, func(t *testing.T) {
			p := newTestPair(t, c)
			defer p.close()
			mr, err := p.a.pd.AllocFastRegMR(2)
			require.NoError(t, err)
			buf := make([]byte, 8192)
			copy(buf, "hello")
			var m verbs.DMAMap
			require.NoError(t, p.a.pd.MapDMA(&m, buf))
			require.Equal(t, 2, mr.MapPages(m.Segs))
			key := mr.NextKey()
			_, err = p.a.qp.PostSend([]verbs.SendWR{
				{Op: verbs.OpRegMR, Reg: mr, Key: key},
				{Op: verbs.OpRDMAWrite, SGEs: []verbs.SGE{{Addr: mr.Addr(), Length: 8192, LKey: key}}, RemoteAddr: p.b.mr.Addr(), RKey: p.b.mr.RKey()},
				{Op: verbs.OpLocalInv, InvKey: key, Flags: verbs.Fence, ID: 3},
				{Op: verbs.OpRDMAWrite, ID: 4, Flags: verbs.Signaled},
			})
			require.NoError(t, err)
			p.want(&p.a, 4, verbs.OpRDMAWrite, verbs.Success)
			assert.False(t, mr.Valid())
			assert.Equal(t, buf, p.b.mr.Bytes()[:8192])
			p.a.pd.UnmapDMA(&m)
			require.NoError(t, mr.Close())
		})
	}
}

// A region larger than the device takes is refused before memory is taken for it.
func TestAllocTooMuch(t *testing.T) {
	p := newTestPair(t, pairConfig{raw: same})
	defer p.close()
	for _, n := range []int{-1, 1<<40 + 1, 1<<63 - 1} {
		_, err := p.a.pd.AllocMR(n, 0)
		require.ErrorIs(t, err, verbs.ErrInvalid)
	}
}

// A key does not come back soon: its tag changes with each registration, its index rests.
func TestKeysRest(t *testing.T) {
	s := sched.NewVirtual(1)
	defer s.Close()
	n := NewNetwork(s, NetConfig{})
	d, err := n.NewDevice("a", RoCE)
	require.NoError(t, err)
	pd, err := d.AllocPD()
	require.NoError(t, err)
	seen := map[uint32]bool{}
	for range 1000 {
		mr, err := pd.RegMR(make([]byte, 8), 0)
		require.NoError(t, err)
		require.False(t, seen[mr.RKey()>>8])
		seen[mr.RKey()>>8] = true
		require.Greater(t, mr.RKey(), uint32(255))
		require.NoError(t, mr.Close())
	}
	require.NoError(t, pd.Close())
	require.NoError(t, d.Close())
	require.NoError(t, n.Close())
}
