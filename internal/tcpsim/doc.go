// Package tcpsim models one direction of a TCP connection as far as it decides when data leaves: the send queue and
// its segments, the send buffer, the window, Nagle and cork, when sendpage pushes, and when the receiver acknowledges.
//
// It counts bytes and carries none. The rules are those of Linux 3.x: do_tcp_sendpages, tcp_push,
// tcp_write_xmit and tcp_data_snd_check on the sender's side, tcp_measure_rcv_mss, __tcp_ack_snd_check and
// tcp_cleanup_rbuf on the receiver's. Nothing is lost and there is no congestion window, as on loopback.
//
// It waits in the scheduler and is meant for virtual time; one task sends and one receives.
package tcpsim
