// Package wire has tests that compare what our client and server send with what
// Linux's do: for each operation headers, chunk lists, RPC and NFS fields, the RDMA
// operations and the messages of the connection manager. The kernel's side is
// testdata/linux-6.1.txt; what differs, and why, is the list in differences_test.go.
package wire
