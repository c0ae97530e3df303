// Package link models the wire between two devices: rate, delay, packet size,
// a queue before the port, and seeded loss, duplication and reordering.
//
// A Pipe is one direction; two of them make a link. It carries the packets of
// its user, whose memory stays the user's: a packet is handed in by Send and comes
// back once, by its Fire (it has arrived) or its Drop (it is gone).
//
// In virtual time arrivals are exact to the picosecond. Live, deadlines are
// computed by the same model and kept as well as the wall clock allows: a packet
// may come late, never early and never out of turn, and lateness does not add up.
package link
