package chunkfuzz

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/rpcrdma"
)

func TestDeadly(t *testing.T) {
	h := Header{}
	h.Reset()
	h.XID, h.Proc = 1, rpcrdma.RDMA_NOMSG
	msg := func() []byte { return rpcrdma.AppendHeader(nil, &h) }
	assert.False(t, Deadly(msg()))
	h.Reads = []ReadSegment{{Segment: Segment{Length: 4}}, {Position: 8, Segment: Segment{Length: 1}}}
	assert.False(t, Deadly(msg()))
	h.Reads[1].Length = 0
	assert.True(t, Deadly(msg()))
	assert.False(t, Deadly(msg()[:60]), "the segment is not all there")
	h.Vers = 2
	assert.False(t, Deadly(msg()), "another version is not read")
	h.Vers, h.Proc = 1, rpcrdma.RDMA_DONE
	assert.False(t, Deadly(msg()), "dropped before its lists are read")
}

// TestCareful wants such messages not to be sent, and only if that was asked for.
func TestCareful(t *testing.T) {
	r, err := NewRig(RigConfig{})
	require.NoError(t, err)
	for _, careful := range []bool{false, true} {
		r.Session.Careful = careful
		rep, err := Campaign(context.Background(), r.Session.Try, Options{Calls: 3000})
		require.NoError(t, err)
		assert.Empty(t, rep.Failures)
		assert.Equal(t, careful, rep.Kinds[NotSent] > 0)
	}
	require.NoError(t, r.Close())
}

// TestKnown plays a server with a fault, and wants it counted by its name once it is known, and once if it is not.
func TestKnown(t *testing.T) {
	r, err := NewRig(RigConfig{})
	require.NoError(t, err)
	faulty := func(ctx context.Context, in []byte) (*Result, error) {
		res, err := r.Session.Try(ctx, in)
		if res.Want.Why == "the program is another (RFC 5531)" {
			res.Got = Verdict{Kind: Disconnect, Why: "a text with numbers 17"}
		}
		return res, err
	}
	rep, err := Campaign(context.Background(), faulty, Options{Calls: 4000})
	require.NoError(t, err)
	require.Len(t, rep.Failures, 1, "all are alike: %v", rep.Err())
	f := rep.Failures[0]
	assert.Equal(t, "disconnect, not reply PROG_UNAVAIL, since the program is another (RFC 5531)", f.As)
	assert.Greater(t, f.Times, 1)
	assert.ErrorContains(t, rep.Err(), f.As)

	list := []Known{{Name: "hangs up", is: func(r *Result, _ *traits) bool { return r.Got.Kind == Disconnect && r.Want.RPC == ProgUnavail }}}
	rep, err = Campaign(context.Background(), faulty, Options{Calls: 4000, Known: list})
	require.NoError(t, err)
	assert.Empty(t, rep.Failures)
	assert.Equal(t, f.Times, rep.Known["hangs up"])
	assert.Contains(t, rep.String(), "times: hangs up")
	require.NoError(t, r.Close())
}

// TestTraits wants each trait to be seen in a message that has it.
func TestTraits(t *testing.T) {
	h := Header{}
	h.Reset()
	h.Proc = rpcrdma.RDMA_NOMSG
	h.Reads = []ReadSegment{{Segment: Segment{Length: 4}}, {Position: 8, Segment: Segment{Length: 1}}}
	h.Writes.Add(nil)
	h.Writes.Add([]Segment{{Length: 1<<32 - 1}, {Length: 1}})
	h.HasReply, h.Reply = true, []Segment{{Length: 0}}
	want := traits{emptyChunk: true, emptySeg: true, write: true, reply: true, long: true, read: true, inHeader: true, wraps: true, nomsg: true, proc: 1}
	b := rpcrdma.AppendHeader(nil, &h)
	assert.Equal(t, want, traitsOf(b))
	b[16+3] = 2 // of the first Read segment
	want.flag = true
	assert.Equal(t, want, traitsOf(b))
	for n := range b {
		traitsOf(b[:n])
	}
	for _, k := range Linux61 {
		assert.NotEmpty(t, k.Name)
		assert.Regexp(t, `^RFC \d+ `, k.Why)
	}
}
