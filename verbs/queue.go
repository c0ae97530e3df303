package verbs

import "context"

// CQInit describes a completion queue.
type CQInit struct {
	Depth int // entries; more completions than this is an overflow
	// Handler, if not nil, is called once after each Arm, when a completion
	// comes. It must not wait. It gets every event, and Wait none; without it, use Wait.
	Handler func(CQ)
	Name    string // for messages
}

// CQ is a completion queue.
//
// Overflow is fatal for the queue and for the queue pairs that use it: Poll gives
// ErrCQOverflow and the device reports EventCQErr.
type CQ interface {
	// Poll takes completions, oldest first, and never waits.
	Poll(wc []WC) (int, error)
	// Arm asks for one event at the next completion, or the next solicited or failed one
	// (ibv_req_notify_cq). missed says that completions may be there already: poll again.
	Arm(solicitedOnly bool) (missed bool)
	// Wait waits for the event that Arm asked for. One task at a time. It ends
	// with ErrClosed when the queue is closed, or was before; of a queue with a
	// Handler it ends only so, or with ctx.
	Wait(ctx context.Context) error
	// Close destroys it. ErrBusy while a queue pair uses it.
	Close() error
}

// SRQInit describes a shared receive queue.
type SRQInit struct {
	MaxWR  int
	MaxSGE int
	Limit  int // EventSRQLimitReached when fewer receives remain; 0 never. One event, then set again by SetLimit.
}

// SRQ is a shared receive queue.
type SRQ interface {
	// PostRecv adds receives and returns how many were taken before the error.
	PostRecv([]RecvWR) (int, error)
	SetLimit(int) error
	Close() error
}

// QPInit describes a reliable-connected queue pair (struct ibv_qp_init_attr).
type QPInit struct {
	SendCQ, RecvCQ CQ
	SRQ            SRQ // nil: a receive queue of its own
	MaxSendWR      int
	MaxRecvWR      int
	MaxSendSGE     int
	MaxRecvSGE     int
	MaxInline      int
	SignalAll      bool // sq_sig_all
	Name           string
}

// QPState is IBV_QPS_*.
type QPState uint8

// States of a queue pair.
const (
	Reset QPState = iota
	Init
	RTR
	RTS
	SQD
	SQE
	Error
)

func (s QPState) String() string {
	return [...]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}[s]
}

// QPAttr is what Modify sets, each field in the transition that takes it
// (ibv_modify_qp), and what Query returns.
type QPAttr struct {
	State QPState
	// To INIT.
	Access Access // RemoteRead, RemoteWrite that the peer may use
	// To RTR.
	DestAddr string // device address of the peer
	DestQPN  uint32
	RQPSN    uint32 // 24 bits
	PathMTU  int    // 256 to 4096; 0 the device's
	IRD      int    // max_dest_rd_atomic
	MinRNR   uint8  // RNR NAK timer code, IB specification table 45; 0 is 655.36 ms, as in the connections of an ID
	// To RTS.
	SQPSN    uint32
	ORD      int   // max_rd_atomic
	Timeout  uint8 // local ACK timeout 4.096 us x 2^n; 0 never
	RetryCnt uint8 // 0..7
	RNRRetry uint8 // 0..6; 7 for ever
}

// QP is a reliable-connected queue pair.
//
// Posting to a full queue is ErrQueueFull, in a state that does not take work
// ErrState; in state ERR work is taken and flushed. A post that fails takes none
// of the work requests from the bad one on.
type QP interface {
	// Num is the queue pair number, WC.QPN.
	Num() uint32
	// PostSend posts in order and returns how many were taken before the error.
	PostSend([]SendWR) (int, error)
	// PostRecv adds receives likewise.
	PostRecv([]RecvWR) (int, error)
	// BindMW binds a type 1 window (ibv_bind_mw); the completion is that of a BIND_MW.
	BindMW(mw MW, id uint64, flags SendFlags, b Bind) error
	Modify(QPAttr) error
	Query() QPAttr
	// Close destroys it: work that is left gives no completions.
	Close() error
}
