package chunkfuzz

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/nfsclient"
)

func clientCampaign(t *testing.T, cfg nfsclient.Config, seed uint64, until func(n int) bool) {
	t.Helper()
	r, err := NewClientRig(1, cfg)
	require.NoError(t, err)
	rnd := rand.New(rand.NewPCG(seed, 1))
	in := make([]byte, 48)
	var want, got [4]int
	start, n := time.Now(), 0
	for ; !until(n); n++ {
		RandomInput(rnd, in)
		res, err := r.Try(in)
		require.NoError(t, err)
		if err := res.Failure(); err != nil {
			t.Fatalf("call %d of seed %d, input %x: %v", n, seed, in, err)
		}
		want[res.Want]++
		got[res.Got]++
	}
	t.Logf("seed %d: %d calls, %.0f/s, want %v, got %v, %d connections", seed, n, float64(n)/time.Since(start).Seconds(), want, got, r.resp.Connections())
	for f, n := range want {
		assert.NotZero(t, n, "%v", Fate(f))
	}
	require.NoError(t, r.Close())
}

func TestClientTakesWhatIsRight(t *testing.T) {
	for i, cfg := range []nfsclient.Config{{}, {RegMode: nfsclient.Bounce}, {RegMode: nfsclient.AllPhysical}, {RegMode: nfsclient.MemWindow}} {
		t.Run(cfg.RegMode.String(), func(t *testing.T) {
			clientCampaign(t, cfg, uint64(i+1), func(n int) bool { return n == 2000 })
		})
	}
}

func TestLongClient(t *testing.T) {
	d, err := time.ParseDuration(os.Getenv("NFSRDMA_LONG"))
	if err != nil {
		t.Skip("NFSRDMA_LONG has no duration to run for, such as 10m")
	}
	start := time.Now()
	clientCampaign(t, nfsclient.Config{}, uint64(start.UnixNano()), func(n int) bool { return n%256 == 0 && time.Since(start) > d })
}

func FuzzClient(f *testing.F) {
	r, err := NewClientRig(1, nfsclient.Config{})
	require.NoError(f, err)
	for n := range byte(12) {
		for op := range byte(8) {
			f.Add([]byte{n, op})
		}
	}
	rnd := rand.New(rand.NewPCG(3, 1))
	for range 64 {
		in := make([]byte, 32)
		RandomInput(rnd, in)
		f.Add(in)
	}
	f.Cleanup(func() { require.NoError(f, r.Close()) })
	f.Fuzz(func(t *testing.T, in []byte) {
		res, err := r.Try(in)
		if err == nil {
			err = res.Failure()
		}
		if err != nil {
			r.dead = true
			_ = r.Close()
			r, _ = NewClientRig(1, nfsclient.Config{})
			t.Fatal(err)
		}
	})
}
