package tcpsim

import (
	"context"

	"example.org/nfsrdma/internal/sched"
)

// Wire carries what is sent one way, in order and without loss.
type Wire interface {
	// Send takes n bytes of payload in so many packets. e fires when the last of them has arrived, not before
	// Send returns.
	Send(n, packets int, e sched.Event)
}

// Link puts c on wires: one for data, the other for acknowledgements. Without them all that is sent takes Config.Delay.
func (c *Conn) Link(data, acks Wire) { c.out, c.back = data, acks }

// Measure accounts for the time that the send buffer and the window hold the sender back.
func (c *Conn) Measure(room, window *sched.Meter) { c.roomMeter, c.winMeter = room, window }

// Send queues n bytes, waits for room, and pushes at the end (tcp_sendmsg).
func (c *Conn) Send(ctx context.Context, n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queue(ctx, n, Flags{})
}

// Buffered is the size of the send buffer, and the bytes in it: what is not acknowledged.
func (c *Conn) Buffered() (size, queued int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cfg.SndBuf, int(c.end - c.una)
}

// SetSndBuf changes the size of the send buffer.
func (c *Conn) SetSndBuf(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cfg.SndBuf = n
	c.newSpace()
}

// Full says that a sender waits for room (SOCK_NOSPACE).
func (c *Conn) Full() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waits
}

// OnSpace sets what is called after each acknowledgement. It must not wait.
func (c *Conn) OnSpace(f func()) { c.space = f }

// CloseSend sends what is queued and then the end of the stream. Send gives err.
func (c *Conn) CloseSend(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
		c.fin = true
		c.xmit(force)
		c.room.Wake()
	}
}

// FailSend drops what is queued. Send gives err.
func (c *Conn) FailSend(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	c.fin, c.segs = false, nil
	c.una, c.next = c.end, c.end
	c.meterWindow()
	c.room.Wake()
}

// CloseReceive drops what has come and was not received. Receive gives err. refuse, if not nil, is called once if
// more comes.
func (c *Conn) CloseReceive(err error, refuse func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &c.recv
	if r.err != nil {
		return
	}
	r.err, r.refuse = err, refuse
	r.unread, r.segs, r.armed = 0, 0, false
	r.delack.Stop()
	r.data.Wake()
}

// Unread is how many bytes have come that were not received.
func (c *Conn) Unread() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recv.unread
}

// meterWindow accounts for data that the window holds back.
func (c *Conn) meterWindow() {
	if c.winMeter == nil {
		return
	}
	held := len(c.segs) > 0 && c.due > c.next
	switch now := c.s.Now(); {
	case held && c.winSince == 0:
		c.winSince = now + 1
		c.winMeter.Take(1)
	case !held && c.winSince > 0:
		c.winMeter.Give(1)
		c.winMeter.Waited(now.Sub(c.winSince - 1))
		c.winSince = 0
	}
}

// finish is the end of the stream on its way.
type finish struct{ c *Conn }

// Fire is its arrival.
func (f *finish) Fire() {
	c := f.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recv.eof = true
	c.recv.data.Wake()
}
