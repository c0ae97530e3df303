// Package memfs is a file system in memory that keeps all that NFSv3 promises
// (RFC 1813): links, sparse files, stable directory cookies, guarded SETATTR,
// exclusive CREATE, unstable writes, stale handles.
//
// File data lies in chunks cut from slabs, and is lent without a copy: ReadPages
// pins the chunks of a range, and a change to a pinned chunk goes to a copy.
// GrabPages lends empty chunks, which WritePages makes the file's.
//
//	slab    | 64 KiB | 64 KiB | 4 | 4 | 8 | 16 | 32 | ...
//	file    head 4..64 KiB, then 64 KiB each; holes have no chunk
//
// Nothing depends on the wall clock, chance or map order: equal calls give equal
// inode numbers, cookies and chunk places. No call waits.
//
// Attributes in a WCC are filled whenever the object is known, also when the call fails;
// for an object that is not, Before and After are zero. a, s and w may be nil.
package memfs
