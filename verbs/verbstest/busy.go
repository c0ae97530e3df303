package verbstest

import (
	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

var busyChecks = []Check{
	{Name: "busy/pd", Run: busyPD},
	{Name: "busy/cq", Run: busyCQ},
	{Name: "busy/id", Run: busyID},
	{Name: "busy/device", Run: busyDevice},
	{Name: "busy/mr-with-outstanding-receive", Run: busyMR},
	{Name: "busy/objects-of-another-device", Run: busyForeign},
	{Name: "busy/closed-objects", Run: busyClosed},
}

func busyPD(t *T) {
	pd := t.newPD(t.Server)
	wantBusy := func(what string) {
		t.Helper()
		require.ErrorIs(t, pd.Close(), verbs.ErrBusy, "closing a domain with a %s", what)
	}
	mr, err := pd.AllocMR(100, 0)
	t.must(err, "AllocMR")
	t.own(mr)
	wantBusy("region")
	t.close(mr)
	caps := t.Server.Attr().Caps
	if caps&verbs.CapMemWindow2B != 0 {
		mw, err := pd.AllocMW(verbs.MWType2B)
		t.claimed(err, "AllocMW")
		t.own(mw)
		wantBusy("window")
		t.close(mw)
	}
	if caps&verbs.CapMemMgtExtensions != 0 && t.Server.Attr().MaxFastRegPages > 0 {
		mr, err := pd.AllocFastRegMR(1)
		t.claimed(err, "AllocFastRegMR")
		t.own(mr)
		wantBusy("fast-registration region")
		t.close(mr)
	}
	if t.Server.Attr().MaxSRQ > 0 {
		srq, err := pd.CreateSRQ(verbs.SRQInit{MaxWR: 4, MaxSGE: 1})
		t.claimed(err, "CreateSRQ")
		t.own(srq)
		wantBusy("shared receive queue")
		t.close(srq)
	}
	_, s := t.connect(opts{}, opts{pd: pd})
	wantBusy("queue pair")
	t.close(s.qp)
	t.close(pd)
}

func busyCQ(t *T) {
	c, s := t.connect(opts{}, opts{})
	require.ErrorIs(t, c.scq.Close(), verbs.ErrBusy)
	require.ErrorIs(t, c.rcq.Close(), verbs.ErrBusy)
	t.wantAlive(c, s) // the refused close did nothing
	t.close(c.qp)
	t.close(c.scq)
	t.close(c.rcq)
}

func busyID(t *T) {
	c, s := t.connect(opts{}, opts{})
	require.ErrorIs(t, c.id.Close(), verbs.ErrBusy)
	t.wantAlive(c, s)
	t.close(c.qp)
	t.close(c.id)
}

func busyDevice(t *T) {
	pd := t.newPD(t.Server)
	require.ErrorIs(t, t.Server.Close(), verbs.ErrBusy)
	t.close(pd)
	c, s := t.connect(opts{}, opts{})
	t.wantAlive(c, s) // the refused close did nothing
}

// busyMR: work that waits does not hold its regions.
func busyMR(t *T) {
	_, s := t.connect(opts{}, opts{})
	m := s.mem(100, verbs.LocalWrite)
	s.postRecv(m.sge())
	t.close(m.mr)
}

func busyForeign(t *T) {
	if t.Client == t.Server {
		t.Skipf("one device")
	}
	cq := t.newCQ(t.Client, verbs.CQInit{Depth: 4})
	pd := t.newPD(t.Server)
	s := t.newSide("server", t.Server, opts{pd: pd})
	init := s.init
	init.SendCQ = cq
	l := t.listen()
	c := t.initiator(l.Addr(), opts{})
	_, err := c.id.CreateQP(pd, c.init)
	require.Error(t, err, "a queue pair in the domain of another device")
	t.close(c.qp)
	t.close(c.id)
	qp, err := pd.CreateQP(init)
	if err == nil {
		t.own(qp)
	}
	require.Error(t, err, "a queue pair with the completion queue of another device")
}

func busyClosed(t *T) {
	pd := t.newPD(t.Client)
	cq := t.newCQ(t.Client, verbs.CQInit{Depth: 4})
	t.close(pd)
	t.close(cq)
	_, err := pd.RegMR(make([]byte, 10), 0)
	require.ErrorIs(t, err, verbs.ErrClosed, "RegMR in a closed domain")
	_, err = pd.AllocMR(10, 0)
	require.ErrorIs(t, err, verbs.ErrClosed, "AllocMR in a closed domain")
	before := t.Client.Resources()
	_, _ = pd.Close(), cq.Close() // errors or nothing
	require.Equal(t, before, t.Client.Resources(), "resources after closing a domain and a queue again")
	_, err = cq.Poll(make([]verbs.WC, 1))
	require.ErrorIs(t, err, verbs.ErrClosed, "polling a closed queue")
}
