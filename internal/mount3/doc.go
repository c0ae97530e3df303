// Package mount3 has the wire types of MOUNT version 3 (RFC 1813 appendix I): a path in, a file
// handle out, and the lists of mounts and exports. Names and paths alias the input.
//
// Where a procedure has no arguments (NULL, DUMP, UMNTALL, EXPORT) or no result (NULL, UMNT, UMNTALL)
// there are zero bytes and no codec.
package mount3
