// Package xdr has the primitives of XDR (RFC 4506) that the protocol codecs are written with.
//
// AppendX encodes onto a slice. ConsumeX decodes from the front of a slice and gives the number of
// bytes used, negative if the input is bad. [Reader] strings ConsumeX calls together: the first
// failure sticks, and is reported with field name and offset.
//
// Opaque data and strings alias the input; nothing is copied and the success path never allocates.
// Lengths are checked against the caller's limit and against what is left of the input before use.
//
// Two latitudes are fixed here: a bool is 0 or 1 and anything else is an error; pad bytes should be
// zero (RFC 4506 section 4) and are written so, but other values are tolerated when read.
package xdr
