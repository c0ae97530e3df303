package clnt

import (
	"context"
	"errors"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// Call is a slot's call and its reply. It belongs to one caller from Get to Put.
type Call struct {
	// Set by the caller before Do.
	Msg      []byte // the RPC call, appended to what Get gives, up to and without the bytes of Data
	Data     []byte // DDP-eligible argument; its length word ends Msg. Must not change until Do returns
	Sink     []byte // where the DDP-eligible result goes; the caller's again when Do returns
	MaxReply int    // longest RPC reply without the bytes of Sink
	// SinkInline lets the result come inline when it is sure to fit; otherwise Sink has a Write chunk
	// however short it is.
	SinkInline bool
	// SinkHead finds the DDP-eligible result in the first bytes of a reply, for transports that have no chunks:
	// where its bytes begin and how many they are; false if there is none. Needed where Sink is set.
	SinkHead func(reply []byte) (pos int, n uint32, ok bool)

	// Set by Do, valid until Put.
	Reply   []byte // the RPC reply; aliases a receive or reply buffer
	SinkLen int    // bytes that were put into Sink and are not in Reply, -1 if none can be

	// Set by Do: when it was sent last, how often, and after how many timeouts.
	SentAt          sched.Time
	Trans, Timeouts uint32

	ops   *OpTable // the slot's; see OpTables.Begin
	op    int
	begun sched.Time

	Slot
}

// Begin empties a call.
func (c *Call) Begin(buf []byte) {
	c.Msg = buf
	c.SinkInline, c.MaxReply, c.SinkLen = false, 0, -1
	c.Trans, c.Timeouts, c.op = 0, 0, -1
}

// End lets go of what the caller lent.
func (c *Call) End() {
	c.Msg, c.Data, c.Sink, c.Reply, c.SinkHead = nil, nil, nil, nil, nil
}

// Slot is a transport's part of a Call.
type Slot interface {
	// XID is the transaction identifier of the call.
	XID() uint32
	// Do sends the call and waits for its reply. Data and Sink are the caller's alone when it returns, whatever the
	// outcome.
	Do(ctx context.Context) error
	// CountRead and CountWrite count payload (mountstats, bytes).
	CountRead(n int)
	CountWrite(n int)
	// CountFixup counts n bytes of a result that were copied out of Reply (fixup_copy_count).
	CountFixup(n int)
}

// Xprt is a transport.
type Xprt interface {
	// Connect makes the first connection. It tries once.
	Connect(ctx context.Context) error
	// Get takes a slot, waiting for one in order of arrival.
	Get(ctx context.Context) (*Call, error)
	// Put gives a slot back. Its Reply is not valid any more.
	Put(c *Call)
	// MaxSink is the longest DDP-eligible result of a call of msgLen bytes whose reply has at most maxReply
	// bytes besides, and what keeps it from being longer.
	MaxSink(msgLen, maxReply int) (n int, knob string)
	// MaxData is likewise the longest DDP-eligible argument of a call of msgLen bytes besides.
	MaxData(msgLen int) (n int, knob string)
	// Counters reads all counters; also after Close.
	Counters() []verbs.Counter
	// Disconnect ends the present connection, as when the network had: calls go on over the next one.
	Disconnect()
	// Close ends every call with ErrClosed, waits until the callers have left, and frees everything.
	Close() error
}

// Errors of calls; match with errors.Is.
var (
	ErrClosed   = errors.New("mount closed")
	ErrTimedOut = errors.New("no reply in time") // ETIMEDOUT, of soft mounts
	// ErrBadReply is a reply that breaks the protocol: EIO.
	ErrBadReply = errors.New("bad reply from the server")
	// ErrMarshal is a call that fits neither inline nor in chunks: EIO, counted as failed_marshal_count.
	ErrMarshal = errors.New("call cannot be marshalled")
)
