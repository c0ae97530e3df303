package fabric

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"example.org/nfsrdma/fabric/faults"
	"example.org/nfsrdma/internal/link"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
)

// Link describes a modelled link; nil in Params is a direct wire, which takes no time. Its fields:
//
//	BitsPerSecond                int64         // 0: no limit
//	Delay                        time.Duration // one way
//	MTU, Overhead                int           // bytes: payload of a packet, and what is added to each
//	Queue                        int           // packets that wait for the port; 0: no limit
//	Loss, Duplicate, Reorder     float64       // probability of each packet
//	ReorderDelay                 time.Duration // of a reordered packet
type Link = link.Config

// Personality says what kind of device softroce plays.
type Personality = softroce.Personality

// Params are the knobs of a fabric. The zero value of each is the default that it
// says, today's Linux unless said otherwise.
type Params struct {
	Seed uint64 // of all randomness; 0: $NFSRDMA_SEED, or 1
	Live bool   // wall clock and goroutines; default virtual time

	// The device and the wire.
	//
	// Device is a device of rdma-core, rxe, siw or hardware, by its name, netdev or address: client and
	// server meet over it, live, and bounds on time only log. Default $NFSRDMA_DEVICE, which overrules
	// Personality and Link, or Softroce.
	Device      string
	Personality Personality // default softroce.RoCE
	Link        *Link       // default a direct wire

	// The client.
	RegMode       nfsclient.RegMode // rdma_memreg_strategy; default the best that the device has, FastReg on softroce
	RegTime       time.Duration     // modelled cost of a registration or bind, which its call waits for; default none
	RegPageTime   time.Duration     // and of each of its pages; default none
	InvTime       time.Duration     // and of an invalidation or deregistration by the client; default none
	SoftIRQTime   time.Duration     // modelled soft interrupts that a bottom-half unlock runs (local_bh_enable) before a reply; default none
	WakeTime      time.Duration     // modelled time from a reply's queue_work to the run of its worker; default none
	WakeHeldTime  time.Duration     // and of a worker that soft interrupts hold up: BHNone without HighPri; default none
	BHLocks       nfsclient.BHLocks // locks of the RPC client that disable bottom halves; default BHAll
	HighPri       bool              // the client's work queue, xprtiod, has WQ_HIGHPRI
	MaxDataSegs   int               // RPCRDMA_MAX_DATA_SEGS, pages a call can carry; default 257
	RSize, WSize  int               // mount options rsize, wsize in bytes; default and limit MaxDataSegs x 4096 and the server's
	InlineRead    int               // rdma_max_inline_read, bytes; default 4096
	InlineWrite   int               // rdma_max_inline_write, bytes; default 4096
	Credits       int               // rdma_slot_table_entries; default 128
	IRD           int               // RDMA READs that the client serves at once; default what the device can
	ClientSQDepth int               // send queue, work requests; default what Credits calls need
	NoRemoteInv   bool              // no remote invalidation (RFC 8797), on either side
	NoPadOptimize bool              // rdma_pad_optimize=0: Read chunks carry the XDR pad
	UID, GID      uint32            // of AUTH_SYS; default root
	Client        func(*nfsclient.Config)

	// The server.
	Threads       int     // nfsd threads; default 8
	ServerCredits int     // max_requests; default 64
	ORD           int     // RDMA READs that the server has outstanding; default what the device can
	SQDepth       int     // send queue, work requests (RPCRDMA_SQ_DEPTH_MULT x max_requests); default 4 a credit
	ServerInline  int     // max_req_size: inline size of receives and sends, bytes; default 4096, or the client's if that is more
	MaxBlockSize  int     // max_block_size: largest READ and WRITE in bytes; default 1 MiB
	DRCEntries    int     // replies in the duplicate request cache; default 16384, negative none
	RegisterSink  bool    // the server registers the sink of its RDMA READs
	RootSquash    bool    // root_squash; default off
	ReadOnly      bool    // ro
	Storage       Storage // default Memory()

	// Faults are what goes wrong, from the start on; faults.Parse takes them from text. Close fails if one of them
	// that is not Optional has never fired. On a Device of rdma-core no fault of a packet is possible.
	Faults []faults.Fault

	// RPC over TCP. Live it runs on sockets of the loopback interface, whose kernel decides on all but the first two;
	// otherwise on a model of TCP over Link, without loss.
	Proto      nfsclient.Proto      // transport of mounts (mount option proto); default RDMA. Over gives one mount another
	TCP        bool                 // the server serves TCP beside RDMA; so it does if Proto is TCP
	SndPolicy  nfsserver.SendPolicy // when the send buffer lets the server take a call (svc_tcp_has_wspace); default NoSpace
	SndBuf     int                  // send buffer of the server's connections, bytes; default what SndPolicy says
	WMem       int                  // tcp_wmem[2], bytes: the buffer of NoSpace, and of Clamp once it is cut; default 4 MiB
	TCPWindow  int                  // window of both ends (tcp_rmem[2]), bytes; default 6 MiB
	DelayedAck time.Duration        // TCP_DELACK_MIN; default 40 ms
	Nagle      bool                 // without TCP_NODELAY

	// TimeLimit ends waits with an error once so much virtual time has passed: a
	// client that reconnects for ever would otherwise never end. Default an hour; negative none.
	TimeLimit time.Duration
	// InstantLimit ends waits with an error once one instant of virtual time has had so many turns (task switches, events,
	// attempts that return at once): time would not go on. Default sched.DefaultInstantLimit, 2^24; negative none.
	InstantLimit int64
	// TaskLimit is the time of the wall clock after which a task that has not come back to the fabric is reported with its stack
	// on standard error: in virtual time a task that waits in a channel or a sync.Mutex stops everything. The wait
	// under way fails if it comes back after all, and after as long again the program ends by a panic. Default 30 s; negative never.
	TaskLimit time.Duration

	// Trace keeps the last messages, and logs them when the test fails; also $NFSRDMA_TRACE.
	Trace bool
}

// setFrame decides what the scheduler and the devices need.
func (p *Params) setFrame() error {
	if p.Seed == 0 {
		p.Seed = 1
		if e := os.Getenv("NFSRDMA_SEED"); e != "" {
			n, err := strconv.ParseUint(e, 0, 64)
			if err != nil {
				return fmt.Errorf("fabric: NFSRDMA_SEED=%q is not a number", e)
			}
			p.Seed = n
		}
	}
	if os.Getenv("NFSRDMA_TRACE") != "" {
		p.Trace = true
	}
	if p.TimeLimit == 0 {
		p.TimeLimit = time.Hour
	}
	if p.InstantLimit == 0 {
		p.InstantLimit = sched.DefaultInstantLimit
	}
	if p.TaskLimit == 0 {
		p.TaskLimit = sched.DefaultTaskLimit
	}
	return p.setDevice()
}

// setDefaults decides the rest, within the limits of the device.
func (p *Params) setDefaults(a verbs.DeviceAttr) error {
	if p.ServerInline == 0 {
		p.ServerInline = max(4096, p.InlineRead, p.InlineWrite)
	}
	if p.RegMode > nfsclient.FMR {
		return &LimitError{"RegMode (rdma_memreg_strategy)", p.RegMode, "a registration mode of package nfsclient"}
	}
	for _, k := range []struct {
		name   string
		v      int
		lo, hi int
		unit   string
	}{
		{"MaxDataSegs (RPCRDMA_MAX_DATA_SEGS)", p.MaxDataSegs, 1, 4096, "pages"},
		{"IRD (responder_resources)", p.IRD, 1, a.MaxQPRdAtom, "the device's max_qp_rd_atom"},
		{"ORD (max_outbound_read_requests)", p.ORD, 1, a.MaxQPInitRdAtom, "the device's max_qp_init_rd_atom"},
		{"InlineRead (rdma_max_inline_read)", p.InlineRead, 1024, 65536, "bytes"},
		{"InlineWrite (rdma_max_inline_write)", p.InlineWrite, 1024, 65536, "bytes"},
		{"ServerInline (max_req_size)", p.ServerInline, 1024, 65536, "bytes"},
		{"Credits (rdma_slot_table_entries)", p.Credits, 1, min(16384, a.MaxQPWR-8), "calls, with 8 receives more within the device's max_qp_wr"},
		{"ServerCredits (max_requests)", p.ServerCredits, 1, min(16384, a.MaxQPWR-1), "calls, with a receive more within the device's max_qp_wr"},
		{"Threads (nfsd)", p.Threads, 1, 8192, "threads, NFSD_MAXSERVS"},
		{"SQDepth (RPCRDMA_SQ_DEPTH_MULT x max_requests)", p.SQDepth, 4, a.MaxQPWR, "work requests, the device's max_qp_wr"},
		{"ClientSQDepth (max_send_wr)", p.ClientSQDepth, 4, a.MaxQPWR, "work requests, the device's max_qp_wr"},
		{"MaxBlockSize (max_block_size)", p.MaxBlockSize, 1024, 1 << 30, "bytes"},
	} {
		if k.v != 0 && (k.v < k.lo || k.v > k.hi) {
			return &LimitError{k.name, k.v, fmt.Sprintf("%d to %d, %s; 0 is the default", k.lo, k.hi, k.unit)}
		}
	}
	for _, k := range []struct {
		name string
		v    int
	}{{"RSize (rsize)", p.RSize}, {"WSize (wsize)", p.WSize}} {
		if k.v != 0 && (k.v < 1024 || k.v%1024 != 0 || k.v > 1<<30) {
			return &LimitError{k.name, k.v, "a multiple of 1024 from 1024 to 1 GiB; 0 is the largest possible"}
		}
	}
	return nil
}

// Side is one end of the fabric: its counters and its device.
type Side struct {
	counters func() Counters
	device   verbs.Device
}

// Counters are the transport's and protocol's, under the kernel's names.
func (s Side) Counters() Counters { return s.counters() }

// Device are the counters of the RDMA device, under rxe's names where it has them.
func (s Side) Device() Counters { return s.device.Counters() }

// Resources counts the objects of the device.
func (s Side) Resources() verbs.Resources { return s.device.Resources() }

// RemoveDevice takes the device away, as a hot unplug does: its connections end, and new ones
// are refused. It fails with verbs.ErrUnsupported where only a hand can do that.
func (s Side) RemoveDevice() error {
	d, ok := s.device.(interface{ Remove() })
	if !ok {
		return fmt.Errorf("fabric: removal of device %s: %w", s.device.Name(), verbs.ErrUnsupported)
	}
	d.Remove()
	return nil
}
