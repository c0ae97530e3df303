package nfsserver

import (
	"errors"
	"fmt"
	"path"
	"time"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/stream"
	"example.org/nfsrdma/internal/xprt/svcrdma"
	"example.org/nfsrdma/internal/xprt/svctcp"
	"example.org/nfsrdma/nfsserver/vfs"
	"example.org/nfsrdma/verbs"
)

// Config is what New needs. Zero fields are the defaults, and cut to what the device can do.
type Config struct {
	Device verbs.Device // the owner closes it after the server; nil: TCP only
	Addr   string       // "host:port"; empty is the device's name and port 20049 (RFC 8267 section 6.3)
	Sched  *sched.Sched // nil: live, owned by the server

	// TCP has the addresses, "host:port", where NFS and MOUNT are served over TCP too, both at each.
	TCP   []string
	Net   stream.Network // of TCP; nil is the machine's sockets, which need a live Sched
	Gate  SendGate       // when the send buffer of a TCP connection lets the next call be taken; its Threads are those below
	Stall time.Duration  // how long a TCP record may take once it has begun, either way; 0 is a minute, negative for ever

	Exports []Export // at least one
	Threads int      // nfsd threads; 0 is 8

	InlineSend int // largest inline reply, bytes; 0 is 4096. At least 1024, at most 256 KiB
	InlineRecv int // largest inline call, bytes (max_req_size); 0 is 4096
	Credits    int // granted to each connection (max_requests), and calls of a TCP connection served at once; 0 is 64
	IRD        int // RDMA READs of the peer that are served; 0 is none, since a client does not send any
	ORD        int // RDMA READs outstanding a connection (max_outbound_read_requests); 0 is the device's limit
	SQDepth    int // send queue, work requests; 0 is 4 a credit. The server of Linux 2.6.2x had 8 x 16 = 128
	MaxPayload int // largest READ and WRITE, bytes (max_block_size); 0 is 1 MiB

	NoRemoteInvalidation bool // never reply with Send With Invalidate (RFC 8797 section 4.1)
	// RegisterSink fast-registers the sink of RDMA READs for as long as they run: one Read per segment, where SGEs
	// would limit it. Without it all sinks are registered for good, on iWARP for remote write, which a READ needs there.
	RegisterSink bool
	SinkSGE      int // bytes that one SGE of the sink covers; 0 is 4096 (a page of rq_pages) on iWARP devices with a local DMA key, without RegisterSink; else no limit

	// MaxConns is how many connections a transport has; more are rejected; 0 is 1024. What clients do, whatever it is, costs
	// memory for at most so many: over RDMA about Credits x (InlineRecv + 3 InlineSend), 1.1 MB by default, and PayloadMemory for all.
	MaxConns      int
	PayloadMemory int // bytes of data of a transport's connections that are on their way, in buffers or lent for WRITEs; 0 is 256 MiB. At least two payloads
	DRCEntries    int // replies in the duplicate request cache, of all clients together; 0 is 16384, negative is none

	RejectEmptyWriteChunk bool // answer a Write chunk without segments with ERR_CHUNK; RFC 8166 section 4.3.2.3 allows it
	EmptyUnusedChunks     bool // return unused Write chunks without segments (RFC 8267 section 6.4.1), not with zero lengths
	PreferReplyChunk      bool // use a Reply chunk whenever it is offered, as Linux does, not only when the reply exceeds inline

	// Boot tells instances of a server apart: after a restart it must differ, so that the write
	// verifier does. With the scheduler's seed and the time it gives the verifier.
	Boot uint64

	// Trace, if not nil, gets a line for each message in and out and for each connection's begin and
	// end. It must not wait.
	Trace func(line string)
}

// SendGate decides by its send buffer when the next call of a TCP connection is taken. The zero value is what today's
// Linux does; any other needs a Net whose connections know their send buffer, as that of a model does.
type SendGate = svctcp.Gate

// SendPolicy is how a SendGate decides.
type SendPolicy = svctcp.Policy

// Policies of SendGate.
const (
	NoSpace  = svctcp.NoSpace
	Locked   = svctcp.Locked
	Auto     = svctcp.Auto
	No23     = svctcp.No23
	R2M      = svctcp.R2M
	RM       = svctcp.RM
	Deferred = svctcp.Deferred
	Clamp    = svctcp.Clamp
)

// Export is a file system and who may do what in it.
type Export struct {
	Path string // what MOUNT names, absolute; "" is "/"
	FS   vfs.FS
	FSID uint32 // in file handles and fattr3; 0 is its index in Exports plus 1

	ReadOnly   bool   // ro
	RootSquash bool   // root_squash: uid and gid 0 become anonymous
	AllSquash  bool   // all_squash
	AnonUID    uint32 // anonuid; 0 is 65534
	AnonGID    uint32 // anongid; 0 is 65534
}

// The usual ports: of NFS over RDMA, of NFS over TCP, and of MOUNT, which has none of its own.
const (
	Port      = 20049
	PortTCP   = 2049
	PortMount = 20048
)

// nobody is the anonymous user and group.
const nobody = 65534

func (c *Config) setDefaults() error {
	if c.Device == nil && len(c.TCP) == 0 {
		return errors.New("nfsserver: no Device and no TCP address")
	}
	if c.Addr == "" && c.Device != nil {
		c.Addr = fmt.Sprintf("%s:%d", c.Device.Name(), Port)
	}
	c.Threads = max(orDefault(c.Threads, 8), 1)
	c.DRCEntries = orDefault(c.DRCEntries, 16384)
	c.MaxPayload = orDefault(c.MaxPayload, 1<<20)
	if len(c.Exports) == 0 {
		return errors.New("nfsserver: no Exports")
	}
	exports := make([]Export, len(c.Exports))
	copy(exports, c.Exports)
	c.Exports = exports
	for i := range exports {
		if err := exports[i].setDefaults(i); err != nil {
			return err
		}
		for j := range i {
			if exports[i].FSID == exports[j].FSID || exports[i].Path == exports[j].Path {
				return fmt.Errorf("nfsserver: exports %d and %d have the same path or FSID", j, i)
			}
		}
	}
	return nil
}

func (e *Export) setDefaults(i int) error {
	e.Path = path.Clean("/" + e.Path)
	if e.FS == nil {
		return fmt.Errorf("nfsserver: export %s has no FS", e.Path)
	}
	e.FSID = uint32(orDefault(int(e.FSID), i+1))
	e.AnonUID = uint32(orDefault(int(e.AnonUID), nobody))
	e.AnonGID = uint32(orDefault(int(e.AnonGID), nobody))
	return nil
}

func orDefault(v, def int) int {
	if v == 0 {
		return def
	}
	return v
}

func (c *Config) tcp() svctcp.Config {
	c.Gate.Threads = c.Threads
	return svctcp.Config{
		Net: c.Net, Gate: c.Gate, ReplySize: replySize, Addrs: c.TCP, Slots: c.Credits, Inline: c.InlineSend, MaxPayload: c.MaxPayload,
		MaxConns: c.MaxConns, PayloadMemory: c.PayloadMemory, Stall: sched.FromStd(c.Stall),
	}
}

func (c *Config) rdma() svcrdma.Config {
	return svcrdma.Config{
		Device: c.Device, Addr: c.Addr,
		InlineSend: c.InlineSend, InlineRecv: c.InlineRecv, Credits: c.Credits,
		IRD: c.IRD, ORD: c.ORD, SQDepth: c.SQDepth, MaxPayload: c.MaxPayload,
		NoRemoteInvalidation: c.NoRemoteInvalidation, RegisterSink: c.RegisterSink, SinkSGE: c.SinkSGE,
		MaxConns: c.MaxConns, PayloadMemory: c.PayloadMemory,
		RejectEmptyWriteChunk: c.RejectEmptyWriteChunk, EmptyUnusedChunks: c.EmptyUnusedChunks, PreferReplyChunk: c.PreferReplyChunk,
	}
}
