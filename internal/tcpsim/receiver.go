package tcpsim

import (
	"context"
	"io"
	"math"

	"example.org/nfsrdma/internal/sched"
)

// receiver is the other end. Conn.mu guards it.
type receiver struct {
	c       *Conn
	next    uint64 // received up to
	wup     uint64 // acknowledged up to (rcv_wup)
	edge    uint64 // of the window that was offered
	mss     int    // the estimate of the sender's (icsk_ack.rcv_mss)
	lastSeg int    // size of the last small segment
	small   int    // small segments since the last acknowledgement: ICSK_ACK_PUSHED, PUSHED2
	quick   int    // acknowledgements to be sent at once
	unread  int
	segs    int // unread
	delack  *sched.Timer
	armed   bool
	data    *sched.Waiter
	eof     bool
	err     error  // what Receive gives
	refuse  func() // of data that comes after CloseReceive
}

func (r *receiver) init(c *Conn) {
	r.c, r.edge, r.quick = c, uint64(c.cfg.Window), max(c.cfg.QuickAcks, 0)
	r.delack = c.s.NewTimer(r.late)
	r.data = c.s.NewWaiter("data from the sender")
}

// arrival is a segment on its way.
type arrival struct {
	c *Conn
	n int
}

// Fire is its arrival.
func (a *arrival) Fire() {
	c := a.c
	c.mu.Lock()
	if c.recv.err == nil {
		c.recv.arrived(a.n)
		c.mu.Unlock()
		return
	}
	refuse := c.recv.refuse
	c.recv.refuse = nil
	c.mu.Unlock()
	if refuse != nil {
		refuse()
	}
}

func (r *receiver) arrived(n int) {
	c := r.c
	r.next += uint64(n)
	r.unread += n
	r.segs++
	r.measure(min(n, c.mss)) // gso_size of more than one packet
	switch {
	case r.quick > 0:
		r.quick--
		r.ack()
	case r.next-r.wup > uint64(r.mss):
		r.ack()
	case !r.armed:
		r.armed = true
		r.delack.Reset(sched.FromStd(c.cfg.DelayedAck))
	}
	r.data.Wake()
}

// measure follows the sender's segment size (tcp_measure_rcv_mss).
func (r *receiver) measure(n int) {
	if n >= r.mss {
		r.mss = n
		return
	}
	if n == r.lastSeg {
		r.mss = n
		return
	}
	r.lastSeg = n
	r.small++
}

// ack sends an acknowledgement.
func (r *receiver) ack() {
	c := r.c
	r.wup, r.small, r.armed = r.next, 0, false
	r.delack.Stop()
	r.edge = max(r.edge, r.next+uint64(max(c.cfg.Window-r.unread, 0)))
	c.st.Acks++
	if c.back != nil {
		c.back.Send(0, 1, &ack{c, r.next, r.edge})
		return
	}
	c.s.At(c.s.Now().Add(sched.FromStd(c.cfg.Delay)), &ack{c, r.next, r.edge})
}

// late is the timer of delayed acknowledgements.
func (r *receiver) late() {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if r.armed {
		r.c.st.DelayedAcks++
		r.ack()
	}
}

// Receive waits for data, takes what is there, and returns how much.
func (c *Conn) Receive(ctx context.Context) (int, error) { return c.ReceiveUpTo(ctx, math.MaxInt) }

// ReceiveUpTo is Receive of at most so many bytes. The end of the stream is io.EOF.
func (c *Conn) ReceiveUpTo(ctx context.Context, most int) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &c.recv
	for r.unread == 0 {
		switch {
		case r.err != nil:
			return 0, r.err
		case r.eof:
			return 0, io.EOF
		}
		c.mu.Unlock()
		err := r.data.Wait(ctx)
		c.mu.Lock()
		if err != nil {
			return 0, err
		}
	}
	n, segs := min(r.unread, most), r.segs
	r.segs = 0
	d := sched.Duration(segs)*sched.Duration(c.cfg.ReadSegmentPS) + sched.Duration(n)*sched.Duration(c.cfg.ReadBytePS)
	var err error
	if d > 0 || c.back == nil {
		c.mu.Unlock()
		err = c.s.Sleep(ctx, d)
		c.mu.Lock()
	}
	if r.err != nil {
		return 0, r.err
	}
	r.unread -= n
	r.cleanup()
	return n, err
}

// cleanup acknowledges after a read (tcp_cleanup_rbuf).
func (r *receiver) cleanup() {
	w := uint64(r.c.cfg.Window)
	left := r.edge - r.next
	switch {
	case r.next > r.wup && (r.next-r.wup > uint64(r.mss) || r.small > 0 && r.unread == 0):
		r.ack()
	case 2*left <= w && w-uint64(r.unread) >= 2*left:
		r.ack() // the window has opened
	}
}
