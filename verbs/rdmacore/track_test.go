package rdmacore

import (
	"testing"

	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

func ok(num uint64) verbs.WC { return verbs.WC{ID: num, QPN: 7} }

func ids(wcs []verbs.WC) (out []uint64) {
	for _, w := range wcs {
		out = append(out, w.ID)
	}
	return out
}

// A SEND that completes before an earlier READ waits for it; what is not signaled shows nowhere.
func TestTrackOrder(t *testing.T) {
	var k track
	read := k.postSend(10, verbs.OpRDMARead, true)
	write := k.postSend(11, verbs.OpRDMAWrite, false)
	quiet := k.postSend(12, verbs.OpRDMARead, false)
	send := k.postSend(13, verbs.OpSend, true)
	out := k.complete(ok(send), nil)
	require.Empty(t, out, "two READs are outstanding")
	out = k.complete(ok(read), out)
	require.Equal(t, []uint64{10}, ids(out))
	out = k.complete(ok(quiet), out)
	require.Equal(t, []uint64{10, 13}, ids(out))
	out = k.complete(ok(write), out)
	require.Len(t, out, 2, "a completion of what is gone")
}

func TestTrackFlush(t *testing.T) {
	var k track
	a := k.postSend(1, verbs.OpSend, true)
	k.postSend(2, verbs.OpRDMARead, false)
	c := k.postSend(3, verbs.OpSend, true)
	out := k.complete(ok(a), nil)
	out = k.complete(ok(c), out)
	require.Equal(t, []uint64{1}, ids(out))
	out = k.flushSends(7, out)
	require.Equal(t, []uint64{1, 2, 3}, ids(out))
	require.Equal(t, verbs.WRFlushErr, out[1].Status)
	require.Equal(t, verbs.WRFlushErr, out[2].Status, "nothing succeeds behind a failure")
	require.EqualValues(t, 7, out[1].QPN)
	require.Empty(t, k.complete(verbs.WC{ID: c, Status: verbs.WRFlushErr}, nil), "late")
	require.Empty(t, k.flushSends(7, nil), "flushed once")
}

func TestTrackFailureIsKept(t *testing.T) {
	var k track
	k.postSend(1, verbs.OpRDMARead, true)
	b := k.postSend(2, verbs.OpRDMAWrite, false)
	out := k.complete(verbs.WC{ID: b, Status: verbs.LocProtErr}, nil)
	require.Empty(t, out, "the READ before it is not done")
	out = k.flushSends(7, out)
	require.Equal(t, []verbs.Status{verbs.WRFlushErr, verbs.LocProtErr}, []verbs.Status{out[0].Status, out[1].Status})
}

func TestTrackRecvs(t *testing.T) {
	var k track
	a, b := k.postRecv(5), k.postRecv(6)
	k.postRecv(7)
	require.NotZero(t, a&recvBit)
	out := k.complete(ok(a), nil)
	out = k.complete(ok(b), out)
	out = k.complete(ok(b), out)
	k.postRecv(8)
	k.unpostRecvs(1)
	out = k.flushRecvs(7, out)
	require.Equal(t, []uint64{5, 6, 7}, ids(out))
	require.Equal(t, verbs.WRFlushErr, out[2].Status)
}

// Numbers go on over many rounds, with little kept.
func TestTrackKeepsLittle(t *testing.T) {
	var k track
	k.postSend(0, verbs.OpSend, true)
	var out []verbs.WC
	for i := range uint64(100000) {
		k.postSend(i+1, verbs.OpSend, true)
		out = k.complete(ok(i), out[:0])
		require.Equal(t, []uint64{i}, ids(out))
	}
	require.Less(t, cap(k.sends), 8192)
	n := k.postSend(1, verbs.OpSend, true)
	k.unpostSends(1)
	require.Equal(t, n, k.postSend(2, verbs.OpSend, true), "the number of what was not taken is used again")
}

func TestTrackNoSuccessBehindFailure(t *testing.T) {
	var k track
	a, b := k.postRecv(1), k.postRecv(2)
	out := k.complete(verbs.WC{ID: a, Status: verbs.WRFlushErr, QPN: 7}, nil)
	out = k.complete(ok(b), out)
	require.Equal(t, []verbs.WC{{ID: 1, Status: verbs.WRFlushErr, QPN: 7}, {ID: 2, Status: verbs.WRFlushErr, QPN: 7}}, out)
	s, u := k.postSend(3, verbs.OpSend, true), k.postSend(4, verbs.OpSend, false)
	out = k.complete(verbs.WC{ID: s, Status: verbs.RemOpErr, QPN: 7}, out[:0])
	out = k.complete(ok(u), out)
	require.Equal(t, []uint64{3, 4}, ids(out))
	require.Equal(t, verbs.WRFlushErr, out[1].Status, "unsignaled work is flushed with a completion")
}
