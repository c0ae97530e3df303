package softroce

import (
	"fmt"
	"strings"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// The states of a queue pair, and who moves it:
//
//	RESET -> INIT -> RTR -> RTS <-> SQD
//	  ^       any state -> ERR     any state -> RESET (Modify)
//
// A fault of a request moves it to ERR; SQE is of other transports. SQD tells with
// EventSQDrained that nothing is left under way.

func modifyError(q *qp, format string, args ...any) error {
	return fmt.Errorf("softroce: queue pair %s: modify %v: %s: %w", q.init.Name, q.state, fmt.Sprintf(format, args...), verbs.ErrInvalid)
}

// Modify implements verbs.QP.
func (q *qp) Modify(a verbs.QPAttr) error {
	q.mu.Lock()
	err := q.modify(a)
	q.mu.Unlock()
	q.kick()
	return err
}

func (q *qp) modify(a verbs.QPAttr) error {
	if q.closed {
		return fmt.Errorf("softroce: queue pair %s: %w", q.init.Name, verbs.ErrClosed)
	}
	switch {
	case a.State == verbs.Reset:
		q.becomeReset(postRefuse)
		return nil
	case a.State == verbs.Error && q.state != verbs.Reset:
		q.takeAck(q.ackIn.Load())
		q.becomeError()
		return nil
	case q.state == verbs.Reset && a.State == verbs.Init, q.state == verbs.Init && a.State == verbs.Init:
		if a.Access&^(verbs.LocalWrite|verbs.RemoteRead|verbs.RemoteWrite) != 0 {
			return modifyError(q, "access %#x", a.Access)
		}
		q.becomeInit(a.Access)
		return nil
	case q.state == verbs.Init && a.State == verbs.RTR:
		return q.toRTR(a)
	case q.state == verbs.RTR && a.State == verbs.RTS:
		return q.toRTS(a)
	case q.state == verbs.RTS && a.State == verbs.SQD:
		q.becomeSQD()
		return nil
	case q.state == verbs.SQD && a.State == verbs.SQD:
		return nil
	case q.state == verbs.SQD && a.State == verbs.RTS:
		q.state = verbs.RTS
		return nil
	case q.state == verbs.RTS && a.State == verbs.RTS:
		return nil
	}
	return modifyError(q, "no transition to %v", a.State)
}

func (q *qp) toRTR(a verbs.QPAttr) error {
	d := q.dev
	mtu := a.PathMTU
	if mtu == 0 {
		mtu = d.attr.ActiveMTU
	}
	switch {
	case mtu < 256 || mtu > d.attr.ActiveMTU:
		return modifyError(q, "path MTU %d, must be 256 to %d", mtu, d.attr.ActiveMTU)
	case a.IRD < 0 || a.IRD > d.attr.MaxQPRdAtom:
		return modifyError(q, "IRD %d, must be 0 to max_qp_rd_atom %d", a.IRD, d.attr.MaxQPRdAtom)
	case a.RQPSN > psnMask:
		return modifyError(q, "RQPSN %#x is more than 24 bits", a.RQPSN)
	case a.MinRNR > 31:
		return modifyError(q, "RNR timer code %d, must be 0 to 31", a.MinRNR)
	}
	d.mu.Lock()
	err := d.usable()
	d.mu.Unlock()
	if err != nil {
		return fmt.Errorf("softroce: queue pair %s: modify RTR: %w", q.init.Name, err)
	}
	peer := q.dev.net.findQP(a.DestAddr, a.DestQPN)
	q.becomeRTR(a, peer, mtu)
	return nil
}

func (q *qp) toRTS(a verbs.QPAttr) error {
	d := &q.dev.attr
	switch {
	case a.ORD < 0 || a.ORD > d.MaxQPInitRdAtom:
		return modifyError(q, "ORD %d, must be 0 to max_qp_init_rd_atom %d", a.ORD, d.MaxQPInitRdAtom)
	case a.SQPSN > psnMask:
		return modifyError(q, "SQPSN %#x is more than 24 bits", a.SQPSN)
	case a.Timeout > 31 || a.RetryCnt > 7 || a.RNRRetry > 7:
		return modifyError(q, "timeout %d, retries %d or RNR retries %d: must be at most 31, 7, 7", a.Timeout, a.RetryCnt, a.RNRRetry)
	}
	q.becomeRTS(a)
	return nil
}

// becomeReset forgets all that is queued and under way; post is what becomes of later work.
func (q *qp) becomeReset(post uint32) {
	q.endTraffic()
	q.ordMeter.Close()
	q.ordMeter = nil
	q.served.revoke(q.sec)
	q.state = verbs.Reset
	q.attr = verbs.QPAttr{}
	q.postMu.Lock()
	q.postState.Store(post)
	q.recvState.Store(post)
	q.restart(q.tail.Load())
	q.postMu.Unlock()
	q.peer, q.pipe = nil, nil
	q.has = false
	if q.srq == nil {
		q.rq.clear()
	}
}

// revokeFlight takes back the memory of packets under way.
func (q *qp) revokeFlight() {
	q.leave()
	q.flight.revoke(q.sec)
}

// endTraffic ends what either half is about, and takes back the memory of packets under way.
func (q *qp) endTraffic() {
	q.revokeFlight()
	q.stopTimer()
	q.rnrUntil, q.refused = 0, refusal{}
	q.needAck.Store(false)
	q.more, q.ackDue, q.nakSent = false, false, false
	clear(q.reply)
	q.reply = q.reply[:0]
}

func (q *qp) becomeInit(a verbs.Access) {
	q.state = verbs.Init
	q.attr.Access = a
	q.recvState.Store(postTake)
}

func (q *qp) becomeRTR(a verbs.QPAttr, peer *qp, mtu int) {
	q.state = verbs.RTR
	access := q.attr.Access
	q.attr = a
	q.attr.Access, q.attr.PathMTU = access, mtu
	q.mtu = uint32(mtu)
	q.peer = peer
	if peer != nil {
		q.pipe = q.dev.net.pipe(q.dev, peer.dev)
	}
	q.rcvPSN = a.RQPSN
	q.ackSeen = 0
	q.ackIn.Store(0)
	q.reads, q.readPos = make([]readSlot, a.IRD), 0
	for _, g := range []*guard{&q.flight, &q.served} {
		if _, ok := g.current(); !ok {
			g.allow()
		}
	}
}

func (q *qp) becomeRTS(a verbs.QPAttr) {
	q.state = verbs.RTS
	q.attr.SQPSN, q.attr.ORD, q.attr.Timeout, q.attr.RetryCnt, q.attr.RNRRetry = a.SQPSN, a.ORD, a.Timeout, a.RetryCnt, a.RNRRetry
	q.sendPSN, q.una = a.SQPSN, a.SQPSN
	q.retries, q.rnrRetries = int(a.RetryCnt), int(a.RNRRetry)
	q.rewound, q.unacked = false, 0
	owner, _, _ := strings.Cut(q.init.Name, " ") // connections of one owner count as one
	q.ordMeter = q.dev.net.s.NewMeter(sched.Usage{Name: "the ORD window of " + owner, Knob: "ORD, and the IRD of the peer",
		Level: sched.LevelORD, Units: a.ORD})
	q.postState.Store(postTake)
}

// becomeSQD lets what was begun end, and begins nothing more.
func (q *qp) becomeSQD() {
	q.state = verbs.SQD
	q.drainTo, q.drained = q.sentTo(), false
}

// becomeError ends all traffic; the run that follows flushes the queues.
func (q *qp) becomeError() {
	if q.state == verbs.Error {
		return
	}
	q.state = verbs.Error
	q.endTraffic()
	q.postState.Store(postFlush)
	q.recvState.Store(postFlush)
	if q.srq != nil {
		q.asyncEvent(verbs.EventQPLastWQEReached)
	}
}

// fail moves the queue pair to ERR from outside.
func (q *qp) fail() {
	q.mu.Lock()
	if !q.closed && q.state != verbs.Reset {
		q.takeAck(q.ackIn.Load())
		q.becomeError()
	}
	q.mu.Unlock()
	q.kick()
}

// rnrDelay is the time of an RNR timer code (IB specification table 45).
func rnrDelay(code uint8) sched.Duration {
	return rnrTable[code&31] * 10 * sched.Microsecond
}

var rnrTable = [32]sched.Duration{65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152}
