package softroce

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// Without an answer a request is sent at 0, T, 2T, ..., and fails when the last of them is late.
func TestRetryTimes(t *testing.T) {
	for _, n := range []uint8{0, 1, 3, 7} {
		p := newRawPair(t, func(a, b *verbs.QPAttr) { a.RetryCnt = n })
		var at []sched.Time
		p.net.tap = func(*packet) bool { at = append(at, p.s.Now()); return false }
		p.post(&p.a, p.a.write(&p.b, 1, 0, 10, 0))
		p.want(&p.a, 1, verbs.OpRDMAWrite, verbs.RetryExcErr)
		d := ackTimeout(8)
		assert.Equal(t, sched.Time(0).Add(d*sched.Duration(n+1)), p.s.Now())
		require.Len(t, at, int(n)+1)
		for i, x := range at {
			assert.Equal(t, sched.Time(0).Add(d*sched.Duration(i)), x)
		}
		p.close()
	}
}

// The timer runs on over answers, but the wait for an answer begins with what is sent.
func TestRetryTimerAfterIdle(t *testing.T) {
	p := newRawPair(t, same)
	defer p.close()
	d := ackTimeout(8)
	p.post(&p.a, p.a.write(&p.b, 1, 0, 10, 0))
	p.want(&p.a, 1, verbs.OpRDMAWrite, verbs.Success)
	p.settle(d / 2)
	start := p.s.Now()
	p.tapOnce(isKind(pkWrite), lose)
	p.post(&p.a, p.a.write(&p.b, 2, 0, 10, 0))
	p.want(&p.a, 2, verbs.OpRDMAWrite, verbs.Success)
	assert.Equal(t, start.Add(d+2*sched.Microsecond), p.s.Now())
}

// What is lost and whose memory was deregistered meanwhile cannot be sent again.
func TestRetryWithoutMemory(t *testing.T) {
	for name, op := range map[string]verbs.Opcode{"write": verbs.OpRDMAWrite, "read": verbs.OpRDMARead} {
		t.Run(name, func(t *testing.T) {
			p := newRawPair(t, same)
			defer p.close()
			mr, err := p.a.pd.AllocMR(100, verbs.LocalWrite)
			require.NoError(t, err)
			p.tapOnce(func(*packet) bool { return true }, lose)
			wr := p.a.write(&p.b, 1, 0, 10, 0)
			wr.Op = op
			wr.SGEs = []verbs.SGE{{Addr: mr.Addr(), Length: 100, LKey: mr.LKey()}}
			p.post(&p.a, wr)
			require.NoError(t, mr.Close())
			p.want(&p.a, 1, op, verbs.LocProtErr)
			assert.Equal(t, sched.Time(0).Add(ackTimeout(8)), p.s.Now())
		})
	}
}

// Answers give all retries back.
func TestRetriesComeBack(t *testing.T) {
	p := newRawPair(t, func(a, b *verbs.QPAttr) { a.RetryCnt = 1 })
	defer p.close()
	n := 0
	p.net.tap = func(k *packet) bool {
		if k.kind != pkWrite {
			return true
		}
		n++
		return n%2 == 0
	}
	for i := range uint64(10) {
		p.post(&p.a, p.a.write(&p.b, i, 0, 10, 0))
		p.want(&p.a, i, verbs.OpRDMAWrite, verbs.Success)
	}
	assert.Equal(t, 20, n)
}

// On a direct wire a peer whose engine is busy has the packet: it is not lost, however long that takes.
func TestBusyPeerIsNoLoss(t *testing.T) {
	p := newTestPair(t, pairConfig{raw: func(a, b *verbs.QPAttr) { a.RetryCnt = 0 }})
	defer p.close()
	b := p.b.q()
	b.pending.Add(1) // somebody runs the engine
	p.post(&p.a, p.a.write(&p.b, 1, 0, 10, 0))
	p.settle(20 * ackTimeout(8))
	p.none(&p.a)
	b.loop(nil, nil)
	p.want(&p.a, 1, verbs.OpRDMAWrite, verbs.Success)
	assert.Zero(t, p.a.q().st.timeouts)
}
