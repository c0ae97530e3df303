// Package vfs is the interface between the NFS server and a file system.
//
// It knows no wire format: the server maps these calls and errors to NFSv3.
// A file system need not check permissions or file handles of other exports;
// the server does both. Calls come from many nfsd threads at once. A call that
// waits must wait through the scheduler that the fabric gave to the file system,
// so that it can run in virtual time.
package vfs
