// Package nfsclient is an NFS version 3 client over RDMA (RFC 1813, RFC 8166, RFC 8267) and TCP that runs in the
// program that uses it.
//
// [New] connects to a server, asks MOUNT for the root of an export over the same connection, or where
// Config.MountAddr says, and gives a [Mount]. A Mount has every NFSv3 procedure as a method: handles and
// names in, results out, errors that match those of io/fs. On top of them are files by path: [Mount.Open],
// [Mount.ReadFile], [Mount.WriteFile], [Mount.CopyIn] and others, and [Mount.FS], which is an io/fs file
// system. [Portmap] finds the ports of a server that does not have the usual ones.
//
// What decides the behaviour of NFS over RDMA is in [Config]: registration mode, data segments, inline
// thresholds, credits, IRD, queue depth, timeouts. Zero values are today's Linux defaults.
// [Mount.Negotiated] says what came of it, and [Mount.Counters] what happened, under the kernel's names.
//
// # Concurrency
//
// A Mount may be used by any number of tasks at once; a [File] too, except for Read, Write and Seek,
// which share its offset. Close ends every call with ErrClosed. When the scheduler runs in virtual time all
// of them must be made by its tasks, or by the test's own goroutine.
//
// # Memory
//
// Buffers of Read and Write are reached by the server directly (except in mode Bounce). They belong to the client
// until the call returns, and are fenced then, however it ends. In the modes of memory windows they stay registered,
// out of the server's reach: memory that is not Go's (mmap) must stay mapped until Close. There is no cache of
// data or attributes.
package nfsclient
