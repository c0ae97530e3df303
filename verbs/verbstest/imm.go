package verbstest

import (
	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

var immChecks = []Check{
	{Name: "imm/send", Run: immSend},
	{Name: "imm/flag-only-with-imm", Run: immFlag},
	{Name: "imm/write-consumes-a-receive", Run: immWrite},
	{Name: "imm/write-leaves-receive-buffer", Run: immWriteBuffer},
	{Name: "imm/write-zero-length", Run: immWriteZero},
	{Name: "imm/plain-write-consumes-none", Run: immPlainWrite},
	{Name: "imm/order-with-sends", Run: immOrder},
}

// The first version of iWARP has no immediate data: such a device says so when it is posted, and post skips the check.

func immSend(t *T) {
	c, s := t.connect(opts{}, opts{})
	for _, imm := range []uint32{0, 1, 0xdeadbeef, 0xffffffff} {
		for _, n := range []int{0, 10, 2*c.attr.ActiveMTU + 1} {
			src, dst := c.filled(max(n, 1), 0), s.mem(max(n, 1), verbs.LocalWrite)
			id := s.postRecv(dst.sge())
			c.do(verbs.SendWR{Op: verbs.OpSendWithImm, Imm: imm, SGEs: []verbs.SGE{src.at(0, n)}})
			wc := s.wantMessage(id, n)
			require.Equal(t, verbs.WCWithImm, wc.Flags)
			require.Equal(t, imm, wc.Imm)
			wantSame(t, src.bytes()[:n], dst.bytes()[:n], "message with immediate")
		}
	}
}

func immFlag(t *T) {
	c, s := t.connect(opts{}, opts{})
	id := s.postRecv()
	c.do(verbs.SendWR{Op: verbs.OpSend, Imm: 77})
	require.Zero(t, s.wantMessage(id, 0).Flags, "flags of a plain message")
}

func writeImm(src, dst *mem, imm uint32) verbs.SendWR {
	wr := writeTo(src, dst)
	wr.Op, wr.Imm = verbs.OpRDMAWriteWithImm, imm
	return wr
}

func (s *side) wantWriteImm(id uint64, n int, imm uint32) {
	s.t.Helper()
	wc := s.wantRecv(id, verbs.Success)
	require.Equal(s.t, verbs.OpRecvRDMAWithImm, wc.Op)
	require.EqualValues(s.t, n, wc.ByteLen)
	require.Equal(s.t, verbs.WCWithImm, wc.Flags)
	require.Equal(s.t, imm, wc.Imm)
}

func immWrite(t *T) {
	c, s := t.connect(opts{}, opts{})
	for _, n := range []int{1, c.attr.ActiveMTU, 3*c.attr.ActiveMTU + 1} {
		src, dst := c.filled(n, 0), s.mem(n, remoteRW)
		id := s.postRecv()
		c.do(writeImm(src, dst, uint32(n)))
		s.wantWriteImm(id, n, uint32(n))
		dst.wantBytes(src.bytes(), "WRITE with immediate")
	}
}

func immWriteBuffer(t *T) {
	c, s := t.connect(opts{}, opts{})
	src, dst, buf := c.filled(500, 0), s.mem(500, remoteRW), s.filled(20, verbs.LocalWrite)
	want := buf.copy()
	id := s.postRecv(buf.sge()) // smaller than the WRITE: that does not matter
	c.do(writeImm(src, dst, 5))
	s.wantWriteImm(id, 500, 5)
	dst.wantBytes(src.bytes(), "WRITE with immediate")
	buf.wantBytes(want, "buffer of the receive that a WRITE with immediate used")
}

func immWriteZero(t *T) {
	c, s := t.connect(opts{}, opts{})
	id := s.postRecv()
	c.do(verbs.SendWR{Op: verbs.OpRDMAWriteWithImm, Imm: 9})
	s.wantWriteImm(id, 0, 9)
}

func immPlainWrite(t *T) {
	c, s := t.connect(opts{}, opts{})
	src, dst := c.filled(500, 0), s.mem(500, remoteRW)
	id := s.postRecv()
	c.do(writeTo(src, dst))
	s.wantEmpty(s.rcq, "there was only a plain WRITE")
	c.do(verbs.SendWR{Op: verbs.OpSend})
	s.wantMessage(id, 0)
}

func immOrder(t *T) {
	c, s := t.connect(opts{}, opts{})
	src, dst := c.filled(500, 0), s.mem(500, remoteRW)
	var ids []uint64
	for range 6 {
		ids = append(ids, s.postRecv())
	}
	w := writeImm(src, dst, 1)
	w.ID, w.Flags = t.nextID(), verbs.Signaled
	list := []verbs.SendWR{w}
	for i := range uint32(5) {
		x := verbs.SendWR{ID: t.nextID(), Op: verbs.OpSendWithImm, Flags: verbs.Signaled, Imm: 10 + i}
		if i%2 == 1 {
			x = writeImm(src, dst, 10+i)
			x.ID, x.Flags = t.nextID(), verbs.Signaled
		}
		list = append(list, x)
	}
	c.post(list...)
	s.wantWriteImm(ids[0], 500, 1)
	for i := range uint32(5) {
		wc := s.wantRecv(ids[1+i], verbs.Success)
		require.Equal(t, 10+i, wc.Imm, "order of immediate data")
	}
	for _, wr := range list {
		c.wantSend(wr, verbs.Success)
	}
}
