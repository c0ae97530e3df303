//go:build rdmacore && cgo

package rdmacore

/*
#cgo noescape rc_poll
#cgo nocallback rc_poll
#cgo nocallback rc_arm
#cgo nocallback rc_get_cq_event
#include "shim.h"
*/
import "C"

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"example.org/nfsrdma/verbs"
)

// The shim writes completions as verbs.WC has them.
var (
	_ [unsafe.Sizeof(verbs.WC{}) - C.sizeof_rc_wc]struct{}
	_ [C.sizeof_rc_wc - unsafe.Sizeof(verbs.WC{})]struct{}
	_ [unsafe.Offsetof(verbs.WC{}.QPN) - 24]struct{}
	_ [24 - unsafe.Offsetof(verbs.WC{}.QPN)]struct{}
)

// cq is a completion queue, with a channel of its own.
type cq struct {
	object
	dev   *Device
	init  verbs.CQInit
	ch    *C.struct_ibv_comp_channel
	w     *watcher
	event chan struct{} // for Wait: one event
	end   chan struct{} // closed by Close

	// poll guards what follows, and that c lives.
	poll     sync.Mutex
	c        *C.struct_ibv_cq
	gone     bool
	overflow bool
	early    []verbs.WC // taken from the device, not yet polled; from head on
	head     int
	qps      []*qp
	broken   []*qp  // had a failed completion, and may not have flushed all
	unacked  C.uint // events

	armed atomic.Bool // of a device with tracks
}

// ackBatch is after how many events they are acknowledged, which takes a lock of the library.
const ackBatch = 64

// CreateCQ implements verbs.Device.
func (d *Device) CreateCQ(init verbs.CQInit) (verbs.CQ, error) {
	what := "completion queue " + init.Name
	if err := bounded(d.what, what, "Depth (max_cqe)", init.Depth, 1, d.attr.MaxCQE); err != nil {
		return nil, err
	}
	if err := d.count(&d.res.CQ); err != nil {
		return nil, err
	}
	c := &cq{object: object{what: what}, dev: d, init: init, event: make(chan struct{}, 1), end: make(chan struct{})}
	err := c.create()
	if err != nil {
		d.uncount(&d.res.CQ)
		return nil, err
	}
	return c, nil
}

func (c *cq) create() error {
	h := c.dev.hca
	ch, err := C.ibv_create_comp_channel(h.ctx)
	if ch == nil {
		return errnoError(errnoOf(err), "%s: completion channel of %s", c.dev.what, c.what)
	}
	c.ch = ch
	if c.c, err = C.ibv_create_cq(h.ctx, C.int(c.init.Depth), nil, ch, 0); c.c == nil {
		C.ibv_destroy_comp_channel(ch)
		return errnoError(errnoOf(err), "%s: %s of %d entries, max_cq is %d", c.dev.what, c.what, c.init.Depth, c.dev.attr.MaxCQ)
	}
	if c.w, err = watch(int(ch.fd), c.what, c.drain); err != nil {
		C.ibv_destroy_cq(c.c)
		C.ibv_destroy_comp_channel(ch)
		return err
	}
	h.mu.Lock()
	h.cqs[c.key()] = c
	h.mu.Unlock()
	return nil
}

func (c *cq) key() uint64 { return uint64(uintptr(unsafe.Pointer(c.c))) }

// drain takes all events of the channel. It alone, and Close when it has ended, touch unacked.
func (c *cq) drain() {
	for C.rc_get_cq_event(c.ch) == 0 {
		due := !c.dev.tracks || c.armed.Swap(false)
		if c.unacked++; c.unacked == ackBatch {
			C.ibv_ack_cq_events(c.c, c.unacked)
			c.unacked = 0
		}
		if due {
			c.notify()
		}
	}
}

// notify delivers one event.
func (c *cq) notify() {
	if c.init.Handler != nil {
		c.init.Handler(c)
		return
	}
	select {
	case c.event <- struct{}{}:
	default:
	}
}

// Poll implements verbs.CQ.
func (c *cq) Poll(wc []verbs.WC) (int, error) {
	n, broken, err := c.pollAll(wc)
	for _, q := range broken {
		q.fail()
	}
	return n, err
}

// pollAll also gives the queue pairs that failed.
func (c *cq) pollAll(wc []verbs.WC) (n int, broken []*qp, err error) {
	c.poll.Lock()
	defer c.poll.Unlock()
	n, err = c.pollLocked(wc)
	broken, c.broken = c.broken, nil
	return n, broken, err
}

func (c *cq) pollLocked(wc []verbs.WC) (int, error) {
	if c.gone {
		return 0, closedError(c.what)
	}
	n := c.takeEarly(wc)
	for c.dev.tracks && n < len(wc) && c.fetch() > 0 {
		n += c.takeEarly(wc[n:])
	}
	if n < len(wc) && !c.dev.tracks {
		m, err := c.take(wc[n:])
		if err != nil && n == 0 {
			return 0, err
		}
		n += m
	}
	if n == 0 && c.overflow && len(wc) > 0 {
		return 0, fmt.Errorf("rdmacore: %s of %d: %w", c.what, c.init.Depth, verbs.ErrCQOverflow)
	}
	return n, nil
}

// take polls the device. poll is held.
func (c *cq) take(wc []verbs.WC) (int, error) {
	if len(wc) == 0 {
		return 0, nil
	}
	n := int(C.rc_poll(c.c, (*C.rc_wc)(unsafe.Pointer(&wc[0])), C.int(len(wc)), C.uint(c.dev.invFlags)))
	if n < 0 {
		return 0, errnoError(-n, "%s: polling", c.what)
	}
	for i := range wc[:n] {
		if wc[i].Status != verbs.Success {
			c.failed(wc[i].QPN)
		}
	}
	return n, nil
}

// failed notes that a queue pair is in ERR: only there work fails.
func (c *cq) failed(qpn uint32) {
	for _, q := range c.qps {
		if q.num == qpn && q.sawError() {
			c.broken = append(c.broken, q)
		}
	}
}

func (c *cq) takeEarly(wc []verbs.WC) int {
	n := copy(wc, c.early[c.head:])
	if c.head += n; c.head == len(c.early) {
		c.early, c.head = c.early[:0], 0
	}
	return n
}

// Arm implements verbs.CQ. As the library does not tell what was missed, it looks.
func (c *cq) Arm(solicitedOnly bool) bool {
	c.poll.Lock()
	defer c.poll.Unlock()
	if c.gone || c.overflow {
		return c.overflow
	}
	select {
	case <-c.event: // of an earlier Arm
	default:
	}
	s := C.int(0)
	if solicitedOnly {
		s = 1
	}
	if c.dev.tracks {
		c.armed.Store(true)
		s = 0 // siw may miss the event of a solicited one
	}
	C.rc_arm(c.c, s)
	if c.head == len(c.early) {
		c.fetch()
	}
	return c.head < len(c.early)
}

// fetch takes some completions ahead of Poll, and says how many the device gave. poll is held.
func (c *cq) fetch() int {
	const most = 16
	k := len(c.early)
	c.early = slices.Grow(c.early, most)[:k+most]
	n, _ := c.take(c.early[k:])
	c.early = c.early[:k+n]
	if c.dev.tracks {
		var raw [most]verbs.WC
		copy(raw[:], c.early[k:])
		c.early = c.early[:k]
		for i := range raw[:n] {
			c.sort(&raw[i])
		}
	}
	return n
}

// sort gives a completion to its queue pair's track, and takes what is due. poll is held.
func (c *cq) sort(wc *verbs.WC) {
	for _, q := range c.qps {
		if q.num != wc.QPN {
			continue
		}
		if wc.ID&(recvBit|sharedBit) == recvBit|sharedBit {
			wc.ID = q.srq.idOf(wc.ID)
			c.early = append(c.early, *wc)
		} else {
			c.early = q.track.complete(*wc, c.early)
		}
		return
	}
}

// flush completes what is left of a queue pair in ERR, behind what the device gives.
func (c *cq) flush(q *qp, rest func(qpn uint32, out []verbs.WC) []verbs.WC) {
	c.poll.Lock()
	if !slices.Contains(c.qps, q) {
		c.poll.Unlock()
		return
	}
	for c.fetch() > 0 {
		continue
	}
	k := len(c.early)
	c.early = rest(q.num, c.early)
	due := len(c.early) > k && c.armed.Swap(false)
	c.poll.Unlock()
	if due {
		c.notify()
	}
}

// Wait implements verbs.CQ.
func (c *cq) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-c.end:
		return closedError(c.what)
	default:
	}
	select {
	case <-c.event:
		return nil
	case <-c.end:
		return closedError(c.what)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// overflowed fails the queue pairs that use the queue.
func (c *cq) overflowed() {
	c.poll.Lock()
	c.overflow = true
	qps := slices.Clone(c.qps)
	c.poll.Unlock()
	c.dev.event(verbs.AsyncEvent{Type: verbs.EventCQErr, CQ: c})
	for _, q := range qps {
		q.fail()
	}
	c.notify()
}

// attach and detach keep the queue open for a queue pair.
func (c *cq) attach(q *qp) error {
	if err := c.use(); err != nil {
		return err
	}
	c.poll.Lock()
	c.qps = append(c.qps, q)
	c.poll.Unlock()
	return nil
}

// detach also drops the completions of the queue pair, which is gone.
func (c *cq) detach(q *qp) {
	c.poll.Lock()
	if i := slices.Index(c.qps, q); i >= 0 {
		c.qps = slices.Delete(c.qps, i, i+1)
	}
	for c.fetch() > 0 {
		continue
	}
	c.early = slices.DeleteFunc(slices.Delete(c.early, 0, c.head), func(wc verbs.WC) bool { return wc.QPN == q.num })
	c.head = 0
	c.poll.Unlock()
	c.unuse()
}

// Close implements verbs.CQ. No handler runs when it returns: a handler must not call it.
func (c *cq) Close() error {
	done, err := c.shut()
	if done || err != nil {
		return err
	}
	h := c.dev.hca
	c.w.Close()
	h.mu.Lock()
	delete(h.cqs, c.key())
	h.mu.Unlock()
	c.poll.Lock()
	c.gone = true
	c.early, c.head = nil, 0
	c.poll.Unlock()
	close(c.end)
	if c.unacked > 0 {
		C.ibv_ack_cq_events(c.c, c.unacked)
	}
	rc := C.ibv_destroy_cq(c.c)
	C.ibv_destroy_comp_channel(c.ch)
	c.dev.uncount(&c.dev.res.CQ)
	if rc != 0 && syscall.Errno(rc) != syscall.EIO {
		return errnoError(int(rc), "closing %s", c.what)
	}
	return nil
}
