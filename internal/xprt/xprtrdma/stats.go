package xprtrdma

import (
	"sync/atomic"

	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// counters are those that several tasks write, or that are rare.
type counters struct {
	bindCount                                    atomic.Uint64
	bklogU, badXIDs, bcall                       atomic.Uint64
	recvs, replies, badReply, bytesRecv          atomic.Uint64 // receive handler
	failedMarshal, emptySendctx                  atomic.Uint64
	mrsRecycled, mrsOrphaned, mrsAllocated       atomic.Uint64
	localInv, timeouts, retransmissions, cancels atomic.Uint64
	remoteInv, invs, workRuns                    atomic.Uint64
}

// reqCounters are written by the holder of a slot alone.
type reqCounters struct {
	sends, bytesSent                     atomic.Uint64
	readChunks, writeChunks, replyChunks atomic.Uint64
	nomsg, pullup, fixup                 atomic.Uint64
	totalRequest, totalReply, hardway    atomic.Uint64
	readBytes, writeBytes                atomic.Uint64
	regs, binds, regPages, invs, regTime atomic.Uint64
}

// CountRead and CountWrite count payload (mountstats, bytes).
func (q *Req) CountRead(n int)  { q.stats.readBytes.Add(uint64(n)) }
func (q *Req) CountWrite(n int) { q.stats.writeBytes.Add(uint64(n)) }

// Counters are the figures of a mount under the kernel's names (mountstats, "xprt: rdma"), seconds
// and bytes as there. Left out is what has no meaning here: port, idle_time, req_u and
// reply_waits_for_send. From bcall_count on, the kernel has no or other places for them.
type Counters []verbs.Counter

// count counts a call that is about to be sent.
func (q *Req) count() {
	c := &q.stats
	c.sends.Add(1)
	c.bytesSent.Add(uint64(q.sge[0].Length))
	// As in the kernel, a chunk of several segments counts as many, and the bytes are those
	// offered for replies.
	c.readChunks.Add(uint64(len(q.hdr.Reads)))
	if q.plan.rtype == areadch {
		c.nomsg.Add(1)
	}
	switch q.plan.wtype {
	case writech:
		c.writeChunks.Add(uint64(q.hdr.Writes.Segments()))
		c.totalRequest.Add(uint64(len(q.Sink)))
	case replych:
		c.replyChunks.Add(uint64(len(q.hdr.Reply)))
		c.totalRequest.Add(rpcrdma.ChunkLen(q.hdr.Reply))
	}
}

// Counters reads all counters. They are not of one instant while calls run.
func (x *Xprt) Counters() Counters {
	var r [18]uint64
	for i := range x.reqs {
		c := &x.reqs[i].stats
		for k, v := range [...]*atomic.Uint64{&c.sends, &c.bytesSent, &c.readChunks, &c.writeChunks, &c.replyChunks,
			&c.nomsg, &c.pullup, &c.fixup, &c.totalRequest, &c.totalReply, &c.hardway, &c.readBytes, &c.writeBytes,
			&c.regs, &c.binds, &c.regPages, &c.invs, &c.regTime} {
			r[k] += v.Load()
		}
	}
	s := &x.stats
	connects, connecting := x.link.Connects()
	return Counters{
		{Name: "bind_count", Value: s.bindCount.Load()},
		{Name: "connect_count", Value: connects},
		{Name: "connect_time", Value: uint64(connecting / sched.Second)},
		{Name: "sends", Value: r[0]},
		{Name: "recvs", Value: s.recvs.Load()},
		{Name: "bad_xids", Value: s.badXIDs.Load()},
		{Name: "bklog_u", Value: s.bklogU.Load()},
		{Name: "read_chunk_count", Value: r[2]},
		{Name: "write_chunk_count", Value: r[3]},
		{Name: "reply_chunk_count", Value: r[4]},
		{Name: "total_rdma_request", Value: r[8]},
		{Name: "total_rdma_reply", Value: r[9]},
		{Name: "pullup_copy_count", Value: r[6]},
		{Name: "fixup_copy_count", Value: r[7]},
		{Name: "hardway_register_count", Value: r[10]},
		{Name: "failed_marshal_count", Value: s.failedMarshal.Load()},
		{Name: "bad_reply_count", Value: s.badReply.Load()},
		{Name: "nomsg_call_count", Value: r[5]},
		{Name: "mrs_recycled", Value: s.mrsRecycled.Load()},
		{Name: "mrs_orphaned", Value: s.mrsOrphaned.Load()},
		{Name: "mrs_allocated", Value: s.mrsAllocated.Load()},
		{Name: "local_inv_needed", Value: s.localInv.Load()},
		{Name: "empty_sendctx_q", Value: s.emptySendctx.Load()},
		{Name: "bcall_count", Value: s.bcall.Load()},
		{Name: "retransmissions", Value: s.retransmissions.Load()},
		{Name: "timeouts", Value: s.timeouts.Load()},
		{Name: "cancels", Value: s.cancels.Load()},
		{Name: "serverreadbytes", Value: r[11]},
		{Name: "serverwritebytes", Value: r[12]},
		{Name: "bytes_sent", Value: r[1]},
		{Name: "bytes_received", Value: s.bytesRecv.Load()},
		{Name: "registrations", Value: r[13]},
		{Name: "mw_binds", Value: r[14]},
		{Name: "pages_registered", Value: r[15]},
		{Name: "invalidations", Value: r[16] + s.invs.Load()},
		{Name: "remote_invalidations", Value: s.remoteInv.Load()},
		{Name: "worker_runs", Value: s.workRuns.Load()},
		{Name: "registration_ns", Value: r[17] / uint64(sched.Nanosecond)},
	}
}

// Get gives the counter of a name, 0 if there is none.
func (c Counters) Get(name string) uint64 {
	for i := range c {
		if c[i].Name == name {
			return c[i].Value
		}
	}
	return 0
}

// Conn says what a connection has negotiated.
type Conn struct {
	InlineSend, InlineRecv int // thresholds in force, bytes
	Credits                int // granted now
	RemoteInvalidation     bool
	PrivateData            bool // the server sent some
	IRD, ORD               int
	SQDepth                int
	LocalAddr              string
}

// Conn tells of the present connection.
func (x *Xprt) Conn() Conn {
	e := x.link.Load()
	if e == nil {
		return Conn{}
	}
	return Conn{InlineSend: e.inlineSend, InlineRecv: e.inlineRecv, Credits: int(e.granted.Load()),
		RemoteInvalidation: e.remoteInv, PrivateData: e.peerData, IRD: e.ird, ORD: e.ord,
		SQDepth: x.sqDepth(), LocalAddr: e.id.LocalAddr()}
}

// Disconnect ends the present connection, as when the network had: calls go on over the next one.
func (x *Xprt) Disconnect() { x.link.Disconnect(verbs.ErrDisconnected) }
