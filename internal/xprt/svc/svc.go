package svc

// Mem is a piece of local memory. A transport over RDMA has registered it: Addr and LKey are of that.
type Mem struct {
	Bytes []byte
	Addr  uint64
	Len   uint32
	LKey  uint32
}

// Slice is the piece [i, j) of m.
func (m *Mem) Slice(i, j int) Mem {
	return Mem{Bytes: m.Bytes[i:j:j], Addr: m.Addr + uint64(i), Len: uint32(j - i), LKey: m.LKey}
}

// State is the upper layer's part of a request or reply.
type State interface {
	// Release gives back what it holds: of a Request when the connection ends between Pull and Serve, of
	// a Reply when the transport is done with it or it will not be sent. It must not wait.
	Release()
}

// Request is a received call. Until the handler ends it, it belongs to the thread that serves it.
type Request interface {
	State() State // of the upper layer
	Peer() string // the client's address
	Host() string // likewise, without its port

	XID() uint32 // Msg begins with the same
	// Msg is the RPC message; a data item that ReadChunk tells of is not in it.
	Msg() []byte
	// ReadChunk tells of the data item that is kept apart: its position in Msg, and the length of what holds it.
	ReadChunk() (pos int, n uint64, ok bool)
	// Pull takes the first n bytes of the data item into sink, whose pieces are of n bytes together, and ends
	// Serve. The request is served again when they are there. n 0 is done at once, and gives true.
	Pull(t *Thread, sink []Mem, n int) (done bool)
	// Pulled says that Pull has been done.
	Pulled() bool

	// Need gives memory of n bytes that the request keeps until it ends, or until Reply.UseBuffer takes it. Nil and
	// no error: there is none now; the caller lets the request go, and gets it again from the start.
	Need(n int) (*Mem, error)
	// HasMem says that Need has given memory.
	HasMem() bool
	// Reserve is Need for memory that somebody else lends for a Pull: it counts n bytes of it until the request ends
	// or Unreserve. False: too much is lent now; the caller lets the request go, and gets it again from the
	// start. A request must not Reserve when it has memory of Need, nor the other way round.
	Reserve(n int) bool
	// Unreserve ends a reservation before the request ends.
	Unreserve()
	// Region gives the piece [off, off+n) of mem, which its owner gave the number id, as the transport can use
	// it. mem must be the same for the same id.
	Region(id uint32, mem []byte, off, n uint32) (Mem, error)

	// MaxInline is how long a reply may be that uses no buffer, bytes.
	MaxInline() int
	// Reply gives an empty reply; it waits if all are on their way. Nil: the connection ends, and the request with it.
	Reply(t *Thread) *Reply
	// Fail answers that the call's data item cannot be what the call says, and ends the request.
	Fail(t *Thread)
	// Drop ends the request without an answer.
	Drop()
}

// Reply is an answer on its way. It belongs to the thread until Send, and then to the transport.
type Reply struct {
	// Msg is the RPC message without its data item: append to it, up to Room bytes.
	Msg   []byte
	State State // of the upper layer
	Sender
}

// Sender is a transport's part of a Reply.
type Sender interface {
	// UseBuffer lets Msg be as long as the memory that Need gave. It comes before anything is appended.
	UseBuffer(r Request)
	// Room is how long Msg may become.
	Room() int
	// EndWithItem says that Msg ends with the count word of a DDP-eligible data item, whose bytes AddData lends.
	EndWithItem()
	// AddData lends a piece of the data item until State.Release.
	AddData(m Mem)
	// AddBuffer adds the first n bytes of the memory that Need gave to the data item.
	AddBuffer(r Request, n int)
	// Discard gives up a reply that will not be sent.
	Discard()
	// Send answers r and ends it.
	Send(t *Thread, r Request)
}
