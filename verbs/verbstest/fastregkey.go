package verbstest

import (
	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

var fastRegKeyChecks = []Check{
	{Name: "fastreg/key-tag-changes", Needs: []Need{needFastReg}, Run: fastRegTags},
	{Name: "fastreg/use-before-reg", Needs: []Need{needFastReg}, Run: fastRegBefore},
	{Name: "fastreg/use-after-local-inv", Needs: []Need{needFastReg}, Run: fastRegAfterInv},
	{Name: "fastreg/use-after-close", Needs: []Need{needFastReg}, Run: fastRegAfterClose},
	{Name: "fastreg/old-tag", Needs: []Need{needFastReg}, Run: fastRegOldTag},
	{Name: "fastreg/reg-of-valid", Needs: []Need{needFastReg}, Run: fastRegTwice},
	{Name: "fastreg/reg-with-foreign-key", Needs: []Need{needFastReg}, Run: fastRegForeignKey},
	{Name: "fastreg/local-inv-of-invalid", Needs: []Need{needFastReg}, Run: fastRegInvTwice},
	{Name: "fastreg/local-inv-of-unknown", Needs: []Need{needFastReg}, Run: fastRegInvUnknown},
	{Name: "fastreg/local-inv-of-plain-region", Needs: []Need{needFastReg}, Run: fastRegInvPlain},
	{Name: "fastreg/send-with-inv", Needs: []Need{needFastReg}, Run: fastRegSendInv},
	{Name: "fastreg/send-with-inv-then-use", Needs: []Need{needFastReg}, Run: fastRegSendInvUse},
	{Name: "fastreg/send-with-inv-of-another-pd", Needs: []Need{needFastReg}, Run: fastRegSendInvPD},
	{Name: "fastreg/send-with-inv-of-invalid", Needs: []Need{needFastReg}, Run: fastRegSendInvInvalid},
	{Name: "fastreg/failed-reg-unsignaled", Needs: []Need{needFastReg}, Run: fastRegFailUnsignaled},
}

func fastRegTags(t *T) {
	c, s := t.connect(opts{}, opts{})
	mr := s.fastReg(1)
	p := s.pages(0, 4096)
	var last uint32
	for i := range 300 { // the tag goes round
		wr := s.reg(mr, p, verbs.RemoteRead)
		if i > 0 {
			require.NotEqual(t, last, wr.Key)
			require.Equal(t, last>>8, wr.Key>>8, "only the tag changes")
		}
		last = wr.Key
		if i < 290 && i > 10 {
			continue // a key that is never registered is fine too
		}
		s.do(wr)
		c.wantReach(mr.Addr(), wr.Key, p.buf[:64], "READ by the new key")
		s.do(localInv(wr.Key))
	}
}

func fastRegBefore(t *T) {
	c, s := t.connect(opts{}, opts{})
	mr := s.fastReg(1)
	p := s.pages(0, 4096)
	wr := s.reg(mr, p, remoteRW)
	require.False(t, mr.Valid())
	t.wantAccessDenied(c, s, verbs.OpRDMAWrite, wr.Key, mr.Addr(), 64, p.buf)
}

func fastRegAfterInv(t *T) {
	cpd, spd := t.newPD(t.Client), t.newPD(t.Server)
	for _, op := range []verbs.Opcode{verbs.OpRDMAWrite, verbs.OpRDMARead} {
		c, s := t.connectIn(cpd, spd)
		p := s.pages(0, 4096)
		mr := s.registered(p, remoteRW)
		s.do(localInv(mr.RKey()))
		require.False(t, mr.Valid())
		t.wantAccessDenied(c, s, op, mr.RKey(), mr.Addr(), 64, p.buf)
	}
}

func fastRegAfterClose(t *T) {
	c, s := t.connect(opts{}, opts{})
	p := s.pages(0, 4096)
	mr := s.registered(p, remoteRW)
	key, addr := mr.RKey(), mr.Addr()
	t.close(mr)
	t.wantAccessDenied(c, s, verbs.OpRDMAWrite, key, addr, 64, p.buf)
}

func fastRegOldTag(t *T) {
	c, s := t.connect(opts{}, opts{})
	p := s.pages(0, 4096)
	mr := s.registered(p, remoteRW)
	old := mr.RKey()
	s.do(localInv(old))
	s.do(s.reg(mr, p, remoteRW))
	c.wantReach(mr.Addr(), mr.RKey(), p.buf, "READ by the new key")
	t.wantAccessDenied(c, s, verbs.OpRDMAWrite, old, mr.Addr(), 64, p.buf)
}

// fastRegTwice: REG_MR wants a region in the free state.
func fastRegTwice(t *T) {
	_, s := t.connect(opts{}, opts{})
	p := s.pages(0, 4096)
	mr := s.registered(p, verbs.RemoteRead)
	s.wantManagementErr(verbs.SendWR{Op: verbs.OpRegMR, Reg: mr, Key: mr.RKey(), Access: remoteRW})
}

func fastRegForeignKey(t *T) {
	_, s := t.connect(opts{}, opts{})
	p := s.pages(0, 4096)
	wr := s.reg(s.fastReg(1), p, verbs.RemoteRead)
	wr.Key ^= 0x100
	s.wantManagementErr(wr)
}

func fastRegInvTwice(t *T) {
	_, s := t.connect(opts{}, opts{})
	mr := s.registered(s.pages(0, 4096), verbs.RemoteRead)
	s.do(localInv(mr.RKey()))
	s.wantManagementErr(localInv(mr.RKey()))
}

func fastRegInvUnknown(t *T) {
	_, s := t.connect(opts{}, opts{})
	s.wantManagementErr(localInv(0xdeadbe00))
}

// fastRegInvPlain: a region of RegMR is deregistered, never invalidated.
func fastRegInvPlain(t *T) {
	cpd, spd := t.newPD(t.Client), t.newPD(t.Server)
	_, s := t.connectIn(cpd, spd)
	m := s.filled(100, verbs.RemoteRead)
	s.wantManagementErr(localInv(m.mr.RKey()))
	c, _ := t.connectIn(cpd, spd)
	c.wantReach(m.addr(), m.mr.RKey(), m.bytes(), "region after the attempt")
}

func sendInv(m *mem, key uint32) verbs.SendWR {
	wr := sendOf(m)
	wr.Op, wr.InvKey = verbs.OpSendWithInv, key
	return wr
}

func fastRegSendInv(t *T) {
	c, s := t.connect(opts{}, opts{})
	in := s.mem(100, verbs.LocalWrite)
	p := s.pages(0, 4096)
	mr := s.fastReg(1)
	msg := c.filled(100, 0)
	for range 3 {
		s.do(s.reg(mr, p, remoteRW))
		require.True(t, mr.Valid())
		id := s.postRecv(in.sge())
		c.do(sendInv(msg, mr.RKey()))
		wc := s.wantMessage(id, 100)
		require.Equal(t, verbs.WCWithInv, wc.Flags&verbs.WCWithInv, "flag of the receive")
		require.Equal(t, mr.RKey(), wc.InvKey, "invalidated key")
		in.wantBytes(msg.bytes(), "message")
		require.False(t, mr.Valid(), "valid after the peer's SEND_WITH_INV")
	}
	id := s.postRecv(in.sge())
	c.do(sendOf(msg))
	require.Zero(t, s.wantMessage(id, 100).Flags&verbs.WCWithInv, "flag of a plain message")
}

func fastRegSendInvUse(t *T) {
	c, s := t.connect(opts{}, opts{})
	p := s.pages(0, 4096)
	mr := s.registered(p, remoteRW)
	id := s.postRecv()
	c.do(verbs.SendWR{Op: verbs.OpSendWithInv, InvKey: mr.RKey()})
	s.wantMessage(id, 0)
	t.wantAccessDenied(c, s, verbs.OpRDMARead, mr.RKey(), mr.Addr(), 64, p.buf)
}

// wantInvRefused lets c invalidate key, which s must not do; the receive fails.
func (t *T) wantInvRefused(c, s *side, key uint32) {
	t.Helper()
	id := s.postRecv()
	wr := c.signaled(verbs.SendWR{Op: verbs.OpSendWithInv, InvKey: key})
	wc := s.next(s.rcq)
	require.Equal(t, id, wc.ID)
	require.NotEqual(t, verbs.Success, wc.Status, "receive of a SEND_WITH_INV of a key that is not ours to invalidate")
	s.wantState(verbs.Error)
	// Specification and hardware differ in what the requester is told.
	require.Equal(t, wr.ID, c.next(c.scq).ID)
}

func fastRegSendInvPD(t *T) {
	spd := t.newPD(t.Server)
	c1, s1 := t.connect(opts{}, opts{pd: spd})
	p := s1.pages(0, 4096)
	mr := s1.registered(p, remoteRW)
	c2, s2 := t.connect(opts{}, opts{})
	t.wantInvRefused(c2, s2, mr.RKey())
	require.True(t, mr.Valid(), "a region that another domain tried to invalidate")
	c1.wantReach(mr.Addr(), mr.RKey(), p.buf, "READ after the attempt")
}

func fastRegSendInvInvalid(t *T) {
	c, s := t.connect(opts{}, opts{})
	mr := s.registered(s.pages(0, 4096), remoteRW)
	s.do(localInv(mr.RKey()))
	t.wantInvRefused(c, s, mr.RKey())
}

// fastRegFailUnsignaled: what fails has a completion, asked for or not.
func fastRegFailUnsignaled(t *T) {
	_, s := t.connect(opts{}, opts{})
	wr := localInv(0xdeadbe00)
	wr.ID = t.nextID()
	n, err := s.qp.PostSend([]verbs.SendWR{wr})
	if err != nil {
		require.ErrorIs(t, err, verbs.ErrInvalid)
		require.Zero(t, n)
		return
	}
	s.wantSend(wr, verbs.MWBindErr)
}
