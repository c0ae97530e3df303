package xprtrdma

import (
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// BadReplyPolicy says what becomes of a call whose reply has a bad header.
type BadReplyPolicy uint8

// RFC 8166 section 4.5 has a bad reply dropped. Linux ends the call, so that it does end.
const (
	BadReplyEIO  BadReplyPolicy = iota // the call ends with ErrBadReply
	BadReplyDrop                       // the call waits for its timeout
)

// Config is a transport's. All fields are used as they are; package nfsclient knows the defaults.
type Config struct {
	Sched  *sched.Sched
	Device verbs.Device
	Addr   string // "host:port"

	Mode         RegMode
	ModeFallback bool // what Linux takes in the place of a mode that the device lacks
	MWPages      int  // pages that a memory window covers; 0: a buffer with type 2B, 1 with type 1, as Linux had it
	PinBytes     int  // idle registrations that memory windows keep, bytes
	RegCost      RegCost
	Work         WorkCost
	MaxDataSegs  int // RPCRDMA_MAX_DATA_SEGS: pages of a data chunk
	Credits      int // rdma_slot_table_entries: slots, and credits asked for
	InlineSend   int // rdma_max_inline_write, bytes
	InlineRecv   int // rdma_max_inline_read, bytes
	SQDepth      int // send queue, work requests; 0: as many as Credits calls need
	IRD, ORD     int // RDMA READs served, issued; IRD 0: what the device can
	RetryCnt     uint8
	RNRRetry     uint8

	PadInChunk           bool // rdma_pad_optimize=0: Read chunks carry the XDR pad
	NoRemoteInvalidation bool
	NoPrivateData        bool

	Timeout      sched.Duration // timeo: no reply in this time ends the connection; 0: none
	Retrans      int            // soft: times that a call is sent again
	Soft         bool           // a call fails after Retrans; otherwise it never gives up
	ReconnectMin sched.Duration // wait before the second attempt to connect, doubled each time
	ReconnectMax sched.Duration
	BadReply     BadReplyPolicy

	// Trace, if not nil, gets each message sent (">") and received ("<"), and what happens to
	// the connection ("*"), in one line each. It must not wait.
	Trace func(line string)
	// FormatCall and FormatReply, if not nil, print the RPC message for Trace.
	FormatCall  func(msg []byte, reduced bool) string
	FormatReply func(call, msg []byte, reduced bool) string
}

// recvBatch is RPCRDMA_MAX_RECV_BATCH: receives are posted in this many at a time.
const recvBatch = 7

// maxHdrSegs is RPCRDMA_MAX_HDR_SEGS: segments in a chunk of coalesced regions.
const maxHdrSegs = 16
