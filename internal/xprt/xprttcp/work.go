package xprttcp

import (
	"context"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/stream"
)

// workConn is a connection whose reader, xprtiod's worker, runs some time after data has come for it. What comes
// meanwhile it finds there.
type workConn struct {
	stream.Conn
	s    *sched.Sched
	wake sched.Duration
}

// received is c as the reader sees it.
func (x *Xprt) received(c stream.Conn) stream.Conn {
	if x.cfg.Wake == 0 || !x.s.Virtual() {
		return c
	}
	return &workConn{c, x.s, x.cfg.Wake}
}

func (c *workConn) Read(b []byte) (int, error) {
	before := c.s.Now()
	n, err := c.Conn.Read(b)
	if err == nil && c.s.Now() > before {
		err = c.s.Sleep(context.Background(), c.wake)
	}
	return n, err
}
