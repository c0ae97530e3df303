package verbstest

import (
	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

var staleChecks = []Check{
	{Name: "stale/rkey-after-close-write", Run: func(t *T) { staleRKey(t, verbs.OpRDMAWrite) }},
	{Name: "stale/rkey-after-close-read", Run: func(t *T) { staleRKey(t, verbs.OpRDMARead) }},
	{Name: "stale/lkey-after-close", Run: staleLKey},
	{Name: "stale/read-sink-after-close", Run: staleSink},
	{Name: "stale/recv-buffer-after-close", Needs: []Need{needAcked}, Run: staleRecv},
	{Name: "stale/old-key-after-registering-again", Run: staleAgain},
	{Name: "stale/guessed-keys", Run: staleGuess},
	{Name: "stale/key-zero", Run: staleZero},
	{Name: "stale/close-twice", Run: staleCloseTwice},
}

const remoteRW = verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead

func staleRKey(t *T, op verbs.Opcode) {
	c, s := t.connect(opts{}, opts{})
	m := s.filled(100, remoteRW)
	src := c.filled(100, c.sinkAccess())
	c.do(writeTo(src, m))
	key, addr := m.mr.RKey(), m.addr()
	buf := m.bytes()
	t.close(m.mr)
	t.wantAccessDenied(c, s, op, key, addr, 100, buf)
}

func staleLKey(t *T) {
	c, s := t.connect(opts{}, opts{})
	dst := s.mem(100, remoteRW)
	src := c.filled(100, 0)
	wr := writeTo(src, dst)
	t.close(src.mr)
	t.wantLocalErr(c, wr, verbs.LocProtErr)
	dst.wantBytes(make([]byte, 100), "target of a WRITE from a closed region")
}

func staleSink(t *T) {
	c, s := t.connect(opts{}, opts{})
	src := s.filled(100, verbs.RemoteRead)
	sink := c.mem(100, c.sinkAccess())
	wr := readFrom(sink, src)
	buf := sink.bytes()
	t.close(sink.mr)
	t.wantLocalErr(c, wr, verbs.LocProtErr)
	wantSame(t, make([]byte, 100), buf, "closed sink")
}

func staleRecv(t *T) {
	c, s := t.connect(opts{}, opts{})
	m := s.mem(100, verbs.LocalWrite)
	buf := m.bytes()
	id := s.postRecv(m.sge())
	t.close(m.mr)
	wr := c.signaled(sendOf(c.filled(100, 0)))
	c.wantSend(wr, verbs.RemOpErr)
	s.wantRecv(id, verbs.LocProtErr)
	wantSame(t, make([]byte, 100), buf, "closed receive buffer")
}

// staleAgain registers the same memory many times; no key of before may come back to life.
func staleAgain(t *T) {
	c, s := t.connect(opts{}, opts{})
	m := s.filled(100, remoteRW)
	first, addr := m.mr.RKey(), m.addr()
	buf := m.bytes()
	t.close(m.mr)
	var mr verbs.MR
	for range 8 {
		if mr != nil {
			t.close(mr)
		}
		var err error
		mr, err = s.pd.RegMR(buf, remoteRW)
		t.must(err, "RegMR")
		t.own(mr)
		require.NotEqual(t, first, mr.RKey(), "the key of a closed region is in use again")
	}
	src := c.filled(100, 0)
	c.do(verbs.SendWR{Op: verbs.OpRDMAWrite, SGEs: []verbs.SGE{src.sge()}, RemoteAddr: mr.Addr(), RKey: mr.RKey()})
	wantSame(t, src.bytes(), buf, "WRITE by the new key")
	t.wantAccessDenied(c, s, verbs.OpRDMAWrite, first, addr, 100, buf)
}

// staleGuess tries keys around a good one: another tag, another index.
func staleGuess(t *T) {
	cpd, spd := t.newPD(t.Client), t.newPD(t.Server)
	m := t.newMem(spd, 100, remoteRW)
	m.fill(1)
	for _, x := range []uint32{0x01, 0x80, 0xff, 0x100, 0x10000, 0x80000000} {
		c, s := t.connectIn(cpd, spd)
		t.wantAccessDenied(c, s, verbs.OpRDMARead, m.mr.RKey()^x, m.addr(), 100, m.bytes())
	}
}

func staleZero(t *T) {
	c, s := t.connect(opts{}, opts{})
	m := s.filled(100, remoteRW)
	require.NotZero(t, m.mr.RKey())
	t.wantAccessDenied(c, s, verbs.OpRDMAWrite, 0, m.addr(), 100, m.bytes())
}

func staleCloseTwice(t *T) {
	m := t.newMem(t.newPD(t.Client), 100, 0)
	t.close(m.mr)
	before := t.Client.Resources()
	_ = m.mr.Close() // an error or nothing
	require.Equal(t, before, t.Client.Resources(), "resources after closing a region again")
}
