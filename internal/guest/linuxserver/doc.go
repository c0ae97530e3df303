// Package linuxserver has tests of this module's NFS client against the kernel's server, over the guest's RDMA device
// (make test-rxe). They skip elsewhere.
package linuxserver
