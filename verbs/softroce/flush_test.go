package softroce

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/verbs"
)

// What was executed ahead of unanswered work is flushed with it, be it a success or a failure.
func TestFlushOfExecuted(t *testing.T) {
	p := newRawPair(t, same)
	defer p.close()
	mr, err := p.a.pd.AllocFastRegMR(1)
	require.NoError(t, err)
	defer mr.Close()
	var m verbs.DMAMap
	require.NoError(t, p.a.pd.MapDMA(&m, make([]byte, 4096)))
	defer p.a.pd.UnmapDMA(&m)
	require.Equal(t, 1, mr.MapPages(m.Segs))
	p.net.tap = lose
	p.post(&p.a, p.a.read(&p.b, 1, 0, 10, 0))
	p.post(&p.a, verbs.SendWR{ID: 2, Op: verbs.OpRegMR, Flags: verbs.Signaled, Reg: mr, Key: mr.NextKey()})
	p.post(&p.a, verbs.SendWR{ID: 3, Op: verbs.OpLocalInv, Flags: verbs.Signaled, InvKey: 1 << 20})
	require.True(t, mr.Valid())
	p.none(&p.a)
	require.NoError(t, p.a.qp.Modify(verbs.QPAttr{State: verbs.Error}))
	p.want(&p.a, 1, verbs.OpRDMARead, verbs.WRFlushErr)
	p.want(&p.a, 2, verbs.OpRegMR, verbs.WRFlushErr)
	p.want(&p.a, 3, verbs.OpLocalInv, verbs.WRFlushErr)
	p.none(&p.a)
}
