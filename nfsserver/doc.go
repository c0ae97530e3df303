// Package nfsserver is an NFS version 3 and MOUNT version 3 server on RPC-over-RDMA and TCP.
//
// A [Server] listens on a verbs.Device, or at TCP addresses, or both, and serves exports, each a vfs.FS, with a
// number of nfsd threads. It takes everything it needs in a [Config] whose zero fields are the defaults:
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
// the defaults, at most MaxConns times. All connections share PayloadMemory bytes for data on its way, in buffers or lent
// by the file system for WRITEs; a request that finds none waits, without a thread. What a file system lends for
// READs is its own data; it keeps an older version of it when that is written meanwhile, at most
// (Credits+8) x MaxPayload bytes a connection. The duplicate request cache holds DRCEntries replies of up to 512 bytes,
// the list of mounts 1024 entries. Nothing else grows with what a peer sends.
//
// A TCP connection costs 64 KiB, and a slot, of which there are Credits, at most 24 KiB once it is used. Calls too long for that, and
// data, share another PayloadMemory. What a client does not read, or sends too slowly, is held for Stall.
//
// A peer that stops to acknowledge or to post receives holds the threads that answer it until the device's retries
// are used up and the connection ends.
package nfsserver
