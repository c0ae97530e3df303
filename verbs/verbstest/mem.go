package verbstest

import (
	"bytes"
	"math/rand/v2"

	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

const (
	guardLen  = 64
	guardByte = 0xa5
)

// mem is registered memory between guard bytes that belong to no region with
// rights; the end of the check looks at them.
type mem struct {
	t    *T
	base verbs.MR
	mr   verbs.MR
	n    int
}

// mem registers n bytes, all zero.
func (s *side) mem(n int, access verbs.Access) *mem {
	s.t.Helper()
	return s.t.newMem(s.pd, n, access)
}

func (t *T) newMem(pd verbs.PD, n int, access verbs.Access) *mem {
	t.Helper()
	base, err := pd.AllocMR(n+2*guardLen, 0)
	t.must(err, "AllocMR")
	t.own(base)
	b := base.Bytes()
	for i := range guardLen {
		b[i], b[len(b)-1-i] = guardByte, guardByte
	}
	mr, err := pd.RegMR(b[guardLen:guardLen+n], access)
	t.must(err, "RegMR")
	t.own(mr)
	m := &mem{t, base, mr, n}
	t.guarded = append(t.guarded, m)
	return m
}

// filled is mem with a pattern in it.
func (s *side) filled(n int, access verbs.Access) *mem {
	s.t.Helper()
	m := s.mem(n, access)
	m.fill(s.t.nextID())
	return m
}

func (m *mem) fill(seed uint64) { fill(m.bytes(), seed) }

func fill(b []byte, seed uint64) {
	r := rand.NewPCG(seed, 7)
	for i := 0; i < len(b); i += 8 {
		v := r.Uint64()
		for k := i; k < min(i+8, len(b)); k++ {
			b[k] = byte(v)
			v >>= 8
		}
	}
}

func (m *mem) bytes() []byte { return m.mr.Bytes() }
func (m *mem) len() int      { return m.n }
func (m *mem) addr() uint64  { return m.mr.Addr() }
func (m *mem) copy() []byte  { return bytes.Clone(m.bytes()) }

// sge is all of it.
func (m *mem) sge() verbs.SGE { return m.at(0, m.len()) }

// at is n bytes from off, which may be outside.
func (m *mem) at(off, n int) verbs.SGE {
	return verbs.SGE{Addr: m.addr() + uint64(off), Length: uint32(n), LKey: m.mr.LKey()}
}

// split is all of it in pieces, the last taking what is left.
func (m *mem) split(lens ...int) []verbs.SGE {
	var out []verbs.SGE
	off := 0
	for _, n := range lens {
		out = append(out, m.at(off, n))
		off += n
	}
	return append(out, m.at(off, m.len()-off))
}

func (m *mem) wantGuards() {
	m.t.Helper()
	b := m.base.Bytes()
	want := bytes.Repeat([]byte{guardByte}, guardLen)
	if !bytes.Equal(b[:guardLen], want) {
		m.t.Errorf("the bytes before a region of %d were changed", m.len())
	}
	if !bytes.Equal(b[len(b)-guardLen:], want) {
		m.t.Errorf("the bytes behind a region of %d were changed", m.len())
	}
}

// wantBytes compares all of m.
func (m *mem) wantBytes(want []byte, what string) {
	m.t.Helper()
	wantSame(m.t, want, m.bytes(), what)
}

func wantSame(t *T, want, got []byte, what string) {
	t.Helper()
	if bytes.Equal(want, got) {
		return
	}
	require.Equal(t, len(want), len(got), "%s: length", what)
	for i := range want {
		if want[i] != got[i] {
			t.fatalf("%s: byte %d of %d is %#02x, not %#02x", what, i, len(want), got[i], want[i])
		}
	}
}

// Work requests over regions.

func sendOf(m *mem) verbs.SendWR {
	return verbs.SendWR{Op: verbs.OpSend, SGEs: []verbs.SGE{m.sge()}}
}

func writeTo(src, dst *mem) verbs.SendWR {
	return verbs.SendWR{Op: verbs.OpRDMAWrite, SGEs: []verbs.SGE{src.sge()}, RemoteAddr: dst.addr(), RKey: dst.mr.RKey()}
}

func readFrom(sink, src *mem) verbs.SendWR {
	return verbs.SendWR{Op: verbs.OpRDMARead, SGEs: []verbs.SGE{sink.sge()}, RemoteAddr: src.addr(), RKey: src.mr.RKey()}
}
