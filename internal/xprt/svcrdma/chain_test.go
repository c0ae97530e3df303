package svcrdma

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"example.org/nfsrdma/verbs"
)

// TestMemReader walks over pieces in steps of any length: the SGEs cover the pieces, in order, once, and keep to the
// limits.
func TestMemReader(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var mem []Mem
		var want []uint64 // address of each byte
		for i := range rapid.IntRange(0, 6).Draw(t, "pieces") {
			m := Mem{Addr: uint64(i)<<20 + uint64(rapid.IntRange(0, 5000).Draw(t, "addr")), Len: uint32(rapid.IntRange(0, 9000).Draw(t, "len")), LKey: uint32(i)}
			mem = append(mem, m)
			for k := range m.Len {
				want = append(want, m.Addr+uint64(k))
			}
		}
		most := rapid.SampledFrom([]uint32{0, 4096, 1 << 30}).Draw(t, "most")
		src := memReader{mem: mem, most: most}
		var got []uint64
		for {
			n := uint32(rapid.IntRange(1, 7000).Draw(t, "step"))
			var sge verbs.SGE
			m := src.next(n, &sge)
			if m == 0 {
				break
			}
			if m != sge.Length || m > n || sge.LKey != uint32(sge.Addr>>20) {
				t.Fatalf("%d bytes of %d: %+v", m, n, sge)
			}
			if most > 0 && sge.Addr/uint64(most) != (sge.Addr+uint64(m)-1)/uint64(most) {
				t.Fatalf("%+v crosses a multiple of %d", sge, most)
			}
			for k := range m {
				got = append(got, sge.Addr+uint64(k))
			}
		}
		if len(want)+len(got) > 0 {
			assert.Equal(t, want, got)
		}
	})
}

func TestWorkRequestIDs(t *testing.T) {
	for _, idx := range []uint32{0, 1, 1<<20 - 1} {
		for _, slots := range []int{0, 1, 32, maxSlots} {
			for kind := kindMore; kind <= kindPull; kind++ {
				id := wrID(kind, slots, idx)
				assert.EqualValues(t, kind, id&(1<<kindBits-1))
				assert.EqualValues(t, slots, id>>kindBits&maxSlots)
				assert.EqualValues(t, idx, id>>(kindBits+slotBits))
			}
		}
	}
}

func TestPoolClasses(t *testing.T) {
	for _, payload := range []int{1024, 64 << 10, 100_000, 1 << 20, 5 << 20} {
		x := &Transport{cfg: Config{MaxPayload: payload}}
		p := newPool(x, 0)
		rapid.Check(t, func(t *rapid.T) {
			n := rapid.IntRange(0, payload+headRoom).Draw(t, "n")
			k := classOf(n)
			require.Less(t, k, len(p.free))
			require.GreaterOrEqual(t, p.classLen(k), n)
			if k > 0 {
				require.Less(t, p.classLen(k-1), n, "the class below is too small")
			}
		})
	}
}
