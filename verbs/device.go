package verbs

import "context"

// Device is an open RDMA device (struct ibv_context). Its owner closes it last.
type Device interface {
	// Name is the device's name, such as "softroce0" or "rxe0".
	Name() string
	Attr() DeviceAttr
	AllocPD() (PD, error)
	CreateCQ(CQInit) (CQ, error)
	// Listen waits for connections at "host:port" (rdma_listen), which
	// Listener.Addr returns as it is. Port 0 asks for no free port: a device may refuse it.
	Listen(addr string, backlog int) (Listener, error)
	// Resolve finds the way to "host:port" (rdma_resolve_addr, rdma_resolve_route).
	Resolve(ctx context.Context, addr string) (ID, error)
	// OnEvent sets the function that receives asynchronous events; nil drops them.
	OnEvent(func(AsyncEvent))
	// Counters are the device's hardware counters, by the names of rxe's hw_counters where it has them.
	Counters() []Counter
	// Resources counts the objects that exist (`rdma resource`).
	Resources() Resources
	Close() error
}

// Counter is a named count.
type Counter struct {
	Name  string
	Value uint64
}

// Resources counts live objects of a device.
type Resources struct {
	PD, MR, MW, CQ, QP, SRQ, CMID, DMAMap int
}

// Transport is the wire protocol family of a device.
type Transport uint8

// The transports, and where they differ for an upper layer: an iWARP read sink
// needs remote write access, and its first message comes from the initiator.
const (
	IB Transport = iota
	RoCE
	IWARP
)

func (t Transport) String() string {
	return [...]string{"IB", "RoCE", "iWARP"}[t]
}

// Cap is a set of device capabilities (IBV_DEVICE_*).
type Cap uint32

// Capabilities.
const (
	CapMemMgtExtensions Cap = 1 << iota // REG_MR, LOCAL_INV, SEND_WITH_INV
	CapMemWindow1                       // type 1 windows
	CapMemWindow2B                      // type 2B windows, with LOCAL_INV of them
	CapLocalDMAKey                      // PD.LocalDMAKey
	CapGlobalKey                        // PD.GlobalKey (all-physical)
	CapRNR                              // receiver-not-ready flow control; iWARP has none
	CapSendWithInv                      // SEND_WITH_INV, without the rest of CapMemMgtExtensions too
	CapFMR                              // fast memory regions: the device's PDs are FMRDomains
)

// DeviceAttr is what a device can do (struct ibv_device_attr). Depths are in work
// requests, sizes in bytes.
type DeviceAttr struct {
	Vendor, Part     string
	Transport        Transport
	Caps             Cap
	MaxQP            int
	MaxQPWR          int // send or receive queue depth
	MaxSGE           int // per send or receive
	MaxSGERd         int // per RDMA READ; 1 on most iWARP devices
	MaxInline        int
	MaxCQ            int
	MaxCQE           int
	MaxMR            int
	MaxMRSize        uint64
	MaxPD            int
	MaxSRQ           int
	MaxSRQWR         int
	MaxMW            int
	MaxQPRdAtom      int // IRD: RDMA READs a QP can serve at once
	MaxQPInitRdAtom  int // ORD: RDMA READs a QP can have outstanding
	MaxFastRegPages  int // page-list length of a fast registration; 0: none
	PageSize         int // of a page list, 4096
	MaxMsgSize       uint32
	ActiveMTU        int // path MTU: payload bytes of one packet
	MaxConnPrivate   int // private data the initiator can send
	MaxAcceptPrivate int // private data the acceptor can send
}

// AsyncEventType is IBV_EVENT_*.
type AsyncEventType uint8

// Asynchronous events.
const (
	EventCQErr AsyncEventType = iota
	EventQPFatal
	EventQPReqErr
	EventQPAccessErr
	EventCommEst
	EventSQDrained
	EventQPLastWQEReached
	EventSRQLimitReached
	EventDeviceFatal
)

func (t AsyncEventType) String() string {
	return [...]string{"CQ_ERR", "QP_FATAL", "QP_REQ_ERR", "QP_ACCESS_ERR", "COMM_EST", "SQ_DRAINED",
		"QP_LAST_WQE_REACHED", "SRQ_LIMIT_REACHED", "DEVICE_FATAL"}[t]
}

// AsyncEvent tells of something that is no completion; the object it concerns is set.
type AsyncEvent struct {
	Type AsyncEventType
	QP   QP
	CQ   CQ
	SRQ  SRQ
}
