// Package tcpnet is a stream.Network in virtual time: TCP connections of package tcpsim between two hosts, over a link.
//
// Send buffer, window, segments, delayed acknowledgements and pushes are those of tcpsim, the rate and delay of
// packets those of package link. All connections share the link. Segments of several packets travel as one: the last
// packet's arrival is theirs. Nothing is lost: there are neither retransmissions nor a congestion window, and links
// that lose, drop or reorder packets are refused.
//
// Dial connects from the client to a listener of the server and takes a round trip. A Conn that is closed sends what it
// has and then the end of the stream, or a reset if something came that nobody has read.
package tcpnet
