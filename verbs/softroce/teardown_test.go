package softroce

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/link"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// What memory of the teardown tests holds: data while the device may use it, ours
// from the moment on at which it may not.
const (
	tearData = 0x11
	tearOurs = 0xee
)

const (
	tearSlots = 12 // of a side; the first half are receives
	tearBytes = 3000
	tearStep  = 4096
)

// tearSide keeps traffic going: a slot is posted again when it completes.
type tearSide struct {
	*end
	tb     testing.TB
	p      *pair
	peer   *tearSide
	r      *rand.Rand // of the loop
	target tearTarget
	count  atomic.Int64
	at     int64 // at which completion trigger is woken
	wake   *sched.Waiter
	stop   atomic.Bool // post nothing more
	inv    *sched.Waiter
	invs   atomic.Bool // it is posted
	invOK  atomic.Bool // the LOCAL_INV succeeded
	busy   [tearSlots]atomic.Bool
	sink   [tearSlots]bool

	mu   sync.Mutex // slots, and posting against QP.Close
	dead bool
}

// tearTarget is what the peer writes to and reads from, by one kind of key.
type tearTarget struct {
	mem    []byte
	addr   uint64 // of what is written to
	read   uint64 // of what is read
	key    atomic.Uint32
	revoke func() bool // ends the peer's rights for good; false: later
	ours   atomic.Bool // they have ended
	close  []func() error
}

const (
	idInv     = 100 // LOCAL_INV
	idPeerInv = 101 // SEND_WITH_INV
	idSetup   = 102
)

var tearFill = map[byte][]byte{0x5a: bytes.Repeat([]byte{0x5a}, tearStep), tearData: bytes.Repeat([]byte{tearData}, tearStep), tearOurs: bytes.Repeat([]byte{tearOurs}, tearStep)}

func fillWith(b []byte, v byte) {
	for len(b) > 0 {
		b = b[copy(b, tearFill[v]):]
	}
}

func onlyHolds(tb testing.TB, b []byte, v byte, what string) {
	tb.Helper()
	require.Equal(tb, len(b), bytes.Count(b, tearFill[v][:1]), "%s was written to after the right to it had ended", what)
}

func (s *tearSide) slot(i int) []byte { return s.mr.Bytes()[i*tearStep:][:tearBytes] }

// take makes a slot's memory ours.
func (s *tearSide) take(i int) {
	if !s.busy[i].Load() {
		return
	}
	if s.sink[i] {
		require.Equal(s.tb, -1, bytes.IndexByte(s.slot(i), tearOurs), "memory was read after the right to it had ended")
	}
	fillWith(s.slot(i), tearOurs)
	s.busy[i].Store(false)
}

// postSlot gives a slot to the device.
func (s *tearSide) postSlot(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead || s.stop.Load() {
		return
	}
	sges := s.sge(i*tearStep, tearBytes)
	var err error
	s.busy[i].Store(true)
	s.sink[i] = true
	fillWith(s.slot(i), tearData)
	if i < tearSlots/2 {
		_, err = s.qp.PostRecv([]verbs.RecvWR{{ID: uint64(i), SGEs: sges}})
	} else {
		wr := verbs.SendWR{ID: uint64(i), Flags: verbs.Signaled, SGEs: sges, RemoteAddr: s.peer.target.addr, RKey: s.peer.target.key.Load()}
		wr.Op = []verbs.Opcode{verbs.OpSend, verbs.OpRDMAWrite, verbs.OpRDMARead}[s.r.IntN(3)]
		s.sink[i] = wr.Op == verbs.OpRDMARead
		if s.sink[i] { // without a fence, what is read is not to be written to
			wr.RemoteAddr = s.peer.target.read
		}
		_, err = s.qp.PostSend([]verbs.SendWR{wr})
	}
	if err != nil {
		s.take(i)
	}
}

// run handles completions until all slots are ours.
func (s *tearSide) run() {
	defer s.wake.Wake()
	var wc [4]verbs.WC
	for i := range tearSlots {
		s.postSlot(i)
	}
	for s.outstanding() {
		n, err := s.cq.Poll(wc[:])
		require.NoError(s.tb, err)
		for _, w := range wc[:n] {
			s.completed(w)
		}
		if n == 0 && !s.cq.Arm(false) && s.outstanding() {
			require.NoError(s.tb, s.cq.Wait(bg))
		}
	}
}

func (s *tearSide) outstanding() bool {
	for i := range s.busy {
		if s.busy[i].Load() {
			return true
		}
	}
	return s.invs.Load()
}

func (s *tearSide) completed(w verbs.WC) {
	if w.Flags&verbs.WCWithInv != 0 {
		s.target.end()
	}
	switch w.ID {
	case idInv:
		s.invs.Store(false)
		s.invOK.Store(w.Status == verbs.Success)
		s.inv.Wake()
		return
	case idPeerInv:
		return
	}
	s.mu.Lock()
	s.take(int(w.ID))
	s.mu.Unlock()
	if s.count.Add(1) == s.at {
		s.wake.Wake()
	}
	if w.Status == verbs.Success {
		s.postSlot(int(w.ID))
	}
}

func (t *tearTarget) end() {
	fillWith(t.mem, tearOurs)
	t.ours.Store(true)
}

// setTarget makes the target with one kind of key; the queue pair must be connected.
func (s *tearSide) setTarget(kind string) {
	tb, t := s.tb, &s.target
	rights := verbs.RemoteRead | verbs.RemoteWrite
	t.mem = make([]byte, 2*tearStep)
	fillWith(t.mem, tearData)
	must := func(err error) { require.NoError(tb, err) }
	do := func(wr verbs.SendWR) {
		wr.ID, wr.Flags = idSetup, verbs.Signaled
		s.p.post(s.end, wr)
		s.p.want(s.end, idSetup, wr.Op, verbs.Success)
	}
	// localInv ends the key by a work request, or else its object.
	localInv := func(close func() error) func() bool {
		return func() bool {
			s.mu.Lock()
			n := 0
			s.invs.Store(!s.dead)
			if !s.dead {
				n, _ = s.qp.PostSend([]verbs.SendWR{{ID: idInv, Op: verbs.OpLocalInv, Flags: verbs.Signaled, InvKey: t.key.Load()}})
			}
			s.mu.Unlock()
			if n == 0 {
				s.invs.Store(false)
			} else {
				must(s.inv.Wait(bg))
			}
			if !s.invOK.Load() {
				must(close())
			}
			return true
		}
	}
	defer func() {
		if t.read == 0 {
			t.read = t.addr + tearStep
		}
	}()
	switch kind {
	case "mr":
		mr, err := s.pd.RegMR(t.mem, allRights)
		must(err)
		t.addr = mr.Addr()
		t.key.Store(mr.RKey())
		t.revoke = func() bool { must(mr.Close()); return true }
		t.close = append(t.close, mr.Close)
	case "fast", "peer":
		mr, err := s.pd.AllocFastRegMR(2)
		must(err)
		var m verbs.DMAMap
		must(s.pd.MapDMA(&m, t.mem))
		mr.MapPages(m.Segs)
		t.key.Store(mr.NextKey())
		do(verbs.SendWR{Op: verbs.OpRegMR, Reg: mr, Key: t.key.Load(), Access: allRights})
		t.addr = mr.Addr()
		t.revoke = localInv(mr.Close)
		if kind == "peer" {
			t.revoke = func() bool {
				s.peer.mu.Lock()
				if !s.peer.dead {
					_, _ = s.peer.qp.PostSend([]verbs.SendWR{{ID: idPeerInv, Op: verbs.OpSendWithInv, InvKey: t.key.Load()}})
				}
				s.peer.mu.Unlock()
				return false
			}
		}
		t.close = append(t.close, mr.Close, func() error { s.pd.UnmapDMA(&m); return nil })
	case "window":
		mr, err := s.pd.RegMR(t.mem, allRights|verbs.MWBind)
		must(err)
		w, err := s.pd.AllocMW(verbs.MWType2B)
		must(err)
		t.key.Store(w.NextKey())
		do(verbs.SendWR{Op: verbs.OpBindMW, MW: w, Key: t.key.Load(), Bind: verbs.Bind{MR: mr, Addr: mr.Addr(), Length: 2 * tearStep, Access: rights}})
		t.addr = mr.Addr()
		t.revoke = localInv(w.Close)
		t.close = append(t.close, w.Close, mr.Close)
	case "dma":
		key, err := s.pd.GlobalKey(allRights)
		must(err)
		var m verbs.DMAMap
		must(s.pd.MapDMA(&m, t.mem))
		t.key.Store(key)
		t.addr, t.read = m.Segs[0].Addr, m.Segs[1].Addr
		t.revoke = func() bool { s.pd.UnmapDMA(&m); return true }
		t.close = append(t.close, func() error { s.pd.UnmapDMA(&m); return nil })
	}
}

// closeQP takes all memory of the queue pair back: there are no completions after it.
func (s *tearSide) closeQP() {
	s.mu.Lock()
	defer s.mu.Unlock()
	require.NoError(s.tb, s.qp.Close())
	s.takeAll()
}

func (s *tearSide) takeAll() {
	s.dead = true
	for i := range tearSlots {
		s.take(i)
	}
	s.cq.(*cq).waiter.Wake() // for run
}

var tearTargets = []string{"mr", "fast", "window", "dma", "peer"}

var tearActions = []struct {
	name string
	do   func(p *pair, a, b *tearSide)
}{
	{"revoke", func(p *pair, a, b *tearSide) {
		if b.target.revoke() {
			b.target.end()
		}
	}},
	{"fail", func(p *pair, a, b *tearSide) {
		require.NoError(p.tb, a.qp.Modify(verbs.QPAttr{State: verbs.Error}))
	}},
	{"reset", func(p *pair, a, b *tearSide) { b.reset() }},
	{"close", func(p *pair, a, b *tearSide) { b.closeQP() }},
	{"disconnect", func(p *pair, a, b *tearSide) { require.NoError(p.tb, a.id.Disconnect()) }},
	{"remove", func(p *pair, a, b *tearSide) { b.dev.Remove() }},
	{"network", func(p *pair, a, b *tearSide) { _ = p.net.Close() }},
}

// reset takes all memory back, as Close does, and leaves the queue pair.
func (s *tearSide) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	require.NoError(s.tb, s.qp.Modify(verbs.QPAttr{State: verbs.Reset}))
	s.takeAll()
}

func tearRun(t testing.TB, seed uint64, live bool) {
	r := rand.New(rand.NewPCG(seed, 99))
	c := pairConfig{seed: seed, live: live, size: tearSlots * tearStep}
	if r.IntN(4) > 0 {
		c.link = &link.Config{BitsPerSecond: 10e9, Delay: time.Duration(r.IntN(5)) * time.Microsecond, Loss: 0.01, Duplicate: 0.01, Reorder: 0.01}
	}
	act := tearActions[r.IntN(len(tearActions))]
	kind := tearTargets[r.IntN(len(tearTargets))]
	defer func() {
		if t.Failed() {
			t.Logf("seed %d, live %v: %s, target %s, link %v", seed, live, act.name, kind, c.link != nil)
		}
	}()
	p := newTestPair(t, c)
	a, b := &tearSide{end: &p.a}, &tearSide{end: &p.b}
	trigger := p.s.NewWaiter("a number of completions")
	for _, s := range []*tearSide{a, b} {
		s.tb, s.p, s.wake = t, p, trigger
		s.r = rand.New(rand.NewPCG(seed, uint64(s.qp.Num())))
		s.inv = p.s.NewWaiter("LOCAL_INV")
		for i := range tearSlots {
			fillWith(s.slot(i), tearOurs)
		}
		q := s.q()
		q.mu.Lock()
		q.attr.MinRNR, q.attr.Timeout = 1, 6 // the connection manager's are long for a test
		if live {
			q.attr.Timeout = 12
		}
		q.mu.Unlock()
	}
	a.peer, b.peer = b, a
	a.at = 1 + r.Int64N(60)
	a.setTarget("mr")
	b.setTarget(kind)
	g := p.s.NewGroup("both sides")
	g.Go("a", a.run)
	g.Go("b", b.run)
	require.NoError(t, trigger.Wait(bg))
	if !live {
		p.settle(sched.Duration(r.IntN(5000)) * sched.Nanosecond)
	}
	act.do(p, a, b)
	if !live {
		p.settle(10 * sched.Millisecond) // longer than all retries
	}
	for _, s := range []*tearSide{a, b} {
		s.stop.Store(true)
		if !s.dead {
			require.NoError(t, s.qp.Modify(verbs.QPAttr{State: verbs.Error}))
		}
	}
	require.NoError(t, g.Wait(bg))
	if !live {
		p.settle(100 * sched.Millisecond)
	}
	for _, s := range []*tearSide{a, b} {
		for i := range tearSlots {
			onlyHolds(t, s.slot(i), tearOurs, fmt.Sprintf("slot %d of %s", i, s.dev.name))
		}
		if s.target.ours.Load() {
			onlyHolds(t, s.target.mem, tearOurs, "the target of "+s.dev.name)
		}
	}
	for _, s := range []*tearSide{a, b} {
		s.closeQP()
		for _, f := range s.target.close {
			assert.NoError(t, f())
		}
	}
	p.close()
}

// TestTeardown ends connections, keys, devices and the network amid traffic: nothing is used after the
// right to it ended, every wait ends, and nothing is left.
func TestTeardown(t *testing.T) {
	for seed := range uint64(chaosSeeds) {
		tearRun(t, seed, false)
	}
}

func TestTeardownLive(t *testing.T) {
	for seed := range uint64(50) {
		tearRun(t, seed, true)
	}
}
