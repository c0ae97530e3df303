package xprtrdma

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/verbs"
)

// faultDevice is a device whose connections and queue pairs go wrong where a test says so.
type faultDevice struct {
	verbs.Device
	onConnect func(event func(verbs.CMEventType)) // before each connection request
	onRecv    func() error                        // before each PostRecv
	onSend    func(wrs []verbs.SendWR) error      // before each PostSend
	onClose   func()                              // before a queue pair is closed
}

func withFaults(d *faultDevice) rigOption {
	return func(c *rigConfig) { c.faults = d }
}

func (d *faultDevice) Resolve(ctx context.Context, addr string) (verbs.ID, error) {
	id, err := d.Device.Resolve(ctx, addr)
	return &faultID{ID: id, d: d}, err
}

type faultID struct {
	verbs.ID
	d     *faultDevice
	event func(verbs.CMEventType)
}

func (i *faultID) OnEvent(f func(verbs.CMEventType)) {
	i.event = f
	i.ID.OnEvent(f)
}

func (i *faultID) Connect(ctx context.Context, p verbs.ConnParam) (verbs.ConnParam, error) {
	if i.d.onConnect != nil {
		i.d.onConnect(i.event)
	}
	return i.ID.Connect(ctx, p)
}

func (i *faultID) CreateQP(pd verbs.PD, init verbs.QPInit) (verbs.QP, error) {
	qp, err := i.ID.CreateQP(pd, init)
	return &faultQP{qp, i.d}, err
}

type faultQP struct {
	verbs.QP
	d *faultDevice
}

func (q *faultQP) PostRecv(wrs []verbs.RecvWR) (int, error) {
	if f := q.d.onRecv; f != nil {
		if err := f(); err != nil {
			return 0, err
		}
	}
	return q.QP.PostRecv(wrs)
}

func (q *faultQP) Close() error {
	if f := q.d.onClose; f != nil {
		f()
	}
	return q.QP.Close()
}

func (q *faultQP) PostSend(wrs []verbs.SendWR) (int, error) {
	if f := q.d.onSend; f != nil {
		if err := f(wrs); err != nil {
			return 0, err
		}
	}
	return q.QP.PostSend(wrs)
}

// F13: an event before the connection is established ends the attempt, once; the next one works.
func TestF13EventBeforeEstablished(t *testing.T) {
	for _, ev := range []verbs.CMEventType{verbs.CMAddrChange, verbs.CMDisconnected, verbs.CMDeviceRemoval} {
		d := &faultDevice{}
		r := newRig(t, noConnect, withFaults(d))
		d.onConnect = func(event func(verbs.CMEventType)) { event(ev); event(ev) }
		assert.ErrorIs(t, r.x.Connect(bg), verbs.ErrDisconnected)
		d.onConnect = nil
		require.NoError(t, r.x.Connect(bg))
		r.mustDo(callSpec{sink: make([]byte, 100)})
	}
}

// F14: posting receives fails at some time. The connection ends, is drained and replaced, and the calls end well.
func TestF14PostingReceivesFails(t *testing.T) {
	for n := 1; n < 12; n++ {
		d := &faultDevice{}
		r := newRig(t, withFaults(d))
		r.mustDo(callSpec{})
		posts := 0
		d.onRecv = func() error {
			if posts++; posts == n {
				return verbs.ErrQueueFull
			}
			return nil
		}
		for range 3 {
			var calls []*pendingCall
			for range 30 {
				calls = append(calls, r.goDo(bg, callSpec{sink: make([]byte, 100)}))
			}
			for _, c := range calls {
				assert.NoError(t, c.wait())
			}
		}
		assert.Greater(t, posts, n)
		r.wantCounter("connect_count", 2)
	}
}

// A post that fails ends the connection, and the calls are sent again.
func TestPostingSendFails(t *testing.T) {
	d := &faultDevice{}
	r := newRig(t, withFaults(d))
	r.mustDo(callSpec{})
	posts := 0
	d.onSend = func([]verbs.SendWR) error {
		if posts++; posts == 4 {
			return verbs.ErrQueueFull
		}
		return nil
	}
	var calls []*pendingCall
	for range 20 {
		calls = append(calls, r.goDo(bg, callSpec{data: make([]byte, 9000)}))
	}
	for _, c := range calls {
		assert.NoError(t, c.wait())
	}
	r.wantCounter("connect_count", 2)
}

// C36: when the memory of an answered call cannot be invalidated the connection ends, which keeps the peer out as
// well. The call has its reply, and its region is not used again.
func TestC36InvalidationFails(t *testing.T) {
	d := &faultDevice{}
	var last *call
	r := newRig(t, withFaults(d), serve(func(k *call) { last = k; k.reply() }))
	r.mustDo(callSpec{})
	d.onSend = func(wrs []verbs.SendWR) error {
		if wrs[0].Op == verbs.OpLocalInv {
			return verbs.ErrState
		}
		return nil
	}
	sink := make([]byte, 9000)
	r.mustDo(callSpec{sink: sink})
	r.wantPeerShutOut(last, sink)
	d.onSend = nil
	r.mustDo(callSpec{sink: sink})
	r.wantCounter("connect_count", 2)
	r.wantCounter("mrs_recycled", 1)

	// Likewise when the caller gives up.
	h := &holder{}
	r.peer.cfg.serve = h.serve
	ctx, cancel := r.s.WithCancel(bg)
	p := r.goDo(ctx, callSpec{sink: sink})
	r.settle()
	d.onSend = func([]verbs.SendWR) error { return verbs.ErrState }
	cancel()
	assert.ErrorIs(t, p.wait(), context.Canceled)
	r.wantPeerShutOut(h.held[0], sink)
	d.onSend = nil
}

// F21: what is sent again is what was sent before, to the byte, but for the keys.
func TestF21ExactResend(t *testing.T) {
	for _, spec := range []callSpec{
		{data: pattern(1001, 3)}, {args: 1000}, {data: pattern(9001, 3)}, {sink: make([]byte, 100)}, {args: 5000},
	} {
		var sent []*call
		r := newRig(t, serve(func(k *call) {
			sent = append(sent, k)
			if len(sent) == 1 {
				k.c.close()
				return
			}
			k.reply()
		}))
		r.mustDo(spec)
		require.Len(t, sent, 2)
		assert.True(t, bytes.Equal(sent[0].msg, sent[1].msg))
		a, b := &sent[0].hdr, &sent[1].hdr
		assert.Equal(t, a.XID, b.XID)
		assert.Equal(t, a.Proc, b.Proc)
		assert.Equal(t, rpcrdma.ReadChunkLen(a.Reads), rpcrdma.ReadChunkLen(b.Reads))
		assert.Equal(t, a.Writes.Segments(), b.Writes.Segments())
	}
}
