package softroce

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/link"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// fuzzStep is what one instruction of the fuzzer takes.
const fuzzStep = 16

// fuzzer plays a peer that sends whatever it likes. Its memory is in three parts: what may be
// written to, what may only be read, and what was granted to nobody.
type fuzzer struct {
	*pair
	ro, own verbs.MR // of b
	fast    verbs.FastRegMR
	pages   verbs.DMAMap
	payload [9000]byte
	posted  map[uint64]int // completions that must come
	nextID  uint64
}

func newFuzzer(t *testing.T, direct bool) *fuzzer {
	f := &fuzzer{posted: map[uint64]int{}}
	c := pairConfig{size: 16 << 10, depth: 64, raw: f.attrs}
	c.init = func(a, b *verbs.QPInit) { a.MaxSendWR, b.MaxSendWR = 4, 4 }
	if !direct {
		c.link = &link.Config{BitsPerSecond: 10e9, Delay: 2 * time.Microsecond}
	}
	f.pair = newTestPair(t, c)
	var err error
	f.ro, err = f.b.pd.AllocMR(8<<10, verbs.LocalWrite|verbs.RemoteRead)
	require.NoError(t, err)
	f.own, err = f.b.pd.AllocMR(8<<10, verbs.LocalWrite)
	require.NoError(t, err)
	f.fast, err = f.b.pd.AllocFastRegMR(2)
	require.NoError(t, err)
	require.NoError(t, f.b.pd.MapDMA(&f.pages, make([]byte, 2*verbs.PageSize)))
	f.fast.MapPages(f.pages.Segs)
	for _, b := range [][]byte{f.ro.Bytes(), f.own.Bytes()} {
		fillWith(b, 0x5a)
	}
	for i := range f.payload {
		f.payload[i] = byte(i)
	}
	f.s.SetLimit(sched.Time(100 * sched.Second))
	return f
}

func (f *fuzzer) attrs(a, b *verbs.QPAttr) {
	for _, x := range []*verbs.QPAttr{a, b} {
		x.PathMTU, x.Timeout, x.RetryCnt, x.RNRRetry, x.MinRNR = 1024, 4, 2, 2, 1
	}
}

// play runs one instruction.
func (f *fuzzer) play(op []byte) {
	e, peer := &f.b, &f.a
	if op[0]&0x80 != 0 {
		e, peer = peer, e
	}
	n := binary.LittleEndian.Uint16(op[2:])
	switch k := op[0] & 0x7f; {
	case k < 4 && (f.a.qp.Query().State == verbs.Error || f.b.qp.Query().State == verbs.Error):
		f.settle(sched.Millisecond)
		f.collect()
		clear(f.posted)
		f.modifyReset(f.attrs)
	case k < 16: // some time passes
		f.settle(sched.Duration(n) * 100 * sched.Nanosecond)
	case k < 32:
		f.postWork(e, peer, op[1], int(n)%4000)
	default:
		p := f.packet(e, peer, op)
		if k%2 == 0 || f.net.cfg.Link == nil {
			e.q().offer([]packet{p}, peer.q())
		} else {
			f.later(&p, sched.Duration(op[1])*10*sched.Nanosecond)
		}
	}
}

// postWork is honest work; there are no completions to check but their number.
func (f *fuzzer) postWork(e, peer *end, what byte, n int) {
	id := f.nextID
	f.nextID++
	k := 0
	if what%4 == 0 {
		k, _ = e.qp.PostRecv([]verbs.RecvWR{{ID: id, SGEs: e.sge(n%8192, n)}})
	} else {
		wr := e.write(peer, id, n%8192, n, 8192)
		switch what % 4 {
		case 1:
			wr.Op = verbs.OpSend
		case 2:
			wr.Op = verbs.OpRDMARead
		}
		k, _ = e.qp.PostSend([]verbs.SendWR{wr})
	}
	f.posted[id] = k
}

// packet is one to e: near what is expected or far from it, but such as can be on the wire.
func (f *fuzzer) packet(e, peer *end, op []byte) packet {
	q := e.q()
	p := packet{dst: q, from: peer.q(), kind: kind(op[0]&0x7f) % 7, flags: pflags(op[1]) & (pfFirst | pfLast | pfAckReq | pfSolicited | pfImm)}
	base := q.rcvPSN
	switch p.kind {
	case pkAck, pkNak, pkReadResp:
		base = q.una
	}
	p.psn = (base + uint32(int32(int8(op[4])))) & psnMask
	if op[5]&0xc0 == 0xc0 {
		p.psn = binary.LittleEndian.Uint32(op[4:]) & psnMask
	}
	keys := []uint32{e.mr.RKey(), f.ro.RKey(), f.own.RKey(), f.fast.RKey(), 0, binary.LittleEndian.Uint32(op[8:])}
	addrs := []uint64{e.mr.Addr(), f.ro.Addr(), f.own.Addr(), f.fast.Addr(), f.pages.Segs[0].Addr, 0, 1<<64 - 1}
	p.rkey = keys[int(op[6])%len(keys)]
	p.imm = keys[int(op[6]>>4)%len(keys)]
	p.va = addrs[int(op[7])%len(addrs)] + uint64(int64(int16(binary.LittleEndian.Uint16(op[8:]))))
	n := uint32(binary.LittleEndian.Uint16(op[2:]))
	p.dlen = []uint32{n, n & 1023, 1024, 0, 1 << 31, 1<<32 - 1, n << 16}[int(op[10])%7]
	p.nak, p.rnr = nakCode(op[11])%8%5, op[11]&31
	p.n = []uint32{n % 1025, 1024, 0, n}[int(op[12])%4]
	if p.kind != pkAck && p.kind != pkNak && p.kind != pkReadReq {
		m := &message{}
		m.reset(&peer.q().flight)
		g := &guard{}
		m.add(seg{f.payload[:2000], g, g.allow()})
		m.add(seg{f.payload[2000:], g, 1})
		p.src, p.off = m, []uint32{0, uint32(op[13]), 1500, 8990, 1 << 31}[int(op[14])%5]
		p.id = uint32(op[15]) / 240 // now and then of an earlier filling
	} else {
		p.n = 0
	}
	return p
}

// collect takes the completions that are there.
func (f *fuzzer) collect() {
	wc := make([]verbs.WC, 256)
	for _, e := range []*end{&f.a, &f.b} {
		n, err := e.cq.Poll(wc)
		require.NoError(f.tb, err)
		for _, w := range wc[:n] {
			require.Positive(f.tb, f.posted[w.ID], "completion %v of nothing", w)
			f.posted[w.ID]--
		}
	}
}

// end fails both queue pairs, and looks at what must be as it was.
func (f *fuzzer) end(t *testing.T) {
	f.settle(10 * sched.Millisecond)
	for _, e := range []*end{&f.a, &f.b} {
		require.NoError(t, e.qp.Modify(verbs.QPAttr{State: verbs.Error}))
	}
	f.settle(10 * sched.Millisecond)
	f.collect()
	for id, n := range f.posted {
		require.Zero(t, n, "work request %d has no completion", id)
	}
	for _, b := range [][]byte{f.ro.Bytes(), f.own.Bytes()} {
		onlyHolds(t, b, 0x5a, "memory that nobody may write to")
	}
	require.NoError(t, f.fast.Close())
	f.b.pd.UnmapDMA(&f.pages)
	require.NoError(t, f.ro.Close())
	require.NoError(t, f.own.Close())
	f.close()
}

func fuzzRun(t *testing.T, data []byte) {
	if len(data) == 0 {
		return
	}
	f := newFuzzer(t, data[0]&1 == 0)
	for data = data[1:]; len(data) >= fuzzStep; data = data[fuzzStep:] {
		f.play(data[:fuzzStep])
	}
	f.end(t)
}

// FuzzPackets: no packet, and no sequence of them, stops the engine, makes work complete twice or
// never, or reaches memory that was not granted.
func FuzzPackets(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	for n := range 40 {
		f.Add(randomSteps(r, 4+n))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzzRun(t, data[:min(len(data), 1+64*fuzzStep)])
	})
}

func randomSteps(r *rand.Rand, n int) []byte {
	b := make([]byte, 1+n*fuzzStep)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// TestRandomPackets is a little of the fuzzing in each run of the tests.
func TestRandomPackets(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for range chaosSeeds * 5 {
		fuzzRun(t, randomSteps(r, 20))
	}
}
