// Package linuxclient has tests in which Linux mounts our server over a real RDMA device and works on it with ordinary
// file operations. They run in the guest only (make test-rxe), and skip elsewhere.
//
// A test ends with the checks of its rig: the kernel counted no bad reply and no call that it could not marshal, its log
// has nothing new, our server refused nothing, and all RDMA resources are given back.
package linuxclient
