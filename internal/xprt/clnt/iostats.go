package clnt

import (
	"sync"

	"example.org/nfsrdma/internal/sched"
)

// OpCounts are what the kernel counts for each operation (rpc_iostats). Bytes are of RPC messages, data included;
// times are sums.
type OpCounts struct {
	Ops, Trans, Timeouts, Sent, Recv, Errors uint64

	Queue, RTT, Execute uint64 // ns: until sent, from then to the reply, and all
}

func (c *OpCounts) add(o *OpCounts) {
	c.Ops += o.Ops
	c.Trans += o.Trans
	c.Timeouts += o.Timeouts
	c.Sent += o.Sent
	c.Recv += o.Recv
	c.Errors += o.Errors
	c.Queue += o.Queue
	c.RTT += o.RTT
	c.Execute += o.Execute
}

// OpTable counts the calls of one slot, by operation. Only who holds the slot adds; anybody may sum up.
type OpTable struct {
	mu  sync.Mutex
	ops []OpCounts
	_   [96]byte // the lock of another slot is not on this cache line
}

// OpTables are those of all slots of a mount.
type OpTables struct {
	mu  sync.Mutex
	n   int
	all []*OpTable
}

// NewOpTables makes room for n operations.
func NewOpTables(n int) *OpTables { return &OpTables{n: n} }

// Begin makes c count as operation op from the time at on. A slot gets its table once.
func (t *OpTables) Begin(c *Call, op int, at sched.Time) {
	if c.ops == nil {
		c.ops = &OpTable{ops: make([]OpCounts, t.n)}
		t.mu.Lock()
		t.all = append(t.all, c.ops)
		t.mu.Unlock()
	}
	c.op, c.begun = op, at
}

// Sum adds up all slots, by operation.
func (t *OpTables) Sum() []OpCounts {
	out := make([]OpCounts, t.n)
	t.mu.Lock()
	all := t.all
	t.mu.Unlock()
	for _, x := range all {
		x.mu.Lock()
		for i := range x.ops {
			out[i].add(&x.ops[i])
		}
		x.mu.Unlock()
	}
	return out
}

// Count adds c, which has ended, to the statistics of its slot; it does nothing without Begin.
func (c *Call) Count(now sched.Time, failed bool) {
	if c.op < 0 {
		return
	}
	t := c.ops
	t.mu.Lock()
	o := &t.ops[c.op]
	o.Ops++
	o.Trans += uint64(c.Trans)
	o.Timeouts += uint64(c.Timeouts)
	if c.Trans > 0 {
		o.Sent += uint64(c.Trans) * uint64(len(c.Msg)+(len(c.Data)+3)&^3)
		o.Queue += ns(c.SentAt.Sub(c.begun))
	}
	if c.Reply != nil {
		o.Recv += uint64(len(c.Reply) + max(c.SinkLen, 0))
		o.RTT += ns(now.Sub(c.SentAt))
	}
	o.Execute += ns(now.Sub(c.begun))
	if failed {
		o.Errors++
	}
	t.mu.Unlock()
	c.op = -1
}

func ns(d sched.Duration) uint64 { return uint64(max(d, 0)) / uint64(sched.Nanosecond) }
