package packetfuzz

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzPacket(f *testing.F) {
	r := newRig(f)
	f.Add([]byte{})
	rnd := rand.New(rand.NewPCG(3, 1))
	for range 64 {
		in := make([]byte, 96)
		RandomInput(rnd, in)
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		in = in[:min(len(in), 256)]
		res, err := r.Try(in)
		require.NoError(t, err)
		require.NoError(t, res.Err, "%v", res)
		again, err := r.Try(in)
		require.NoError(t, err)
		require.Equal(t, res.Trace, again.Trace, "%v\nand then\n%v", res, again)
	})
}

// BenchmarkPacket reports packets a second.
func BenchmarkPacket(b *testing.B) {
	r := newRig(b)
	rnd := rand.New(rand.NewPCG(1, 1))
	in := make([]byte, 160)
	for b.Loop() {
		RandomInput(rnd, in)
		res, err := r.Try(in)
		require.NoError(b, err)
		require.NoError(b, res.Err)
	}
	b.ReportMetric(float64(r.Packets)/b.Elapsed().Seconds(), "packets/s")
}
