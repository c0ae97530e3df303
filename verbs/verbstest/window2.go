package verbstest

import (
	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

var window2Checks = []Check{
	{Name: "window2/bind-and-use", Needs: []Need{needWindow2}, Run: window2Use},
	{Name: "window2/use-before-bind", Needs: []Need{needWindow2}, Run: window2Before},
	{Name: "window2/rights-subset", Needs: []Need{needWindow2}, Run: window2Rights},
	{Name: "window2/bounds", Needs: []Need{needWindow2}, Run: window2Bounds},
	{Name: "window2/zero-based", Needs: []Need{needWindow2}, Run: window2ZeroBased},
	{Name: "window2/local-inv", Needs: []Need{needWindow2}, Run: window2LocalInv},
	{Name: "window2/rebind-with-new-key", Needs: []Need{needWindow2}, Run: window2Rebind},
	{Name: "window2/bind-of-bound", Needs: []Need{needWindow2}, Run: window2BindTwice},
	{Name: "window2/zero-length-bind", Needs: []Need{needWindow2}, Run: window2ZeroLength},
	{Name: "window2/wrong-qp", Needs: []Need{needWindow2}, Run: window2WrongQP},
	{Name: "window2/region-without-mwbind", Needs: []Need{needWindow2}, Run: window2NoMWBind},
	{Name: "window2/beyond-region", Needs: []Need{needWindow2}, Run: window2Beyond},
	{Name: "window2/region-of-another-pd", Needs: []Need{needWindow2}, Run: window2OtherPD},
	{Name: "window2/region-busy", Needs: []Need{needWindow2}, Run: window2Busy},
	{Name: "window2/send-with-inv", Needs: []Need{needWindow2, needSendInv}, Run: window2SendInv},
	{Name: "window2/send-with-inv-by-wrong-qp", Needs: []Need{needWindow2, needSendInv}, Run: window2SendInvWrongQP},
	{Name: "window2/bind-then-send-on-one-queue", Needs: []Need{needWindow2}, Run: window2ThenSend},
	{Name: "window2/type-confusion", Needs: []Need{needWindow2}, Run: window2Type},
}

func bind2(mw verbs.MW, b verbs.Bind) verbs.SendWR {
	return verbs.SendWR{Op: verbs.OpBindMW, MW: mw, Key: mw.NextKey(), Bind: b}
}

// bound is a new window over n bytes of m from off.
func (s *side) bound(m *mem, off, n int, access verbs.Access) verbs.MW {
	s.t.Helper()
	mw := s.window(verbs.MWType2B)
	wr := bind2(mw, verbs.Bind{MR: m.mr, Addr: m.addr() + uint64(off), Length: uint64(n), Access: access})
	s.do(wr)
	require.Equal(s.t, wr.Key, mw.RKey(), "key after the bind")
	return mw
}

func window2Use(t *T) {
	c, s := t.connect(opts{}, opts{})
	m := s.filled(1000, verbs.LocalWrite|verbs.MWBind)
	mw := s.bound(m, 100, 500, verbs.RemoteRead|verbs.RemoteWrite)
	c.wantReach(m.addr()+100, mw.RKey(), m.bytes()[100:600], "READ through a window")
	src := c.filled(500, 0)
	want := m.copy()
	copy(want[100:], src.bytes())
	c.do(writeKey(src, m.addr()+100, mw.RKey()))
	m.wantBytes(want, "WRITE through a window")
	t.wantAccessDenied(c, s, verbs.OpRDMAWrite, m.mr.RKey(), m.addr()+100, 8, m.bytes())
}

func window2Before(t *T) {
	c, s := t.connect(opts{}, opts{})
	m := s.filled(1000, bindable)
	mw := s.window(verbs.MWType2B)
	t.wantAccessDenied(c, s, verbs.OpRDMARead, mw.NextKey(), m.addr(), 8, m.bytes())
}

func window2Rights(t *T) {
	cpd, spd := t.newPD(t.Client), t.newPD(t.Server)
	for _, x := range []struct {
		access verbs.Access
		denied verbs.Opcode
	}{
		{verbs.RemoteRead, verbs.OpRDMAWrite}, {verbs.RemoteWrite, verbs.OpRDMARead},
	} {
		c, s := t.connectIn(cpd, spd)
		m := s.filled(1000, bindable)
		mw := s.bound(m, 0, 1000, x.access)
		t.wantAccessDenied(c, s, x.denied, mw.RKey(), m.addr(), 100, m.bytes())
	}
}

func window2Bounds(t *T) {
	cpd, spd := t.newPD(t.Client), t.newPD(t.Server)
	for _, x := range []struct{ off, n int }{{99, 2}, {300, 1}, {299, 2}, {100, 201}, {0, 1000}} {
		c, s := t.connectIn(cpd, spd)
		m := s.filled(1000, bindable)
		mw := s.bound(m, 100, 200, verbs.RemoteRead|verbs.RemoteWrite)
		t.wantAccessDenied(c, s, verbs.OpRDMAWrite, mw.RKey(), m.addr()+uint64(x.off), x.n, m.bytes())
	}
}

func window2ZeroBased(t *T) {
	c, s := t.connect(opts{}, opts{})
	m := s.filled(1000, bindable)
	mw := s.bound(m, 100, 500, verbs.RemoteRead|verbs.ZeroBased)
	c.wantReach(0, mw.RKey(), m.bytes()[100:600], "READ at 0")
	t.wantAccessDenied(c, s, verbs.OpRDMARead, mw.RKey(), 499, 2, m.bytes())
}

func window2LocalInv(t *T) {
	c, s := t.connect(opts{}, opts{})
	m := s.filled(1000, bindable)
	mw := s.bound(m, 0, 1000, verbs.RemoteRead)
	key := mw.RKey()
	c.wantReach(m.addr(), key, m.bytes(), "READ through a window")
	s.do(localInv(key))
	t.wantAccessDenied(c, s, verbs.OpRDMARead, key, m.addr(), 100, m.bytes())
}

func window2Rebind(t *T) {
	c, s := t.connect(opts{}, opts{})
	a, b := s.filled(500, bindable), s.filled(500, bindable)
	mw := s.bound(a, 0, 500, verbs.RemoteRead)
	first := mw.RKey()
	s.do(localInv(first))
	t.close(a.mr)
	wr := bind2(mw, verbs.Bind{MR: b.mr, Addr: b.addr(), Length: 500, Access: verbs.RemoteRead})
	require.NotEqual(t, first, wr.Key)
	require.Equal(t, first>>8, wr.Key>>8, "only the tag changes")
	s.do(wr)
	c.wantReach(b.addr(), wr.Key, b.bytes(), "READ through the new binding")
	t.wantAccessDenied(c, s, verbs.OpRDMARead, first, b.addr(), 100, b.bytes())
}

// window2BindTwice: a type 2 window is invalidated before it is bound again.
func window2BindTwice(t *T) {
	_, s := t.connect(opts{}, opts{})
	m := s.filled(500, bindable)
	mw := s.bound(m, 0, 500, verbs.RemoteRead)
	s.wantManagementErr(bind2(mw, verbs.Bind{MR: m.mr, Addr: m.addr(), Length: 100, Access: verbs.RemoteRead}))
}

// window2ZeroLength: a bind does not unbind a type 2 window.
func window2ZeroLength(t *T) {
	_, s := t.connect(opts{}, opts{})
	m := s.filled(500, bindable)
	s.wantManagementErr(bind2(s.window(verbs.MWType2B), verbs.Bind{MR: m.mr, Addr: m.addr(), Access: verbs.RemoteRead}))
}

func window2WrongQP(t *T) {
	cpd, spd := t.newPD(t.Client), t.newPD(t.Server)
	c1, s1 := t.connectIn(cpd, spd)
	c2, s2 := t.connectIn(cpd, spd)
	m := s1.filled(500, bindable)
	mw := s1.bound(m, 0, 500, verbs.RemoteRead|verbs.RemoteWrite)
	t.wantAccessDenied(c2, s2, verbs.OpRDMAWrite, mw.RKey(), m.addr(), 100, m.bytes())
	c1.wantReach(m.addr(), mw.RKey(), m.bytes(), "READ over the right queue pair")
}

func window2NoMWBind(t *T) {
	_, s := t.connect(opts{}, opts{})
	m := s.filled(500, remoteRW)
	s.wantManagementErr(bind2(s.window(verbs.MWType2B), verbs.Bind{MR: m.mr, Addr: m.addr(), Length: 500, Access: verbs.RemoteRead}))
}

func window2Beyond(t *T) {
	for _, x := range []struct {
		off int
		n   uint64
	}{{0, 501}, {-1, 10}, {500, 1}, {1, ^uint64(0)}} {
		_, s := t.connect(opts{}, opts{})
		m := s.filled(500, bindable)
		s.wantManagementErr(bind2(s.window(verbs.MWType2B),
			verbs.Bind{MR: m.mr, Addr: m.addr() + uint64(x.off), Length: x.n, Access: verbs.RemoteRead}))
	}
}

func window2OtherPD(t *T) {
	_, s := t.connect(opts{}, opts{})
	m := t.newMem(t.newPD(t.Server), 500, bindable)
	s.wantManagementErr(bind2(s.window(verbs.MWType2B), verbs.Bind{MR: m.mr, Addr: m.addr(), Length: 500, Access: verbs.RemoteRead}))
}

func window2Busy(t *T) {
	_, s := t.connect(opts{}, opts{})
	m := s.filled(500, bindable)
	mw := s.bound(m, 0, 500, verbs.RemoteRead)
	require.ErrorIs(t, m.mr.Close(), verbs.ErrBusy, "closing a region with a window")
	s.do(localInv(mw.RKey()))
	t.close(m.mr)
}

func window2SendInv(t *T) {
	c, s := t.connect(opts{}, opts{})
	m := s.filled(500, bindable)
	mw := s.bound(m, 0, 500, verbs.RemoteRead)
	key := mw.RKey()
	id := s.postRecv()
	c.do(verbs.SendWR{Op: verbs.OpSendWithInv, InvKey: key})
	wc := s.wantMessage(id, 0)
	require.Equal(t, verbs.WCWithInv, wc.Flags&verbs.WCWithInv)
	require.Equal(t, key, wc.InvKey)
	t.close(m.mr) // unbound
	n := s.filled(500, bindable)
	wr := bind2(mw, verbs.Bind{MR: n.mr, Addr: n.addr(), Length: 500, Access: verbs.RemoteRead})
	s.do(wr)
	t.wantAccessDenied(c, s, verbs.OpRDMARead, key, n.addr(), 100, n.bytes())
	t.close(mw) // before its region
}

func window2SendInvWrongQP(t *T) {
	cpd, spd := t.newPD(t.Client), t.newPD(t.Server)
	c1, s1 := t.connectIn(cpd, spd)
	c2, s2 := t.connectIn(cpd, spd)
	m := s1.filled(500, bindable)
	mw := s1.bound(m, 0, 500, verbs.RemoteRead)
	t.wantInvRefused(c2, s2, mw.RKey())
	c1.wantReach(m.addr(), mw.RKey(), m.bytes(), "READ after the attempt")
}

func window2ThenSend(t *T) {
	c, s := t.connect(opts{}, opts{})
	m := s.filled(500, bindable)
	mw := s.window(verbs.MWType2B)
	for range 8 {
		id := c.postRecv()
		bind := bind2(mw, verbs.Bind{MR: m.mr, Addr: m.addr(), Length: 500, Access: verbs.RemoteRead})
		send := verbs.SendWR{ID: t.nextID(), Op: verbs.OpSend, Flags: verbs.Signaled}
		s.post(bind, send)
		c.wantMessage(id, 0)
		c.wantReach(m.addr(), bind.Key, m.bytes(), "READ after the message that follows BIND_MW")
		s.wantSend(send, verbs.Success)
		s.do(localInv(bind.Key))
	}
}

// window2Type binds a type 2 window by the verb of type 1.
func window2Type(t *T) {
	_, s := t.connect(opts{}, opts{})
	m := s.filled(500, bindable)
	err := s.qp.BindMW(s.window(verbs.MWType2B), t.nextID(), verbs.Signaled,
		verbs.Bind{MR: m.mr, Addr: m.addr(), Length: 500, Access: verbs.RemoteRead})
	if err == nil {
		t.fatalf("BindMW took a type 2B window")
	}
	_, err = s.pd.AllocMW(verbs.MWType(7))
	require.Error(t, err, "a window of no type")
}
