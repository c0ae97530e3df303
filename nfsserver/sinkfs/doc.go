// Package sinkfs is a file system that drops what is written and reads zeros, to
// measure a transport without storage. Names, sizes and times are kept as in memfs.
//
// Reads are lent from one slab of zeros. Writes are lent chunks that are used
// again as soon as they are written.
package sinkfs
