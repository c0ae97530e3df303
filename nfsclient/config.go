package nfsclient

import (
	"fmt"
	"time"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/stream"
	"example.org/nfsrdma/internal/xprt/xprtrdma"
	"example.org/nfsrdma/internal/xprt/xprttcp"
	"example.org/nfsrdma/verbs"
)

// RegMode is how the server gets to reach memory (rdma_memreg_strategy).
type RegMode = xprtrdma.RegMode

// Registration modes. A mode that the device lacks gives an error that matches verbs.ErrUnsupported.
const (
	Auto           = xprtrdma.Auto           // the best that the device has: FastReg, MemWindow (type 2B), Register, AllPhysical, Bounce
	FastReg        = xprtrdma.FastReg        // REG_MR work requests; one segment a page list
	AllPhysical    = xprtrdma.AllPhysical    // one global key; one segment a page, nothing is fenced
	Bounce         = xprtrdma.Bounce         // no chunks: copies through the inline buffers
	Register       = xprtrdma.Register       // registered and deregistered by verb for each call; one segment a buffer
	MemWindow      = xprtrdma.MemWindow      // a window bound for each call; the unbind is awaited
	MemWindowAsync = xprtrdma.MemWindowAsync // likewise, not awaited
	FMR            = xprtrdma.FMR            // fast memory regions, mapped and unmapped by verb
)

// RegModes lists the modes.
func RegModes() []RegMode { return xprtrdma.RegModes() }

// ParseRegMode takes the name of a mode, or a number of rdma_memreg_strategy with the kernel that it is of, such as
// "5@2.6.24": from 2.6.28 on 5 means fastreg and 6 all-physical; before, 5 meant all-physical.
func ParseRegMode(s string) (RegMode, error) { return xprtrdma.ParseRegMode(s) }

// StrategyMode is the mode of a number of rdma_memreg_strategy in a kernel version from 2.6.24 on.
func StrategyMode(n int, kernel string) (RegMode, error) { return xprtrdma.StrategyMode(n, kernel) }

// RegCost is what registration costs in a model: the caller waits for so long.
type RegCost struct {
	Op         time.Duration // a registration or bind
	Page       time.Duration // each page of a registration
	Invalidate time.Duration // a deregistration or invalidation by the client
}

// CPUCost is what the client's CPUs add to each reply in a model; the zero value adds nothing. A reply frees a credit
// and wakes the next sender from a work queue (xprtiod), so all of it lies in the credit loop.
type CPUCost struct {
	SoftIRQ time.Duration // soft interrupts that are pending when a bottom-half lock is released, which runs them (local_bh_enable); a reply waits for them where BHLocks is BHAll
	Wake    time.Duration // from queue_work to the run of the worker
	Held    time.Duration // longer than Wake for a worker that pending soft interrupts hold up: of normal priority, where BHLocks is BHNone
	BHLocks BHLocks       // which locks of the RPC client are bottom-half locks; default BHAll
	HighPri bool          // the work queue has WQ_HIGHPRI
}

// BHLocks are the locks of the RPC client that disable bottom halves.
type BHLocks uint8

// States of the RPC client: all locks, as up to Linux 5.2; those of RPC wait queues only; none.
const (
	BHAll BHLocks = iota
	BHWaitQueues
	BHNone
)

func (b BHLocks) String() string {
	if b <= BHNone {
		return [...]string{"all", "wait-queues", "none"}[b]
	}
	return fmt.Sprintf("BHLocks(%d)", uint8(b))
}

func (c CPUCost) work() xprtrdma.WorkCost {
	w := xprtrdma.WorkCost{Wake: sched.FromStd(c.Wake)}
	if c.BHLocks == BHAll {
		w.SoftIRQ = sched.FromStd(c.SoftIRQ)
	}
	if c.BHLocks == BHNone && !c.HighPri {
		w.Wake += sched.FromStd(c.Held)
	}
	return w
}

// BadReplyPolicy says what becomes of a call whose reply has a bad header.
type BadReplyPolicy = xprtrdma.BadReplyPolicy

// RFC 8166 section 4.5 has such a reply dropped. Linux ends the call with EIO, so that it does end.
const (
	BadReplyEIO  = xprtrdma.BadReplyEIO
	BadReplyDrop = xprtrdma.BadReplyDrop
)

// Proto is the transport of a mount (mount option proto).
type Proto uint8

// The transports. Over TCP, what is about RDMA in Config and Negotiated has no meaning.
const (
	RDMA Proto = iota
	TCP
)

var protoNames = [...]string{"rdma", "tcp"}

func (p Proto) String() string {
	if int(p) < len(protoNames) {
		return protoNames[p]
	}
	return fmt.Sprintf("Proto(%d)", uint8(p))
}

// MarshalText gives the name of the transport.
func (p Proto) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText takes the name of a transport.
func (p *Proto) UnmarshalText(b []byte) error {
	for i, n := range protoNames {
		if n == string(b) {
			*p = Proto(i)
			return nil
		}
	}
	return fmt.Errorf("transport %q: want one of %q", b, protoNames)
}

// Cred is the credential of all calls of a mount. The zero value is AUTH_SYS as root.
type Cred struct {
	None     bool // AUTH_NONE
	UID, GID uint32
	GIDs     []uint32 // at most 16
	Machine  string   // default "nfsrdma"
}

// Config says what to mount and how. A zero field has the default that it names.
type Config struct {
	Proto  Proto        // default RDMA
	Device verbs.Device // must be set for RDMA; stays the caller's
	Addr   string       // "server:20049", over TCP "server:2049"; must be set
	Export string       // path that MOUNT is asked for; default "/"
	Sched  *sched.Sched // default: live, the mount's own

	MountAddr string         // "server:20048" where MOUNT is asked over TCP; default over the mount's own connection
	Net       stream.Network // of TCP; default the machine's sockets, which need a live Sched
	ResvPort  bool           // mount option resvport: TCP from a port below 1024, which takes a privilege

	RegMode     RegMode // rdma_memreg_strategy; default Auto: FastReg where the device has it
	RegFallback bool    // take what Linux does for a mode that the device lacks; default: that is an error
	MWPages     int     // pages that a memory window covers: 1..4096; default a buffer with type 2B windows, 1 with type 1
	PinBytes    int     // bytes of unused buffers that memory windows keep registered: default 64 MiB, negative none
	RegCost     RegCost // modelled cost of registration; default none
	CPUCost     CPUCost // modelled cost of replies; default none
	MaxDataSegs int     // RPCRDMA_MAX_DATA_SEGS, pages of a chunk: 1..4096, default 257. Payload is at most this times 4096
	RSize       int     // mount option rsize, bytes of a READ: default and at most what server and MaxDataSegs allow
	WSize       int     // mount option wsize, likewise
	InlineSend  int     // rdma_max_inline_write: 1024..65536 bytes, default 4096; rounded down to 1024
	InlineRecv  int     // rdma_max_inline_read: likewise
	Credits     int     // rdma_slot_table_entries, over TCP tcp_slot_table_entries: 1..16384, default 128
	SQDepth     int     // send queue entries; default what Credits calls need
	IRD         int     // RDMA READs of the server that are served at once; default what the device can
	ORD         int     // RDMA READs of our own: NFS needs none; default 0
	RetryCnt    int     // transport retries: 1..7, default 6
	RNRRetry    int     // retries when the server has no receive posted: 0..7, 7 for ever; default 0

	NoPrivateData        bool // do not send RFC 8797 private data: the inline threshold is 1024
	NoRemoteInvalidation bool // do not let the server invalidate keys (RFC 8797 section 4.1)
	NoPadOptimize        bool // rdma_pad_optimize=0: Read chunks carry the XDR pad

	Cred         Cred
	Soft         bool           // mount option soft: calls fail with ErrTimedOut; default hard, they never do
	Timeout      time.Duration  // timeo: a call without reply ends the connection and is sent again; default 60 s, negative never
	Retrans      int            // retrans, times a soft call is sent again: default 2, negative 0
	ReconnectMin time.Duration  // first wait between attempts to connect, doubled each time; default 5 s
	ReconnectMax time.Duration  // default 30 s
	JukeboxTime  time.Duration  // NFS_JUKEBOX_RETRY_TIME: a call with NFS3ERR_JUKEBOX is made again after it, for ever; default 5 s, negative: it is an error
	BadReply     BadReplyPolicy // default BadReplyEIO

	IODepth int // calls that one ReadAt or WriteAt of a File has in flight: 1..1024, default 8

	// Trace, if not nil, gets each message sent (">") and received ("<"), and what happens to the connection
	// ("*"), in one line each. It must not wait, and costs time and allocations.
	Trace func(line string)
}

// ConfigError says that a knob is outside its bounds.
type ConfigError struct {
	Knob  string
	Value any
	Want  string
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("nfsclient: %s is %v, must be %s", e.Knob, e.Value, e.Want)
}

// Is makes it match verbs.ErrInvalid.
func (e *ConfigError) Is(target error) bool { return target == verbs.ErrInvalid }

// knob is an integer of Config with default and bounds.
type knob struct {
	name     string
	v        *int
	def      int
	min, max int
	unit     string
}

// setDefaults fills in defaults and checks bounds.
func (c *Config) setDefaults() error {
	if c.Proto > TCP {
		return &ConfigError{"Proto", c.Proto, "RDMA or TCP"}
	}
	if c.Device == nil && c.Proto == RDMA {
		return &ConfigError{"Device", nil, "set"}
	}
	if c.Addr == "" {
		return &ConfigError{"Addr", `""`, `"host:port"`}
	}
	if c.Export == "" {
		c.Export = "/"
	}
	if len(c.Cred.GIDs) > 16 {
		return &ConfigError{"Cred.GIDs", len(c.Cred.GIDs), "at most 16 groups (AUTH_SYS)"}
	}
	if len(c.Cred.Machine) > 255 {
		return &ConfigError{"Cred.Machine", len(c.Cred.Machine), "at most 255 bytes (AUTH_SYS)"}
	}
	if c.Cred.Machine == "" {
		c.Cred.Machine = "nfsrdma"
	}
	a := verbs.DeviceAttr{MaxQPWR: 1 << 16, MaxQPRdAtom: 255, MaxQPInitRdAtom: 255}
	if c.Proto == RDMA {
		a = c.Device.Attr()
	}
	const big = 1 << 30
	for _, k := range []knob{
		{"MaxDataSegs (RPCRDMA_MAX_DATA_SEGS)", &c.MaxDataSegs, 257, 1, 4096, "pages"},
		{"RSize (rsize)", &c.RSize, big, 1, big, "bytes"},
		{"WSize (wsize)", &c.WSize, big, 1, big, "bytes"},
		{"InlineSend (rdma_max_inline_write)", &c.InlineSend, 4096, 1024, 65536, "bytes"},
		{"InlineRecv (rdma_max_inline_read)", &c.InlineRecv, 4096, 1024, 65536, "bytes"},
		{"Credits (rdma_slot_table_entries)", &c.Credits, min(128, max(a.MaxQPWR-8, 1)), 1, 16384, "slots"},
		{"SQDepth", &c.SQDepth, 0, 0, a.MaxQPWR, "work requests (the device's limit)"},
		{"IRD", &c.IRD, 0, 0, a.MaxQPRdAtom, "RDMA READs (the device's limit)"},
		{"ORD", &c.ORD, 0, 0, a.MaxQPInitRdAtom, "RDMA READs (the device's limit)"},
		{"RetryCnt", &c.RetryCnt, 6, 1, 7, "retries"},
		{"RNRRetry", &c.RNRRetry, 0, 0, 7, "retries"},
		{"MWPages", &c.MWPages, 0, 0, 4096, "pages"},
		{"PinBytes", &c.PinBytes, 64 << 20, -1, 1 << 40, "bytes, -1 for none"},
		{"IODepth", &c.IODepth, 8, 1, 1024, "calls"},
	} {
		if *k.v == 0 {
			*k.v = k.def
		}
		if *k.v < k.min || *k.v > k.max {
			return &ConfigError{k.name, *k.v, fmt.Sprintf("%d to %d %s", k.min, k.max, k.unit)}
		}
	}
	if c.RegCost.Op < 0 || c.RegCost.Page < 0 || c.RegCost.Invalidate < 0 {
		return &ConfigError{"RegCost", c.RegCost, "not negative"}
	}
	if k := &c.CPUCost; k.SoftIRQ < 0 || k.Wake < 0 || k.Held < 0 || k.BHLocks > BHNone {
		return &ConfigError{"CPUCost", c.CPUCost, "times that are not negative and BHAll, BHWaitQueues or BHNone"}
	}
	if c.RegMode > FMR {
		return &ConfigError{"RegMode", c.RegMode, "a registration mode"}
	}
	setDuration(&c.Timeout, 60*time.Second)
	setDuration(&c.ReconnectMin, 5*time.Second)
	setDuration(&c.ReconnectMax, max(30*time.Second, c.ReconnectMin))
	if c.JukeboxTime == 0 {
		c.JukeboxTime = 5 * time.Second
	}
	if c.ReconnectMax < c.ReconnectMin {
		return &ConfigError{"ReconnectMax", c.ReconnectMax, fmt.Sprintf("at least ReconnectMin, %v", c.ReconnectMin)}
	}
	switch {
	case c.Retrans == 0:
		c.Retrans = 2
	case c.Retrans < 0:
		c.Retrans = 0
	}
	return nil
}

func setDuration(d *time.Duration, def time.Duration) {
	if *d == 0 {
		*d = def
	}
	*d = max(*d, 0)
}

func (c *Config) tcp() xprttcp.Config {
	x := xprttcp.Config{
		Sched: c.Sched, Net: c.Net, Addr: c.Addr, Resv: c.ResvPort, Slots: c.Credits,
		Timeout: sched.FromStd(c.Timeout), Retrans: c.Retrans, Soft: c.Soft,
		ReconnectMin: sched.FromStd(c.ReconnectMin), ReconnectMax: sched.FromStd(c.ReconnectMax),
	}
	w := c.CPUCost.work()
	x.Wake = w.SoftIRQ + w.Wake
	if c.Trace != nil {
		x.Trace, x.FormatCall, x.FormatReply = c.Trace, formatCall, formatReply
	}
	return x
}

func (c *Config) xprt() xprtrdma.Config {
	x := xprtrdma.Config{
		Sched: c.Sched, Device: c.Device, Addr: c.Addr, Mode: c.RegMode, ModeFallback: c.RegFallback,
		MWPages: c.MWPages, PinBytes: max(c.PinBytes, 0), RegCost: xprtrdma.RegCost{Op: sched.FromStd(c.RegCost.Op),
			Page: sched.FromStd(c.RegCost.Page), Invalidate: sched.FromStd(c.RegCost.Invalidate)}, MaxDataSegs: c.MaxDataSegs, Work: c.CPUCost.work(),
		Credits: c.Credits, InlineSend: c.InlineSend, InlineRecv: c.InlineRecv, SQDepth: c.SQDepth, IRD: c.IRD, ORD: c.ORD,
		RetryCnt: uint8(c.RetryCnt), RNRRetry: uint8(c.RNRRetry), PadInChunk: c.NoPadOptimize,
		NoRemoteInvalidation: c.NoRemoteInvalidation, NoPrivateData: c.NoPrivateData,
		Timeout: sched.FromStd(c.Timeout), Retrans: c.Retrans, Soft: c.Soft,
		ReconnectMin: sched.FromStd(c.ReconnectMin), ReconnectMax: sched.FromStd(c.ReconnectMax), BadReply: c.BadReply,
	}
	if c.Trace != nil {
		x.Trace, x.FormatCall, x.FormatReply = c.Trace, formatCall, formatReply
	}
	return x
}
