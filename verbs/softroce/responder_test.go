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

// More READs than the responder has resources for: each is answered with its own
// data or refused, also when the answers are so short that they leave the port at once.
func TestReadsBeyondIRD(t *testing.T) {
	for _, n := range []int{0, 10, 5000} {
		p := newTestPair(t, pairConfig{
			link: &link.Config{BitsPerSecond: 1e9, Delay: 50 * time.Microsecond},
			raw:  func(a, b *verbs.QPAttr) { a.ORD, b.IRD = 4, 1 },
		})
		p.fill(&p.b)
		for i := range 4 {
			p.post(&p.a, p.a.read(&p.b, uint64(i), i*n, n, i*n))
		}
		good := 0
		for range 4 {
			wc := p.next(&p.a)
			if wc.Status == verbs.Success {
				require.EqualValues(t, good, wc.ID)
				good++
			}
		}
		assert.Equal(t, p.b.mr.Bytes()[:good*n], p.a.mr.Bytes()[:good*n])
		p.close()
	}
}

// A READ may come as soon as the answer to an earlier one has left, although the engine
// made both answers of the time in one run.
func TestReadAfterFirstAnswer(t *testing.T) {
	p := newTestPair(t, pairConfig{
		link: &link.Config{BitsPerSecond: 8e9, Delay: time.Microsecond},
		raw:  func(a, b *verbs.QPAttr) { a.ORD, b.IRD = 2, 2 },
	})
	defer p.close()
	for i := range uint64(3) {
		p.post(&p.a, p.a.read(&p.b, i, 0, 400000, 0))
	}
	b := p.b.q()
	b.pending.Add(1) // somebody runs the engine
	p.settle(10 * sched.Microsecond)
	b.loop(nil, nil)
	for i := range uint64(3) {
		p.want(&p.a, i, verbs.OpRDMARead, verbs.Success)
	}
}

// A repeated READ request is answered as far as it was accepted, and no further.
func TestRepeatedRead(t *testing.T) {
	p := newRawPair(t, same)
	defer p.close()
	p.post(&p.a, p.a.read(&p.b, 1, 0, 10000, 0)) // PSN 100 to 102
	p.want(&p.a, 1, verbs.OpRDMARead, verbs.Success)
	sent := 0
	p.net.tap = func(k *packet) bool { sent++; return true }
	ask := func(psn, n uint32) int {
		sent = 0
		p.b.q().offer([]packet{{
			dst: p.b.q(), from: p.a.q(), kind: pkReadReq, flags: pfFirst | pfLast, psn: psn,
			va: p.b.mr.Addr(), rkey: p.b.mr.RKey(), dlen: n,
		}}, p.a.q())
		p.settle(sched.Millisecond)
		return sent
	}
	assert.Equal(t, 3, ask(100, 10000))
	assert.Equal(t, 1, ask(102, 2000))
	assert.Equal(t, 1, ask(101, 0))
	assert.Zero(t, ask(102, 5000))
	assert.Zero(t, ask(100, 1<<20))
	assert.Zero(t, ask(100, 1<<32-1))
	assert.Equal(t, verbs.RTS, p.b.qp.Query().State)
}

// The keys in receives of a shared queue are of the queue's own domain.
func TestSharedReceivesOfAnotherDomain(t *testing.T) {
	p := newTestPair(t, pairConfig{raw: same})
	defer p.close()
	pd, err := p.b.dev.AllocPD()
	require.NoError(t, err)
	mr, err := pd.AllocMR(100, verbs.LocalWrite)
	require.NoError(t, err)
	srq, err := pd.CreateSRQ(verbs.SRQInit{MaxWR: 4, MaxSGE: 1})
	require.NoError(t, err)
	init := p.b.q().init
	init.SRQ = srq
	old := p.b.qp
	p.b.qp, err = p.b.pd.CreateQP(init)
	require.NoError(t, err)
	require.NoError(t, old.Close())
	p.modifyReset(same)
	for _, k := range []verbs.MR{mr, p.b.mr} {
		_, err = srq.PostRecv([]verbs.RecvWR{{ID: 1, SGEs: []verbs.SGE{{Addr: k.Addr(), Length: 100, LKey: k.LKey()}}}})
		require.NoError(t, err)
	}
	copy(p.a.mr.Bytes(), "hello")
	p.post(&p.a, p.a.send(1, 0, 5))
	p.want(&p.b, 1, verbs.OpRecv, verbs.Success)
	p.want(&p.a, 1, verbs.OpSend, verbs.Success)
	assert.Equal(t, "hello", string(mr.Bytes()[:5]))
	p.post(&p.a, p.a.send(2, 0, 5))
	p.want(&p.b, 1, verbs.OpRecv, verbs.LocProtErr)
	require.NoError(t, p.b.qp.Close())
	require.NoError(t, srq.Close())
	require.NoError(t, mr.Close())
	require.NoError(t, pd.Close())
}

// What comes while the engine is busy is acknowledged at once, together.
func TestAcksCoalesced(t *testing.T) {
	p := newRawPair(t, same)
	defer p.close()
	var acks []uint32
	p.net.tap = func(k *packet) bool {
		if k.kind == pkAck {
			acks = append(acks, k.psn)
		}
		return true
	}
	b := p.b.q()
	b.pending.Add(1) // somebody runs the engine
	for i := range uint64(5) {
		p.post(&p.a, p.a.write(&p.b, i, 0, 10, 0))
	}
	p.settle(10 * sched.Microsecond)
	b.loop(nil, nil)
	for i := range uint64(5) {
		p.want(&p.a, i, verbs.OpRDMAWrite, verbs.Success)
	}
	assert.Equal(t, []uint32{104}, acks)
	assert.EqualValues(t, 4, b.st.ackDeferred)
}

// A long message asks for acknowledgements on its way, and so do many unsignaled ones.
func TestAcksWithinMessage(t *testing.T) {
	p := newRawPair(t, func(a, b *verbs.QPAttr) { a.PathMTU, b.PathMTU = 256, 256 })
	defer p.close()
	var acks []uint32
	p.net.tap = func(k *packet) bool {
		if k.kind == pkAck {
			acks = append(acks, k.psn-99)
		}
		return true
	}
	p.post(&p.a, p.a.write(&p.b, 1, 0, 200*256, 0))
	p.want(&p.a, 1, verbs.OpRDMAWrite, verbs.Success)
	assert.Equal(t, []uint32{64, 128, 192, 200}, acks)
}
