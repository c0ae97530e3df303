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

// micro is a link on which only the delay of 1 us matters.
func micro() *link.Config { return &link.Config{Delay: time.Microsecond} }

// newRawPair is a pair on micro, connected by Modify.
func newRawPair(t *testing.T, change func(a, b *verbs.QPAttr)) *pair {
	t.Helper()
	return newTestPair(t, pairConfig{link: micro(), raw: change})
}

// later lets a copy of a packet arrive in d.
func (p *pair) later(k *packet, d sched.Duration) { p.s.At(p.s.Now().Add(d), p.net.fly(k)) }

// tapOnce calls f for the first packet that matches.
func (p *pair) tapOnce(match func(*packet) bool, f func(*packet) bool) {
	done := false
	p.net.tap = func(k *packet) bool {
		if done || !match(k) {
			return true
		}
		done = true
		return f(k)
	}
}

func isKind(want kind) func(*packet) bool { return func(k *packet) bool { return k.kind == want } }

func lose(*packet) bool { return false }

// A fatal NAK for a READ may pass the data of an earlier one, which is right all the same.
func TestNAKPassesReadData(t *testing.T) {
	p := newRawPair(t, same)
	defer p.close()
	p.fill(&p.b)
	p.tapOnce(isKind(pkReadResp), func(k *packet) bool { p.later(k, 20*sched.Microsecond); return false })
	bad := p.a.read(&p.b, 2, 100, 10, 100)
	bad.RKey ^= 1
	p.post(&p.a, p.a.read(&p.b, 1, 0, 10, 0))
	p.post(&p.a, bad)
	p.want(&p.a, 1, verbs.OpRDMARead, verbs.Success)
	p.want(&p.a, 2, verbs.OpRDMARead, verbs.RemAccessErr)
	assert.Equal(t, p.b.mr.Bytes()[:10], p.a.mr.Bytes()[:10])
}

// If the data never comes, it is the earlier READ that fails: for want of an answer.
func TestNAKAfterLostReadData(t *testing.T) {
	p := newRawPair(t, same)
	defer p.close()
	p.tapOnce(isKind(pkReadResp), lose)
	bad := p.a.read(&p.b, 2, 100, 10, 100)
	bad.RKey ^= 1
	p.post(&p.a, p.a.read(&p.b, 1, 0, 10, 0))
	p.post(&p.a, bad)
	p.want(&p.a, 1, verbs.OpRDMARead, verbs.RetryExcErr)
	p.want(&p.a, 2, verbs.OpRDMARead, verbs.WRFlushErr)
}

// Each packet of READ data but the last is a full one.
func TestReadDataOfWrongLength(t *testing.T) {
	for name, spoil := range map[string]func(*packet){
		"short":      func(k *packet) { k.n -= 10 },
		"last early": func(k *packet) { k.flags |= pfLast },
		"empty":      func(k *packet) { k.n = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			p := newRawPair(t, same)
			defer p.close()
			p.tapOnce(isKind(pkReadResp), func(k *packet) bool { spoil(k); return true })
			p.post(&p.a, p.a.read(&p.b, 1, 0, 10000, 0))
			p.want(&p.a, 1, verbs.OpRDMARead, verbs.BadRespErr)
		})
	}
}

// A wire that doubles an RNR NAK does not use up a second retry.
func TestRNRNAKDoubled(t *testing.T) {
	p := newRawPair(t, func(a, b *verbs.QPAttr) { a.RNRRetry, b.MinRNR = 3, 5 })
	defer p.close()
	attempts := 0
	p.net.tap = func(k *packet) bool {
		if k.kind == pkSend {
			attempts++
		}
		if k.kind == pkNak {
			p.later(k, 2*sched.Microsecond)
		}
		return true
	}
	p.post(&p.a, p.a.send(1, 0, 10))
	p.want(&p.a, 1, verbs.OpSend, verbs.RNRRetryExcErr)
	assert.Equal(t, 4, attempts)
	assert.Equal(t, sched.Time(0).Add(3*rnrDelay(5)+8*sched.Microsecond), p.s.Now())
}

// Data of a READ that was to be asked for again is taken all the same.
func TestReadDataWhileHeldBack(t *testing.T) {
	p := newRawPair(t, func(a, b *verbs.QPAttr) { b.MinRNR = 1 })
	defer p.close()
	p.tapOnce(isKind(pkReadResp), func(k *packet) bool { p.later(k, 4*sched.Microsecond); return false })
	p.post(&p.a, p.a.read(&p.b, 1, 0, 10, 0))
	p.post(&p.a, p.a.send(2, 0, 10)) // RNR
	p.want(&p.a, 1, verbs.OpRDMARead, verbs.Success)
	assert.Less(t, p.s.Now(), sched.Time(rnrDelay(1)), "it waited for the RNR timer")
	p.recv(&p.b, 3, 0, 10)
	p.want(&p.a, 2, verbs.OpSend, verbs.Success)
}

// Acknowledgements of what was not sent, or answered long ago, mean nothing.
func TestAckOutOfRange(t *testing.T) {
	p := newRawPair(t, same)
	defer p.close()
	p.recv(&p.b, 1, 0, 100)
	p.tapOnce(isKind(pkSend), lose)
	p.post(&p.a, p.a.send(1, 0, 10))
	a := p.a.q()
	for _, psn := range []uint32{99, 98, 101, 200, 0, psnMask, 100 + 1<<22} {
		for _, k := range []kind{pkAck, pkNak} {
			a.offer([]packet{{dst: a, from: p.b.q(), kind: k, psn: psn, nak: nakRemAccess}}, p.b.q())
		}
		p.none(&p.a)
	}
	p.want(&p.a, 1, verbs.OpSend, verbs.Success)
}

// An acknowledgement for part of a long message moves the window, and going back does
// not send that part again.
func TestPartialAck(t *testing.T) {
	p := newRawPair(t, func(a, b *verbs.QPAttr) { a.PathMTU, b.PathMTU = 256, 256 })
	defer p.close()
	sent := map[uint32]int{}
	p.net.tap = func(k *packet) bool {
		if k.kind == pkWrite {
			sent[k.psn-100]++
			return k.psn-100 != 150 || sent[150] > 1
		}
		return true
	}
	p.post(&p.a, p.a.write(&p.b, 1, 0, 200*256, 0))
	p.want(&p.a, 1, verbs.OpRDMAWrite, verbs.Success)
	assert.Equal(t, 1, sent[149])
	assert.Equal(t, 2, sent[150])
	assert.Equal(t, 2, sent[199])
	require.Len(t, sent, 200)
}
