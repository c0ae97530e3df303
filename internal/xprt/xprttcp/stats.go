package xprttcp

import (
	"fmt"
	"sync/atomic"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// counters are those that several tasks write, or that are rare.
type counters struct {
	bindCount                                 atomic.Uint64
	bklogU, sendingU, badXIDs, bcall          atomic.Uint64
	recvs, badReply, bytesRecv, bytesSent     atomic.Uint64
	timeouts, retransmissions, cancels, fixup atomic.Uint64
}

// reqCounters are written by the holder of a slot alone.
type reqCounters struct {
	sends, readBytes, writeBytes atomic.Uint64
}

// CountRead counts payload.
func (q *Req) CountRead(n int) { q.stats.readBytes.Add(uint64(n)) }

// CountWrite counts payload.
func (q *Req) CountWrite(n int) { q.stats.writeBytes.Add(uint64(n)) }

// CountFixup counts n bytes of a result that were copied out of Reply.
func (q *Req) CountFixup(n int) { q.x.stats.fixup.Add(uint64(n)) }

// Counters reads all counters, under the kernel's names where it has them (mountstats, "xprt: tcp"), seconds and
// bytes as there; bklog_u and sending_u count calls that found the slots taken, and others being written. They are
// not of one instant while calls run.
func (x *Xprt) Counters() []verbs.Counter {
	var sends, reads, writes uint64
	for i := range x.reqs {
		c := &x.reqs[i].stats
		sends += c.sends.Load()
		reads += c.readBytes.Load()
		writes += c.writeBytes.Load()
	}
	s := &x.stats
	connects, connecting := x.link.Connects()
	return []verbs.Counter{
		{Name: "bind_count", Value: s.bindCount.Load()},
		{Name: "connect_count", Value: connects},
		{Name: "connect_time", Value: uint64(connecting / sched.Second)},
		{Name: "sends", Value: sends},
		{Name: "recvs", Value: s.recvs.Load()},
		{Name: "bad_xids", Value: s.badXIDs.Load()},
		{Name: "bklog_u", Value: s.bklogU.Load()},
		{Name: "sending_u", Value: s.sendingU.Load()},
		{Name: "bad_reply_count", Value: s.badReply.Load()},
		{Name: "bcall_count", Value: s.bcall.Load()},
		{Name: "fixup_copy_count", Value: s.fixup.Load()},
		{Name: "retransmissions", Value: s.retransmissions.Load()},
		{Name: "timeouts", Value: s.timeouts.Load()},
		{Name: "cancels", Value: s.cancels.Load()},
		{Name: "serverreadbytes", Value: reads},
		{Name: "serverwritebytes", Value: writes},
		{Name: "bytes_sent", Value: s.bytesSent.Load()},
		{Name: "bytes_received", Value: s.bytesRecv.Load()},
	}
}

func (x *Xprt) traceEvent(format string, args ...any) {
	if f := x.cfg.Trace; f != nil {
		f("* " + fmt.Sprintf(format, args...))
	}
}

func (q *Req) traceCall() {
	line := fmt.Sprintf("> xid 0x%08x, %d bytes", q.xid, q.size())
	if f := q.x.cfg.FormatCall; f != nil {
		line += " | " + f(q.Msg, len(q.Data) > 0)
	}
	q.x.cfg.Trace(line)
}

func (q *Req) traceReply() {
	line := fmt.Sprintf("< xid 0x%08x, %d bytes", q.xid, q.n+max(q.sunk, 0))
	if f := q.x.cfg.FormatReply; f != nil && q.err == nil {
		line += " | " + f(q.Msg, q.reply[:q.n], q.sunk >= 0)
	}
	q.x.cfg.Trace(line)
}
