// Package rpcrdma has the wire formats of RPC-over-RDMA version 1 (RFC 8166) and of the private
// data that its connections exchange (RFC 8797).
//
// A message is a transport header, and for RDMA_MSG and RDMA_MSGP the RPC message behind it:
//
//	xid | vers | credits | proc | proc's own part
//	RDMA_MSG, RDMA_NOMSG      Read list | Write list | Reply chunk
//	RDMA_MSGP                 align | thresh | Read list | Write list | Reply chunk
//	RDMA_ERROR                ERR_VERS low high, or ERR_CHUNK
//	RDMA_DONE                 nothing
//
//	Read list    { 1 position handle length offset(64) } ... 0
//	Write list   { 1 n n*(handle length offset(64)) } ... 0
//	Reply chunk  1 n n*(handle length offset(64)), or 0
//
// [Header] owns the storage of its lists and reuses it, so a warm decode or encode allocates
// nothing. [AppendHeader] writes what the struct holds, legal or not: rules about a message's
// content belong to the transport, rules about its form are kept by [ConsumeHeader].
package rpcrdma
