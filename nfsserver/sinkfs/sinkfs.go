package sinkfs

import "example.org/nfsrdma/nfsserver/memfs"

// FS is a file system without data.
type FS struct{ *memfs.FS }

// New makes an empty one; Discard in o is taken as set.
func New(o memfs.Options) FS {
	o.Discard = true
	return FS{memfs.New(o)}
}
