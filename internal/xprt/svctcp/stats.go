package svctcp

import (
	"sync/atomic"

	"example.org/nfsrdma/internal/xprt/svc"
)

// counters are of one connection.
type counters struct {
	recv, recvBytes, sent, sentBytes, writes atomic.Uint64
	pulls, slotWait, memWait, dropped        atomic.Uint64
	tooLong, fragments, truncated, stalled   atomic.Uint64
	short, reverse, badItem                  atomic.Uint64
	gateWait, activeMax, reservedMax         atomic.Uint64
}

// Stats are the counters of a transport: connections that are and that were.
type Stats struct {
	Recv, RecvBytes uint64 // records received, and their bytes
	Send, SendBytes uint64 // records sent
	Writes          uint64 // writes to sockets; one may send several records
	Pulls           uint64 // data items that were read to where they belong
	SlotWait        uint64 // records that waited for a slot
	MemoryWait      uint64 // requests that waited for PayloadMemory
	Dropped         uint64 // calls that got no answer

	// Of the send-buffer gate; 0 where it is not known.
	GateWait    uint64 // calls that were refused at first
	ActiveMax   uint64 // most calls of a connection in work at once: taken, and their replies not yet in the send buffer
	ReservedMax uint64 // most room that calls of a connection had reserved, bytes

	// Bad input, by kind. All but Reverse and BadItem end the connection.
	TooLong   uint64 // records that are longer than the longest call
	Fragments uint64 // records in too many fragments
	Truncated uint64 // records cut off by the end of the connection
	Stalled   uint64 // records, in or out, that did not get on in time
	Short     uint64 // records that are no RPC message
	Reverse   uint64 // RPC replies; dropped
	BadItem   uint64 // calls whose data cannot be right; GARBAGE_ARGS

	svc.ConnCounts
}

func (c *counters) addTo(s *Stats) {
	s.Recv += c.recv.Load()
	s.RecvBytes += c.recvBytes.Load()
	s.Send += c.sent.Load()
	s.SendBytes += c.sentBytes.Load()
	s.Writes += c.writes.Load()
	s.Pulls += c.pulls.Load()
	s.SlotWait += c.slotWait.Load()
	s.MemoryWait += c.memWait.Load()
	s.Dropped += c.dropped.Load()
	s.TooLong += c.tooLong.Load()
	s.Fragments += c.fragments.Load()
	s.Truncated += c.truncated.Load()
	s.Stalled += c.stalled.Load()
	s.Short += c.short.Load()
	s.Reverse += c.reverse.Load()
	s.BadItem += c.badItem.Load()
	s.GateWait += c.gateWait.Load()
	s.ActiveMax = max(s.ActiveMax, c.activeMax.Load())
	s.ReservedMax = max(s.ReservedMax, c.reservedMax.Load())
}

// Stats sums up the counters.
func (x *Transport) Stats() Stats {
	s, n := x.conns.Sum()
	s.ConnCounts = n
	return s
}
