package stream

import (
	"context"
	"net"

	"example.org/nfsrdma/internal/sched"
)

// Conn is a connection. One task may read and another write at the same time; Close and the addresses are for
// everybody.
type Conn interface {
	// Read waits for at least one byte. The end of the stream is io.EOF.
	Read(b []byte) (int, error)
	// Write writes all of bufs, or fails. It uses the list up, not what it points to, which must not change
	// meanwhile.
	Write(bufs *net.Buffers) error
	// ReadTimeout and WriteTimeout make Read and Write fail with os.ErrDeadlineExceeded once d has passed from
	// now; 0 is never.
	ReadTimeout(d sched.Duration)
	WriteTimeout(d sched.Duration)
	// Close ends the connection, and every Read and Write with net.ErrClosed. It does not wait.
	Close() error
	LocalAddr() string
	PeerAddr() string
}

// SendBuffer is what a Conn has besides that knows its send buffer: one of a model.
type SendBuffer interface {
	// SendBuffer is its size (SO_SNDBUF), and the bytes in it that the peer has not acknowledged.
	SendBuffer() (size, queued int)
	SetSendBuffer(size int)
	// Full says that a Write waits for room (SOCK_NOSPACE).
	Full() bool
	// Meter accounts for who waits for room; it may be nil.
	Meter() *sched.Meter
	// OnSpace sets what is called when there may be more room (sk_write_space). It must not wait.
	OnSpace(f func())
}

// Listener waits for connections.
type Listener interface {
	// Accept waits for the next. Close ends it with an error.
	Accept() (Conn, error)
	Addr() string
	Close() error
}

// DialOptions say how to connect.
type DialOptions struct {
	Resv bool // from a port below 1024 (mount option resvport), which takes a privilege
}

// Network makes connections. An address is "host:port".
type Network interface {
	Dial(ctx context.Context, addr string, o DialOptions) (Conn, error)
	Listen(addr string) (Listener, error)
}
