package link

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/sched"
)

// Payload rates in MB/s (10^6): those of IBSDR and IWARP10G are measured on the hardware,
// the others follow from the headers.
func TestNamedRates(t *testing.T) {
	want := map[string]float64{"IBSDR": 970, "IWARP10G": 1170, "RoCE25G": 3061, "RoCE100G": 12243, "GbE1": 117.7}
	require.Len(t, Names(), len(want))
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			c, ok := Named(name)
			require.True(t, ok)
			assert.Equal(t, name, c.Name)
			require.NoError(t, c.Validate())
			assert.InEpsilon(t, want[name], c.PayloadRate()/1e6, 0.0005)

			w := newWorld(t, 1, c)
			const n = 1000
			for i := range n {
				w.send(i, c.MTU)
			}
			w.runTo(sched.Second)
			require.Len(t, w.arrived, n)
			last := sched.Duration(w.arrived[n-1].at) - sched.FromStd(c.Delay)
			assert.InEpsilon(t, c.PayloadRate(), float64(n*c.MTU)/last.Seconds(), 1e-6, "as it comes out of the pipe")
			assert.Equal(t, last, w.p.Stats().Busy)
		})
	}
}

func TestNamesAreInOrderOfRate(t *testing.T) {
	last := 0.0
	for _, name := range Names() {
		c, _ := Named(name)
		assert.Greater(t, c.PayloadRate(), last)
		last = c.PayloadRate()
	}
	c, ok := Named("ibsdr")
	assert.True(t, ok)
	assert.Equal(t, IBSDR, c)
	_, ok = Named("token ring")
	assert.False(t, ok)
}

// RDMA READs of 4096 bytes, one at a time: a request without payload, three packets back.
func TestIWARPReadAtATime(t *testing.T) {
	w := newWorld(t, 1, IWARP10G)
	back := NewPipe(w.s, IWARP10G, "b to a")
	defer back.Close()
	const request, last, reads = 0, 1, 100
	got := 0
	w.onFire = func(k *pkt) {
		switch {
		case k.id == request:
			for left := 4096; left > 0; left -= IWARP10G.MTU {
				id := 2
				if left <= IWARP10G.MTU {
					id = last
				}
				back.Send(min(left, IWARP10G.MTU), &pkt{w: w, id: id})
			}
		case k.id == last:
			if got++; got < reads {
				w.send(request, 0)
			}
		}
	}
	w.send(request, 0)
	w.runTo(sched.Second)
	require.Equal(t, reads, got)
	each := sched.Duration(w.arrived[len(w.arrived)-1].at) / reads
	assert.InDelta(t, 18.4e6, float64(each), 5e3, "picoseconds")
	assert.InDelta(t, 223, 4096/each.Seconds()/1e6, 0.5, "MB/s")
}
