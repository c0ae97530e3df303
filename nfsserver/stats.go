package nfsserver

import (
	"sync/atomic"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/xprt/svcrdma"
	"example.org/nfsrdma/internal/xprt/svctcp"
	"example.org/nfsrdma/verbs"
)

// counters of the RPC and NFS layer.
type counters struct {
	mount     atomic.Uint64
	nfsErrors atomic.Uint64

	garbageArgs, badRPC, rpcMismatch, authError  atomic.Uint64
	progUnavail, progMismatch, procUnavail       atomic.Uint64
	badHandle, staleHandle, badChunk             atomic.Uint64
	drcHits, drcInProgress, drcMisses, drcEvicts atomic.Uint64
	drcFull                                      atomic.Uint64
	zeroCopyRead, zeroCopyWrite                  atomic.Uint64
	readBytes, writeBytes                        atomic.Uint64
}

// Stats are counts since New.
type Stats struct {
	Transport svcrdma.Stats
	TCP       svctcp.Stats

	Procs     [nfs3.NumProcs]uint64 // calls executed, by procedure number
	Mount     uint64                // calls of the MOUNT program
	NFSErrors uint64                // results with a status other than NFS3_OK

	// Bad input, by kind.
	GarbageArgs  uint64 // GARBAGE_ARGS
	BadRPC       uint64 // RPC headers that do not parse; GARBAGE_ARGS
	RPCMismatch  uint64 // RPC_MISMATCH
	AuthError    uint64 // AUTH_ERROR
	ProgUnavail  uint64 // PROG_UNAVAIL
	ProgMismatch uint64 // PROG_MISMATCH
	ProcUnavail  uint64 // PROC_UNAVAIL
	BadHandle    uint64 // NFS3ERR_BADHANDLE
	StaleHandle  uint64 // NFS3ERR_STALE
	BadReadChunk uint64 // Read chunks that do not hold the call's data item; ERR_CHUNK

	DRCHits, DRCMisses uint64 // replies from the duplicate request cache, and calls not in it
	DRCInProgress      uint64 // duplicates of calls that were running; dropped
	DRCEvictions       uint64 // replies that made room for others
	DRCFull            uint64 // calls that ran uncached because all entries were running

	ReadBytes, WriteBytes         uint64 // payload of READs and WRITEs that succeeded
	ZeroCopyReads, ZeroCopyWrites uint64 // data moved from or to the file system's own memory
	Threads                       int
}

// Stats gives the counts.
func (s *Server) Stats() Stats {
	n := &s.n
	st := Stats{
		Mount: n.mount.Load(), NFSErrors: n.nfsErrors.Load(),
		GarbageArgs: n.garbageArgs.Load(), BadRPC: n.badRPC.Load(), RPCMismatch: n.rpcMismatch.Load(),
		AuthError: n.authError.Load(), ProgUnavail: n.progUnavail.Load(), ProgMismatch: n.progMismatch.Load(),
		ProcUnavail: n.procUnavail.Load(), BadHandle: n.badHandle.Load(), StaleHandle: n.staleHandle.Load(),
		BadReadChunk: n.badChunk.Load(),
		DRCHits:      n.drcHits.Load(), DRCMisses: n.drcMisses.Load(), DRCInProgress: n.drcInProgress.Load(),
		DRCEvictions: n.drcEvicts.Load(), DRCFull: n.drcFull.Load(),
		ZeroCopyReads: n.zeroCopyRead.Load(), ZeroCopyWrites: n.zeroCopyWrite.Load(),
		Threads: s.Threads(),
	}
	if s.x != nil {
		st.Transport = s.x.Stats()
	}
	if s.tcp != nil {
		st.TCP = s.tcp.Stats()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st.ReadBytes, st.WriteBytes = s.n.readBytes.Load(), s.n.writeBytes.Load()
	for i := range st.Procs {
		st.Procs[i] = s.endedProcs[i]
		for _, t := range s.threads {
			st.Procs[i] += t.procs[i].Load()
		}
	}
	for _, t := range s.threads {
		st.ZeroCopyReads += t.zeroCopyReads.Load()
		st.ZeroCopyWrites += t.zeroCopyWrites.Load()
		st.ReadBytes += t.readBytes.Load()
		st.WriteBytes += t.writeBytes.Load()
	}
	return st
}

// Counters gives the counts by name: the kernel's where it has one, procedures as "nfs3_READ".
func (st *Stats) Counters() []verbs.Counter {
	t := &st.Transport
	c := []verbs.Counter{
		{Name: "rdma_stat_read", Value: t.Read},
		{Name: "rdma_stat_recv", Value: t.Recv},
		{Name: "rdma_stat_write", Value: t.Write},
		{Name: "rdma_stat_sq_starve", Value: t.SQStarve},
		{Name: "send", Value: t.Send},
		{Name: "send_with_inv", Value: t.SendWithInv},
		{Name: "nomsg_call", Value: t.NomsgCall},
		{Name: "nomsg_reply", Value: t.NomsgReply},
		{Name: "reply_wait", Value: t.ReplyWait},
		{Name: "memory_wait", Value: t.MemoryWait},
		{Name: "sink_unregistered", Value: t.SinkUnregistered},
		{Name: "bad_short", Value: t.Short},
		{Name: "bad_vers", Value: t.BadVers},
		{Name: "bad_header", Value: t.BadHeader},
		{Name: "bad_msgp", Value: t.MSGP},
		{Name: "bad_done", Value: t.Done},
		{Name: "bad_rdma_error", Value: t.RDMAError},
		{Name: "bad_xid", Value: t.BadXID},
		{Name: "bad_chunk", Value: t.BadChunk},
		{Name: "bad_reverse", Value: t.Reverse},
		{Name: "reply_no_room", Value: t.NoRoom},
		{Name: "err_vers_sent", Value: t.ErrVersSent},
		{Name: "err_chunk_sent", Value: t.ErrChunkSent},
		{Name: "dropped", Value: t.Dropped},
		{Name: "conn_accepted", Value: t.Accepted},
		{Name: "conn_rejected", Value: t.Rejected},
		{Name: "conn_ended", Value: t.Ended},
		{Name: "conn_open", Value: uint64(t.Open)},
		{Name: "bad_rpc", Value: st.BadRPC},
		{Name: "rpc_garbage_args", Value: st.GarbageArgs},
		{Name: "rpc_mismatch", Value: st.RPCMismatch},
		{Name: "rpc_auth_error", Value: st.AuthError},
		{Name: "rpc_prog_unavail", Value: st.ProgUnavail},
		{Name: "rpc_prog_mismatch", Value: st.ProgMismatch},
		{Name: "rpc_proc_unavail", Value: st.ProcUnavail},
		{Name: "bad_read_chunk", Value: st.BadReadChunk},
		{Name: "nfs_badhandle", Value: st.BadHandle},
		{Name: "nfs_stale", Value: st.StaleHandle},
		{Name: "nfs_errors", Value: st.NFSErrors},
		{Name: "drc_hits", Value: st.DRCHits},
		{Name: "drc_misses", Value: st.DRCMisses},
		{Name: "drc_in_progress", Value: st.DRCInProgress},
		{Name: "drc_evictions", Value: st.DRCEvictions},
		{Name: "drc_full", Value: st.DRCFull},
		{Name: "zero_copy_reads", Value: st.ZeroCopyReads},
		{Name: "zero_copy_writes", Value: st.ZeroCopyWrites},
		{Name: "nfs_read_bytes", Value: st.ReadBytes},
		{Name: "nfs_write_bytes", Value: st.WriteBytes},
		{Name: "threads", Value: uint64(st.Threads)},
		{Name: "mount3", Value: st.Mount},
	}
	c = append(c, st.tcpCounters()...)
	for p, v := range st.Procs {
		c = append(c, verbs.Counter{Name: "nfs3_" + nfs3.Proc(p).String(), Value: v})
	}
	return c
}

// tcpCounters are the transport's over TCP; none if it was not used.
func (st *Stats) tcpCounters() []verbs.Counter {
	t := &st.TCP
	if t.Accepted+t.Rejected == 0 {
		return nil
	}
	return []verbs.Counter{
		{Name: "tcp_recv", Value: t.Recv},
		{Name: "tcp_recv_bytes", Value: t.RecvBytes},
		{Name: "tcp_send", Value: t.Send},
		{Name: "tcp_send_bytes", Value: t.SendBytes},
		{Name: "tcp_writes", Value: t.Writes},
		{Name: "tcp_pulls", Value: t.Pulls},
		{Name: "tcp_slot_wait", Value: t.SlotWait},
		{Name: "tcp_memory_wait", Value: t.MemoryWait},
		{Name: "tcp_gate_wait", Value: t.GateWait},
		{Name: "tcp_active_max", Value: t.ActiveMax},
		{Name: "tcp_reserved_max", Value: t.ReservedMax},
		{Name: "tcp_dropped", Value: t.Dropped},
		{Name: "tcp_bad_too_long", Value: t.TooLong},
		{Name: "tcp_bad_fragments", Value: t.Fragments},
		{Name: "tcp_bad_truncated", Value: t.Truncated},
		{Name: "tcp_bad_stalled", Value: t.Stalled},
		{Name: "tcp_bad_short", Value: t.Short},
		{Name: "tcp_bad_reverse", Value: t.Reverse},
		{Name: "tcp_bad_item", Value: t.BadItem},
		{Name: "tcp_conn_accepted", Value: t.Accepted},
		{Name: "tcp_conn_rejected", Value: t.Rejected},
		{Name: "tcp_conn_ended", Value: t.Ended},
		{Name: "tcp_conn_open", Value: uint64(t.Open)},
	}
}

// ProcName is the name of procedure i of Stats.Procs, such as "READ".
func ProcName(i int) string { return nfs3.Proc(i).String() }
