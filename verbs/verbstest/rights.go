package verbstest

import (
	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

var rightsChecks = []Check{
	{Name: "rights/write-without-remote-write", Run: func(t *T) { rightsDenied(t, verbs.OpRDMAWrite, verbs.LocalWrite|verbs.RemoteRead) }},
	{Name: "rights/write-imm-without-remote-write", Run: rightsWriteImm},
	{Name: "rights/read-without-remote-read", Run: func(t *T) { rightsDenied(t, verbs.OpRDMARead, verbs.LocalWrite|verbs.RemoteWrite) }},
	{Name: "rights/write-without-any", Run: func(t *T) { rightsDenied(t, verbs.OpRDMAWrite, 0) }},
	{Name: "rights/read-without-any", Run: func(t *T) { rightsDenied(t, verbs.OpRDMARead, 0) }},
	{Name: "rights/read-sink-without-local-write", Run: rightsReadSink},
	{Name: "rights/recv-without-local-write", Needs: []Need{needAcked}, Run: rightsRecv},
	{Name: "rights/second-recv-sge-without-local-write", Needs: []Need{needAcked}, Run: rightsSecondRecvSGE},
	{Name: "rights/source-needs-none", Run: rightsSource},
	{Name: "rights/each-alone-suffices", Run: rightsEnough},
	{Name: "rights/remote-write-needs-local-write", Run: rightsImplied},
	{Name: "rights/checked-per-region", Run: rightsPerRegion},
	{Name: "rights/large-write-denied-whole", Run: rightsLargeWrite},
}

var qpRightsChecks = []Check{
	{Name: "rights/qp-without-remote-write", Needs: []Need{needRawQP, needAcked}, Run: func(t *T) { qpRights(t, verbs.OpRDMAWrite, verbs.RemoteRead) }},
	{Name: "rights/qp-without-remote-read", Needs: []Need{needRawQP, needAcked}, Run: func(t *T) { qpRights(t, verbs.OpRDMARead, verbs.RemoteWrite) }},
}

func rightsDenied(t *T, op verbs.Opcode, access verbs.Access) {
	c, s := t.connect(opts{}, opts{})
	m := s.filled(100, access)
	t.wantAccessDenied(c, s, op, m.mr.RKey(), m.addr(), 100, m.bytes())
}

func rightsWriteImm(t *T) {
	c, s := t.connect(opts{}, opts{})
	m := s.filled(100, verbs.LocalWrite|verbs.RemoteRead)
	want := m.copy()
	wr := writeTo(c.filled(100, 0), m)
	wr.Op, wr.Imm = verbs.OpRDMAWriteWithImm, 1
	t.wantRemoteErr(c, s, wr, verbs.RemAccessErr)
	m.wantBytes(want, "target without remote write")
}

func rightsReadSink(t *T) {
	c, s := t.connect(opts{}, opts{})
	src := s.filled(100, verbs.RemoteRead)
	sink := c.mem(100, 0)
	t.wantLocalErr(c, readFrom(sink, src), verbs.LocProtErr)
	sink.wantBytes(make([]byte, 100), "read-only sink")
}

func rightsRecv(t *T) {
	c, s := t.connect(opts{}, opts{})
	buf := s.mem(100, verbs.RemoteRead)
	id := s.postRecv(buf.sge())
	wr := c.signaled(sendOf(c.filled(100, 0)))
	c.wantSend(wr, verbs.RemOpErr)
	s.wantRecv(id, verbs.LocProtErr)
	s.wantState(verbs.Error)
	c.wantDown()
	buf.wantBytes(make([]byte, 100), "read-only receive buffer")
}

func rightsSecondRecvSGE(t *T) {
	if t.Server.Attr().MaxSGE < 2 {
		t.Skipf("one SGE a receive")
	}
	c, s := t.connect(opts{}, opts{})
	ok, bad := s.mem(50, verbs.LocalWrite), s.mem(50, 0)
	id := s.postRecv(ok.sge(), bad.sge())
	wr := c.signaled(sendOf(c.filled(100, 0)))
	c.wantSend(wr, verbs.RemOpErr)
	s.wantRecv(id, verbs.LocProtErr)
	bad.wantBytes(make([]byte, 50), "read-only part of a receive")
}

func rightsSource(t *T) {
	c, s := t.connect(opts{}, opts{})
	src := c.filled(100, 0)
	dst := s.mem(100, verbs.LocalWrite|verbs.RemoteWrite)
	id := s.postRecv(dst.sge())
	c.do(sendOf(src))
	s.wantMessage(id, 100)
	dst.wantBytes(src.bytes(), "message")
	src.fill(99)
	c.do(writeTo(src, dst))
	dst.wantBytes(src.bytes(), "WRITE")
}

func rightsEnough(t *T) {
	c, s := t.connect(opts{}, opts{})
	ro := s.filled(100, verbs.RemoteRead)
	wo := s.mem(100, verbs.LocalWrite|verbs.RemoteWrite)
	sink := c.mem(100, c.sinkAccess())
	wc := c.do(readFrom(sink, ro))
	require.EqualValues(t, 100, wc.ByteLen)
	sink.wantBytes(ro.bytes(), "READ")
	c.do(writeTo(sink, wo))
	wo.wantBytes(ro.bytes(), "WRITE")
}

func rightsImplied(t *T) {
	pd := t.newPD(t.Server)
	buf := make([]byte, 4096)
	for _, a := range []verbs.Access{verbs.RemoteWrite, verbs.RemoteAtomic, verbs.RemoteWrite | verbs.RemoteRead} {
		_, err := pd.RegMR(buf, a)
		require.ErrorIs(t, err, verbs.ErrInvalid, "RegMR with access %#x", a)
		_, err = pd.AllocMR(4096, a)
		require.ErrorIs(t, err, verbs.ErrInvalid, "AllocMR with access %#x", a)
	}
}

// rightsPerRegion registers one buffer twice: what one region allows the other does not.
func rightsPerRegion(t *T) {
	c, s := t.connect(opts{}, opts{})
	rw := s.filled(100, verbs.LocalWrite|verbs.RemoteRead|verbs.RemoteWrite)
	ro, err := s.pd.RegMR(rw.bytes(), verbs.RemoteRead)
	t.must(err, "RegMR of registered memory")
	t.own(ro)
	src := c.filled(100, 0)
	c.do(writeTo(src, rw))
	require.Equal(t, src.bytes(), ro.Bytes())
	t.wantAccessDenied(c, s, verbs.OpRDMAWrite, ro.RKey(), ro.Addr(), 100, rw.bytes())
}

// rightsLargeWrite is of several packets: not one of them may land.
func rightsLargeWrite(t *T) {
	c, s := t.connect(opts{}, opts{})
	n := 5*c.attr.ActiveMTU + 3
	m := s.filled(n, verbs.LocalWrite|verbs.RemoteRead)
	t.wantAccessDenied(c, s, verbs.OpRDMAWrite, m.mr.RKey(), m.addr(), n, m.bytes())
}

// qpRights: the queue pair itself does not allow it, whatever the region does.
func qpRights(t *T, op verbs.Opcode, allowed verbs.Access) {
	c, s := t.rawPair(opts{}, opts{}, nil, func(a *verbs.QPAttr) { a.Access = allowed })
	m := s.filled(100, verbs.LocalWrite|verbs.RemoteRead|verbs.RemoteWrite)
	want := m.copy()
	local := c.mem(100, c.sinkAccess())
	t.wantRemoteErr(c, s, verbs.SendWR{Op: op, SGEs: []verbs.SGE{local.sge()}, RemoteAddr: m.addr(), RKey: m.mr.RKey()},
		verbs.RemInvReqErr)
	m.wantBytes(want, "memory behind a queue pair without the right")
}
