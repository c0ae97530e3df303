package verbstest

import (
	"errors"
	"fmt"

	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

var stateChecks = []Check{
	{Name: "state/transitions", Needs: []Need{needRawQP}, Run: stateTable},
	{Name: "state/query", Needs: []Need{needRawQP}, Run: stateQuery},
	{Name: "state/reset-clears", Needs: []Need{needRawQP}, Run: stateReset},
	{Name: "state/bad-attributes", Needs: []Need{needRawQP}, Run: stateBadAttr},
	{Name: "state/post-in-reset", Needs: []Need{needRawQP}, Run: statePostReset},
	{Name: "state/post-in-init", Needs: []Need{needRawQP}, Run: statePostInit},
	{Name: "state/post-in-rtr", Needs: []Need{needRawQP}, Run: statePostRTR},
	{Name: "state/receives-in-rtr", Needs: []Need{needRawQP, needTransport(verbs.IWARP, "it has no RTR")}, Run: stateRTR},
	{Name: "state/of-a-connection", Run: stateOfConnection},
	{Name: "state/psn-wraps", Needs: []Need{needRawQP, needTransport(verbs.IWARP, "it has no PSN")}, Run: statePSN},
	{Name: "state/smaller-path-mtu", Needs: []Need{needRawQP, needTransport(verbs.IWARP, "it has no path MTU")}, Run: stateMTU},
	{Name: "state/closed-takes-nothing", Run: stateClosed},
}

// stateWays is how each state is reached from RESET.
var stateWays = map[verbs.QPState][]verbs.QPState{
	verbs.Reset: nil,
	verbs.Init:  {verbs.Init},
	verbs.RTR:   {verbs.Init, verbs.RTR},
	verbs.RTS:   {verbs.Init, verbs.RTR, verbs.RTS},
	verbs.Error: {verbs.Init, verbs.Error},
}

// stateLegal is IB specification figure 124 without SQD and SQE, as Linux has it.
var stateLegal = map[verbs.QPState][]verbs.QPState{
	verbs.Reset: {verbs.Reset, verbs.Init},
	verbs.Init:  {verbs.Reset, verbs.Init, verbs.RTR, verbs.Error},
	verbs.RTR:   {verbs.Reset, verbs.RTS, verbs.Error},
	verbs.RTS:   {verbs.Reset, verbs.RTS, verbs.Error},
	verbs.Error: {verbs.Reset, verbs.Error},
}

func stateTable(t *T) {
	peer := t.rawQP("peer", t.Server, opts{})
	states := []verbs.QPState{verbs.Reset, verbs.Init, verbs.RTR, verbs.RTS, verbs.Error}
	cq := t.newCQ(t.Client, verbs.CQInit{Depth: 16})
	pd := t.newPD(t.Client)
	for _, from := range states {
		for _, to := range states {
			what := fmt.Sprintf("%v to %v", from, to)
			qp, err := pd.CreateQP(verbs.QPInit{SendCQ: cq, RecvCQ: cq, MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1, Name: what})
			t.claimed(err, "PD.CreateQP")
			t.own(qp)
			c := &side{t: t, name: "client", dev: t.Client, attr: t.Client.Attr(), qp: qp, conn: peer.conn}
			a := c.rawAttr(peer)
			for _, st := range stateWays[from] {
				a.State = st
				t.claimed(qp.Modify(a), "Modify %s, on the way to %v", what, st)
			}
			require.Equal(t, from, qp.Query().State, what)
			a.State = to
			err = qp.Modify(a)
			legal := false
			for _, st := range stateLegal[from] {
				legal = legal || st == to
			}
			if legal {
				require.NoError(t, err, what)
				require.Equal(t, to, qp.Query().State, what)
			} else {
				require.True(t, isState(err), "%s: %v", what, err)
				require.Equal(t, from, qp.Query().State, "%s: state after the refusal", what)
			}
			t.close(qp)
		}
	}
}

func stateQuery(t *T) {
	c, s := t.rawPair(opts{}, opts{}, func(a *verbs.QPAttr) { a.RetryCnt, a.RNRRetry, a.ORD, a.Timeout = 5, 3, 2, 14 }, func(a *verbs.QPAttr) { a.IRD = 3 })
	q := c.qp.Query()
	require.Equal(t, verbs.RTS, q.State)
	require.Equal(t, s.qp.Num(), q.DestQPN)
	require.Equal(t, t.DeviceAddr(s.dev), q.DestAddr)
	require.Equal(t, 2, q.ORD)
	require.EqualValues(t, 5, q.RetryCnt)
	require.EqualValues(t, 3, q.RNRRetry)
	require.EqualValues(t, 14, q.Timeout)
	require.GreaterOrEqual(t, s.qp.Query().IRD, 3) // rounded up by some
	require.Equal(t, verbs.RemoteRead|verbs.RemoteWrite, q.Access&(verbs.RemoteRead|verbs.RemoteWrite))
}

// stateReset takes a used queue pair through RESET into use again, with other sequence numbers.
func stateReset(t *T) {
	c, s := t.rawPair(opts{}, opts{}, nil, nil)
	t.wantAlive(c, s)
	s.postRecv() // dropped by RESET, without a completion
	for _, x := range []*side{c, s} {
		require.NoError(t, x.qp.Modify(verbs.QPAttr{State: verbs.Reset}))
		x.wantState(verbs.Reset)
	}
	t.settle()
	s.wantEmpty(s.rcq, "RESET drops work without completions")
	psn := func(a *verbs.QPAttr) { a.RQPSN, a.SQPSN = 99, 99 }
	c.toRTS(s, psn)
	s.toRTS(c, psn)
	t.wantAlive(c, s)
}

func stateBadAttr(t *T) {
	peer := t.rawQP("peer", t.Server, opts{})
	for what, change := range map[string]func(*verbs.QPAttr){
		"RetryCnt 8":          func(a *verbs.QPAttr) { a.RetryCnt = 8 },
		"RNRRetry 8":          func(a *verbs.QPAttr) { a.RNRRetry = 8 },
		"path MTU 8192":       func(a *verbs.QPAttr) { a.PathMTU = 8192 },
		"PSN of 25 bits":      func(a *verbs.QPAttr) { a.SQPSN = 1 << 24 },
		"IRD above the limit": func(a *verbs.QPAttr) { a.IRD = t.Client.Attr().MaxQPRdAtom + 1 },
		"ORD above the limit": func(a *verbs.QPAttr) { a.ORD = t.Client.Attr().MaxQPInitRdAtom + 1 },
		"timeout of 6 bits":   func(a *verbs.QPAttr) { a.Timeout = 32 },
		"RNR timer of 6 bits": func(a *verbs.QPAttr) { a.MinRNR = 32 },
	} {
		c := t.rawQP("client", t.Client, opts{})
		a := c.rawAttr(peer)
		change(&a)
		var err error
		for _, st := range []verbs.QPState{verbs.Init, verbs.RTR, verbs.RTS} {
			a.State = st
			if err = c.qp.Modify(a); err != nil {
				break
			}
		}
		require.ErrorIs(t, err, verbs.ErrInvalid, what)
	}
	c := t.rawQP("client", t.Client, opts{})
	require.Error(t, c.qp.Modify(verbs.QPAttr{State: verbs.Error + 1}), "a state that is none")
}

// wantNoPost says that the state takes neither sends nor, unless recv, receives.
func (s *side) wantNoPost(recv bool) {
	s.t.Helper()
	n, err := s.qp.PostSend([]verbs.SendWR{{Op: verbs.OpSend, Flags: verbs.Signaled}})
	require.ErrorIs(s.t, err, verbs.ErrState)
	require.Zero(s.t, n)
	n, err = s.qp.PostRecv([]verbs.RecvWR{{}})
	if recv {
		s.t.must(err, "PostRecv")
		require.Equal(s.t, 1, n)
		return
	}
	require.ErrorIs(s.t, err, verbs.ErrState)
	require.Zero(s.t, n)
}

func statePostReset(t *T) {
	c := t.rawQP("client", t.Client, opts{})
	c.wantState(verbs.Reset)
	c.wantNoPost(false)
}

func statePostInit(t *T) {
	c := t.rawQP("client", t.Client, opts{})
	t.claimed(c.qp.Modify(verbs.QPAttr{State: verbs.Init}), "Modify to INIT")
	c.wantNoPost(true)
}

func statePostRTR(t *T) {
	c, s := t.rawQP("client", t.Client, opts{}), t.rawQP("server", t.Server, opts{})
	a := c.rawAttr(s)
	for _, st := range []verbs.QPState{verbs.Init, verbs.RTR} {
		a.State = st
		t.claimed(c.qp.Modify(a), "Modify to %v", st)
	}
	c.wantNoPost(true)
}

// stateRTR: ready to receive means to receive, although it cannot send yet.
func stateRTR(t *T) {
	c, s := t.rawQP("client", t.Client, opts{}), t.rawQP("server", t.Server, opts{})
	c.toRTS(s, nil)
	a := s.rawAttr(c)
	for _, st := range []verbs.QPState{verbs.Init, verbs.RTR} {
		a.State = st
		t.claimed(s.qp.Modify(a), "Modify to %v", st)
	}
	src, dst := c.filled(100, 0), s.mem(100, verbs.LocalWrite)
	id := s.postRecv(dst.sge())
	c.do(sendOf(src))
	s.wantMessage(id, 100)
	dst.wantBytes(src.bytes(), "message in RTR")
	a.State = verbs.RTS
	t.claimed(s.qp.Modify(a), "Modify to RTS")
	t.wantAlive(c, s)
}

func stateOfConnection(t *T) {
	var atConnect, atAccept verbs.QPState
	var err error
	note := func(st *verbs.QPState) func(*side) error {
		return func(s *side) error {
			*st = s.qp.Query().State
			if _, e := s.qp.PostSend([]verbs.SendWR{{Op: verbs.OpSend}}); e == nil || !isState(e) {
				err = fmt.Errorf("a send before the connection: %v", e)
			}
			return nil
		}
	}
	c, s := t.connect(opts{early: note(&atConnect)}, opts{early: note(&atAccept)})
	require.NoError(t, err)
	require.Equal(t, verbs.Init, atConnect)
	require.Equal(t, verbs.Init, atAccept)
	c.wantState(verbs.RTS)
	s.wantState(verbs.RTS)
	require.NotZero(t, c.qp.Num())
	require.NoError(t, c.id.Disconnect())
	s.wantCM(verbs.CMDisconnected)
	c.wantCM(verbs.CMDisconnected)
	c.wantState(verbs.Error)
	s.wantState(verbs.Error)
}

// statePSN starts a few packets before the 24-bit sequence number wraps.
func statePSN(t *T) {
	psn := func(a *verbs.QPAttr) { a.RQPSN, a.SQPSN = 0xfffffd, 0xfffffd }
	c, s := t.rawPair(opts{}, opts{}, psn, psn)
	n := 9 * c.attr.ActiveMTU
	src, dst, sink := c.filled(n, 0), s.mem(n, remoteRW), c.mem(n, c.sinkAccess())
	t.wantAlive(c, s)
	c.do(writeTo(src, dst))
	c.do(readFrom(sink, dst))
	sink.wantBytes(src.bytes(), "WRITE and READ over the wrap of the sequence number")
	t.wantAlive(c, s)
}

func stateMTU(t *T) {
	for _, mtu := range []int{256, 512, 1024} {
		if mtu > t.Client.Attr().ActiveMTU {
			continue
		}
		small := func(a *verbs.QPAttr) { a.PathMTU = mtu }
		c, s := t.rawPair(opts{}, opts{}, small, small)
		n := 5*mtu + 3
		src, dst, sink := c.filled(n, 0), s.mem(n, remoteRW), c.mem(n, c.sinkAccess())
		c.do(writeTo(src, dst))
		c.do(readFrom(sink, dst))
		sink.wantBytes(src.bytes(), "WRITE and READ with a small path MTU")
		t.wantAlive(c, s)
		require.Equal(t, mtu, c.qp.Query().PathMTU)
	}
}

func stateClosed(t *T) {
	c, _ := t.connect(opts{}, opts{})
	t.close(c.qp)
	_, err := c.qp.PostSend([]verbs.SendWR{{Op: verbs.OpSend}})
	require.ErrorIs(t, err, verbs.ErrClosed)
	_, err = c.qp.PostRecv([]verbs.RecvWR{{}})
	require.ErrorIs(t, err, verbs.ErrClosed)
	require.ErrorIs(t, c.qp.Modify(verbs.QPAttr{State: verbs.Error}), verbs.ErrClosed)
}

// isState is what a wrong state gives at a post or a Modify.
func isState(err error) bool {
	return errors.Is(err, verbs.ErrState) || errors.Is(err, verbs.ErrInvalid)
}
