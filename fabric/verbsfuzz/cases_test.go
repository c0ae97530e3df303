package verbsfuzz

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
)

const allRights = verbs.LocalWrite | verbs.RemoteRead | verbs.RemoteWrite

func all(n uint32) []Piece { return []Piece{{Buf: bufAll, Len: n}} }

func read(buf int, off int64, n uint32) Step {
	return Step{Op: verbs.OpRDMARead, Flags: verbs.Signaled, Local: all(n), Buf: buf, Off: off}
}

func write(buf int, off int64, n uint32) Step {
	s := read(buf, off, n)
	s.Op = verbs.OpRDMAWrite
	return s
}

func by(b int, s Step) Step { s.By = b; return s }
func former(s Step) Step    { s.Old = true; return s }
func recv(ps ...Piece) Step { return Step{By: 1, Op: verbs.OpRecv, Local: ps} }
func register(b int) Step {
	return Step{By: b, Settle: true, Op: verbs.OpRegMR, Flags: verbs.Signaled, Access: allRights}
}
func invalidate(buf int) Step {
	return Step{Op: verbs.OpLocalInv, Flags: verbs.Signaled, Buf: buf, Settle: true}
}
func sendInv(n uint32, buf int) Step {
	return Step{Op: verbs.OpSendWithInv, Flags: verbs.Signaled, Local: all(n), Buf: buf}
}
func send(n uint32) Step { return Step{Op: verbs.OpSend, Flags: verbs.Signaled, Local: all(n)} }
func bind(b int) Step {
	return Step{By: b, Settle: true, Op: verbs.OpBindMW, Flags: verbs.Signaled, Buf: bufWindow, Off: windowAt, Len: windowLen,
		Access: verbs.RemoteRead | verbs.RemoteWrite}
}

// cases are programs of the kinds that broke stacks in the field, and how their send work requests end.
var cases = []struct {
	name  string
	p     Program
	ended map[verbs.Status]int
}{
	{"a region is read after its owner invalidated it", Program{ORD: 16, IRD: 16, Steps: []Step{
		register(1), read(bufFast, 0, 3000), by(1, invalidate(bufFast)), read(bufFast, 0, 3000)}},
		map[verbs.Status]int{verbs.Success: 3, verbs.RemAccessErr: 1}},
	{"a region is read by the key that it had before", Program{ORD: 16, IRD: 16, Steps: []Step{
		register(1), by(1, invalidate(bufFast)), register(1), read(bufFast, 0, 8), former(read(bufFast, 0, 8))}},
		map[verbs.Status]int{verbs.Success: 4, verbs.RemAccessErr: 1}},
	{"a region is used after the peer invalidated it", Program{ORD: 16, IRD: 16, Steps: []Step{
		register(1), recv(all(100)...), sendInv(100, bufFast), write(bufFast, 0, 1)}},
		map[verbs.Status]int{verbs.Success: 2, verbs.RemAccessErr: 1}},
	{"the peer invalidates a key twice", Program{ORD: 16, IRD: 16, Steps: []Step{
		register(1), recv(all(100)...), recv(all(100)...), sendInv(100, bufFast), sendInv(100, bufFast)}}, nil},
	{"an owner invalidates a key twice", Program{ORD: 16, IRD: 16, Steps: []Step{
		register(0), invalidate(bufFast), invalidate(bufFast), send(8)}}, nil},
	{"a region is registered twice", Program{ORD: 16, IRD: 16, Steps: []Step{register(0), register(0)}}, nil},
	{"more READs than the responder was said to have", Program{ORD: 16, IRD: 1, Steps: []Step{
		read(bufAll, 0, 3000), read(bufAll, 0, 3000), read(bufAll, 0, 3000), read(bufAll, 0, 3000)}}, nil},
	{"more READs than may be outstanding wait", Program{ORD: 1, IRD: 1, Steps: []Step{
		read(bufAll, 0, 3000), read(bufRead, 0, 3000), read(bufAll, 0, 3000), read(bufRead, 0, 3000)}},
		map[verbs.Status]int{verbs.Success: 4}},
	{"a SEND before there is a receive", Program{ORD: 16, IRD: 16, RNRRetry: 1, Steps: []Step{send(100), send(100)}},
		map[verbs.Status]int{verbs.RNRRetryExcErr: 1, verbs.WRFlushErr: 1}},
	{"a SEND that is longer than its receive", Program{ORD: 16, IRD: 16, Steps: []Step{recv(all(2999)...), send(3000)}},
		map[verbs.Status]int{verbs.RemInvReqErr: 1}},
	{"a receive into memory of another domain", Program{ORD: 16, IRD: 16, Steps: []Step{recv(Piece{Buf: bufOther, Len: 100}), send(100)}},
		map[verbs.Status]int{verbs.RemOpErr: 1}},
	{"the last byte of a region", Program{ORD: 16, IRD: 16, Steps: []Step{write(bufAll, size-1, 1), write(bufAll, size, 1)}},
		map[verbs.Status]int{verbs.Success: 1, verbs.RemAccessErr: 1}},
	{"one byte past a window", Program{ORD: 16, IRD: 16, Steps: []Step{bind(1), write(bufWindow, 0, windowLen), write(bufWindow, 1, windowLen)}},
		map[verbs.Status]int{verbs.Success: 2, verbs.RemAccessErr: 1}},
	{"one byte before a window", Program{ORD: 16, IRD: 16, Steps: []Step{bind(1), read(bufWindow, -1, 8)}},
		map[verbs.Status]int{verbs.Success: 1, verbs.RemAccessErr: 1}},
	{"an offset that wraps", Program{ORD: 16, IRD: 16, Steps: []Step{read(bufAll, -1<<63, 8)}}, map[verbs.Status]int{verbs.RemAccessErr: 1}},
	{"no bytes, of a key that there never was", Program{ORD: 16, IRD: 16, Steps: []Step{write(bufNo, 0, 0), read(bufNo, 0, 0), read(bufGone, 5, 0)}},
		map[verbs.Status]int{verbs.Success: 3}},
	{"a read sink without the right to write", Program{ORD: 16, IRD: 16, Steps: []Step{
		{Op: verbs.OpRDMARead, Local: []Piece{{Buf: bufNone, Len: 8}}, Buf: bufAll}, write(bufAll, 0, 8)}},
		map[verbs.Status]int{verbs.LocProtErr: 1, verbs.WRFlushErr: 1}},
	{"4 GiB of a small region", Program{ORD: 16, IRD: 16, Steps: []Step{
		{Op: verbs.OpRDMAWrite, Local: []Piece{{Buf: bufAll, Len: 1<<32 - 1}}, Buf: bufAll}}}, nil},
	{"the peer of a queue pair in error", Program{ORD: 16, IRD: 16, Steps: []Step{
		write(bufGone, 0, 1), {By: 1, Op: verbs.OpSend, Flags: verbs.Signaled, Local: all(8)}}},
		map[verbs.Status]int{verbs.RemAccessErr: 1, verbs.WRFlushErr: 1}},
}

func TestCases(t *testing.T) {
	r := newRig(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			before := r.m.seen
			require.NoError(t, r.Run(context.Background(), &c.p))
			if c.ended == nil { // the device may choose
				return
			}
			got := map[verbs.Status]int{}
			for st, n := range r.m.seen {
				if n -= before[st]; n > 0 {
					got[verbs.Status(st)] = n
				}
			}
			assert.Equal(t, c.ended, got)
		})
	}
}

// TestPlantedBugsAreFound: each is found soon, and the program that shows it is right without the bug.
func TestPlantedBugsAreFound(t *testing.T) {
	for _, bug := range softroce.KeyBugs() {
		t.Run(bug.String(), func(t *testing.T) {
			softroce.PlantBug(bug)
			defer softroce.PlantBug(0)
			r := newRig(t)
			rep, err := Campaign(context.Background(), r, Options{Programs: 20_000})
			require.NoError(t, err)
			require.Error(t, rep.Err(), "%d programs", rep.Programs)
			t.Log(rep.Err())
			assert.LessOrEqual(t, len(rep.Failure.Program.Steps), 3)
			softroce.PlantBug(0)
			for _, p := range []*Program{Decode(rep.Failure.Input), rep.Failure.Program} {
				assert.NoError(t, newRig(t).Run(context.Background(), p))
			}
		})
	}
}

func TestUnfitDevice(t *testing.T) {
	_, err := NewRig(1, softroce.MT25208)
	assert.ErrorIs(t, err, verbs.ErrUnsupported)
}
