// Package xprttcp is the requester of RPC over TCP (RFC 5531 section 11), with the slots, timeouts, retransmission
// and reconnection of package xprtrdma.
//
// A caller that finds nobody writing writes its call itself; otherwise the writer, a task of the connection, writes
// what has gathered. The reader, another, matches replies by XID, and reads the data of a READ straight into the
// caller's memory.
//
// # The life of a slot
//
//	idle --Do--> queued --> sending --> sent --reply--> claimed --> done --> idle
//	             queued, sent --connection lost--> lost --> sent again
//	             sent --caller gives up--> abandoned --reply or loss--> idle
//
// sending and claimed belong to the writer and the reader: they use the caller's memory. A reply may overtake the end
// of sending. A caller that gives up then ends the connection, since half a record cannot be taken back.
package xprttcp
