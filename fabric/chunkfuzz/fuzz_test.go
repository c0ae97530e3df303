package chunkfuzz

import (
	"encoding/hex"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/nfsserver"
)

// fuzzRig is a server that is made again after a violation. All have one seed, so that handles and addresses in
// stored messages stay what they are.
type fuzzRig struct {
	*Rig
	cfg RigConfig
}

func newFuzzRig(f *testing.F, cfg RigConfig) *fuzzRig {
	cfg.Seed = 1
	r := &fuzzRig{cfg: cfg}
	r.fresh(f)
	f.Cleanup(func() { require.NoError(f, r.Close()) })
	return r
}

func (r *fuzzRig) fresh(t testing.TB) {
	var err error
	r.Rig, err = NewRig(r.cfg)
	require.NoError(t, err)
}

func (r *fuzzRig) want(t *testing.T, strict bool, res *Result, err error) {
	if err == nil {
		err = res.Err(strict)
	}
	if err != nil {
		r.dead = true
		_ = r.Close()
		r.fresh(t)
		t.Fatal(err)
	}
}

// fieldFaults are inputs whose calls once broke a stack.
var fieldFaults = map[string][]byte{
	"a READ with an empty Write chunk":               {0, 0, 0, 0, 0, 0x80 + 5},
	"a Read chunk past the message":                  {6, 0, 0, 0, 0, 0, 0x80 + 7},
	"a Read segment of 4 GiB":                        {6, 0, 0, 0, 0, 0, 0, 0, 0, 0x80 + 6, 4},
	"a large READ with neither Write nor Reply":      {0, 0, 0, 19, 0, 0x80},
	"an unaligned READ of many pages in Reply chunk": {0, 0, 0, 21, 3, 0x80},
}

func FuzzServer(f *testing.F) {
	r := newFuzzRig(f, RigConfig{})
	for _, in := range fieldFaults {
		f.Add(in)
	}
	for op := range byte(16) {
		for mode := range byte(4) {
			f.Add([]byte{op, mode})
		}
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 64 {
		in := make([]byte, 48)
		RandomInput(rnd, in)
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		res, err := r.Try(in)
		r.want(t, true, res, err)
	})
}

// FuzzMessage sends any bytes, beginning with calls of Linux and of Gen. XIDs come again, so the server has no duplicate
// request cache: with one, a call that was made before is not executed.
func FuzzMessage(f *testing.F) {
	r := newFuzzRig(f, RigConfig{Server: nfsserver.Config{DRCEntries: -1}})
	b, err := os.ReadFile("../../internal/rpcrdma/testdata/linux.txt")
	require.NoError(f, err)
	for line := range strings.Lines(string(b)) {
		if call, ok := strings.CutPrefix(line, "> "); ok {
			msg, err := hex.DecodeString(strings.TrimSpace(call))
			require.NoError(f, err)
			f.Add(msg)
		}
	}
	rnd := rand.New(rand.NewPCG(2, 1))
	for range 64 {
		in := make([]byte, 48)
		RandomInput(rnd, in)
		f.Add(append([]byte(nil), r.gen.Message(in)...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		b = b[:min(len(b), 4096)]
		if r.oracle.Predict(b).Open { // it may remove a file
			return
		}
		res, err := r.Exchange(b)
		r.want(t, true, res, err)
	})
}

func BenchmarkCall(b *testing.B) {
	r, err := NewRig(RigConfig{})
	require.NoError(b, err)
	rnd := rand.New(rand.NewPCG(1, 1))
	in := make([]byte, 96)
	for b.Loop() {
		RandomInput(rnd, in)
		res, err := r.Try(in)
		require.NoError(b, err)
		if err := res.Err(true); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	require.NoError(b, r.Close())
}
