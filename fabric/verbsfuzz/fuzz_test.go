package verbsfuzz

import (
	"context"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/fabric/chunkfuzz"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
)

func newRig(t testing.TB) *Rig {
	r, err := NewRig(1, softroce.Personality{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// FuzzVerbs runs what Decode makes of any bytes.
func FuzzVerbs(f *testing.F) {
	r := newRig(f)
	for _, in := range seeds {
		f.Add([]byte(in))
	}
	rnd := rand.New(rand.NewPCG(1, 3))
	for range 64 {
		in := make([]byte, 80)
		chunkfuzz.RandomInput(rnd, in)
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if err := r.Run(context.Background(), Decode(in)); err != nil {
			t.Fatal(err)
		}
	})
}

// seeds are small programs, by what is wrong in them.
var seeds = map[string]string{
	"a region is used by its former key":              "\x00S\x00\x00\x00\x00\x00\xeb\x00\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00$Y",
	"a SEND before there is a receive":                "\x00x\x00N\x00\x00\xac",
	"a SEND that is longer than its receive":          "\x00w'[\x00\x00#\x00.\x00\x00\x00\x00\x89",
	"an invalidation of the same key twice":           "\x00\xc0\x00\x00\n\x00\x00\x7fK",
	"an offset that wraps":                            "\x00\x00\x00G\x00\x00\x00\x00\x9c",
	"a receive that the region's rights do not allow": "\x00\xa4\x00\xa6\x00\x00\x00\x00\x00\xe5",
}

func TestCampaign(t *testing.T) {
	rep := Run(t, Options{Programs: 8000})
	require.Equal(t, 8000, rep.Programs)
	for _, st := range []verbs.Status{verbs.Success, verbs.LocProtErr, verbs.WRFlushErr, verbs.RemInvReqErr, verbs.RemAccessErr, verbs.RemOpErr,
		verbs.RetryExcErr, verbs.RNRRetryExcErr} {
		assert.NotZero(t, rep.Ended[st], "%v", st)
	}
}

// TestLongCampaign runs programs for NFSRDMA_LONG, a duration, or so many.
func TestLongCampaign(t *testing.T) {
	long := os.Getenv("NFSRDMA_LONG")
	if long == "" {
		t.Skip("it takes long: NFSRDMA_LONG is not set")
	}
	o := Options{Seed: uint64(time.Now().UnixNano()), Programs: 1_000_000}
	if d, err := time.ParseDuration(long); err == nil {
		o.Programs, o.Time = 0, d
	}
	t.Logf("seed %d", o.Seed)
	Run(t, o)
}

func TestSameInputSameTrace(t *testing.T) {
	var prints []uint64
	for range 2 {
		r := newRig(t)
		rep, err := Campaign(context.Background(), r, Options{Programs: 1000})
		require.NoError(t, err)
		require.NoError(t, rep.Err())
		prints = append(prints, r.Fingerprint())
	}
	assert.Equal(t, prints[0], prints[1])
}
