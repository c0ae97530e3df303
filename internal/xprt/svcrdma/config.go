package svcrdma

import (
	"errors"
	"fmt"

	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/svc"
	"example.org/nfsrdma/verbs"
)

// Config is what New needs. Zero fields are the defaults of package nfsserver's Config, which says what
// the fields of the same names mean.
type Config struct {
	Device verbs.Device
	Addr   string
	Sched  *sched.Sched
	Pool   *svc.Pool // of the threads

	InlineSend, InlineRecv int
	Credits                int
	IRD, ORD               int
	SQDepth                int
	MaxPayload             int
	NoRemoteInvalidation   bool
	RegisterSink           bool
	SinkSGE                int
	MaxConns               int
	PayloadMemory          int

	RejectEmptyWriteChunk bool
	EmptyUnusedChunks     bool
	PreferReplyChunk      bool

	// NewState makes what the upper layer keeps in a Request, NewReplyState what it keeps in a Reply.
	// Each is called a fixed number of times a connection.
	NewState, NewReplyState func() State
	// TraceMsg, if not nil, gets each message, in or out: the header, nil if it does not parse or came before, and
	// the RPC message without its data item.
	TraceMsg func(r *Request, out bool, h *rpcrdma.Header, rpc []byte)
	// TraceConn, if not nil, gets a connection's begin and end.
	TraceConn func(c *Conn, what string)
}

// State is the upper layer's part of a request or reply.
type State = svc.State

// maxCredits is the largest slot table of Linux.
const maxCredits = 16384

// headRoom is how much longer than its data item a call or reply may be, bytes.
const headRoom = 4096

// maxSendSGE bounds the SGEs of a work request, whatever the device offers.
const maxSendSGE = 32

func (c *Config) setDefaults() error {
	a := c.Device.Attr()
	c.InlineSend = clampInline(c.InlineSend)
	c.InlineRecv = clampInline(c.InlineRecv)
	c.Credits = orDefault(c.Credits, 64)
	c.IRD = min(c.IRD, a.MaxQPRdAtom)
	c.ORD = min(orDefault(c.ORD, a.MaxQPInitRdAtom), a.MaxQPInitRdAtom)
	c.SQDepth = min(max(orDefault(c.SQDepth, 4*c.Credits), 4), maxSlots)
	c.MaxPayload = orDefault(c.MaxPayload, 1<<20)
	c.MaxConns = orDefault(c.MaxConns, 1024)
	c.PayloadMemory = orDefault(c.PayloadMemory, 256<<20)
	if c.MaxPayload < 1024 || c.MaxPayload > 1<<30 {
		return fmt.Errorf("svcrdma: MaxPayload %d is not within 1 KiB and 1 GiB", c.MaxPayload)
	}
	if c.Credits < 1 || c.Credits > maxCredits {
		return fmt.Errorf("svcrdma: %d credits are not within 1 and %d", c.Credits, maxCredits)
	}
	if a.MaxQPWR > 0 {
		if c.Credits+1 > a.MaxQPWR {
			return fmt.Errorf("svcrdma: %d credits, but the receive queues of %s have %d entries: %w",
				c.Credits, c.Device.Name(), a.MaxQPWR, verbs.ErrNoResources)
		}
		c.SQDepth = min(c.SQDepth, a.MaxQPWR)
	}
	if c.RegisterSink && (a.Caps&verbs.CapMemMgtExtensions == 0 || a.MaxFastRegPages == 0) {
		return fmt.Errorf("svcrdma: RegisterSink on %s: %w", c.Device.Name(), verbs.ErrUnsupported)
	}
	if c.SinkSGE == 0 && a.Transport == verbs.IWARP && a.Caps&verbs.CapLocalDMAKey != 0 && !c.RegisterSink {
		// As Linux, whose sink is pages of the DMA address space. A region of user space is one piece.
		c.SinkSGE = verbs.PageSize
	}
	if c.SinkSGE <= 0 || c.RegisterSink {
		c.SinkSGE = 1 << 30
	}
	if c.Pool == nil || c.NewState == nil || c.NewReplyState == nil {
		return errors.New("svcrdma: no pool, or no state makers")
	}
	return nil
}

func clampInline(n int) int {
	n = orDefault(n, 4096)
	return min(max(n, rpcrdma.DefaultInline), rpcrdma.MaxInline) &^ 1023
}

func orDefault(v, def int) int {
	if v == 0 {
		return def
	}
	return v
}
