package verbstest

import (
	"bytes"
	"encoding/binary"

	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

var orderChecks = []Check{
	{Name: "order/write-then-send", Run: orderWriteSend},
	{Name: "order/writes-to-one-place", Run: orderWrites},
	{Name: "order/read-after-write", Run: orderReadAfterWrite},
	{Name: "order/completions", Run: orderCompletions},
	{Name: "order/fence-after-read", Run: orderFence},
	{Name: "order/fenced-write-after-read", Run: orderFencedWrite},
	{Name: "order/receives", Run: orderReceives},
}

// orderWriteSend: when the receive of a SEND completes, the WRITEs before it are in memory.
func orderWriteSend(t *T) {
	c, s := t.connect(opts{}, opts{})
	n := 3*c.attr.ActiveMTU + 5
	src, dst := c.mem(n, 0), s.mem(n, remoteRW)
	for i := range 50 {
		src.fill(uint64(i))
		id := s.postRecv()
		send := verbs.SendWR{ID: t.nextID(), Op: verbs.OpSend, Flags: verbs.Signaled}
		c.post(writeTo(src, dst), send)
		s.wantMessage(id, 0)
		dst.wantBytes(src.bytes(), "WRITE before the message")
		c.wantSend(send, verbs.Success)
	}
}

func orderWrites(t *T) {
	c, s := t.connect(opts{}, opts{})
	n := 2*c.attr.ActiveMTU + 5
	dst := s.mem(n, remoteRW)
	var list []verbs.SendWR
	var last *mem
	for range 20 {
		last = c.filled(n, 0)
		list = append(list, writeTo(last, dst))
	}
	end := &list[len(list)-1]
	end.ID, end.Flags = t.nextID(), verbs.Signaled
	c.post(list...)
	c.wantSend(*end, verbs.Success)
	dst.wantBytes(last.bytes(), "place of many WRITEs")
}

func orderReadAfterWrite(t *T) {
	c, s := t.connect(opts{}, opts{})
	n := 3*c.attr.ActiveMTU + 5
	dst, sink := s.mem(n, remoteRW), c.mem(n, c.sinkAccess())
	for range 10 {
		src := c.filled(n, 0)
		read := readFrom(sink, dst)
		read.ID, read.Flags = t.nextID(), verbs.Signaled
		c.post(writeTo(src, dst), read)
		c.wantSend(read, verbs.Success)
		sink.wantBytes(src.bytes(), "READ behind a WRITE")
	}
}

// orderCompletions mixes operations of very different length. READs and WRITEs have
// memory of their own, as their order is not certain without fences.
func orderCompletions(t *T) {
	c, s := t.connect(opts{}, opts{})
	big, far := c.filled(100000, 0), s.filled(100000, remoteRW)
	sink, src := c.mem(100000, c.sinkAccess()), s.filled(100000, verbs.RemoteRead)
	var ids []uint64
	var list []verbs.SendWR
	for i := range 48 {
		var wr verbs.SendWR
		switch i % 4 {
		case 0:
			wr = readFrom(sink, src)
		case 1:
			wr = verbs.SendWR{Op: verbs.OpSend}
			ids = append(ids, s.postRecv())
		case 2:
			wr = verbs.SendWR{Op: verbs.OpRDMAWrite}
		case 3:
			wr = writeTo(big, far)
		}
		wr.ID, wr.Flags = t.nextID(), verbs.Signaled
		list = append(list, wr)
	}
	c.post(list...)
	for _, wr := range list {
		c.wantSend(wr, verbs.Success)
	}
	for _, id := range ids {
		s.wantMessage(id, 0)
	}
	sink.wantBytes(src.bytes(), "READs")
	far.wantBytes(big.bytes(), "WRITEs")
}

// orderFence sends what a READ before it brings: without the fence the message may hold the old bytes.
func orderFence(t *T) {
	c, s := t.connect(opts{}, opts{})
	n := 3*c.attr.ActiveMTU + 5
	src, sink, dst := s.mem(n, verbs.RemoteRead), c.mem(n, c.sinkAccess()), s.mem(n, verbs.LocalWrite)
	for i := range 10 {
		src.fill(uint64(i))
		id := s.postRecv(dst.sge())
		read, send := readFrom(sink, src), sendOf(sink)
		read.ID, read.Flags = t.nextID(), verbs.Signaled
		send.ID, send.Flags = t.nextID(), verbs.Signaled|verbs.Fence
		c.post(read, send)
		c.wantSend(read, verbs.Success)
		c.wantSend(send, verbs.Success)
		s.wantMessage(id, n)
		dst.wantBytes(src.bytes(), "fenced SEND of what was read")
	}
}

// orderFencedWrite overwrites what a READ before it takes.
func orderFencedWrite(t *T) {
	c, s := t.connect(opts{}, opts{})
	n := 20 * c.attr.ActiveMTU
	far, sink := s.mem(n, remoteRW), c.mem(n, c.sinkAccess())
	for i := range 10 {
		far.fill(uint64(i))
		old := far.copy()
		next := c.filled(n, 0)
		read, write := readFrom(sink, far), writeTo(next, far)
		read.ID, read.Flags = t.nextID(), verbs.Signaled
		write.ID, write.Flags = t.nextID(), verbs.Signaled|verbs.Fence
		c.post(read, write)
		c.wantSend(read, verbs.Success)
		c.wantSend(write, verbs.Success)
		sink.wantBytes(old, "READ before a fenced WRITE")
		far.wantBytes(next.bytes(), "fenced WRITE")
	}
}

// orderReceives: messages take receives in the order in which they were posted, also by lists.
func orderReceives(t *T) {
	c, s := t.connect(opts{}, opts{})
	const n = 60
	dst, src := s.mem(n*8, verbs.LocalWrite), c.mem(n*8, 0)
	var wrs []verbs.RecvWR
	for i := range n {
		wrs = append(wrs, verbs.RecvWR{ID: 1000 + uint64(i), SGEs: []verbs.SGE{dst.at(i*8, 8)}})
		binary.BigEndian.PutUint64(src.bytes()[i*8:], uint64(i))
	}
	for _, part := range [][]verbs.RecvWR{wrs[:1], wrs[1:20], wrs[20:]} {
		k, err := s.qp.PostRecv(part)
		t.must(err, "PostRecv")
		require.Equal(t, len(part), k)
	}
	var list []verbs.SendWR
	for i := range n {
		wr := verbs.SendWR{Op: verbs.OpSend, SGEs: []verbs.SGE{src.at(i*8, 8)}}
		wr.ID, wr.Flags = t.nextID(), verbs.Signaled
		list = append(list, wr)
	}
	c.post(list...)
	for i := range n {
		s.wantMessage(1000+uint64(i), 8)
		c.wantSend(list[i], verbs.Success)
	}
	require.True(t, bytes.Equal(src.bytes(), dst.bytes()), "messages in other receives than theirs")
}
