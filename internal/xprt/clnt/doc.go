// Package clnt is what the requesters of the RPC transports have in common, as the RPC client sees them: a caller
// takes a slot with Get, puts an RPC call into its [Call], sends it with Do, reads the reply in place and gives the
// slot back with Put.
package clnt
