// Package nfsserver is an NFS version 3 and MOUNT version 3 server on RPC-over-RDMA.
//
// A [Server] listens on a verbs.Device, and serves exports, each a vfs.FS, with a number of nfsd
// threads. It takes everything it needs in a [Config] whose zero fields are the defaults:
//
//	srv, err := nfsserver.New(nfsserver.Config{
//		Device:  dev,
//		Sched:   s,
//		Exports: []nfsserver.Export{{Path: "/", FS: memfs.New(memfs.Options{})}},
//	})
//	...
//	err = srv.Close()
//
// A thread is not held while RDMA READs are outstanding: it posts them and goes on, and the last
// completion queues the request again. READ results are written to the client from the memory of the
// file system, if it lends it (vfs.PageReader), and WRITE data are read into it (vfs.PageWriter);
// otherwise they go through registered buffers of the server.
//
// # What a peer can cost
//
// A connection costs Credits+1 receive buffers of InlineRecv bytes, Credits+8 send buffers of twice
// InlineSend bytes, and a credit at most four times InlineRecv for decoded chunk lists and about 2 KiB else: 2 MiB with
// the defaults, at most MaxConns times. All connections share PayloadMemory bytes of buffers for data; a request that finds none waits, without a
// thread. The memory that a file system lends is bounded by Credits x MaxPayload a connection. The duplicate
// request cache holds DRCEntries replies of up to 512 bytes. Nothing else grows with what a peer sends.
package nfsserver
