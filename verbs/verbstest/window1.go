package verbstest

import (
	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

var window1Checks = []Check{
	{Name: "window1/bind-and-use", Needs: []Need{needWindow1}, Run: window1Use},
	{Name: "window1/rights-subset", Needs: []Need{needWindow1}, Run: window1Rights},
	{Name: "window1/bounds", Needs: []Need{needWindow1}, Run: window1Bounds},
	{Name: "window1/unbind", Needs: []Need{needWindow1}, Run: window1Unbind},
	{Name: "window1/key-when-posted", Needs: []Need{needWindow1}, Run: window1KeyPosted},
	{Name: "window1/rebind-changes-key", Needs: []Need{needWindow1}, Run: window1Rebind},
	{Name: "window1/region-without-mwbind", Needs: []Need{needWindow1}, Run: window1NoMWBind},
	{Name: "window1/beyond-region", Needs: []Need{needWindow1}, Run: window1Beyond},
	{Name: "window1/write-on-read-only-region", Needs: []Need{needWindow1}, Run: window1WriteOnReadOnly},
	{Name: "window1/region-of-another-pd", Needs: []Need{needWindow1}, Run: window1OtherPD},
	{Name: "window1/any-qp-of-the-pd", Needs: []Need{needWindow1}, Run: window1AnyQP},
	{Name: "window1/region-busy", Needs: []Need{needWindow1}, Run: window1Busy},
	{Name: "window1/not-invalidated", Needs: []Need{needWindow1, needLocalInv}, Run: window1LocalInv},
}

func (s *side) window(typ verbs.MWType) verbs.MW {
	s.t.Helper()
	mw, err := s.pd.AllocMW(typ)
	s.t.claimed(err, "AllocMW")
	s.t.own(mw)
	require.Equal(s.t, typ, mw.Type())
	return mw
}

// bind1 binds a type 1 window and waits; it returns the new key.
func (s *side) bind1(mw verbs.MW, b verbs.Bind) uint32 {
	s.t.Helper()
	id := s.t.nextID()
	s.t.claimed(s.qp.BindMW(mw, id, verbs.Signaled, b), "BindMW")
	s.wantSend(verbs.SendWR{ID: id, Op: verbs.OpBindMW}, verbs.Success)
	return mw.RKey()
}

// wantBind1Err expects a bind to fail, when it is posted or later.
func (s *side) wantBind1Err(mw verbs.MW, b verbs.Bind) {
	s.t.Helper()
	id := s.t.nextID()
	if err := s.qp.BindMW(mw, id, verbs.Signaled, b); err != nil {
		require.ErrorIs(s.t, err, verbs.ErrInvalid)
		return
	}
	s.wantSend(verbs.SendWR{ID: id, Op: verbs.OpBindMW}, verbs.MWBindErr)
	s.wantDown()
}

const bindable = remoteRW | verbs.MWBind

func window1Use(t *T) {
	c, s := t.connect(opts{}, opts{})
	m := s.filled(1000, verbs.LocalWrite|verbs.MWBind) // no remote rights of its own
	mw := s.window(verbs.MWType1)
	key := s.bind1(mw, verbs.Bind{MR: m.mr, Addr: m.addr() + 100, Length: 500, Access: verbs.RemoteRead | verbs.RemoteWrite})
	require.NotEqual(t, m.mr.RKey(), key)
	c.wantReach(m.addr()+100, key, m.bytes()[100:600], "READ through a window")
	src := c.filled(500, 0)
	want := m.copy()
	copy(want[100:], src.bytes())
	c.do(writeKey(src, m.addr()+100, key))
	m.wantBytes(want, "WRITE through a window")
	t.wantAccessDenied(c, s, verbs.OpRDMARead, m.mr.RKey(), m.addr()+100, 8, m.bytes())
}

func window1Rights(t *T) {
	cpd, spd := t.newPD(t.Client), t.newPD(t.Server)
	for _, x := range []struct {
		access verbs.Access
		denied verbs.Opcode
	}{
		{verbs.RemoteRead, verbs.OpRDMAWrite}, {verbs.RemoteWrite, verbs.OpRDMARead},
	} {
		c, s := t.connectIn(cpd, spd)
		m := s.filled(1000, bindable)
		key := s.bind1(s.window(verbs.MWType1), verbs.Bind{MR: m.mr, Addr: m.addr(), Length: 1000, Access: x.access})
		t.wantAccessDenied(c, s, x.denied, key, m.addr(), 100, m.bytes())
	}
}

func window1Bounds(t *T) {
	cpd, spd := t.newPD(t.Client), t.newPD(t.Server)
	for _, x := range []struct{ off, n int }{{99, 2}, {300, 1}, {299, 2}, {100, 201}, {0, 1000}} {
		c, s := t.connectIn(cpd, spd)
		m := s.filled(1000, bindable)
		key := s.bind1(s.window(verbs.MWType1), verbs.Bind{MR: m.mr, Addr: m.addr() + 100, Length: 200, Access: verbs.RemoteWrite})
		t.wantAccessDenied(c, s, verbs.OpRDMAWrite, key, m.addr()+uint64(x.off), x.n, m.bytes())
	}
}

func window1Unbind(t *T) {
	c, s := t.connect(opts{}, opts{})
	m := s.filled(1000, bindable)
	mw := s.window(verbs.MWType1)
	b := verbs.Bind{MR: m.mr, Addr: m.addr(), Length: 1000, Access: verbs.RemoteRead}
	key := s.bind1(mw, b)
	c.wantReach(m.addr(), key, m.bytes(), "READ through a window")
	b.Length = 0
	now := s.bind1(mw, b)
	cpd := c.pd
	t.wantAccessDenied(c, s, verbs.OpRDMARead, key, m.addr(), 100, m.bytes())
	c, s = t.connectIn(cpd, s.pd)
	t.wantAccessDenied(c, s, verbs.OpRDMARead, now, m.addr(), 100, m.bytes())
}

// window1KeyPosted sends the key behind the bind, without waiting for that.
func window1KeyPosted(t *T) {
	c, s := t.connect(opts{}, opts{})
	m := s.filled(500, bindable)
	mw := s.window(verbs.MWType1)
	for range 8 {
		id := c.postRecv()
		t.claimed(s.qp.BindMW(mw, 0, 0, verbs.Bind{MR: m.mr, Addr: m.addr(), Length: 500, Access: verbs.RemoteRead}), "BindMW")
		key := mw.RKey()
		send := verbs.SendWR{ID: t.nextID(), Op: verbs.OpSend, Flags: verbs.Signaled}
		s.post(send)
		c.wantMessage(id, 0)
		c.wantReach(m.addr(), key, m.bytes(), "READ after the message that follows the bind")
		s.wantSend(send, verbs.Success)
		s.bind1(mw, verbs.Bind{MR: m.mr})
	}
}

func window1Rebind(t *T) {
	c, s := t.connect(opts{}, opts{})
	a, b := s.filled(500, bindable), s.filled(500, bindable)
	mw := s.window(verbs.MWType1)
	first := s.bind1(mw, verbs.Bind{MR: a.mr, Addr: a.addr(), Length: 500, Access: verbs.RemoteRead})
	second := s.bind1(mw, verbs.Bind{MR: b.mr, Addr: b.addr(), Length: 500, Access: verbs.RemoteRead})
	require.NotEqual(t, first, second)
	c.wantReach(b.addr(), second, b.bytes(), "READ through the new binding")
	t.close(a.mr) // no longer bound
	t.wantAccessDenied(c, s, verbs.OpRDMARead, first, b.addr(), 100, b.bytes())
}

func window1NoMWBind(t *T) {
	_, s := t.connect(opts{}, opts{})
	m := s.filled(500, remoteRW)
	s.wantBind1Err(s.window(verbs.MWType1), verbs.Bind{MR: m.mr, Addr: m.addr(), Length: 500, Access: verbs.RemoteRead})
}

func window1Beyond(t *T) {
	for _, x := range []struct {
		off int
		n   uint64
	}{{0, 501}, {-1, 10}, {500, 1}, {1, 1 << 63}, {1, ^uint64(0)}} {
		_, s := t.connect(opts{}, opts{})
		m := s.filled(500, bindable)
		s.wantBind1Err(s.window(verbs.MWType1), verbs.Bind{MR: m.mr, Addr: m.addr() + uint64(x.off), Length: x.n, Access: verbs.RemoteRead})
	}
}

// window1WriteOnReadOnly: a window for remote writing needs a region with local write.
func window1WriteOnReadOnly(t *T) {
	_, s := t.connect(opts{}, opts{})
	m := s.filled(500, verbs.RemoteRead|verbs.MWBind)
	s.wantBind1Err(s.window(verbs.MWType1), verbs.Bind{MR: m.mr, Addr: m.addr(), Length: 500, Access: verbs.RemoteWrite})
}

func window1OtherPD(t *T) {
	_, s := t.connect(opts{}, opts{})
	m := t.newMem(t.newPD(t.Server), 500, bindable)
	s.wantBind1Err(s.window(verbs.MWType1), verbs.Bind{MR: m.mr, Addr: m.addr(), Length: 500, Access: verbs.RemoteRead})
}

func window1AnyQP(t *T) {
	cpd, spd := t.newPD(t.Client), t.newPD(t.Server)
	_, s1 := t.connectIn(cpd, spd)
	c2, _ := t.connectIn(cpd, spd)
	m := s1.filled(500, bindable)
	key := s1.bind1(s1.window(verbs.MWType1), verbs.Bind{MR: m.mr, Addr: m.addr(), Length: 500, Access: verbs.RemoteRead})
	c2.wantReach(m.addr(), key, m.bytes(), "READ over another queue pair")
}

func window1Busy(t *T) {
	_, s := t.connect(opts{}, opts{})
	m := s.filled(500, bindable)
	mw := s.window(verbs.MWType1)
	b := verbs.Bind{MR: m.mr, Addr: m.addr(), Length: 500, Access: verbs.RemoteRead}
	s.bind1(mw, b)
	require.ErrorIs(t, m.mr.Close(), verbs.ErrBusy, "closing a region with a window")
	b.Length = 0
	s.bind1(mw, b)
	t.close(m.mr)
	n := s.filled(500, bindable)
	s.bind1(mw, verbs.Bind{MR: n.mr, Addr: n.addr(), Length: 500, Access: verbs.RemoteRead})
	require.ErrorIs(t, n.mr.Close(), verbs.ErrBusy)
	t.close(mw)
	t.close(n.mr)
}

// window1LocalInv: only BindMW unbinds a type 1 window.
func window1LocalInv(t *T) {
	cpd, spd := t.newPD(t.Client), t.newPD(t.Server)
	_, s := t.connectIn(cpd, spd)
	m := s.filled(500, bindable)
	key := s.bind1(s.window(verbs.MWType1), verbs.Bind{MR: m.mr, Addr: m.addr(), Length: 500, Access: verbs.RemoteRead})
	s.wantManagementErr(localInv(key))
	c, _ := t.connectIn(cpd, spd)
	c.wantReach(m.addr(), key, m.bytes(), "READ after the attempt")
}
