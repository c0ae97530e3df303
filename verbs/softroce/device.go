package softroce

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"example.org/nfsrdma/verbs"
)

// Device is a device of a Network.
type Device struct {
	net  *Network
	name string
	attr verbs.DeviceAttr
	keys keyTable
	dma  dmaSpace

	mu       sync.Mutex
	rng      *rand.Rand // under keys.mu
	nextAddr uint64
	res      verbs.Resources
	onEvent  func(verbs.AsyncEvent)
	removed  bool
	closed   bool
	qps      []*qp
	past     stats // of queue pairs that were closed
	windows  map[*region]*qp
}

// Name implements verbs.Device.
func (d *Device) Name() string { return d.name }

// Attr implements verbs.Device.
func (d *Device) Attr() verbs.DeviceAttr { return d.attr }

// OnEvent implements verbs.Device.
func (d *Device) OnEvent(f func(verbs.AsyncEvent)) {
	d.mu.Lock()
	d.onEvent = f
	d.mu.Unlock()
}

func (d *Device) event(e verbs.AsyncEvent) {
	d.mu.Lock()
	f := d.onEvent
	d.mu.Unlock()
	if f != nil {
		f(e)
	}
}

// usable fails once the device is closed or removed. d.mu is held.
func (d *Device) usable() error {
	switch {
	case d.closed:
		return fmt.Errorf("softroce: device %s: %w", d.name, verbs.ErrClosed)
	case d.removed:
		return fmt.Errorf("softroce: device %s was removed: %w", d.name, verbs.ErrClosed)
	}
	return nil
}

// limit counts one more object. d.mu is held.
func (d *Device) limit(n *int, most int, name string) error {
	if *n >= most {
		return fmt.Errorf("softroce: %s: %s is %d: %w", d.name, name, most, verbs.ErrNoResources)
	}
	*n++
	return nil
}

// allocAddr deals out an address range, a page of nothing around it. d.mu is held.
func (d *Device) allocAddr(n int) uint64 {
	a := d.nextAddr
	pages := (uint64(n) + verbs.PageSize - 1) / verbs.PageSize
	d.nextAddr += (pages + 2) * verbs.PageSize
	return a
}

// ownWindows notes whose a type 2 window is, so that it ends with its queue pair.
func (d *Device) ownWindows(r *region, q *qp) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q == nil {
		delete(d.windows, r)
		return
	}
	if d.windows == nil {
		d.windows = map[*region]*qp{}
	}
	d.windows[r] = q
}

func (d *Device) dropWindows(q *qp) {
	d.mu.Lock()
	var list []*region
	for r, o := range d.windows {
		if o == q {
			list = append(list, r)
		}
	}
	d.mu.Unlock()
	for _, r := range list {
		r.mu.Lock()
		if r.qp == q {
			r.unbind()
		}
		r.mu.Unlock()
	}
}

// Resources implements verbs.Device.
func (d *Device) Resources() verbs.Resources {
	d.mu.Lock()
	r := d.res
	d.mu.Unlock()
	d.dma.mu.Lock()
	r.DMAMap = d.dma.maps
	d.dma.mu.Unlock()
	return r
}

// Remove takes the device away, as a hot unplug does: every connection gets
// CMDeviceRemoval, every queue pair fails, and new objects are refused. What exists can be closed.
func (d *Device) Remove() {
	d.mu.Lock()
	if d.removed || d.closed {
		d.mu.Unlock()
		return
	}
	d.removed = true
	qps := slices.Clone(d.qps)
	d.mu.Unlock()
	d.event(verbs.AsyncEvent{Type: verbs.EventDeviceFatal})
	for _, q := range qps {
		q.fail()
	}
	d.net.cm.deviceRemoved(d)
}

// Plug brings a removed device back. It still knows protection domains and memory that it knew before; of connections,
// queue pairs and listeners nothing works any more.
func (d *Device) Plug() {
	d.mu.Lock()
	d.removed = false
	d.mu.Unlock()
}

// Close implements verbs.Device.
func (d *Device) Close() error {
	r := d.Resources()
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	if r != (verbs.Resources{}) {
		d.mu.Unlock()
		return fmt.Errorf("softroce: device %s has %+v: %w", d.name, r, verbs.ErrBusy)
	}
	d.closed = true
	d.mu.Unlock()
	d.net.mu.Lock()
	delete(d.net.devices, d.name)
	d.net.mu.Unlock()
	return nil
}

// stats count what a queue pair did; the names are rxe's hw_counters where it has one.
type stats struct {
	sentPkts, rcvdPkts, duplicateReq, outOfSeqReq, rcvdRNR, sentRNR, rcvdSeqErr, sentSeqErr,
	ackDeferred, retryExceeded, rnrExceeded, sendErr, accessErr, reqErr, lostSource, icrcErr,
	sends, recvs, reads, writes, readBytes, writeBytes, sendBytes, localInv, regMR, bindMW, remoteInv,
	timeouts, retransmits uint64
	readsOutMax, sqMax, respOutMax uint64 // gauges
}

func (s *stats) list() []verbs.Counter {
	return []verbs.Counter{
		{Name: "sent_pkts", Value: s.sentPkts}, {Name: "rcvd_pkts", Value: s.rcvdPkts},
		{Name: "duplicate_request", Value: s.duplicateReq}, {Name: "out_of_seq_request", Value: s.outOfSeqReq},
		{Name: "rcvd_rnr_err", Value: s.rcvdRNR}, {Name: "send_rnr_err", Value: s.sentRNR},
		{Name: "rcvd_seq_err", Value: s.rcvdSeqErr}, {Name: "sent_seq_err", Value: s.sentSeqErr},
		{Name: "ack_deferred", Value: s.ackDeferred},
		{Name: "retry_exceeded_err", Value: s.retryExceeded}, {Name: "retry_rnr_exceeded_err", Value: s.rnrExceeded},
		{Name: "send_err", Value: s.sendErr}, {Name: "access_err", Value: s.accessErr}, {Name: "invalid_request_err", Value: s.reqErr},
		{Name: "local_ack_timeout_err", Value: s.timeouts}, {Name: "retransmits", Value: s.retransmits},
		{Name: "source_revoked", Value: s.lostSource}, {Name: "icrc_err", Value: s.icrcErr},
		{Name: "rdma_sends", Value: s.sends}, {Name: "rdma_recvs", Value: s.recvs},
		{Name: "rdma_reads", Value: s.reads}, {Name: "rdma_writes", Value: s.writes},
		{Name: "read_bytes", Value: s.readBytes}, {Name: "write_bytes", Value: s.writeBytes}, {Name: "send_bytes", Value: s.sendBytes},
		{Name: "local_inv", Value: s.localInv}, {Name: "reg_mr", Value: s.regMR}, {Name: "bind_mw", Value: s.bindMW},
		{Name: "remote_inv", Value: s.remoteInv},
		{Name: "read_outstanding_max", Value: s.readsOutMax}, {Name: "resp_outstanding_max", Value: s.respOutMax},
		{Name: "sq_depth_max", Value: s.sqMax},
	}
}

func (s *stats) add(o *stats) {
	s.sentPkts += o.sentPkts
	s.rcvdPkts += o.rcvdPkts
	s.duplicateReq += o.duplicateReq
	s.outOfSeqReq += o.outOfSeqReq
	s.rcvdRNR += o.rcvdRNR
	s.sentRNR += o.sentRNR
	s.rcvdSeqErr += o.rcvdSeqErr
	s.sentSeqErr += o.sentSeqErr
	s.ackDeferred += o.ackDeferred
	s.retryExceeded += o.retryExceeded
	s.rnrExceeded += o.rnrExceeded
	s.sendErr += o.sendErr
	s.accessErr += o.accessErr
	s.reqErr += o.reqErr
	s.lostSource += o.lostSource
	s.icrcErr += o.icrcErr
	s.sends += o.sends
	s.recvs += o.recvs
	s.reads += o.reads
	s.writes += o.writes
	s.readBytes += o.readBytes
	s.writeBytes += o.writeBytes
	s.sendBytes += o.sendBytes
	s.localInv += o.localInv
	s.regMR += o.regMR
	s.bindMW += o.bindMW
	s.remoteInv += o.remoteInv
	s.timeouts += o.timeouts
	s.retransmits += o.retransmits
	s.readsOutMax = max(s.readsOutMax, o.readsOutMax)
	s.respOutMax = max(s.respOutMax, o.respOutMax)
	s.sqMax = max(s.sqMax, o.sqMax)
}

// Counters implements verbs.Device.
func (d *Device) Counters() []verbs.Counter {
	d.mu.Lock()
	sum := d.past
	qps := slices.Clone(d.qps)
	d.mu.Unlock()
	for _, q := range qps {
		q.mu.Lock()
		st := q.st
		q.mu.Unlock()
		sum.add(&st)
	}
	return sum.list()
}
