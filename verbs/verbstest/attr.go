package verbstest

import (
	"errors"

	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var attrChecks = []Check{
	{Name: "attr/sane", Run: attrSane},
	{Name: "attr/constant", Run: attrConstant},
	{Name: "attr/depth-beyond-limit", Run: attrDepthBeyondLimit},
	{Name: "attr/counters-named-once", Run: attrCountersNamedOnce},
	{Name: "attr/resources-counted", Run: attrResourcesCounted},
	{Name: "attr/unsupported-said", Run: attrUnsupportedSaid},
}

func attrSane(t *T) {
	for _, d := range []verbs.Device{t.Client, t.Server} {
		a := d.Attr()
		assert.NotEmpty(t, d.Name())
		for what, v := range map[string]int{
			"MaxQP": a.MaxQP, "MaxQPWR": a.MaxQPWR, "MaxSGE": a.MaxSGE, "MaxSGERd": a.MaxSGERd,
			"MaxCQ": a.MaxCQ, "MaxCQE": a.MaxCQE, "MaxMR": a.MaxMR, "MaxPD": a.MaxPD,
			"MaxQPRdAtom": a.MaxQPRdAtom, "MaxQPInitRdAtom": a.MaxQPInitRdAtom,
			"MaxConnPrivate": a.MaxConnPrivate, "MaxAcceptPrivate": a.MaxAcceptPrivate,
		} {
			assert.Positive(t, v, what)
		}
		assert.LessOrEqual(t, a.MaxSGERd, a.MaxSGE, "MaxSGERd")
		assert.Equal(t, verbs.PageSize, a.PageSize)
		assert.GreaterOrEqual(t, a.MaxMsgSize, uint32(1<<20))
		assert.GreaterOrEqual(t, a.MaxMRSize, uint64(1<<20))
		assert.GreaterOrEqual(t, a.ActiveMTU, 256)
		if a.Transport != verbs.IWARP {
			assert.Contains(t, []int{256, 512, 1024, 2048, 4096}, a.ActiveMTU)
			assert.NotZero(t, a.Caps&verbs.CapRNR, "RNR on %v", a.Transport)
		} else {
			assert.Zero(t, a.Caps&verbs.CapRNR, "RNR on iWARP")
		}
		if a.Caps&verbs.CapMemMgtExtensions != 0 {
			assert.GreaterOrEqual(t, a.MaxFastRegPages, 0)
		}
		if a.Caps&(verbs.CapMemWindow1|verbs.CapMemWindow2B) != 0 {
			assert.Positive(t, a.MaxMW)
		}
	}
}

func attrConstant(t *T) {
	before := t.Client.Attr()
	c, s := t.connect(opts{}, opts{})
	t.wantAlive(c, s)
	require.Equal(t, before, t.Client.Attr())
}

func attrDepthBeyondLimit(t *T) {
	pd := t.newPD(t.Server)
	a := t.Server.Attr()
	refused := func(err error, what string) {
		t.Helper()
		if !errors.Is(err, verbs.ErrInvalid) && !errors.Is(err, verbs.ErrNoResources) {
			t.fatalf("%s beyond the limit: %v", what, err)
		}
	}
	_, err := t.Server.CreateCQ(verbs.CQInit{Depth: a.MaxCQE + 1})
	refused(err, "CQ depth")
	_, err = t.Server.CreateCQ(verbs.CQInit{Depth: 0})
	refused(err, "CQ depth 0")
	cq := t.newCQ(t.Server, verbs.CQInit{Depth: 8})
	ok := verbs.QPInit{SendCQ: cq, RecvCQ: cq, MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}
	for what, change := range map[string]func(*verbs.QPInit){
		"MaxSendWR":     func(q *verbs.QPInit) { q.MaxSendWR = a.MaxQPWR + 1 },
		"MaxRecvWR":     func(q *verbs.QPInit) { q.MaxRecvWR = a.MaxQPWR + 1 },
		"MaxSendSGE":    func(q *verbs.QPInit) { q.MaxSendSGE = a.MaxSGE + 1 },
		"MaxRecvSGE":    func(q *verbs.QPInit) { q.MaxRecvSGE = a.MaxSGE + 1 },
		"MaxInline":     func(q *verbs.QPInit) { q.MaxInline = a.MaxInline + 1 },
		"no SendCQ":     func(q *verbs.QPInit) { q.SendCQ = nil },
		"no RecvCQ":     func(q *verbs.QPInit) { q.RecvCQ = nil },
		"negative SQ":   func(q *verbs.QPInit) { q.MaxSendWR = -1 },
		"negative SGEs": func(q *verbs.QPInit) { q.MaxSendSGE = -1 },
	} {
		init := ok
		change(&init)
		_, err := pd.CreateQP(init)
		if t.DeviceAddr == nil && errors.Is(err, verbs.ErrUnsupported) {
			t.Logf("no queue pairs without a connection manager: %v", err)
			return
		}
		refused(err, what)
	}
}

func attrCountersNamedOnce(t *T) {
	seen := map[string]bool{}
	for _, c := range t.Client.Counters() {
		assert.NotEmpty(t, c.Name)
		assert.False(t, seen[c.Name], "counter %q twice", c.Name)
		seen[c.Name] = true
	}
}

func attrResourcesCounted(t *T) {
	c, s := t.connect(opts{}, opts{})
	c.mem(100, 0)
	r, base := s.dev.Resources(), t.base[1]
	n := 1
	if t.Client == t.Server {
		n = 2
		require.Equal(t, base.MR+2, r.MR)
	}
	require.Equal(t, base.PD+n, r.PD)
	require.Equal(t, base.CQ+2*n, r.CQ)
	require.Equal(t, base.QP+n, r.QP)
	require.Equal(t, base.CMID+n, r.CMID)
}

// attrUnsupportedSaid holds what a device says of itself against what it does.
func attrUnsupportedSaid(t *T) {
	pd := t.newPD(t.Client)
	caps := t.Client.Attr().Caps
	for _, x := range []struct {
		what string
		cap  verbs.Cap
		try  func() (closer, error)
	}{
		{"AllocFastRegMR", verbs.CapMemMgtExtensions, func() (closer, error) { return pd.AllocFastRegMR(1) }},
		{"AllocMW type 1", verbs.CapMemWindow1, func() (closer, error) { return pd.AllocMW(verbs.MWType1) }},
		{"AllocMW type 2B", verbs.CapMemWindow2B, func() (closer, error) { return pd.AllocMW(verbs.MWType2B) }},
		{"GlobalKey", verbs.CapGlobalKey, func() (closer, error) {
			_, err := pd.GlobalKey(verbs.RemoteRead)
			return nil, err
		}},
		{"LocalDMAKey", verbs.CapLocalDMAKey, func() (closer, error) {
			_, err := pd.LocalDMAKey()
			return nil, err
		}},
	} {
		obj, err := x.try()
		if caps&x.cap == 0 {
			require.ErrorIs(t, err, verbs.ErrUnsupported, x.what)
			continue
		}
		t.claimed(err, "%s", x.what)
		if obj != nil {
			t.own(obj)
		}
	}
}
