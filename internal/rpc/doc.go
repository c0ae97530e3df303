// Package rpc has the message headers of ONC RPC version 2 (RFC 5531): call, reply, the
// credentials AUTH_NONE and AUTH_SYS, and the record marking of stream transports.
//
// A header is decoded from the front of a message and its length given back; arguments or results
// follow in place. Credentials, verifiers and the machine name alias the input.
package rpc
