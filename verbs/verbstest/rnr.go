package verbstest

import (
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

var rnrChecks = []Check{
	{Name: "rnr/no-retry", Needs: []Need{needRNR}, Run: rnrNone},
	{Name: "rnr/retries-run-out", Needs: []Need{needRNR}, Run: rnrRunsOut},
	{Name: "rnr/write-imm", Needs: []Need{needRNR}, Run: rnrWriteImm},
	{Name: "rnr/receive-in-time", Needs: []Need{needRNR}, Run: rnrInTime},
	{Name: "rnr/infinite", Needs: []Need{needRNR}, Run: rnrInfinite},
	{Name: "rnr/order-kept", Needs: []Need{needRNR}, Run: rnrOrder},
	{Name: "rnr/count-starts-again", Needs: []Need{needRNR, needRawQP}, Run: rnrCountAgain},
	{Name: "retry/peer-queue-pair-gone", Needs: []Need{needAcked}, Run: retryGone},
	{Name: "retry/peer-in-error", Needs: []Need{needAcked}, Run: retryPeerError},
	{Name: "retry/peer-not-ready", Needs: []Need{needAcked, needRawQP}, Run: retryNotReady},
	{Name: "retry/wrong-number", Needs: []Need{needAcked, needRawQP}, Run: retryWrongNumber},
}

// rnr is a side with that RNR retry count. Both sides are given it, as the
// connection manager hands one side's wish to the other.
func rnr(n uint8) opts {
	return opts{conn: func(p *verbs.ConnParam) { p.RNRRetry = n; p.RetryCnt = 1 }}
}

func rnrNone(t *T) {
	c, s := t.connect(rnr(0), rnr(0))
	wr := c.signaled(sendOf(c.filled(10, 0)))
	c.wantSend(wr, verbs.RNRRetryExcErr)
	c.wantDown()
	s.wantState(verbs.RTS) // it was never its fault
}

// rnrRunsOut counts the NAKs, where the device does.
func rnrRunsOut(t *T) {
	c, _ := t.connect(rnr(2), rnr(2))
	before, counted := t.counter("rcvd_rnr_err")
	wr := c.signaled(sendOf(c.filled(10, 0)))
	c.wantSend(wr, verbs.RNRRetryExcErr)
	if now, _ := t.counter("rcvd_rnr_err"); counted {
		require.EqualValues(t, 3, now-before, "RNR NAKs of the first try and two more")
	}
	c.wantDown()
}

func rnrWriteImm(t *T) {
	c, s := t.connect(rnr(0), rnr(0))
	dst := s.mem(100, remoteRW)
	wr := c.signaled(writeImm(c.filled(100, 0), dst, 1))
	c.wantSend(wr, verbs.RNRRetryExcErr)
}

func rnrInTime(t *T) {
	c, s := t.connect(rnr(6), rnr(6))
	n := 2*c.attr.ActiveMTU + 1
	src, dst := c.filled(n, 0), s.mem(n, verbs.LocalWrite)
	wr := c.signaled(sendOf(src))
	t.settle() // so that the first try finds no receive
	c.wantEmpty(c.scq, "no receive is posted")
	id := s.postRecv(dst.sge())
	c.wantSend(wr, verbs.Success)
	s.wantMessage(id, n)
	dst.wantBytes(src.bytes(), "message after RNR")
}

func rnrInfinite(t *T) {
	c, s := t.connect(rnr(7), rnr(7))
	wr := c.signaled(verbs.SendWR{Op: verbs.OpSend})
	if t.Sched.Virtual() {
		t.sleep(60 * sched.Second) // far beyond what seven retries take
	} else {
		t.settle()
	}
	c.wantEmpty(c.scq, "the retry count is infinite")
	id := s.postRecv()
	c.wantSend(wr, verbs.Success)
	s.wantMessage(id, 0)
}

// rnrOrder: what was posted behind a SEND that waits for a receive stays behind it.
func rnrOrder(t *T) {
	c, s := t.connect(rnr(7), rnr(7))
	src, dst := c.filled(100, 0), s.mem(100, remoteRW)
	in := s.mem(8, verbs.LocalWrite)
	a := c.signaled(verbs.SendWR{Op: verbs.OpSend, SGEs: []verbs.SGE{src.at(0, 4)}})
	w := c.signaled(writeTo(src, dst))
	b := c.signaled(verbs.SendWR{Op: verbs.OpSend, SGEs: []verbs.SGE{src.at(4, 4)}})
	t.settle()
	dst.wantBytes(make([]byte, 100), "target of a WRITE behind a SEND that waits")
	id1 := s.postRecv(in.at(0, 4))
	id2 := s.postRecv(in.at(4, 4))
	s.wantMessage(id1, 4)
	s.wantMessage(id2, 4)
	wantSame(t, src.bytes()[:8], in.bytes(), "messages")
	dst.wantBytes(src.bytes(), "WRITE")
	for _, wr := range []verbs.SendWR{a, w, b} {
		c.wantSend(wr, verbs.Success)
	}
}

// rnrCountAgain: progress sets the count back, so that each of many messages may be late.
func rnrCountAgain(t *T) {
	c, s := t.rawPair(rnr(6), rnr(6), nil, nil)
	for range 10 {
		wr := c.signaled(verbs.SendWR{Op: verbs.OpSend})
		t.sleep(2 * sched.Millisecond) // three or so of the 0.64 ms that the responder asks for
		id := s.postRecv()
		c.wantSend(wr, verbs.Success)
		s.wantMessage(id, 0)
	}
}

func fewRetries(p *verbs.ConnParam) { p.RetryCnt = 1 }

func retryGone(t *T) {
	c, s := t.connect(opts{conn: fewRetries}, opts{conn: fewRetries})
	t.wantAlive(c, s)
	t.close(s.qp)
	before, counted := t.counter("retry_exceeded_err")
	wr := c.signaled(sendOf(c.filled(10, 0)))
	c.wantSend(wr, verbs.RetryExcErr)
	if now, _ := t.counter("retry_exceeded_err"); counted {
		require.Equal(t, before+1, now, "retry_exceeded_err")
	}
	c.wantDown()
}

func retryPeerError(t *T) {
	c, s := t.connect(opts{conn: fewRetries}, opts{conn: fewRetries})
	dst := s.mem(100, remoteRW)
	require.NoError(t, s.qp.Modify(verbs.QPAttr{State: verbs.Error}))
	wr := c.signaled(writeTo(c.filled(100, 0), dst))
	c.wantSend(wr, verbs.RetryExcErr)
	dst.wantBytes(make([]byte, 100), "target behind a queue pair in error")
}

func retryNotReady(t *T) {
	c, s := t.rawQP("client", t.Client, opts{conn: fewRetries}), t.rawQP("server", t.Server, opts{})
	c.toRTS(s, nil)
	a := s.rawAttr(c)
	a.State = verbs.Init
	t.claimed(s.qp.Modify(a), "Modify of the server to INIT")
	c.wantSend(c.signaled(verbs.SendWR{Op: verbs.OpSend}), verbs.RetryExcErr)
}

func retryWrongNumber(t *T) {
	c, s := t.rawQP("client", t.Client, opts{conn: fewRetries}), t.rawQP("server", t.Server, opts{})
	s.toRTS(c, nil)
	c.toRTS(s, func(a *verbs.QPAttr) { a.DestQPN ^= 0x800000 })
	id := s.postRecv()
	c.wantSend(c.signaled(verbs.SendWR{Op: verbs.OpSend}), verbs.RetryExcErr)
	s.wantEmpty(s.rcq, "the message went elsewhere")
	require.NoError(t, s.qp.Modify(verbs.QPAttr{State: verbs.Error}))
	s.wantRecv(id, verbs.WRFlushErr)
}
