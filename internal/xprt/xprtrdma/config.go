package xprtrdma

import (
	"fmt"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// RegMode is a way to let the peer reach memory (rdma_memreg_strategy).
type RegMode uint8

// The modes by the kernel's names. Their numbers moved between kernels, so the
// names count. What a device or this package lacks gives verbs.ErrUnsupported.
const (
	FastReg        RegMode = iota // REG_MR work requests, one segment a page list (FRWR)
	AllPhysical                   // one global key, one segment a page; nothing is fenced
	Bounce                        // no chunks: data is copied through the inline buffers
	Register                      // registered by verb for each chunk
	MemWindow                     // a type 2 window a page; the unbind is awaited
	MemWindowAsync                // likewise, not awaited
	FMR                           // fast memory regions
)

var modeNames = [...]string{"fastreg", "all-physical", "bounce", "register", "mw", "mw-async", "fmr"}

func (m RegMode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("RegMode(%d)", uint8(m))
}

// MarshalText gives the name of the mode.
func (m RegMode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText takes the name of a mode.
func (m *RegMode) UnmarshalText(b []byte) error {
	for i, n := range modeNames {
		if n == string(b) {
			*m = RegMode(i)
			return nil
		}
	}
	return fmt.Errorf("registration mode %q: want one of %q", b, modeNames)
}

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

	Mode        RegMode
	MaxDataSegs int // RPCRDMA_MAX_DATA_SEGS: pages of a data chunk
	Credits     int // rdma_slot_table_entries: slots, and credits asked for
	InlineSend  int // rdma_max_inline_write, bytes
	InlineRecv  int // rdma_max_inline_read, bytes
	SQDepth     int // send queue, work requests; 0: as many as Credits calls need
	IRD, ORD    int // RDMA READs served, issued; IRD 0: what the device can
	RetryCnt    uint8
	RNRRetry    uint8

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
