package tcpnet

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"

	"example.org/nfsrdma/internal/link"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/tcpsim"
	"example.org/nfsrdma/internal/xprt/stream"
)

// Config describes a network.
type Config struct {
	Link *link.Config  // nil: takes no time
	TCP  tcpsim.Config // of both ends. MTU 0 is the payload of Link's packets and the headers; Delay is Link's
}

// Network is two hosts and a link. It belongs to a scheduler in virtual time; its owner closes it after its users.
type Network struct {
	s      *sched.Sched
	tcp    tcpsim.Config
	out    wire // to the server
	back   wire
	meters map[string]ends

	mu   sync.Mutex
	lis  map[string]*listener
	port int
	free []*chunk
}

// ends are the meters of a host.
type ends struct{ room, window *sched.Meter }

// New makes a network.
func New(s *sched.Sched, cfg Config) (*Network, error) {
	if !s.Virtual() {
		return nil, fmt.Errorf("tcpnet: the model runs in virtual time only")
	}
	l := link.Config{}
	if cfg.Link != nil {
		l = *cfg.Link
	}
	if err := l.Validate(); err != nil {
		return nil, fmt.Errorf("tcpnet: %w", err)
	}
	if l.Loss > 0 || l.Duplicate > 0 || l.Reorder > 0 || l.Queue > 0 {
		return nil, fmt.Errorf("tcpnet: link %q loses, copies, drops or reorders packets: TCP here has no retransmission", l.Name)
	}
	if cfg.TCP.MTU == 0 && l.MTU > 0 {
		cfg.TCP.MTU = min(l.MTU+tcpsim.Headers, 65536)
	}
	if _, err := tcpsim.New(s, cfg.TCP); err != nil {
		return nil, err
	}
	n := &Network{s: s, tcp: cfg.TCP, lis: map[string]*listener{}, meters: map[string]ends{}}
	n.out = wire{link.NewPipe(s, l, "tcp client->server"), l.Overhead}
	n.back = wire{link.NewPipe(s, l, "tcp server->client"), l.Overhead}
	for side, level := range map[string]int{"client": sched.LevelClientSQ, "server": sched.LevelSendBuffer} {
		n.meters[side] = ends{
			s.NewMeter(sched.Usage{Name: "the send buffer of the " + side, Knob: "SndPolicy and SndBuf (svc_tcp_has_wspace)", Level: level, Units: 1}),
			s.NewMeter(sched.Usage{Name: "the TCP window from the " + side, Knob: "TCPWindow (tcp_rmem)", Level: sched.LevelWindow, Units: 1}),
		}
	}
	return n, nil
}

// Close ends the link.
func (n *Network) Close() {
	n.out.p.Close()
	n.back.p.Close()
}

// wire is a tcpsim.Wire.
type wire struct {
	p        *link.Pipe
	overhead int // of a packet
}

// Send puts packets on the link as one.
func (w wire) Send(n, packets int, e sched.Event) {
	w.p.Send(n+(packets-1)*w.overhead, packet{e})
}

// packet is a link.Packet.
type packet struct{ sched.Event }

func (p packet) Clone() link.Packet { return p }
func (p packet) Drop()              {}

// event is a function as a sched.Event.
type event func()

func (f event) Fire() { f() }

// listener is an address with its connections that nobody has accepted.
type listener struct {
	n    *Network
	addr string
	in   *sched.Queue[*conn]
}

func (l *listener) Accept() (stream.Conn, error) {
	c, err := l.in.Pop(context.Background())
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (l *listener) Addr() string { return l.addr }

// Close refuses who comes, and who was not accepted.
func (l *listener) Close() error {
	l.n.mu.Lock()
	if l.n.lis[l.addr] == l {
		delete(l.n.lis, l.addr)
	}
	l.n.mu.Unlock()
	l.in.Close()
	for c, ok := l.in.TryPop(); ok; c, ok = l.in.TryPop() {
		c.reset()
	}
	return nil
}

// Listen listens at an address of the server.
func (n *Network) Listen(addr string) (stream.Listener, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Err: err}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lis[addr] != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
	}
	l := &listener{n, addr, sched.NewQueue[*conn](n.s, "a TCP connection to "+addr)}
	n.lis[addr] = l
	return l, nil
}

// Ports of clients.
const (
	firstPort = 32768
	firstResv = 665
	resvPorts = 1023 - firstResv + 1
)

// dialing is a connection that is being made.
type dialing struct {
	w    *sched.Waiter
	done bool // or given up
	c    *conn
	err  error
}

// Dial connects to a listener.
func (n *Network) Dial(ctx context.Context, addr string, o stream.DialOptions) (stream.Conn, error) {
	n.mu.Lock()
	n.port++
	local := fmt.Sprintf("client:%d", firstPort+n.port%(65536-firstPort))
	if o.Resv {
		local = fmt.Sprintf("client:%d", firstResv+n.port%resvPorts)
	}
	n.mu.Unlock()
	d := &dialing{w: n.s.NewWaiter("the connection to " + addr)}
	n.out.Send(0, 1, event(func() { n.syn(d, local, addr) }))
	for !d.done {
		if err := d.w.Wait(ctx); err != nil {
			d.done = true
			return nil, err
		}
	}
	if d.err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: d.err}
	}
	return d.c, nil
}

// syn is the arrival of the first packet; the answers are further events.
func (n *Network) syn(d *dialing, local, addr string) {
	answer := func(c *conn, err error) {
		n.back.Send(0, 1, event(func() {
			if d.done {
				return
			}
			d.done, d.c, d.err = true, c, err
			d.w.Wake()
			if err == nil {
				n.out.Send(0, 1, event(func() { n.established(c.peer) }))
			}
		}))
	}
	n.mu.Lock()
	l := n.lis[addr]
	n.mu.Unlock()
	if l == nil {
		answer(nil, os.NewSyscallError("connect", syscall.ECONNREFUSED))
		return
	}
	c, err := n.pair(local, addr)
	answer(c, err)
}

// established hands the server's end to its listener.
func (n *Network) established(c *conn) {
	n.mu.Lock()
	l := n.lis[c.local]
	n.mu.Unlock()
	if l == nil || !l.in.Push(c) {
		c.reset()
	}
}
