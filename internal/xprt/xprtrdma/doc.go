// Package xprtrdma is the requester of RPC-over-RDMA version 1 (RFC 8166), named after the kernel's.
//
// An [Xprt] has a fixed number of slots, [Req], each with a registered send buffer. A caller takes a
// slot with Get, puts an RPC call into it, sends it with Do, reads the reply in place and gives the slot back
// with Put. Do waits for a credit, registers memory, sends, and when the connection is lost connects again
// and sends the same call with the same XID.
//
// # The life of a slot
//
// The word of a slot (XID, connection, state) changes by compare-and-swap, so that the caller,
// the completion handlers, the timer and the end of a connection agree on who goes on:
//
//	idle --send--> waiting --reply--> claimed --> [fencing -->] replied --Put--> idle
//	               waiting --connection lost--> lost --> sent again
//	               waiting --caller gives up--> cancelling --> abandoned --reply or loss--> idle
//
// fencing and cancelling wait for LOCAL_INV, or whatever invalidates in the registration mode; modes without work
// requests fence in the caller's task, when the call is settled. So memory that the peer can reach is never handed back
// to the caller, but for a moment in MemWindowAsync, and in AllPhysical. An abandoned slot keeps its credit, because
// its call is still outstanding at the peer.
//
// # Concurrency
//
// Completion handlers run one at a time per queue, never wait, and own the header they decode into.
// Connecting is done by whichever caller finds the connection gone; the others wait for it.
package xprtrdma
