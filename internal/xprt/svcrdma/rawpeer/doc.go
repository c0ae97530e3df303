// Package rawpeer is a requester for tests: it sends any bytes as a message, legal or not, and
// shows what comes back. It keeps no rule of RPC-over-RDMA by itself.
package rawpeer
