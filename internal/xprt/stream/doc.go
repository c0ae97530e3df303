// Package stream is the byte streams below RPC over TCP, and the records in them (RFC 5531 section 11).
//
// A [Network] makes connections and a [Conn] is one: [Sockets] are those of the machine, for schedulers that run
// live. A model in virtual time is another Network, whose Conn waits in its own scheduler.
//
// A [Reader] takes records apart:
//
//	for {
//		err := r.Next()               // waits for the first fragment of a record
//		n, whole := r.Len()           // bytes of it that are announced; whole: there are no more
//		err = r.Full(head)            // crosses fragments
//		err = r.Skip()                // the rest
//	}
//
// What a peer announces is bounded before anybody sees it.
package stream
