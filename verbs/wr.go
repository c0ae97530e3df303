package verbs

// Opcode is a work request's (IBV_WR_*).
type Opcode uint8

// Work request opcodes. Atomics keep their place and are not implemented.
const (
	OpSend Opcode = iota
	OpSendWithImm
	OpSendWithInv
	OpRDMAWrite
	OpRDMAWriteWithImm
	OpRDMARead
	OpAtomicCmpSwp
	OpAtomicFetchAdd
	OpLocalInv
	OpBindMW // type 2B
	OpRegMR
	OpRecv            // completions only
	OpRecvRDMAWithImm // completions only
)

func (o Opcode) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return "UNKNOWN"
}

var opNames = [...]string{"SEND", "SEND_WITH_IMM", "SEND_WITH_INV", "RDMA_WRITE", "RDMA_WRITE_WITH_IMM", "RDMA_READ",
	"ATOMIC_CMP_SWP", "ATOMIC_FETCH_ADD", "LOCAL_INV", "BIND_MW", "REG_MR", "RECV", "RECV_RDMA_WITH_IMM"}

// SendFlags are IBV_SEND_*.
type SendFlags uint8

// Send flags.
const (
	Signaled  SendFlags = 1 << iota // a completion even on success
	Solicited                       // raises an event at a peer that armed for solicited ones
	Fence                           // starts only after all earlier RDMA READs are done
	Inline                          // the data is taken when posting: SendWR.Data, not SGEs
)

// SendWR is a send work request (struct ibv_send_wr). The device copies it when
// it is posted; the memory of its SGEs belongs to the device until completion.
type SendWR struct {
	ID    uint64 // returned in the completion
	Op    Opcode
	Flags SendFlags
	SGEs  []SGE
	Data  []byte // with Inline, instead of SGEs

	Imm        uint32 // with immediate: in host order
	InvKey     uint32 // SEND_WITH_INV: the peer's rkey; LOCAL_INV: own key
	RemoteAddr uint64 // RDMA
	RKey       uint32 // RDMA

	MW     MW        // BIND_MW
	Bind   Bind      // BIND_MW
	Reg    FastRegMR // REG_MR
	Key    uint32    // REG_MR, BIND_MW: the key it shall have, of NextKey
	Access Access    // REG_MR
}

// RecvWR is a receive work request.
type RecvWR struct {
	ID   uint64
	SGEs []SGE
}

// Status is a completion's status (IBV_WC_*).
type Status uint8

// Completion statuses, in the order of libibverbs.
const (
	Success Status = iota
	LocLenErr
	LocQPOpErr
	LocEECOpErr
	LocProtErr
	WRFlushErr
	MWBindErr
	BadRespErr
	LocAccessErr
	RemInvReqErr
	RemAccessErr
	RemOpErr
	RetryExcErr
	RNRRetryExcErr
	LocRDDViolErr
	RemInvRDReqErr
	RemAbortErr
	InvEECNErr
	InvEECStateErr
	FatalErr
	RespTimeoutErr
	GeneralErr
)

var statusNames = [...]string{"success", "local length error", "local QP operation error", "local EE context operation error",
	"local protection error", "Work Request Flushed Error", "memory management operation error", "bad response error",
	"local access error", "remote invalid request error", "remote access error", "remote operation error",
	"transport retry counter exceeded", "RNR retry counter exceeded", "local RDD violation error",
	"remote invalid RD request", "aborted error", "invalid EE context number", "invalid EE context state",
	"fatal error", "response timeout error", "general error"}

func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "unknown status"
}

// WCFlags are IBV_WC_*.
type WCFlags uint8

// Completion flags: which of Imm and InvKey is valid.
const (
	WCWithImm WCFlags = 1 << iota
	WCWithInv
)

// WC is a work completion (struct ibv_wc). Unless Status is Success only ID,
// Status and QPN are valid. Op may be plain SEND or RDMA_WRITE for those with immediate data or
// invalidation: libibverbs does not tell.
type WC struct {
	ID      uint64
	Status  Status
	Op      Opcode
	Flags   WCFlags
	ByteLen uint32 // received, or read
	Imm     uint32
	InvKey  uint32 // the own key that the peer invalidated
	QPN     uint32
}
