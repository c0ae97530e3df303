package nfsclient

import (
	"time"

	"example.org/nfsrdma/internal/nfs3"
)

// OpStats are the statistics of one procedure (rpc_iostats). Bytes are of RPC messages, data included. Times are sums
// over the calls.
type OpStats struct {
	Op            string // "READ"
	Ops           uint64 // calls that have ended
	Transmissions uint64
	Timeouts      uint64
	BytesSent     uint64
	BytesReceived uint64
	Queue         time.Duration // until a call was sent: waiting for slot, credit and send queue
	RTT           time.Duration // from then until its caller had the reply
	Execute       time.Duration // all of it
	Errors        uint64        // calls that failed, or whose status was not NFS3_OK
}

// OpStats are the statistics of all procedures of NFSv3, by number. They can be read after Close.
func (m *Mount) OpStats() []OpStats {
	all := m.ops.Sum()
	out := make([]OpStats, len(all))
	for i, c := range all {
		out[i] = OpStats{Op: nfs3.Proc(i).String(), Ops: c.Ops, Transmissions: c.Trans, Timeouts: c.Timeouts,
			BytesSent: c.Sent, BytesReceived: c.Recv, Queue: time.Duration(c.Queue), RTT: time.Duration(c.RTT),
			Execute: time.Duration(c.Execute), Errors: c.Errors}
	}
	return out
}
