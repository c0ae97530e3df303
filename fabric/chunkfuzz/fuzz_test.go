package chunkfuzz

import (
	"encoding/hex"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
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

// fieldFaults are inputs whose calls are of kinds that broke a stack in the field, by the ID of scenarios/conformance, with what
// is right and what the message looks like.
var fieldFaults = []struct {
	id, name string
	in       []byte
	kind     Kind
	story    string // regular expression
}{
	{"F01", "a READ with an empty Write chunk", []byte{0, 0, 0, 0, 0, 0x85}, Reply, `writes=\[\]\[`},
	{"F02", "a Read chunk past the message", []byte{6, 0, 0, 0, 0, 0, 0x87}, ErrChunk, `reads=\[@512:`},
	{"F02", "a Read chunk at the highest position", []byte{0x98, 0, 0, 0, 0, 0, 0xfc}, ErrChunk, `reads=\[@4294967292:`},
	{"F02", "two data chunks that overlap", []byte{0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xd2, 0x3b}, ErrChunk, `reads=\[@111:\S+ @112:`},
	{"F03", "a Read segment of 4 GiB", []byte{6, 0, 0, 0, 0, 0, 0, 0, 0, 0x86, 4}, ErrChunk, `:4294967295@`},
	{"F03", "a long call of 4 GiB", []byte{0, 0x56, 0, 0x75, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xb5, 0x24, 0x33}, ErrChunk, `RDMA_NOMSG .*reads=\[@0:\w+:4294967295@`},
	{"F04", "a count of 2^32-1 segments", []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xe2, 0x53, 0xd8}, ErrChunk, `segment count .*\n\w{48}ffffffff`},
	{"F04", "a count of more segments than there are", []byte{0xeb, 0, 0xb4, 0, 0, 0, 0, 0, 0xa6, 0xe4, 0x6c}, ErrChunk, `segment count at byte 28: input too short`},
	{"F05", "a large READ whose chunks have no room", []byte{0, 0, 0, 0x4b, 0, 0, 0, 0xa2, 0, 0xaa}, ErrChunk, `writes=\[\] reply=\[\]`},
	{"F06", "a READ of many pages to a Reply chunk", []byte{0, 0, 0, 21, 3, 0x80}, Reply, `credits=8 reply=\[\w+:59132@`},
	{"F07", "a READ from within a page to a Write chunk of two segments", []byte{0, 0, 0x5c, 0x47, 0, 0xf9}, Reply, `writes=\[\w+:16384@\w+\]\[\w+:16384@`},
	{"F10", "another version", []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0xca, 0, 0, 0, 0, 0xac}, ErrVers, `version not supported`},
	{"F10", "a message of no bytes", []byte{0, 0x97, 0, 0x4a, 0, 0, 0, 0, 0, 0, 0x91, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x95, 0x4e}, Drop, `^message of 0 bytes`},
	{"F19", "five bytes inline", []byte{0x37, 0x91, 0x4a}, Reply, `credits=8\n120 bytes behind the header`},
}

// TestFieldFaults: each input makes the message that its name claims, and oracle and server agree on it.
func TestFieldFaults(t *testing.T) {
	r := newRig(t, RigConfig{Seed: 1})
	for _, f := range fieldFaults {
		t.Run(f.id+" "+f.name, func(t *testing.T) {
			assert.Regexp(t, f.story, Story(r.gen.Message(f.in)))
			res, err := r.Try(f.in)
			require.NoError(t, err)
			require.NoError(t, res.Err(true))
			assert.Equal(t, f.kind, res.Got.Kind)
		})
	}
}

func FuzzServer(f *testing.F) {
	r := newFuzzRig(f, RigConfig{})
	for _, c := range fieldFaults {
		f.Add(c.in)
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
