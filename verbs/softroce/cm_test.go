package softroce

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/link"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// cmSide is one side of a connection in the making.
type cmSide struct {
	dev    *Device
	pd     verbs.PD
	cq     verbs.CQ
	id     verbs.ID
	qp     verbs.QP
	events []verbs.CMEventType
	err    error // of Connect or Accept
	done   bool
}

// cmPair lets a connect to b, with a step in between for the test.
type cmPair struct {
	tb   testing.TB
	s    *sched.Sched
	net  *Network
	l    verbs.Listener
	a, b cmSide
	g    *sched.Group
}

func newCMPair(tb testing.TB, l *link.Config) *cmPair {
	tb.Helper()
	s := sched.NewVirtual(1)
	p := &cmPair{tb: tb, s: s, net: NewNetwork(s, NetConfig{Link: l}), g: s.NewGroup("both sides")}
	for name, x := range map[string]*cmSide{"a": &p.a, "b": &p.b} {
		var err error
		x.dev, err = p.net.NewDevice(name, RoCE)
		require.NoError(tb, err)
		x.pd, err = x.dev.AllocPD()
		require.NoError(tb, err)
		x.cq, err = x.dev.CreateCQ(verbs.CQInit{Depth: 64})
		require.NoError(tb, err)
	}
	var err error
	p.l, err = p.b.dev.Listen("b:1", 4)
	require.NoError(tb, err)
	p.a.id, err = p.a.dev.Resolve(bg, "b:1")
	require.NoError(tb, err)
	p.a.createQP(tb)
	return p
}

func (x *cmSide) createQP(tb testing.TB) {
	var err error
	x.qp, err = x.id.CreateQP(x.pd, verbs.QPInit{SendCQ: x.cq, RecvCQ: x.cq, MaxSendWR: 8, MaxRecvWR: 8})
	require.NoError(tb, err)
	x.id.OnEvent(func(e verbs.CMEventType) { x.events = append(x.events, e) })
}

var cmParam = verbs.ConnParam{IRD: 1, ORD: 1, RetryCnt: 7, RNRRetry: 7}

func (p *cmPair) connect(ctx context.Context) {
	p.g.Go("connect", func() {
		_, p.a.err = p.a.id.Connect(ctx, cmParam)
		p.a.done = true
	})
}

// accept takes the request, calls between, and accepts.
func (p *cmPair) accept(ctx context.Context, between func()) {
	p.g.Go("accept", func() {
		defer func() { p.b.done = true }()
		if p.b.id, p.b.err = p.l.Accept(ctx); p.b.err != nil {
			return
		}
		p.b.createQP(p.tb)
		if between != nil {
			between()
		}
		p.b.err = p.b.id.Accept(ctx, cmParam)
	})
}

func (p *cmPair) wait() {
	p.tb.Helper()
	require.NoError(p.tb, p.g.Wait(bg))
}

// after runs f at a time from now.
func (p *cmPair) after(d sched.Duration, f func()) {
	p.g.Go("after", func() {
		assert.NoError(p.tb, p.s.Sleep(bg, d))
		f()
	})
}

// close closes all that is left, and sees that nothing is.
func (p *cmPair) close() {
	p.tb.Helper()
	for _, x := range []*cmSide{&p.a, &p.b} {
		x.closeID(p.tb)
		require.NoError(p.tb, x.cq.Close())
		require.NoError(p.tb, x.pd.Close())
	}
	require.NoError(p.tb, p.s.Sleep(bg, sched.Second))
	require.NoError(p.tb, p.l.Close())
	for _, x := range []*cmSide{&p.a, &p.b} {
		require.Equal(p.tb, verbs.Resources{}, x.dev.Resources(), x.dev.name)
		require.NoError(p.tb, x.dev.Close())
	}
	require.NoError(p.tb, p.s.Close())
	require.NoError(p.tb, p.net.Close())
}

func (x *cmSide) closeID(tb testing.TB) {
	if x.id != nil {
		if x.qp != nil {
			require.NoError(tb, x.qp.Close())
		}
		require.NoError(tb, x.id.Close())
	}
}

// Whatever happens to a connection in the making, at whatever moment, both sides learn how it ended,
// and the same of it: within the life of the connection no side waits for ever.
func TestInterrupted(t *testing.T) {
	delay := 10 * sched.Microsecond
	actions := map[string]func(p *cmPair, cancel func()){
		"cancel connect": func(p *cmPair, cancel func()) { cancel() },
		"close initiator": func(p *cmPair, _ func()) {
			p.a.closeID(p.tb)
		},
		"close acceptor": func(p *cmPair, _ func()) {
			p.b.closeID(p.tb)
		},
		"initiator's queue pair fails": func(p *cmPair, _ func()) {
			assert.NoError(p.tb, p.a.qp.Modify(verbs.QPAttr{State: verbs.Error}))
		},
		"remove initiator": func(p *cmPair, _ func()) { p.a.dev.Remove() },
		"remove acceptor":  func(p *cmPair, _ func()) { p.b.dev.Remove() },
		"close listener":   func(p *cmPair, _ func()) { assert.NoError(p.tb, p.l.Close()) },
	}
	for name, act := range actions {
		for _, direct := range []bool{false, true} {
			for i := range 14 {
				at := sched.Duration(i) * delay / 4
				what := fmt.Sprintf("%s at %v, direct %v", name, at, direct)
				l := &link.Config{Delay: delay.Std()}
				if direct {
					l = nil
				}
				p := newCMPair(t, l)
				ctx, cancel := p.s.WithCancel(bg)
				p.accept(bg, func() { assert.NoError(t, p.s.Sleep(bg, delay/2)) })
				p.connect(ctx)
				p.after(at, func() { act(p, cancel) })
				p.after(sched.Second, func() { assert.NoError(t, p.l.Close()) }) // if no request came
				p.wait()
				cancel()
				// If one side failed, the other did too, or heard of a disconnection. A queue pair
				// that fails once connected is nobody's business but its owner's.
				if p.a.err != nil {
					require.True(t, p.b.err != nil || len(p.b.events) > 0, what)
				}
				if p.b.err != nil {
					require.True(t, p.a.err != nil || len(p.a.events) > 0, what)
				}
				for _, x := range []*cmSide{&p.a, &p.b} {
					n := 0
					for _, e := range x.events {
						if e == verbs.CMDisconnected {
							n++
						}
					}
					require.LessOrEqual(t, n, 1, what)
				}
				p.close()
			}
		}
	}
}

// Both sides disconnect at the same moment: one event each.
func TestDisconnectAtOnce(t *testing.T) {
	for _, d := range []sched.Duration{0, 5 * sched.Microsecond, 10 * sched.Microsecond, 15 * sched.Microsecond} {
		p := newCMPair(t, &link.Config{Delay: 10 * time.Microsecond})
		p.accept(bg, nil)
		p.connect(bg)
		p.wait()
		require.NoError(t, errors.Join(p.a.err, p.b.err))
		p.after(0, func() { assert.NoError(t, p.a.id.Disconnect()) })
		p.after(d, func() { assert.NoError(t, p.b.id.Disconnect()) })
		p.wait()
		require.NoError(t, p.s.Sleep(bg, sched.Second))
		for _, x := range []*cmSide{&p.a, &p.b} {
			assert.Equal(t, []verbs.CMEventType{verbs.CMDisconnected}, x.events)
			assert.Equal(t, verbs.Error, x.qp.Query().State)
			require.NoError(t, x.id.Disconnect())
		}
		p.close()
	}
}

// A peer that closes without a word of its own is gone all the same.
func TestCloseWithoutDisconnect(t *testing.T) {
	p := newCMPair(t, &link.Config{Delay: 10 * time.Microsecond})
	p.accept(bg, nil)
	p.connect(bg)
	p.wait()
	require.NoError(t, p.b.qp.Close())
	require.NoError(t, p.b.id.Close())
	require.NoError(t, p.s.Sleep(bg, 10*sched.Microsecond))
	assert.Equal(t, []verbs.CMEventType{verbs.CMDisconnected}, p.a.events)
	assert.Empty(t, p.b.events, "an event after Close")
	p.close()
}

// A device that was removed starts nothing: not with what was made before, either.
func TestRemovedDeviceRefuses(t *testing.T) {
	p := newCMPair(t, nil)
	cq, err := p.a.dev.CreateCQ(verbs.CQInit{Depth: 1})
	require.NoError(t, err)
	q, err := p.a.pd.CreateQP(verbs.QPInit{SendCQ: cq, RecvCQ: cq})
	require.NoError(t, err)
	require.NoError(t, q.Modify(verbs.QPAttr{State: verbs.Init}))
	raw, err := p.a.pd.CreateQP(verbs.QPInit{SendCQ: cq, RecvCQ: cq})
	require.NoError(t, err)
	p.a.dev.Remove()
	p.a.dev.Remove()
	assert.Equal(t, []verbs.CMEventType{verbs.CMDeviceRemoval}, p.a.events)
	_, err = p.a.id.Connect(bg, cmParam)
	require.ErrorIs(t, err, verbs.ErrClosed)
	require.NoError(t, raw.Modify(verbs.QPAttr{State: verbs.Init}))
	require.ErrorIs(t, raw.Modify(verbs.QPAttr{State: verbs.RTR}), verbs.ErrClosed)
	_, err = p.a.dev.Listen("a:1", 1)
	require.ErrorIs(t, err, verbs.ErrClosed)
	_, err = p.a.dev.Resolve(bg, "b:1")
	require.ErrorIs(t, err, verbs.ErrClosed)
	require.NoError(t, q.Close())
	require.NoError(t, raw.Close())
	require.NoError(t, cq.Close())
	p.close()
}

// Who waits for an answer of a device that is removed hears of it.
func TestRemovedAcceptorAnswers(t *testing.T) {
	p := newCMPair(t, &link.Config{Delay: 10 * time.Microsecond})
	p.connect(bg)
	var err error
	p.b.id, err = p.l.Accept(bg)
	require.NoError(t, err)
	p.b.createQP(t)
	p.b.dev.Remove()
	p.wait()
	require.ErrorIs(t, p.a.err, verbs.ErrRefused)
	require.ErrorIs(t, p.b.id.Accept(bg, cmParam), verbs.ErrDisconnected)
	p.close()
}

// An ID has one queue pair, and none once it is closed.
func TestQueuePairOfID(t *testing.T) {
	p := newCMPair(t, nil)
	init := verbs.QPInit{SendCQ: p.a.cq, RecvCQ: p.a.cq}
	_, err := p.a.id.CreateQP(p.a.pd, init)
	require.ErrorIs(t, err, verbs.ErrInvalid)
	require.ErrorIs(t, p.a.id.Close(), verbs.ErrBusy)
	require.NoError(t, p.a.qp.Close())
	require.NoError(t, p.a.id.Close())
	_, err = p.a.id.CreateQP(p.a.pd, init)
	require.Error(t, err)
	id, err := p.a.dev.Resolve(bg, "b:1")
	require.NoError(t, err)
	require.NoError(t, id.Close())
	_, err = id.CreateQP(p.a.pd, init)
	require.ErrorIs(t, err, verbs.ErrClosed)
	p.close()
}

// Closing a network and connecting in it at the same time do not lock each other out.
func TestNetworkCloseAtOnce(t *testing.T) {
	s := sched.NewLive(1)
	n := NewNetwork(s, NetConfig{Link: micro()})
	d, err := n.NewDevice("a", RoCE)
	require.NoError(t, err)
	both(func() {
		for range 3000 {
			id, err := d.Resolve(bg, "a:1")
			assert.NoError(t, err)
			assert.NoError(t, id.Close())
		}
	}, func() {
		for range 3000 {
			assert.ErrorIs(t, n.Close(), verbs.ErrBusy)
		}
	})
	require.NoError(t, d.Close())
	require.NoError(t, n.Close())
	require.NoError(t, s.Close())
}
