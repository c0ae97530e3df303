// Package svc is what the responders of the RPC transports have in common, and what the RPC layer sees of them.
//
// A [Pool] has the calls that wait for a thread, of all transports of a server. A thread, a task of its own, runs
// [Pool.Run] with a [Handler]. A call comes to the handler as a [Request], whose whole RPC message, but for a
// data item that its transport keeps apart, stands in memory. The handler ends each Serve with one of:
//
//	Request.Pull        take the data item into the handler's memory; Serve is called again
//	Request.Need        nil: no memory now; Serve is called again, from the start
//	Request.Reserve     false: likewise
//	Reply.Send          answer
//	Request.Fail        answer that the data item cannot be right
//	Request.Drop        answer nothing
//
// A data item is kept apart by RDMA in a Read chunk, by a stream in the socket: both put it where the file system
// wants it.
package svc
