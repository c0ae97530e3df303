package verbstest

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

// post posts all wrs, as they are.
func (s *side) post(wrs ...verbs.SendWR) {
	s.t.Helper()
	n, err := s.qp.PostSend(wrs)
	if errors.Is(err, verbs.ErrUnsupported) && s.attr.Transport == verbs.IWARP && slices.ContainsFunc(wrs, hasImm) {
		s.t.Skipf("the check needs immediate data, which iWARP has by RFC 7306 only: %v", err)
	}
	s.t.must(err, "%s: PostSend of %v, %d of %d taken", s.name, wrs[min(max(n, 0), len(wrs)-1)].Op, n, len(wrs))
	require.Equal(s.t, len(wrs), n)
}

func hasImm(wr verbs.SendWR) bool {
	return wr.Op == verbs.OpSendWithImm || wr.Op == verbs.OpRDMAWriteWithImm
}

// postRecv posts a receive and returns its ID.
func (s *side) postRecv(sges ...verbs.SGE) uint64 {
	s.t.Helper()
	id := s.t.nextID()
	n, err := s.qp.PostRecv([]verbs.RecvWR{{ID: id, SGEs: sges}})
	s.t.must(err, "%s: PostRecv", s.name)
	require.Equal(s.t, 1, n)
	return id
}

// signaled posts wr with a new ID, signaled, and returns it as posted.
func (s *side) signaled(wr verbs.SendWR) verbs.SendWR {
	s.t.Helper()
	wr.ID = s.t.nextID()
	wr.Flags |= verbs.Signaled
	s.post(wr)
	return wr
}

// do posts wr and waits for its success.
func (s *side) do(wr verbs.SendWR) verbs.WC {
	s.t.Helper()
	return s.wantSend(s.signaled(wr), verbs.Success)
}

// next waits for the next completion of cq, which has no handler.
func (s *side) next(cq verbs.CQ) verbs.WC {
	s.t.Helper()
	wc, err := s.t.await(cq)
	if err != nil {
		s.t.fatalf("%s: no completion: %v", s.name, err)
	}
	return wc
}

// await may be called from a task.
func (t *T) await(cq verbs.CQ) (verbs.WC, error) {
	ctx, cancel := t.within(patience)
	defer cancel()
	return awaitCtx(ctx, cq)
}

func awaitCtx(ctx context.Context, cq verbs.CQ) (verbs.WC, error) {
	var wc [1]verbs.WC
	for {
		n, err := cq.Poll(wc[:])
		if err != nil {
			return wc[0], verb("Poll", err)
		}
		if n == 1 {
			return wc[0], nil
		}
		if cq.Arm(false) {
			continue
		}
		if err := cq.Wait(ctx); err != nil {
			return wc[0], verb("Wait", err)
		}
	}
}

// wantSend waits for the completion of wr.
func (s *side) wantSend(wr verbs.SendWR, st verbs.Status) verbs.WC {
	s.t.Helper()
	wc := s.next(s.scq)
	s.checkSend(wc, wr, st)
	return wc
}

func (s *side) checkSend(wc verbs.WC, wr verbs.SendWR, st verbs.Status) {
	s.t.Helper()
	if wc.ID != wr.ID || !s.t.sameStatus(wc.Status, st) {
		s.t.fatalf("%s: the completion is %d %v, not %d %v of the %v", s.name, wc.ID, wc.Status, wr.ID, st, wr.Op)
	}
	require.Equal(s.t, s.qp.Num(), wc.QPN, "%s: the queue pair of the completion", s.name)
	if st == verbs.Success && wc.Op != plainOp(wr.Op) {
		require.Equal(s.t, wr.Op, wc.Op, "%s: opcode of the completion", s.name)
	}
}

// plainOp is the opcode that a completion may have: libibverbs gives no other than SEND and RDMA_WRITE.
func plainOp(op verbs.Opcode) verbs.Opcode {
	switch op {
	case verbs.OpSendWithImm, verbs.OpSendWithInv:
		return verbs.OpSend
	case verbs.OpRDMAWriteWithImm:
		return verbs.OpRDMAWrite
	}
	return op
}

// sameStatus says whether got is the status want, or what Env.Statuses has for it.
func (t *T) sameStatus(got, want verbs.Status) bool {
	other, ok := t.Statuses[want]
	return got == want || ok && got == other
}

// wantRecv waits for the completion of receive id.
func (s *side) wantRecv(id uint64, st verbs.Status) verbs.WC {
	s.t.Helper()
	wc := s.next(s.rcq)
	if wc.ID != id || !s.t.sameStatus(wc.Status, st) {
		s.t.fatalf("%s: the completion is %d %v, not %d %v of the receive", s.name, wc.ID, wc.Status, id, st)
	}
	require.Equal(s.t, s.qp.Num(), wc.QPN, "%s: the queue pair of the completion", s.name)
	return wc
}

// wantMessage waits for a plain message of n bytes in receive id.
func (s *side) wantMessage(id uint64, n int) verbs.WC {
	s.t.Helper()
	wc := s.wantRecv(id, verbs.Success)
	require.Equal(s.t, verbs.OpRecv, wc.Op, "%s: opcode of the receive", s.name)
	require.EqualValues(s.t, n, wc.ByteLen, "%s: length of the message", s.name)
	return wc
}

// wantEmpty says that cq has nothing.
func (s *side) wantEmpty(cq verbs.CQ, why string) {
	s.t.Helper()
	var wc [1]verbs.WC
	n, err := cq.Poll(wc[:])
	s.t.must(err, "%s: Poll", s.name)
	if n != 0 {
		s.t.fatalf("%s: a completion %d %v %v is there, although %s", s.name, wc[0].ID, wc[0].Op, wc[0].Status, why)
	}
}

// remote is the status that the requester sees of an error at the responder.
// iWARP has no answer to a SEND or WRITE: it completes when it is sent, and then
// the connection ends; a READ ends in some error.
func (t *T) remote(op verbs.Opcode, want, got verbs.Status) verbs.Status {
	if t.Client.Attr().Transport != verbs.IWARP {
		return want
	}
	if op == verbs.OpRDMARead && got == verbs.Success {
		return want
	}
	return got
}

// wantRemoteErr posts wr, which s refuses with the status st, and expects both queue pairs to end in ERR.
func (t *T) wantRemoteErr(c, s *side, wr verbs.SendWR, st verbs.Status) {
	t.Helper()
	id := s.postRecv()
	wr = c.signaled(wr)
	wc := c.next(c.scq)
	c.checkSend(wc, wr, t.remote(wr.Op, st, wc.Status))
	s.wantRecv(id, verbs.WRFlushErr)
	s.wantState(verbs.Error)
	if c.attr.Transport != verbs.IWARP { // there the news is still on its way
		c.wantDown()
	}
}

// wantAccessDenied lets c access n bytes at addr with rkey by op, which s must
// refuse as a remote access error; neither mem nor the sink may change.
func (t *T) wantAccessDenied(c, s *side, op verbs.Opcode, rkey uint32, addr uint64, n int, mem []byte) {
	t.Helper()
	before := bytes.Clone(mem)
	local := c.mem(max(n, 1), c.sinkAccess())
	if op == verbs.OpRDMAWrite {
		fill(local.bytes(), 0x5eed)
	}
	localBefore := local.copy()
	t.wantRemoteErr(c, s, verbs.SendWR{Op: op, SGEs: []verbs.SGE{local.at(0, n)}, RemoteAddr: addr, RKey: rkey},
		verbs.RemAccessErr)
	wantSame(t, before, mem, "memory that was not to be accessed")
	local.wantBytes(localBefore, "local buffer of the refused access")
}

// wantLocalErr posts wr, which c itself refuses with the status st.
func (t *T) wantLocalErr(c *side, wr verbs.SendWR, st verbs.Status) {
	t.Helper()
	c.wantSend(c.signaled(wr), st)
	c.wantDown()
}

// wantDown posts one more send, which comes back flushed: the queue pair is in ERR.
func (s *side) wantDown() {
	s.t.Helper()
	s.wantSend(s.signaled(verbs.SendWR{Op: verbs.OpSend}), verbs.WRFlushErr)
	s.wantState(verbs.Error)
}

func (s *side) wantState(st verbs.QPState) {
	s.t.Helper()
	require.Equal(s.t, st, s.qp.Query().State, "%s: state of the queue pair", s.name)
}

// wantAlive exchanges a message each way.
func (t *T) wantAlive(c, s *side) {
	t.Helper()
	for _, p := range [][2]*side{{c, s}, {s, c}} {
		from, to := p[0], p[1]
		src, dst := from.filled(33, 0), to.mem(33, verbs.LocalWrite)
		id := to.postRecv(dst.sge())
		from.do(sendOf(src))
		to.wantMessage(id, 33)
		dst.wantBytes(src.bytes(), "message")
	}
}
