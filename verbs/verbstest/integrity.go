package verbstest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"

	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

var integrityChecks = []Check{
	{Name: "integrity/mixed-one-direction", Run: func(t *T) { integrity(t, 300, 40000, false) }},
	{Name: "integrity/mixed-both-directions", Run: func(t *T) { integrity(t, 250, 20000, true) }},
	{Name: "integrity/small-operations", Run: func(t *T) { integrity(t, 600, 64, true) }},
	{Name: "integrity/several-connections", Run: integritySeveral},
	{Name: "integrity/checksum", Run: integrityChecksum},
}

// traffic is one direction of random operations, with a model of what the
// responder's memory must hold. Each operation has a slot: its own piece of both
// memories, so that operations that are outstanding together are independent.
type traffic struct {
	t        *T
	from, to *side
	rnd      *rand.Rand
	slot     int // bytes
	local    *mem
	remote   *mem
	model    []byte // of remote
	inbox    *mem
	flying   []flight // in order of posting
	ops      int
}

type flight struct {
	wr   verbs.SendWR
	slot int
	n    int
	recv uint64 // 0: none
	want []byte // READ, SEND
}

const outstanding = 64

func (t *T) newTraffic(from, to *side, size int, seed uint64) *traffic {
	t.Helper()
	w := &traffic{t: t, from: from, to: to, rnd: rand.New(rand.NewPCG(seed, 3)), slot: size}
	w.local = from.filled(outstanding*size, from.sinkAccess())
	w.remote = to.filled(outstanding*size, remoteRW)
	w.inbox = to.mem(outstanding*size, verbs.LocalWrite)
	w.model = w.remote.copy()
	return w
}

// size prefers the edges of packets.
func (w *traffic) size() int {
	mtu := w.from.attr.ActiveMTU
	n := w.rnd.IntN(w.slot + 1)
	if w.rnd.IntN(3) == 0 {
		n = w.rnd.IntN(4)*mtu + w.rnd.IntN(3) - 1
	}
	return min(max(n, 0), w.slot)
}

// cut makes up to max pieces of n bytes at off.
func (w *traffic) cut(m *mem, off, n, limit int) []verbs.SGE {
	var out []verbs.SGE
	for limit > 1 && n > 1 && w.rnd.IntN(2) == 0 {
		k := 1 + w.rnd.IntN(n-1)
		out = append(out, m.at(off, k))
		off, n, limit = off+k, n-k, limit-1
	}
	return append(out, m.at(off, n))
}

// next posts one operation.
func (w *traffic) next() {
	t := w.t
	t.Helper()
	i := w.ops % outstanding
	w.ops++
	off, n := i*w.slot, w.size()
	f := flight{slot: i, n: n}
	local := w.local.bytes()[off : off+n]
	f.wr = verbs.SendWR{ID: t.nextID(), Flags: verbs.Signaled, RemoteAddr: w.remote.addr() + uint64(off), RKey: w.remote.mr.RKey()}
	switch w.rnd.IntN(3) {
	case 0:
		f.wr.Op = verbs.OpRDMAWrite
		fill(local, w.rnd.Uint64())
		copy(w.model[off:], local)
		f.wr.SGEs = w.cut(w.local, off, n, w.from.init.MaxSendSGE)
	case 1:
		f.wr.Op = verbs.OpRDMARead
		if n == 0 && w.from.attr.Transport == verbs.IWARP {
			n = 1 // siw mixes up the responses when one of many READs has no bytes
			f.n = n
		}
		f.want = bytes.Clone(w.model[off : off+n])
		f.wr.SGEs = w.cut(w.local, off, n, min(w.from.init.MaxSendSGE, w.from.attr.MaxSGERd))
	case 2:
		f.wr.Op = verbs.OpSend
		f.wr.RemoteAddr, f.wr.RKey = 0, 0
		fill(local, w.rnd.Uint64())
		f.want = bytes.Clone(local)
		f.recv = w.to.postRecv(w.cut(w.inbox, off, n, w.to.init.MaxRecvSGE)...)
		f.wr.SGEs = w.cut(w.local, off, n, w.from.init.MaxSendSGE)
	}
	w.from.post(f.wr)
	w.flying = append(w.flying, f)
}

// reap waits for the oldest operation and compares.
func (w *traffic) reap() {
	w.t.Helper()
	f := w.flying[0]
	w.flying = w.flying[1:]
	w.from.wantSend(f.wr, verbs.Success)
	off := f.slot * w.slot
	what := fmt.Sprintf("%v of %d bytes", f.wr.Op, f.n)
	switch {
	case f.recv != 0:
		w.to.wantMessage(f.recv, f.n)
		wantSame(w.t, f.want, w.inbox.bytes()[off:off+f.n], what)
	case f.want != nil:
		wantSame(w.t, f.want, w.local.bytes()[off:off+f.n], what)
	default:
		wantSame(w.t, w.model[off:off+w.slot], w.remote.bytes()[off:off+w.slot], what)
	}
}

func integrityOpts() opts {
	return opts{init: func(q *verbs.QPInit) { q.MaxSendWR, q.MaxRecvWR = outstanding, outstanding+1 }}
}

func integrity(t *T, ops, size int, both bool) {
	c, s := t.connect(integrityOpts(), integrityOpts())
	all := []*traffic{t.newTraffic(c, s, size, 11)}
	if both {
		all = append(all, t.newTraffic(s, c, size, 12))
	}
	run(all, ops)
}

// run keeps up to 64 operations outstanding in each direction.
func run(all []*traffic, ops int) {
	busy := true
	for busy {
		busy = false
		for _, w := range all {
			w.t.Helper()
			for w.ops < ops && len(w.flying) < outstanding {
				w.next()
			}
			for k := 1 + w.rnd.IntN(outstanding); k > 0 && len(w.flying) > 0; k-- {
				w.reap()
			}
			busy = busy || w.ops < ops || len(w.flying) > 0
		}
	}
	for _, w := range all {
		require.Equal(w.t, ops, w.ops)
		w.remote.wantBytes(w.model, "remote memory at the end")
	}
}

// integrityChecksum moves 2 MiB there by WRITE, back by READ, and there by
// SEND, in odd pieces, and compares sums.
func integrityChecksum(t *T) {
	c, s := t.connect(integrityOpts(), integrityOpts())
	const size = 2 << 20
	piece := 5*c.attr.ActiveMTU + 7
	src, back := c.filled(size, 0), c.mem(size, c.sinkAccess())
	far, inbox := s.mem(size, remoteRW), s.mem(size, verbs.LocalWrite)
	want := sha256.Sum256(src.bytes())
	stage := func(name string, m *mem, make func(off, n int) verbs.SendWR) {
		t.Helper()
		var flying []verbs.SendWR
		for off := 0; off < size; off += piece {
			if len(flying) == outstanding {
				c.wantSend(flying[0], verbs.Success)
				flying = flying[1:]
			}
			flying = append(flying, c.signaled(make(off, min(piece, size-off))))
		}
		for _, wr := range flying {
			c.wantSend(wr, verbs.Success)
		}
		require.Equal(t, want, sha256.Sum256(m.bytes()), "sum after %s", name)
	}
	stage("WRITE", far, func(off, n int) verbs.SendWR {
		return verbs.SendWR{Op: verbs.OpRDMAWrite, SGEs: []verbs.SGE{src.at(off, n)}, RemoteAddr: far.addr() + uint64(off), RKey: far.mr.RKey()}
	})
	stage("READ", back, func(off, n int) verbs.SendWR {
		return verbs.SendWR{Op: verbs.OpRDMARead, SGEs: []verbs.SGE{back.at(off, n)}, RemoteAddr: far.addr() + uint64(off), RKey: far.mr.RKey()}
	})
	stage("SEND", inbox, func(off, n int) verbs.SendWR {
		if off/piece >= outstanding {
			require.Equal(t, verbs.Success, s.next(s.rcq).Status)
		}
		s.postRecv(inbox.at(off, n))
		return verbs.SendWR{Op: verbs.OpSend, SGEs: []verbs.SGE{src.at(off, n)}}
	})
	for range min(outstanding, (size+piece-1)/piece) {
		require.Equal(t, verbs.Success, s.next(s.rcq).Status)
	}
}

func integritySeveral(t *T) {
	cpd, spd := t.newPD(t.Client), t.newPD(t.Server)
	var all []*traffic
	for i := range uint64(4) {
		co, so := integrityOpts(), integrityOpts()
		co.pd, so.pd = cpd, spd
		c, s := t.connect(co, so)
		all = append(all, t.newTraffic(c, s, 3000, 20+i), t.newTraffic(s, c, 3000, 30+i))
	}
	run(all, 100)
}
