// Package chunkfuzz has hostile peers for RPC-over-RDMA version 1 (RFC 8166), and says what a responder or
// requester made of them.
//
// A [Requester] sends any bytes to a server: legal calls, their neighbours, nonsense. Its memory has regions of every
// kind, and after each exchange every byte of them is compared. An exchange ends in a [Verdict]: a reply, an RDMA_ERROR,
// silence, the end of the connection, or a violation, which no peer may cause. A [Responder] is the same for clients.
//
//	input bytes -> Gen -> Case -> Oracle  -> Want    what the RFCs ask for
//	                        \---> Session -> Verdict what the server did
//
// [Gen] turns bytes into calls: a zero byte is the ordinary choice, so that a mutation of a byte changes one decision.
// [Oracle] reads the message as RFC 8166, RFC 8267 and RFC 5531 do, with code of its own, and knows the regions and
// the files; it says what must come back, to the length of each segment. [Run] fuzzes a user's own server, and [Rig] is
// the server of this module in virtual time.
//
// [ClientRig] is the client of this module with a responder whose answers are right, short, long or wrong, and an oracle that says
// whether an answer is taken, dropped or ends the call; nobody may reach memory of a call that is over.
//
// Limits: keys that a peer may invalidate remotely are not offered by the Requester.
package chunkfuzz
