// Package packetfuzz sends hostile RoCEv2 packets to a queue pair of softroce, and says what must come of each.
//
//	input bytes -> gen -> Step -> oracle -> want   what the IB specification asks for, chapter 9.7
//	                        \---> rig    -> got    what the queue pair did
//
// A [Rig] is a queue pair in virtual time whose peer is raw: it sends packets by their fields, and sees all that comes
// back. A byte of input makes one decision, and below 0x80 it is the legal one, so an input of zeros is legal traffic.
// The oracle has no code of the device. After each step it compares the answers, the completions, the state, and every
// byte of memory; where the specification leaves room, several answers are right.
//
// An odd first byte of input plays a responder against the requester instead.
package packetfuzz
