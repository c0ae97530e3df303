package xprttcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"

	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xdr"
	"example.org/nfsrdma/internal/xprt/clnt"
)

// Req is a slot and the call in it. It belongs to one caller from Get to Put.
type Req struct {
	clnt.Call

	x    *Xprt
	slot uint32
	xid  uint32
	w    sched.Waiter

	head     []byte // the record's mark, and room for the message
	reply    []byte // memory of Reply
	tick     atomic.Uint32
	timedOut atomic.Bool
	tries    int // retransmissions of a soft mount

	mu      sync.Mutex
	state   state
	ep      *ep
	claimed bool // the reader uses the slot
	got     bool // the reply is there
	leaving bool // the caller waits for writer and reader to let go
	n       int  // of reply
	sunk    int  // SinkLen
	err     error

	stats reqCounters
}

type state uint8

const (
	idle      state = iota
	queued          // to be written
	sending         // the writer, or the caller itself, writes it
	sent            // written
	lost            // no reply, and the connection is gone
	abandoned       // the caller has given up; the call is outstanding at the server
	departed        // likewise, and the caller has put the slot back
)

// sendBuffer is the room for a message without its data, bytes; a longer one is allocated.
const sendBuffer = 1024

func (q *Req) init(x *Xprt, slot uint32) {
	q.x, q.slot, q.xid = x, slot, slot
	q.Slot = q
	q.w.Init(x.s, "a reply")
	q.w.SetWhat("a reply", func() string { return fmt.Sprintf("xid 0x%08x, slot %d", q.xid, q.slot) })
}

func (q *Req) begin() {
	if q.head == nil {
		q.head = make([]byte, rpc.RecordMarkLen+sendBuffer)
	}
	q.xid += 1 << q.x.xidBits
	q.Begin(q.head[rpc.RecordMarkLen:rpc.RecordMarkLen])
	q.tries = 0
	q.timedOut.Store(false)
}

// XID is the transaction identifier of the call.
func (q *Req) XID() uint32 { return q.xid }

// Do sends the call and waits for its reply.
func (q *Req) Do(ctx context.Context) error {
	x := q.x
	if len(q.Data) > maxData || len(q.Sink) > maxData {
		return fmt.Errorf("%w: data of %d bytes, at most %d", clnt.ErrMarshal, max(len(q.Data), len(q.Sink)), maxData)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for {
		e, err := x.link.Ready(ctx)
		if err != nil {
			return err
		}
		q.transmit(ctx, e)
		if err = q.await(ctx, e); err == nil {
			return nil
		}
		if !errors.Is(err, errLost) {
			return x.link.Err(err)
		}
		if x.link.Closed() {
			return clnt.ErrClosed
		}
		x.stats.retransmissions.Add(1)
		if q.timedOut.Swap(false) {
			q.Timeouts++
			if q.tries++; x.cfg.Soft && q.tries > x.cfg.Retrans {
				return fmt.Errorf("%w, sent %d times", clnt.ErrTimedOut, q.tries)
			}
		}
	}
}

// transmit queues or writes the call.
func (q *Req) transmit(ctx context.Context, e *ep) {
	q.tick.Store(q.x.timer.Start())
	q.SentAt = q.x.s.Now()
	q.Trans++
	q.mu.Lock()
	q.ep, q.state = e, queued
	q.claimed, q.got, q.leaving, q.err, q.sunk = false, false, false, nil, -1
	q.mu.Unlock()
	q.stats.sends.Add(1)
	if q.x.cfg.Trace != nil {
		q.traceCall()
	}
	e.send(ctx, q)
}

// size is the length of the record.
func (q *Req) size() int { return len(q.Msg) + xdr.Roundup(len(q.Data)) }

var zeros [4]byte

// appendTo adds the record to what is to be written.
func (q *Req) appendTo(v net.Buffers) net.Buffers {
	rpc.PutRecordMark(q.head[:rpc.RecordMarkLen], q.size(), true)
	if len(q.Msg) > 0 && &q.Msg[0] == &q.head[rpc.RecordMarkLen] {
		v = append(v, q.head[:rpc.RecordMarkLen+len(q.Msg)])
	} else {
		v = append(v, q.head[:rpc.RecordMarkLen], q.Msg)
	}
	if len(q.Data) > 0 {
		v = append(v, q.Data)
	}
	if pad := xdr.Pad(len(q.Data)); pad > 0 {
		v = append(v, zeros[:pad])
	}
	return v
}

// await waits for the reply, until nobody else uses the caller's memory.
func (q *Req) await(ctx context.Context, e *ep) error {
	for {
		if done, err := q.settled(); done {
			return err
		}
		if err := q.w.Wait(ctx); err != nil {
			q.x.stats.cancels.Add(1)
			return q.giveUp(e, err)
		}
	}
}

// settled says whether the call has come to an end.
func (q *Req) settled() (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.outcome()
}

// outcome is settled with mu.
func (q *Req) outcome() (bool, error) {
	switch {
	case q.claimed || q.state == sending:
		return false, nil
	case q.got:
		q.state = idle
		return true, q.result()
	case q.state == lost:
		q.state = idle
		return true, errLost
	}
	return false, nil
}

// leaveGrace is how long a caller that gives up waits for the end of a record that is on its way, before it ends
// the connection: mostly there is nothing but a task switch to wait for.
const leaveGrace = 50 * sched.Millisecond

// giveUp leaves a call because of err, when nobody else uses the caller's memory any more.
func (q *Req) giveUp(e *ep, err error) error {
	for patience := true; ; {
		done, res := q.abandon(e)
		switch {
		case done && res == errLost:
			e.forget(q)
			return err
		case done:
			return res
		case patience:
			ctx, cancel := q.x.s.WithTimeout(context.Background(), leaveGrace)
			patience = q.w.Wait(ctx) == nil
			cancel()
			continue
		}
		e.Disconnect(errCancelled)
		if q.w.Wait(sched.Cleanup) != nil { // the scheduler has ended; reader and writer notice by their connection
			runtime.Gosched()
		}
	}
}

// abandon leaves a call unless reader or writer have it; errLost: it has no result.
func (q *Req) abandon(e *ep) (done bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if done, err := q.outcome(); done {
		return true, err
	}
	switch {
	case q.claimed || q.state == sending:
		q.leaving = true
		return false, nil
	case q.state == queued || e.dead.Load():
		q.state = idle
	default:
		q.state = abandoned
	}
	return true, errLost
}

// result is what the reader found, as seen by the caller.
func (q *Req) result() error {
	if q.err != nil {
		return q.err
	}
	q.Reply, q.SinkLen = q.reply[:q.n], q.sunk
	return nil
}

// depart is Put: true if the slot is free now.
func (q *Req) depart() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state == abandoned {
		q.state = departed
		return false
	}
	return true
}

// start makes q the writer's; false if it is not to be written any more.
func (q *Req) start(e *ep) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ep != e || q.state != queued {
		return false
	}
	q.state = sending
	return true
}

// written ends what start began.
func (q *Req) written(e *ep) {
	q.mu.Lock()
	q.state = sent
	if !q.claimed && !q.got && e.dead.Load() {
		q.state = lost
	}
	wake := q.got || q.state == lost || q.leaving
	q.mu.Unlock()
	if wake {
		q.w.Wake()
	}
}

// claim makes q the reader's, for the reply to xid; false if nobody waits for it.
func (q *Req) claim(e *ep, xid uint32) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ep != e || q.xid != xid || q.claimed || q.got {
		return false
	}
	switch q.state {
	case sending, sent:
		q.claimed = true
		return true
	case abandoned:
		q.state = idle
	case departed:
		q.state = idle
		q.x.slots.Give(q.slot)
	}
	return false
}

// answered ends what claim began; not got: the connection has ended in the middle of the reply.
func (q *Req) answered(got bool) {
	q.mu.Lock()
	q.claimed, q.got = false, got
	if !got && q.state == sent {
		q.state = lost
	}
	wake := q.state != sending
	q.mu.Unlock()
	if wake {
		q.w.Wake()
	}
}

// connectionLost moves a slot that uses e on, unless reader or writer have it and do that.
func (q *Req) connectionLost(e *ep) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ep != e || q.claimed || q.got {
		return
	}
	switch q.state {
	case queued, sent:
		q.state = lost
		q.w.Wake()
	case abandoned:
		q.state = idle
	case departed:
		q.state = idle
		q.x.slots.Give(q.slot)
	}
}
