package wire

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/xprt/svcrdma/rawpeer"
	"example.org/nfsrdma/verbs"
)

// replay sends the calls of a session once more, to a new server, with the chunks that Linux's client offers: a
// region for each segment. Calls that Linux's captures lack keep their own.
func replay(t *testing.T, r *rig, calls []*exchange, linux table) {
	t.Helper()
	layout := map[*exchange]description{}
	for i := range cases {
		x, err := cases[i].pick(calls)
		require.NoError(t, err)
		layout[x] = linux.get(cases[i].name)
	}
	p, err := rawpeer.Dial(bg, rawpeer.Config{
		Device: r.cdev, Sched: r.s, Addr: addr, IRD: 128, ORD: -1,
		PrivateData: rpcrdma.AppendPrivateData(nil, rpcrdma.PrivateData{RemoteInvalidate: true, SendSize: 4096, RecvSize: 4096}),
	})
	require.NoError(t, err)
	for _, x := range calls {
		o := offerer{p: p}
		require.NoError(t, p.Send(bg, o.offer(t, x, layout[x])))
		_, err := p.Recv(bg)
		require.NoError(t, err, x.formatArgs())
		o.close(t)
	}
	p.Close()
}

// offerer registers what a call offers.
type offerer struct {
	p    *rawpeer.Peer
	mrs  []verbs.FastRegMR
	maps []*verbs.DMAMap
}

// region registers n bytes as Linux does, so that the server may invalidate the key.
func (o *offerer) region(t *testing.T, n int, access verbs.Access) rpcrdma.Segment {
	t.Helper()
	mem := bytes.Repeat([]byte{'t'}, n) // of a symbolic link too
	m := &verbs.DMAMap{}
	require.NoError(t, o.p.PD().MapDMA(m, mem))
	o.maps = append(o.maps, m)
	mr, err := o.p.PD().AllocFastRegMR(len(m.Segs))
	require.NoError(t, err)
	o.mrs = append(o.mrs, mr)
	require.Equal(t, len(m.Segs), mr.MapPages(m.Segs))
	key := mr.NextKey()
	_, err = o.p.QP().PostSend([]verbs.SendWR{{Op: verbs.OpRegMR, Reg: mr, Key: key, Access: access}})
	require.NoError(t, err)
	return rpcrdma.Segment{Handle: key, Length: uint32(n), Offset: mr.Addr()}
}

func (o *offerer) close(t *testing.T) {
	t.Helper()
	for i := range o.mrs {
		require.NoError(t, o.mrs[i].Close())
		o.p.PD().UnmapDMA(o.maps[i])
	}
}

// offer is the call of x with the chunks of its Linux counterpart, or if that is nil with its own.
func (o *offerer) offer(t *testing.T, x *exchange, linux description) []byte {
	t.Helper()
	own := x.call.h
	h := rpcrdma.Header{XID: own.XID, Vers: own.Vers, Credits: own.Credits, Proc: own.Proc}
	lens := func(list string, own []rpcrdma.Segment) (out []int) {
		if linux == nil {
			for _, s := range own {
				out = append(out, int(s.Length))
			}
			return out
		}
		if v, ok := linux.get("call." + list + ".segments"); ok {
			for _, s := range strings.Split(v, "+") {
				n, err := strconv.Atoi(s)
				require.NoError(t, err)
				out = append(out, n)
			}
		}
		return out
	}
	var reads, writes []rpcrdma.Segment
	for _, s := range own.Reads {
		reads = append(reads, s.Segment)
	}
	if own.Writes.Len() > 0 {
		writes = own.Writes.Chunk(0)
	}
	for _, n := range lens("reads", reads) {
		h.Reads = append(h.Reads, rpcrdma.ReadSegment{Position: uint32(len(x.call.msg)), Segment: o.region(t, n, verbs.RemoteRead)})
	}
	const sink = verbs.LocalWrite | verbs.RemoteWrite
	for i, n := range lens("writes", writes) {
		if i == 0 {
			h.Writes.Add(nil)
		}
		h.Writes.AddSegment(o.region(t, n, sink))
	}
	for _, n := range lens("reply", own.Reply) {
		h.HasReply = true
		h.Reply = append(h.Reply, o.region(t, n, sink))
	}
	if linux != nil {
		v, _ := linux.get("call.message")
		require.Equal(t, v == "inline, reduced", len(own.Reads) > 0, "%s: another part is inline", x.formatArgs())
	}
	return append(rpcrdma.AppendHeader(nil, &h), x.call.msg...)
}
