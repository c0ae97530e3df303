package softroce

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/link"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// SQD: what was begun ends, even if it must be sent again; what comes later waits.
func TestSendQueueDrain(t *testing.T) {
	p := newRawPair(t, same)
	defer p.close()
	var drained []sched.Time
	p.a.dev.OnEvent(func(e verbs.AsyncEvent) {
		assert.Equal(t, verbs.EventSQDrained, e.Type)
		assert.True(t, e.QP == p.a.qp)
		drained = append(drained, p.s.Now())
	})
	p.tapOnce(isKind(pkReadResp), lose)
	p.post(&p.a, p.a.read(&p.b, 1, 0, 10, 0))
	p.post(&p.a, p.a.write(&p.b, 2, 0, 10, 0))
	require.NoError(t, p.a.qp.Modify(verbs.QPAttr{State: verbs.SQD}))
	p.post(&p.a, p.a.write(&p.b, 3, 0, 10, 0))
	p.recv(&p.a, 4, 0, 10)
	p.post(&p.b, p.b.send(5, 0, 10)) // the receiving half goes on
	p.want(&p.a, 4, verbs.OpRecv, verbs.Success)
	p.want(&p.a, 1, verbs.OpRDMARead, verbs.Success)
	p.want(&p.a, 2, verbs.OpRDMAWrite, verbs.Success)
	p.settle(sched.Second)
	p.none(&p.a)
	require.Len(t, drained, 1)
	require.NoError(t, p.a.qp.Modify(verbs.QPAttr{State: verbs.RTS}))
	p.want(&p.a, 3, verbs.OpRDMAWrite, verbs.Success)

	require.NoError(t, p.a.qp.Modify(verbs.QPAttr{State: verbs.SQD}))
	require.Len(t, drained, 2, "nothing is under way")
}

// A direct wire has no packets that acknowledge.
func TestSendQueueDrainDirect(t *testing.T) {
	p := newTestPair(t, pairConfig{raw: same})
	defer p.close()
	n := 0
	p.a.dev.OnEvent(func(verbs.AsyncEvent) { n++ })
	wr := p.a.write(&p.b, 1, 0, 10, 0)
	wr.Flags = 0
	p.post(&p.a, wr)
	require.NoError(t, p.a.qp.Modify(verbs.QPAttr{State: verbs.SQD}))
	assert.Equal(t, 1, n)
}

// A queue pair that went through RESET has no timer, no retries and no PSN of its earlier life.
func TestResetForgets(t *testing.T) {
	p := newRawPair(t, same)
	defer p.close()
	for range 3 {
		p.modifyReset(func(a, b *verbs.QPAttr) { b.MinRNR = 0 }) // 655 ms
		p.post(&p.a, p.a.send(1, 0, 10))
		p.settle(10 * sched.Microsecond)
		p.modifyReset(func(a, b *verbs.QPAttr) { a.RetryCnt = 2 })
		start := p.s.Now()
		p.net.tap = lose
		p.post(&p.a, p.a.write(&p.b, 2, 0, 10, 0))
		p.want(&p.a, 2, verbs.OpRDMAWrite, verbs.RetryExcErr)
		assert.Equal(t, start.Add(3*ackTimeout(8)), p.s.Now())
		p.net.tap = nil
	}
}

func (p *pair) modifyReset(change func(a, b *verbs.QPAttr)) {
	p.tb.Helper()
	for _, e := range []*end{&p.a, &p.b} {
		require.NoError(p.tb, e.qp.Modify(verbs.QPAttr{State: verbs.Reset}))
	}
	p.modify(change)
}

// Packets of an earlier life with the same numbers carry nothing into the next.
func TestResetWhilePacketsFly(t *testing.T) {
	slow := &link.Config{BitsPerSecond: 1e9, Delay: 20 * time.Microsecond}
	p := newTestPair(t, pairConfig{link: slow, raw: same, depth: 2}) // new work takes the entries of the old
	defer p.close()
	p.fill(&p.a)
	p.post(&p.a, p.a.write(&p.b, 1, 0, 40000, 0))
	p.post(&p.a, p.a.read(&p.b, 2, 50000, 40000, 0))
	p.settle(30 * sched.Microsecond)
	p.modifyReset(same)
	clear(p.b.mr.Bytes())
	p.recv(&p.b, 3, 0, 100)
	p.post(&p.a, p.a.send(4, 0, 50))
	p.post(&p.a, p.a.write(&p.b, 5, 1000, 50, 1000))
	p.want(&p.b, 3, verbs.OpRecv, verbs.Success)
	p.want(&p.a, 4, verbs.OpSend, verbs.Success)
	p.want(&p.a, 5, verbs.OpRDMAWrite, verbs.Success)
	p.settle(sched.Millisecond)
	want := make([]byte, p.b.mr.Len())
	copy(want, p.a.mr.Bytes()[:50])
	copy(want[1000:], p.a.mr.Bytes()[1000:1050])
	assert.True(t, string(want) == string(p.b.mr.Bytes()))
}
