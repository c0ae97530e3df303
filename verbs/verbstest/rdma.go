package verbstest

import (
	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

var rdmaChecks = []Check{
	{Name: "write/sizes", Run: writeSizes},
	{Name: "write/gather", Run: writeGather},
	{Name: "write/1MiB", Run: writeMiB},
	{Name: "read/sizes", Run: readSizes},
	{Name: "read/scatter", Run: readScatter},
	{Name: "read/too-many-sges", Run: readTooManySGEs},
	{Name: "read/1MiB", Run: readMiB},
	{Name: "read/by-the-acceptor", Run: readByAcceptor},
	{Name: "read/odd-addresses", Run: readOdd},
	{Name: "write/one-sided", Run: writeOneSided},
}

func writeSizes(t *T) {
	c, s := t.connect(opts{}, opts{})
	for _, n := range t.sizes() {
		src, dst := c.filled(n+1, 0), s.filled(n+20, remoteRW)
		want := dst.copy()
		copy(want[11:], src.bytes()[1:])
		c.do(verbs.SendWR{Op: verbs.OpRDMAWrite, SGEs: []verbs.SGE{src.at(1, n)}, RemoteAddr: dst.addr() + 11, RKey: dst.mr.RKey()})
		dst.wantBytes(want, "region after a WRITE into its middle")
	}
}

func writeGather(t *T) {
	c, s := t.connect(opts{}, opts{})
	mtu := c.attr.ActiveMTU
	n := 3*mtu + 11
	dst := s.mem(n, remoteRW)
	for _, cut := range splits(n, mtu, c.init.MaxSendSGE) {
		src := c.filled(n, 0)
		wr := writeTo(src, dst)
		wr.SGEs = src.split(cut[:len(cut)-1]...)
		c.do(wr)
		dst.wantBytes(src.bytes(), "gathered WRITE")
	}
}

func writeMiB(t *T) {
	c, s := t.connect(opts{}, opts{})
	src, dst := c.filled(1<<20, 0), s.mem(1<<20, remoteRW)
	c.do(writeTo(src, dst))
	dst.wantBytes(src.bytes(), "WRITE")
}

func readSizes(t *T) {
	c, s := t.connect(opts{}, opts{})
	for _, n := range t.sizes() {
		src, sink := s.filled(n+20, verbs.RemoteRead), c.filled(n+9, c.sinkAccess())
		want := sink.copy()
		copy(want[3:], src.bytes()[11:11+n])
		wc := c.do(verbs.SendWR{Op: verbs.OpRDMARead, SGEs: []verbs.SGE{sink.at(3, n)}, RemoteAddr: src.addr() + 11, RKey: src.mr.RKey()})
		require.EqualValues(t, n, wc.ByteLen, "ByteLen of a READ")
		sink.wantBytes(want, "sink after a READ into its middle")
	}
}

func readScatter(t *T) {
	limit := t.Client.Attr().MaxSGERd
	if limit < 2 {
		t.Skipf("one SGE a READ")
	}
	c, s := t.connect(opts{}, opts{})
	mtu := c.attr.ActiveMTU
	n := 3*mtu + 11
	src := s.filled(n, verbs.RemoteRead)
	for _, cut := range splits(n, mtu, min(limit, c.init.MaxSendSGE)) {
		var sges []verbs.SGE
		var parts []*mem
		for _, k := range cut {
			m := c.mem(k, c.sinkAccess())
			parts = append(parts, m)
			sges = append(sges, m.sge())
		}
		wc := c.do(verbs.SendWR{Op: verbs.OpRDMARead, SGEs: sges, RemoteAddr: src.addr(), RKey: src.mr.RKey()})
		require.EqualValues(t, n, wc.ByteLen)
		off := 0
		for _, m := range parts {
			m.wantBytes(src.bytes()[off:off+m.len()], "part of a scattered READ")
			off += m.len()
		}
	}
}

func readTooManySGEs(t *T) {
	c, s := t.connect(opts{init: func(q *verbs.QPInit) { q.MaxSendSGE = t.Client.Attr().MaxSGE }}, opts{})
	src, sink := s.filled(1000, verbs.RemoteRead), c.mem(1000, c.sinkAccess())
	var sges []verbs.SGE
	for i := range c.attr.MaxSGERd + 1 {
		sges = append(sges, sink.at(i, 1))
	}
	n, err := c.qp.PostSend([]verbs.SendWR{{Op: verbs.OpRDMARead, SGEs: sges, Flags: verbs.Signaled, RemoteAddr: src.addr(), RKey: src.mr.RKey()}})
	require.ErrorIs(t, err, verbs.ErrInvalid)
	require.Zero(t, n)
	c.do(verbs.SendWR{Op: verbs.OpRDMARead, SGEs: sges[:c.attr.MaxSGERd], RemoteAddr: src.addr(), RKey: src.mr.RKey()})
	wantSame(t, src.bytes()[:c.attr.MaxSGERd], sink.bytes()[:c.attr.MaxSGERd], "READ with MaxSGERd SGEs")
}

func readMiB(t *T) {
	c, s := t.connect(opts{}, opts{})
	src, sink := s.filled(1<<20, verbs.RemoteRead), c.mem(1<<20, c.sinkAccess())
	c.do(readFrom(sink, src))
	sink.wantBytes(src.bytes(), "READ")
}

func readByAcceptor(t *T) {
	c, s := t.connect(opts{}, opts{})
	src, sink := c.filled(10000, verbs.RemoteRead), s.mem(10000, s.sinkAccess())
	s.do(readFrom(sink, src))
	sink.wantBytes(src.bytes(), "READ")
	s.do(writeTo(s.filled(100, 0), c.mem(100, remoteRW)))
}

func readOdd(t *T) {
	c, s := t.connect(opts{}, opts{})
	src, sink := s.filled(300, verbs.RemoteRead), c.mem(300, c.sinkAccess())
	for off := range 9 {
		for n := range 9 {
			want := sink.copy()
			copy(want[8-off:], src.bytes()[off:off+n])
			c.do(verbs.SendWR{Op: verbs.OpRDMARead, SGEs: []verbs.SGE{sink.at(8-off, n)}, RemoteAddr: src.addr() + uint64(off), RKey: src.mr.RKey()})
			sink.wantBytes(want, "sink of a READ at an odd address")
		}
	}
}

// writeOneSided: the responder's program sees nothing of WRITE and READ.
func writeOneSided(t *T) {
	c, s := t.connect(opts{}, opts{})
	src, dst := c.filled(5000, c.sinkAccess()), s.mem(5000, remoteRW)
	for range 5 {
		c.do(writeTo(src, dst))
		c.do(readFrom(src, dst))
	}
	s.wantEmpty(s.rcq, "only WRITE and READ were posted")
	s.wantEmpty(s.scq, "nothing was posted")
}
