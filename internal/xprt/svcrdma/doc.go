// Package svcrdma is the responder of RPC-over-RDMA version 1 (RFC 8166) on verbs.
//
// A [Transport] listens and holds the connections. Calls go to the threads of its svc.Pool, as svc.Request.
//
// A request moves through these owners:
//
//	posted -> queued -> thread -> posted                    Reply.Send, Fail, Drop
//	             ^        |--> device: RDMA READs -> queued  Pull
//	             |        |--> pool: waits for memory ----+  Need
//	             +-----------------------------------------+
//
// No thread is held while READs are outstanding. A reply is posted as one chain, RDMA WRITEs and SEND,
// and nobody waits for its completion, which gives back the reply buffer and what the handler lent. Only the last
// work request of a chain is signaled. Send queue slots are counted; a thread that finds none waits
// (rdma_stat_sq_starve).
//
// A connection that fails is torn down alone, by its own task: disconnect, wait for the threads to let go, destroy
// the queue pair, and only then take back what the device still held, whether it was flushed or not.
package svcrdma
