// Package nfs3 has the wire types of NFS version 3 (RFC 1813): arguments and results of all 22
// procedures, one file each, and the types they share.
//
// For each procedure X there are XArgs and XRes, AppendXArgs, ConsumeXArgs, AppendXRes, ConsumeXRes
// and a one-line String. A result holds the status and both arms of its union; encode and decode
// touch the arm that the status selects. ConsumeX fills what the caller points to, overwrites all of
// it and does not allocate; names, paths, data and directory lists alias the input.
//
// On a transport that moves data directly, four items leave the message (RFC 8267 section 4): WRITE
// data, SYMLINK path, READ data, READLINK path. Each is the last item of its message, and XHead
// variants code all before its bytes, the length word included, which stays inline (RFC 8166
// section 3.4.4).
package nfs3
