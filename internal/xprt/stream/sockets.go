package stream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"time"

	"example.org/nfsrdma/internal/sched"
)

// Sockets are the TCP sockets of this machine. They wait in the kernel, so their users must run live.
type Sockets struct{}

// Dial connects.
func (Sockets) Dial(ctx context.Context, addr string, o DialOptions) (Conn, error) {
	if o.Resv {
		return dialResv(ctx, addr)
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return newSocket(c), nil
}

// The ports from which the kernel binds when one below 1024 is wanted (sunrpc.min_resvport, max_resvport).
const minResv, maxResv = 665, 1023

func dialResv(ctx context.Context, addr string) (Conn, error) {
	n := maxResv - minResv + 1
	start := rand.IntN(n)
	for i := range n {
		d := net.Dialer{LocalAddr: &net.TCPAddr{Port: minResv + (start+i)%n}}
		c, err := d.DialContext(ctx, "tcp", addr)
		switch {
		case err == nil:
			return newSocket(c), nil
		case errors.Is(err, os.ErrPermission):
			return nil, fmt.Errorf("a port below 1024 takes a privilege: %w", err)
		case !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EADDRNOTAVAIL):
			return nil, err
		}
	}
	return nil, fmt.Errorf("connect to %s: no port from %d to %d is free", addr, minResv, maxResv)
}

// Listen listens.
func (Sockets) Listen(addr string) (Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	return listener{l}, nil
}

type listener struct{ l net.Listener }

func (l listener) Addr() string { return l.l.Addr().String() }
func (l listener) Close() error { return l.l.Close() }

// Accept outlasts what ends by itself: a connection that has gone already, or too many open files.
func (l listener) Accept() (Conn, error) {
	for {
		c, err := l.l.Accept()
		switch {
		case err == nil:
			return newSocket(c), nil
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOBUFS), errors.Is(err, syscall.ENOMEM):
			time.Sleep(10 * time.Millisecond)
		case !errors.Is(err, syscall.ECONNABORTED):
			return nil, err
		}
	}
}

type socket struct {
	c           net.Conn
	local, peer string
}

func newSocket(c net.Conn) *socket {
	return &socket{c, c.LocalAddr().String(), c.RemoteAddr().String()}
}

func (s *socket) Read(b []byte) (int, error) { return s.c.Read(b) }
func (s *socket) LocalAddr() string          { return s.local }
func (s *socket) PeerAddr() string           { return s.peer }
func (s *socket) Close() error               { return s.c.Close() }

func (s *socket) Write(bufs *net.Buffers) error {
	_, err := bufs.WriteTo(s.c)
	return err
}

func (s *socket) ReadTimeout(d sched.Duration)  { _ = s.c.SetReadDeadline(deadline(d)) }
func (s *socket) WriteTimeout(d sched.Duration) { _ = s.c.SetWriteDeadline(deadline(d)) }

func deadline(d sched.Duration) time.Time {
	if d <= 0 {
		return time.Time{}
	}
	return time.Now().Add(d.Std())
}
