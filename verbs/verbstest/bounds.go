package verbstest

import (
	"math"

	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

var boundsChecks = []Check{
	{Name: "bounds/write-exact", Run: boundsExact},
	{Name: "bounds/write-one-before", Run: remoteBounds(verbs.OpRDMAWrite, -1, 10)},
	{Name: "bounds/write-one-past", Run: remoteBounds(verbs.OpRDMAWrite, 1000, 1)},
	{Name: "bounds/write-straddles-end", Run: remoteBounds(verbs.OpRDMAWrite, 999, 2)},
	{Name: "bounds/write-one-longer", Run: remoteBounds(verbs.OpRDMAWrite, 0, 1001)},
	{Name: "bounds/read-one-before", Run: remoteBounds(verbs.OpRDMARead, -1, 10)},
	{Name: "bounds/read-one-past", Run: remoteBounds(verbs.OpRDMARead, 1000, 1)},
	{Name: "bounds/read-straddles-end", Run: remoteBounds(verbs.OpRDMARead, 999, 2)},
	{Name: "bounds/read-one-longer", Run: remoteBounds(verbs.OpRDMARead, 0, 1001)},
	{Name: "bounds/write-address-wraps", Run: func(t *T) { remoteWrap(t, verbs.OpRDMAWrite) }},
	{Name: "bounds/read-address-wraps", Run: func(t *T) { remoteWrap(t, verbs.OpRDMARead) }},
	{Name: "bounds/straddles-in-last-packet", Run: boundsLastPacket},
	{Name: "bounds/zero-length-any-address", Run: boundsZeroLength},
	{Name: "bounds/send-sge-one-past", Run: func(t *T) { localSource(t, 1, 100) }},
	{Name: "bounds/send-sge-one-before", Run: func(t *T) { localSource(t, -1, 100) }},
	{Name: "bounds/send-sge-wraps", Run: boundsSourceWraps},
	{Name: "bounds/second-sge-outside", Run: boundsSecondSGE},
	{Name: "bounds/read-sink-outside", Run: boundsSink},
	{Name: "bounds/recv-sge-outside", Needs: []Need{needAcked}, Run: boundsRecv},
}

func boundsExact(t *T) {
	c, s := t.connect(opts{}, opts{})
	dst := s.mem(1000, verbs.LocalWrite|verbs.RemoteWrite)
	src := c.filled(1000, 0)
	c.do(writeTo(src, dst))
	dst.wantBytes(src.bytes(), "WRITE of a whole region")
	for _, off := range []int{0, 1, 499, 999} {
		src.bytes()[0]++
		wr := verbs.SendWR{Op: verbs.OpRDMAWrite, SGEs: []verbs.SGE{src.at(0, 1)}, RemoteAddr: dst.addr() + uint64(off), RKey: dst.mr.RKey()}
		want := dst.copy()
		want[off] = src.bytes()[0]
		c.do(wr)
		dst.wantBytes(want, "WRITE of one byte")
	}
}

func remoteBounds(op verbs.Opcode, off, n int) func(*T) {
	return func(t *T) {
		c, s := t.connect(opts{}, opts{})
		m := s.filled(1000, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
		t.wantAccessDenied(c, s, op, m.mr.RKey(), m.addr()+uint64(off), n, m.bytes())
	}
}

func remoteWrap(t *T, op verbs.Opcode) {
	for _, addr := range []uint64{math.MaxUint64, math.MaxUint64 - 15, 0} {
		c, s := t.connect(opts{}, opts{})
		m := s.filled(1000, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
		t.wantAccessDenied(c, s, op, m.mr.RKey(), addr, 64, m.bytes())
	}
}

// boundsLastPacket: the length stands in the first packet, so that nothing lands.
func boundsLastPacket(t *T) {
	c, s := t.connect(opts{}, opts{})
	n := 3 * c.attr.ActiveMTU
	m := s.filled(n, verbs.LocalWrite|verbs.RemoteWrite)
	t.wantAccessDenied(c, s, verbs.OpRDMAWrite, m.mr.RKey(), m.addr(), n+1, m.bytes())
}

// boundsZeroLength: the key of an RDMA request without data is not checked (IB specification C9-88).
func boundsZeroLength(t *T) {
	c, s := t.connect(opts{}, opts{})
	m := s.filled(100, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
	want := m.copy()
	for _, op := range []verbs.Opcode{verbs.OpRDMAWrite, verbs.OpRDMARead} {
		for _, addr := range []uint64{m.addr(), m.addr() + 100, m.addr() - 1, 0, math.MaxUint64} {
			wc := c.do(verbs.SendWR{Op: op, RemoteAddr: addr, RKey: m.mr.RKey()})
			if op == verbs.OpRDMARead {
				require.Zero(t, wc.ByteLen)
			}
		}
		if c.attr.Transport != verbs.IWARP {
			c.do(verbs.SendWR{Op: op, RemoteAddr: 0, RKey: 0})
		}
	}
	m.wantBytes(want, "memory at zero-length access")
	t.wantAlive(c, s)
}

func localSource(t *T, off, n int) {
	c, s := t.connect(opts{}, opts{})
	dst := s.mem(200, verbs.LocalWrite|verbs.RemoteWrite)
	src := c.filled(100, 0)
	wr := writeTo(src, dst)
	wr.SGEs[0] = src.at(off, n)
	t.wantLocalErr(c, wr, verbs.LocProtErr)
	dst.wantBytes(make([]byte, 200), "target of a WRITE from outside its region")
}

func boundsSourceWraps(t *T) {
	c, s := t.connect(opts{}, opts{})
	dst := s.mem(200, verbs.LocalWrite|verbs.RemoteWrite)
	wr := writeTo(c.filled(100, 0), dst)
	wr.SGEs[0].Addr, wr.SGEs[0].Length = math.MaxUint64-10, 64
	t.wantLocalErr(c, wr, verbs.LocProtErr)
	dst.wantBytes(make([]byte, 200), "target of a WRITE from outside its region")
}

func boundsSecondSGE(t *T) {
	if t.Client.Attr().MaxSGE < 2 {
		t.Skipf("one SGE a send")
	}
	c, s := t.connect(opts{}, opts{})
	dst := s.mem(200, verbs.LocalWrite|verbs.RemoteWrite)
	src := c.filled(100, 0)
	wr := writeTo(src, dst)
	wr.SGEs = []verbs.SGE{src.at(0, 50), src.at(51, 50)}
	t.wantLocalErr(c, wr, verbs.LocProtErr)
}

func boundsSink(t *T) {
	c, s := t.connect(opts{}, opts{})
	src := s.filled(100, verbs.RemoteRead)
	sink := c.mem(100, c.sinkAccess())
	wr := readFrom(sink, src)
	wr.SGEs[0] = sink.at(1, 100)
	t.wantLocalErr(c, wr, verbs.LocProtErr)
}

func boundsRecv(t *T) {
	c, s := t.connect(opts{}, opts{})
	buf := s.mem(100, verbs.LocalWrite)
	id := s.postRecv(buf.at(1, 100))
	wr := c.signaled(sendOf(c.filled(100, 0)))
	c.wantSend(wr, verbs.RemOpErr)
	s.wantRecv(id, verbs.LocProtErr)
	s.wantState(verbs.Error)
	c.wantDown()
}
