package softroce

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// chaosTrace is all packets of a run, and the completions at the end.
func chaosTrace(t *testing.T, seed uint64) string {
	a, b := newChaos(t, seed, 0.1)
	p := a.p
	defer p.close()
	var text strings.Builder
	p.net.cfg.Trace = func(line string) {
		text.WriteString(line)
		text.WriteByte('\n')
	}
	p.s.SetLimit(sched.Time(10 * sched.Second))
	g := p.s.NewGroup("both sides")
	for _, s := range []*chaosSide{a, b} {
		g.Go(s.dev.name, func() { s.run(24) })
	}
	require.NoError(t, g.Wait(bg))
	return text.String()
}

func TestSameSeedSameTrace(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(5) {
		one := chaosTrace(t, seed)
		require.Greater(t, len(one), 1000)
		require.True(t, one == chaosTrace(t, seed), "seed %d", seed)
		require.False(t, seen[one])
		seen[one] = true
	}
}

// names are the keys, addresses and numbers that a pair is dealt.
func names(t *testing.T, seed uint64) []uint64 {
	p := newTestPair(t, pairConfig{seed: seed})
	defer p.close()
	var m verbs.DMAMap
	require.NoError(t, p.a.pd.MapDMA(&m, make([]byte, 4*verbs.PageSize)))
	defer p.a.pd.UnmapDMA(&m)
	f, err := p.a.pd.AllocFastRegMR(4)
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, 4, f.MapPages(m.Segs))
	a, b := p.a.q().attr, p.b.q().attr
	list := []uint64{
		p.a.mr.Addr(), uint64(p.a.mr.RKey()), p.b.mr.Addr(), uint64(p.b.mr.RKey()), uint64(f.RKey()), f.Addr(),
		uint64(p.a.qp.Num()), uint64(p.b.qp.Num()), uint64(a.SQPSN), uint64(b.SQPSN),
	}
	for _, g := range m.Segs {
		list = append(list, g.Addr)
	}
	return list
}

func TestSeedDealsNames(t *testing.T) {
	one, other := names(t, 1), names(t, 2)
	assert.Equal(t, one, names(t, 1))
	for i := range one {
		assert.NotEqual(t, one[i], other[i], "name %d", i)
	}
	for i := len(one) - 3; i < len(one); i++ {
		assert.NotEqual(t, one[i-1]+verbs.PageSize, one[i], "neighbouring pages are neighbours")
	}
}
