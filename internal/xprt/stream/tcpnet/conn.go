package tcpnet

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/tcpsim"
	"example.org/nfsrdma/internal/xprt/stream"
)

// conn is an end of a connection.
type conn struct {
	n       *Network
	local   string
	peer    *conn
	out, in *flow
	toPeer  wire
	closed  bool

	reading, writing sched.Time // until when; 0: for ever
}

var (
	_ stream.Conn       = (*conn)(nil)
	_ stream.SendBuffer = (*conn)(nil)
)

// flow is one direction: its rules, and its bytes.
type flow struct {
	tcp  *tcpsim.Conn
	room *sched.Meter
	fifo
}

// pair makes a connection, and gives the client's end.
func (n *Network) pair(local, addr string) (*conn, error) {
	up, err := n.flow("client", n.out, n.back)
	if err != nil {
		return nil, err
	}
	down, err := n.flow("server", n.back, n.out)
	if err != nil {
		return nil, err
	}
	a := &conn{n: n, local: local, out: up, in: down, toPeer: n.out}
	b := &conn{n: n, local: addr, out: down, in: up, toPeer: n.back, peer: a}
	a.peer = b
	return a, nil
}

func (n *Network) flow(from string, data, acks wire) (*flow, error) {
	c, err := tcpsim.New(n.s, n.tcp)
	if err != nil {
		return nil, err
	}
	c.Link(data, acks)
	m := n.meters[from]
	c.Measure(m.room, m.window)
	return &flow{tcp: c, room: m.room, fifo: fifo{n: n}}, nil
}

// until is a context that ends at a time.
func (c *conn) until(at sched.Time) (context.Context, context.CancelFunc) {
	if at == 0 {
		return context.Background(), func() {}
	}
	return c.n.s.WithTimeout(context.Background(), max(at.Sub(c.n.s.Now()), 0))
}

func (c *conn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	ctx, cancel := c.until(c.reading)
	defer cancel()
	n, err := c.in.tcp.ReceiveUpTo(ctx, len(b))
	if err != nil {
		return 0, timeout(err)
	}
	c.in.read(b[:n])
	return n, nil
}

func (c *conn) Write(bufs *net.Buffers) error {
	ctx, cancel := c.until(c.writing)
	defer cancel()
	n := 0
	for _, b := range *bufs {
		c.out.write(b)
		n += len(b)
	}
	*bufs = (*bufs)[:0]
	return timeout(c.out.tcp.Send(ctx, n))
}

// timeout is err as a socket gives it.
func timeout(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return os.ErrDeadlineExceeded
	}
	return err
}

func (c *conn) ReadTimeout(d sched.Duration)  { c.reading = c.deadline(d) }
func (c *conn) WriteTimeout(d sched.Duration) { c.writing = c.deadline(d) }

func (c *conn) deadline(d sched.Duration) sched.Time {
	if d <= 0 {
		return 0
	}
	return c.n.s.Now().Add(d)
}

func (c *conn) LocalAddr() string { return c.local }
func (c *conn) PeerAddr() string  { return c.peer.local }

func (c *conn) SendBuffer() (size, queued int) { return c.out.tcp.Buffered() }
func (c *conn) SetSendBuffer(size int)         { c.out.tcp.SetSndBuf(size) }
func (c *conn) Full() bool                     { return c.out.tcp.Full() }
func (c *conn) Meter() *sched.Meter            { return c.out.room }
func (c *conn) OnSpace(f func())               { c.out.tcp.OnSpace(f) }

// Close sends the end of the stream, or a reset if data has come that nobody has read.
func (c *conn) Close() error {
	if c.closed {
		return nil
	}
	c.closed = true
	if c.in.tcp.Unread() > 0 {
		c.reset()
		return nil
	}
	c.out.tcp.CloseSend(net.ErrClosed)
	c.in.tcp.CloseReceive(net.ErrClosed, c.reset)
	return nil
}

// reset ends the connection at once, and the peer's end when the packet arrives.
func (c *conn) reset() {
	c.out.tcp.FailSend(net.ErrClosed)
	c.in.tcp.CloseReceive(net.ErrClosed, nil)
	c.toPeer.Send(0, 1, event(func() {
		err := os.NewSyscallError("read", syscall.ECONNRESET)
		c.peer.out.tcp.FailSend(err)
		c.peer.in.tcp.CloseReceive(err, nil)
	}))
}

// chunkLen is the size of the pieces of a fifo, bytes.
const chunkLen = 64 << 10

type chunk struct{ b [chunkLen]byte }

// fifo has the bytes of a flow: of chunks[0] those from r, of the last one those up to w.
type fifo struct {
	n      *Network
	mu     sync.Mutex
	chunks []*chunk
	r, w   int
}

func (f *fifo) write(b []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(b) > 0 {
		if len(f.chunks) == 0 || f.w == chunkLen {
			f.chunks = append(f.chunks, f.n.chunk())
			f.w = 0
		}
		k := copy(f.chunks[len(f.chunks)-1].b[f.w:], b)
		f.w += k
		b = b[k:]
	}
}

// read takes len(b) bytes, which are there.
func (f *fifo) read(b []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(b) > 0 {
		k := copy(b, f.chunks[0].b[f.r:])
		f.r += k
		b = b[k:]
		if f.r == chunkLen {
			f.n.put(f.chunks[0])
			f.chunks = f.chunks[:copy(f.chunks, f.chunks[1:])]
			f.r = 0
		}
	}
}

func (n *Network) chunk() *chunk {
	n.mu.Lock()
	defer n.mu.Unlock()
	if k := len(n.free); k > 0 {
		c := n.free[k-1]
		n.free = n.free[:k-1]
		return c
	}
	return &chunk{}
}

func (n *Network) put(c *chunk) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.free = append(n.free, c)
}
