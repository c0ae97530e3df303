package verbstest

import (
	"bytes"

	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

var pdChecks = []Check{
	{Name: "pd/device", Run: pdDevice},
	{Name: "pd/send-lkey-of-another", Run: pdSendLKey},
	{Name: "pd/write-lkey-of-another", Run: pdWriteLKey},
	{Name: "pd/read-sink-of-another", Run: pdReadSink},
	{Name: "pd/recv-lkey-of-another", Needs: []Need{needAcked}, Run: pdRecvLKey},
	{Name: "pd/write-rkey-of-another", Run: func(t *T) { pdRKey(t, verbs.OpRDMAWrite) }},
	{Name: "pd/read-rkey-of-another", Run: func(t *T) { pdRKey(t, verbs.OpRDMARead) }},
	{Name: "pd/keys-unique", Run: pdKeysUnique},
}

func pdDevice(t *T) {
	require.Equal(t, t.Client, t.newPD(t.Client).Device())
}

func pdSendLKey(t *T) {
	c, s := t.connect(opts{}, opts{})
	id := s.postRecv(s.mem(64, verbs.LocalWrite).sge())
	other := t.newMem(t.newPD(t.Client), 64, verbs.LocalWrite)
	t.wantLocalErr(c, sendOf(other), verbs.LocProtErr)
	require.NoError(t, s.qp.Modify(verbs.QPAttr{State: verbs.Error}))
	s.wantRecv(id, verbs.WRFlushErr)
}

func pdWriteLKey(t *T) {
	c, s := t.connect(opts{}, opts{})
	dst := s.filled(64, verbs.LocalWrite|verbs.RemoteWrite)
	want := dst.copy()
	other := t.newMem(t.newPD(t.Client), 64, verbs.LocalWrite)
	t.wantLocalErr(c, writeTo(other, dst), verbs.LocProtErr)
	dst.wantBytes(want, "target of a WRITE with a foreign lkey")
}

func pdReadSink(t *T) {
	c, s := t.connect(opts{}, opts{})
	src := s.filled(64, verbs.RemoteRead)
	other := t.newMem(t.newPD(t.Client), 64, c.sinkAccess())
	t.wantLocalErr(c, readFrom(other, src), verbs.LocProtErr)
	other.wantBytes(make([]byte, 64), "sink of a foreign domain")
}

func pdRecvLKey(t *T) {
	c, s := t.connect(opts{}, opts{})
	other := t.newMem(t.newPD(t.Server), 64, verbs.LocalWrite)
	id := s.postRecv(other.sge())
	wr := c.signaled(sendOf(c.filled(64, 0)))
	c.wantSend(wr, verbs.RemOpErr)
	s.wantRecv(id, verbs.LocProtErr)
	s.wantState(verbs.Error)
	c.wantDown()
	other.wantBytes(make([]byte, 64), "receive buffer of a foreign domain")
}

func pdRKey(t *T, op verbs.Opcode) {
	c, s := t.connect(opts{}, opts{})
	other := t.newMem(t.newPD(t.Server), 64, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
	other.fill(3)
	t.wantAccessDenied(c, s, op, other.mr.RKey(), other.addr(), 64, other.bytes())
}

func pdKeysUnique(t *T) {
	pd := t.newPD(t.Client)
	keys := map[uint32]bool{}
	type span struct{ from, to uint64 }
	var spans []span
	for range 32 {
		mr, err := pd.AllocMR(5000, verbs.LocalWrite|verbs.RemoteRead)
		t.must(err, "AllocMR")
		t.own(mr)
		require.False(t, keys[mr.RKey()], "rkey %#x twice", mr.RKey())
		keys[mr.RKey()] = true
		require.Equal(t, 5000, mr.Len())
		require.Len(t, mr.Bytes(), 5000)
		require.True(t, bytes.Equal(make([]byte, 5000), mr.Bytes()), "AllocMR: memory is not zero")
		require.Zero(t, mr.Addr()%verbs.PageSize, "AllocMR: not aligned to a page")
		n := span{mr.Addr(), mr.Addr() + 5000}
		for _, o := range spans {
			require.True(t, n.to <= o.from || o.to <= n.from, "two regions share addresses")
		}
		spans = append(spans, n)
	}
}
