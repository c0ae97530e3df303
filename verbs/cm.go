package verbs

import "context"

// ConnParam is what one side wishes for a connection (struct rdma_conn_param).
// The RNR timer is no wish: it is code 0, 655.36 ms, on both sides, as with rdma_cm.
type ConnParam struct {
	PrivateData []byte
	IRD         int   // responder_resources: READs of the peer that this side will serve
	ORD         int   // initiator_depth: READs that this side would have outstanding
	RetryCnt    uint8 // transport retries, 0..7
	RNRRetry    uint8 // how often the peer shall retry when no receive is posted here: 0..6; 7 for ever
}

// CMEventType is RDMA_CM_EVENT_*.
type CMEventType uint8

// Connection events after Connect or Accept has succeeded.
const (
	CMDisconnected CMEventType = iota
	CMDeviceRemoval
	CMAddrChange
)

func (t CMEventType) String() string {
	return [...]string{"DISCONNECTED", "DEVICE_REMOVAL", "ADDR_CHANGE"}[t]
}

// ID is one end of a connection (struct rdma_cm_id).
type ID interface {
	// CreateQP makes the queue pair of the connection (rdma_create_qp), ready
	// for receives to be posted. It is closed apart from the ID, before it.
	CreateQP(pd PD, init QPInit) (QP, error)
	// OnEvent sets the function that gets the events of the connection. It must not wait.
	OnEvent(func(CMEventType))
	// Connect asks the peer, and waits for its answer: what the peer sent and
	// wishes. A refusal is a *RejectError. Without CreateQP before, or a second
	// time, it is an error.
	Connect(ctx context.Context, p ConnParam) (peer ConnParam, err error)
	// Request is what the peer asked for, on an ID of Listener.Accept.
	Request() ConnParam
	// Accept answers a request, and waits until the connection is established.
	// Without CreateQP before, or a second time, it is an error.
	Accept(ctx context.Context, p ConnParam) error
	// Reject refuses a request.
	Reject(private []byte) error
	// Negotiated is the IRD and ORD in force on this side: ORD is the lesser
	// of the own wish and the peer's IRD.
	Negotiated() (ird, ord int)
	// Disconnect ends the connection: both queue pairs go to ERR and flush, and
	// both sides get CMDisconnected. Again, it does nothing.
	Disconnect() error
	LocalAddr() string
	PeerAddr() string
	Close() error
}

// Listener receives connection requests.
type Listener interface {
	// Accept waits for a request.
	Accept(ctx context.Context) (ID, error)
	Addr() string
	// Close refuses the requests that wait and all later ones.
	Close() error
}
