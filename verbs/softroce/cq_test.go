package softroce

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// A handler that posts more than its queue holds overflows it: once, and nothing comes after.
func TestOverflowInHandler(t *testing.T) {
	var p *pair
	calls, overflows := 0, 0
	p = newTestPair(t, pairConfig{raw: same, depth: 64, events: func(e *end) func(verbs.CQ) {
		if e != &p.a {
			return nil
		}
		return func(cq verbs.CQ) {
			calls++
			cq.Arm(false)
			for i := range uint64(8) {
				_, _ = p.a.qp.PostSend([]verbs.SendWR{p.a.write(&p.b, i, 0, 8, 0)})
			}
		}
	}, alloc: func(q *pair) { p = q }})
	defer p.close()
	p.a.dev.OnEvent(func(e verbs.AsyncEvent) {
		if e.Type == verbs.EventCQErr {
			overflows++
			assert.True(t, e.CQ == p.a.cq)
		}
	})
	p.recv(&p.a, 100, 0, 8)
	p.a.cq.Arm(false)
	p.post(&p.a, p.a.write(&p.b, 99, 0, 8, 0))
	assert.Equal(t, 1, overflows)
	assert.Less(t, calls, 300)
	assert.Equal(t, verbs.Error, p.a.qp.Query().State)
	wc := make([]verbs.WC, 1024)
	n, err := p.a.cq.Poll(wc)
	require.NoError(t, err)
	assert.Equal(t, 256, n)
	for range 3 {
		_, err = p.a.qp.PostRecv([]verbs.RecvWR{{ID: 1}}) // flushed to nowhere
		require.NoError(t, err)
		n, err = p.a.cq.Poll(wc)
		assert.Zero(t, n)
		require.ErrorIs(t, err, verbs.ErrCQOverflow)
	}
}

// Close waits for a handler that runs, and lets none begin.
func TestNoHandlerAfterClose(t *testing.T) {
	var ended atomic.Bool
	entered, release := make(chan struct{}), make(chan struct{})
	p := newTestPair(t, pairConfig{live: true, events: func(e *end) func(verbs.CQ) {
		if e.dev.name != "a" {
			return nil
		}
		return func(verbs.CQ) {
			close(entered)
			<-release
			ended.Store(true)
		}
	}})
	defer p.close()
	p.a.cq.Arm(false)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := p.a.qp.PostSend([]verbs.SendWR{p.a.write(&p.b, 1, 0, 10, 0)})
		assert.NoError(t, err)
	}()
	<-entered
	require.NoError(t, p.a.qp.Close())
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		assert.NoError(t, p.a.cq.Close())
		assert.True(t, ended.Load(), "the handler still runs")
	}()
	c := p.a.cq.(*cq)
	for !c.calls.closed.Load() {
		runtime.Gosched()
	}
	close(release)
	<-closed
	<-done
	c.notify()
}

// What was created and closed is of no use for a new queue pair.
func TestClosedParts(t *testing.T) {
	s := sched.NewVirtual(1)
	defer s.Close()
	n := NewNetwork(s, NetConfig{})
	d, err := n.NewDevice("a", RoCE)
	require.NoError(t, err)
	pd, err := d.AllocPD()
	require.NoError(t, err)
	cq1, err := d.CreateCQ(verbs.CQInit{Depth: 1})
	require.NoError(t, err)
	cq2, err := d.CreateCQ(verbs.CQInit{Depth: 1})
	require.NoError(t, err)
	require.NoError(t, cq2.Close())
	srq, err := pd.CreateSRQ(verbs.SRQInit{MaxWR: 1})
	require.NoError(t, err)
	require.NoError(t, srq.Close())
	for _, init := range []verbs.QPInit{{SendCQ: cq1, RecvCQ: cq2}, {SendCQ: cq2, RecvCQ: cq1}, {SendCQ: cq1, RecvCQ: cq1, SRQ: srq}} {
		_, err = pd.CreateQP(init)
		require.ErrorIs(t, err, verbs.ErrClosed)
	}
	require.NoError(t, pd.Close())
	_, err = pd.CreateQP(verbs.QPInit{SendCQ: cq1, RecvCQ: cq1})
	require.ErrorIs(t, err, verbs.ErrClosed)
	_, err = pd.CreateSRQ(verbs.SRQInit{MaxWR: 1})
	require.ErrorIs(t, err, verbs.ErrClosed)
	require.NoError(t, cq1.Close())
	require.Equal(t, verbs.Resources{}, d.Resources())
	require.NoError(t, d.Close())
	require.NoError(t, n.Close())
}
