package svcrdma

import (
	"sync/atomic"

	"example.org/nfsrdma/internal/xprt/svc"
)

// counters are of one connection, or the sum of those that ended.
type counters struct {
	read, recv, write, starve       atomic.Uint64
	send, sendInv, nomsgCall        atomic.Uint64
	nomsgReply, replyWait, memWait  atomic.Uint64
	short, badHeader, badVers, done atomic.Uint64
	rdmaError, msgp, badChunk       atomic.Uint64
	badXID, reverse, noRoom         atomic.Uint64
	errVers, errChunk, dropped      atomic.Uint64
	sinkUnregistered                atomic.Uint64
}

// Stats are the counters of a transport: connections that are and that were.
type Stats struct {
	Read     uint64 // rdma_stat_read: RDMA READ work requests
	Recv     uint64 // rdma_stat_recv: messages received
	Write    uint64 // rdma_stat_write: RDMA WRITE work requests
	SQStarve uint64 // rdma_stat_sq_starve: waits for a send queue slot

	Send, SendWithInv     uint64 // replies, and those of them with remote invalidation
	NomsgCall, NomsgReply uint64 // RDMA_NOMSG messages
	ReplyWait             uint64 // waits for a reply buffer
	MemoryWait            uint64 // requests that waited for PayloadMemory
	SinkUnregistered      uint64 // sinks that RegisterSink had no region for

	// Bad input, by kind.
	Short     uint64 // messages shorter than a header; dropped
	BadVers   uint64 // headers of another version; ERR_VERS
	BadHeader uint64 // headers that do not parse; ERR_CHUNK
	MSGP      uint64 // RDMA_MSGP; ERR_CHUNK
	Done      uint64 // RDMA_DONE; dropped
	RDMAError uint64 // RDMA_ERROR from a requester; dropped
	BadXID    uint64 // XID of header and RPC call differ; ERR_CHUNK
	BadChunk  uint64 // chunk lists that cannot be right; ERR_CHUNK
	Reverse   uint64 // RPC replies; dropped
	NoRoom    uint64 // replies that fit no chunk and not inline; ERR_CHUNK

	ErrVersSent, ErrChunkSent uint64
	Dropped                   uint64 // calls that got no answer

	svc.ConnCounts
}

func (c *counters) addTo(s *Stats) {
	s.Read += c.read.Load()
	s.Recv += c.recv.Load()
	s.Write += c.write.Load()
	s.SQStarve += c.starve.Load()
	s.Send += c.send.Load()
	s.SendWithInv += c.sendInv.Load()
	s.NomsgCall += c.nomsgCall.Load()
	s.NomsgReply += c.nomsgReply.Load()
	s.ReplyWait += c.replyWait.Load()
	s.MemoryWait += c.memWait.Load()
	s.SinkUnregistered += c.sinkUnregistered.Load()
	s.Short += c.short.Load()
	s.BadVers += c.badVers.Load()
	s.BadHeader += c.badHeader.Load()
	s.MSGP += c.msgp.Load()
	s.Done += c.done.Load()
	s.RDMAError += c.rdmaError.Load()
	s.BadXID += c.badXID.Load()
	s.BadChunk += c.badChunk.Load()
	s.Reverse += c.reverse.Load()
	s.NoRoom += c.noRoom.Load()
	s.ErrVersSent += c.errVers.Load()
	s.ErrChunkSent += c.errChunk.Load()
	s.Dropped += c.dropped.Load()
}

// Stats sums up the counters.
func (x *Transport) Stats() Stats {
	s, n := x.conns.Sum()
	s.ConnCounts = n
	return s
}
