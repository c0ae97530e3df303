package xprtrdma

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/clnt"
	"example.org/nfsrdma/verbs"
)

// Req is a slot and the call in it (rpcrdma_req). It belongs to one caller from Get to Put.
type Req struct {
	clnt.Call

	x    *Xprt
	slot uint32
	xid  uint32
	word atomic.Uint64 // XID, connection, state
	w    sched.Waiter

	send     []byte // room bytes for the header, then the message
	sendAddr uint64
	room     int
	long     []byte // RDMA_NOMSG call with its data
	reply    []byte // memory of the Reply chunk
	pad      []byte // 4 bytes of zero

	// The present transmission.
	ep       *ep
	hdr      rpcrdma.Header // as sent; replies are compared with it
	plan     plan
	maps     [maxMaps]mapping
	nmaps    int
	regs     []*region              // in use by this call
	used     int                    // of them, when it is marshalled
	kept     atomic.Pointer[region] // of the last one, for the next (regionPool)
	pool     poolWait
	inLine   bool // has what a line gives
	usesQP   bool // counted in ep.users
	work     regWork
	fmrs     []verbs.FMR
	segs     []rpcrdma.Segment
	wrs      []verbs.SendWR
	inv      []verbs.SendWR
	sge      [1]verbs.SGE
	fence    atomic.Uint32 // fenceNone, ...
	tick     atomic.Uint32 // of the timer, when sent
	timedOut atomic.Bool
	tries    int // retransmissions of a soft mount

	// Set by the receive handler while it holds the word in state claimed.
	rep     int32 // receive buffer that holds the reply
	repOff  int
	repLen  int
	sinkLen int
	inLen   int // length of the reply in the Reply chunk
	err     error

	stats reqCounters
}

const noRep = -1

// States of a slot, the low byte of its word.
const (
	idle       = iota
	waiting    // sent; nobody has seen a reply
	claimed    // the receive handler works on the reply
	fencing    // LOCAL_INV of a call with a reply
	replied    // the caller may go on
	lost       // no reply, and the connection is gone
	cancelling // the caller gave up, and fences the memory
	departed   // likewise, and the reply has come or the connection is gone
	abandoned  // the caller has left; the call is outstanding at the peer
)

// Fence of a call: who waits for it is told by its state.
const (
	fenceNone    = iota
	fencePending // LOCAL_INV posted
	fenceDone
	fenceBroken // the connection ended first: regions are closed, not used again
)

func makeWord(xid, gen uint32, state uint8) uint64 {
	return uint64(xid)<<32 | uint64(gen&0xffffff)<<8 | uint64(state)
}

func stateOf(w uint64) uint8             { return uint8(w) }
func withState(w uint64, s uint8) uint64 { return w&^0xff | uint64(s) }
func sameCall(a, b uint64) bool          { return a>>8 == b>>8 }

// become moves the slot from state to state, if w is still its word.
func (q *Req) become(w uint64, state uint8) bool {
	return q.word.CompareAndSwap(w, withState(w, state))
}

func (q *Req) begin() {
	q.xid += 1 << q.x.xidBits
	q.Begin(q.Buf())
	q.tries = 0
	q.timedOut.Store(false)
}

// XID is the transaction identifier of the call.
func (q *Req) XID() uint32 { return q.xid }

// Buf is the empty send buffer. A call that outgrows it goes as a position-zero Read chunk.
func (q *Req) Buf() []byte { return q.send[q.room:q.room:len(q.send)] }

func (q *Req) describe() string { return fmt.Sprintf("xid 0x%08x, slot %d", q.xid, q.slot) }

// Do sends the call and waits for its reply. The memory of Data and Sink is fenced when it
// returns, whatever the outcome (RFC 8166 section 4.4.1).
func (q *Req) Do(ctx context.Context) error {
	x := q.x
	if len(q.Msg)%4 != 0 {
		panic("xprtrdma: an RPC message that is not a multiple of 4 bytes")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for {
		e, err := x.link.Ready(ctx)
		if err != nil {
			return err
		}
		if err = q.transmit(ctx, e); err == nil {
			err = q.await(ctx)
		}
		if !errors.Is(err, errLost) {
			if err != nil {
				return x.link.Err(err)
			}
			return nil
		}
		if x.link.Closed() {
			return ErrClosed
		}
		x.stats.retransmissions.Add(1)
		if q.timedOut.Swap(false) {
			q.Timeouts++
			if q.tries++; x.cfg.Soft && q.tries > x.cfg.Retrans {
				return fmt.Errorf("%w, sent %d times", ErrTimedOut, q.tries)
			}
		}
	}
}

// await waits for the reply and leaves the memory fenced and unmapped.
func (q *Req) await(ctx context.Context) error {
	for {
		w := q.word.Load()
		switch stateOf(w) {
		case replied:
			q.settle()
			q.word.Store(withState(w, idle))
			return q.result()
		case lost:
			q.fence.Store(fenceBroken)
			q.x.stats.mrsOrphaned.Add(uint64(len(q.regs)))
			q.settle()
			q.word.Store(withState(w, idle))
			return errLost
		}
		err := q.w.Wait(ctx)
		if err == nil {
			continue
		}
		if q.become(withState(w, waiting), cancelling) {
			q.cancel()
			return err
		}
		// The reply has come, or the connection has gone: what is left depends on this side alone.
		switch stateOf(q.word.Load()) {
		case fencing:
			if err := q.w.Wait(context.Background()); err != nil {
				q.ep.Disconnect(err) // the scheduler has ended
			}
		case claimed:
			runtime.Gosched() // live: the handler is about to decide
		}
	}
}

// cancel fences the memory of a call that its caller gave up.
func (q *Req) cancel() {
	e := q.ep
	q.x.stats.cancels.Add(1)
	switch {
	case q.nmaps == 0:
	case !q.x.reg.fences():
		// RFC 8166 section 4.4.1 leaves only this where nothing can be invalidated.
		e.Disconnect(errCancelled)
		q.fence.Store(fenceBroken)
	default:
		q.inv = q.inv[:0]
		q.x.reg.fenceWRs(q)
		if len(q.inv) == 0 {
			break // settle fences
		}
		q.fence.Store(fencePending)
		e.postFence(q)
		for q.fence.Load() == fencePending {
			if err := q.w.Wait(context.Background()); err != nil {
				e.Disconnect(err)
			}
		}
	}
	q.settle()
}

// settle gives regions and mappings back, once the peer cannot reach them any more.
func (q *Req) settle() {
	if q.nmaps > 0 {
		q.x.reg.release(q, q.fence.Load() == fenceBroken)
		for i := range q.nmaps {
			m := &q.maps[i]
			q.x.reg.unmapBuf(m)
			m.buf = nil
		}
		q.nmaps = 0
		q.settleCost()
	}
	q.fence.Store(fenceNone)
}

// fenced says how the fence of a call ended.
func (q *Req) fenced(outcome uint32) {
	if !q.fence.CompareAndSwap(fencePending, outcome) {
		return
	}
	if w := q.word.Load(); stateOf(w) == fencing {
		q.become(w, replied)
	}
	q.w.Wake()
}

// depart is Put for a call that was cancelled: true if the slot is free now.
func (q *Req) depart() bool {
	for {
		w := q.word.Load()
		switch stateOf(w) {
		case cancelling:
			if q.become(w, abandoned) {
				return false
			}
		case departed:
			q.word.Store(withState(w, idle))
			return true
		default:
			return true
		}
	}
}

// result is what the handler found, as seen by the caller.
func (q *Req) result() error {
	q.SinkLen = q.sinkLen
	q.stats.totalReply.Add(uint64(max(q.sinkLen, 0) + q.inLen))
	if q.err != nil {
		err := q.err
		q.err = nil
		return err
	}
	if q.rep != noRep {
		b := q.x.recv.buf(q.rep)
		q.Reply = b[q.repOff : q.repOff+q.repLen]
		return nil
	}
	q.Reply = q.reply[:q.inLen]
	if err := q.checkMessage(q.Reply); err != nil {
		q.x.stats.badReply.Add(1)
		return err
	}
	return nil
}

// CountFixup counts n bytes of a result that were copied from the inline buffer (fixup_copy_count).
func (q *Req) CountFixup(n int) { q.stats.fixup.Add(uint64(n)) }
