// Package selftest has tests of the guest itself: its RDMA device carries Debian's own programs, and the kernel's NFS
// server and client talk over it. They run in the guest only (make test-rxe), and skip elsewhere.
package selftest
