package fabric_test

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"example.org/nfsrdma/fabric"
)

// TestChecksumOverLossyLink moves 64 MiB out and back while 1 % of the packets are lost, repeated and
// reordered each: in short calls, and a part of it in calls of many packets.
func TestChecksumOverLossyLink(t *testing.T) {
	want := data(64<<20, 9)
	eachMode(t, func(t *testing.T, p fabric.Params) {
		n := share(len(want))
		if p.Live && !long("NFSRDMA_LONG") { // a lost packet costs real time
			n = len(want) / 16
		}
		for _, c := range []struct{ size, n int }{{64 << 10, n}, {1 << 20, 4 << 20}} {
			p.Link, p.RSize, p.WSize = lossy(), c.size, c.size
			f := fabric.New(t, p)
			m := f.Mount(t, "/")
			start := time.Now()
			m.WriteFile(t, "a", want[:c.n])
			out := time.Since(start)
			assert.Equal(t, sha256.Sum256(want[:c.n]), sha256.Sum256(m.ReadFile(t, "a")))
			t.Logf("%d bytes in calls of %d: out %v, back %v; %v of the fabric's time", c.n, c.size, out, time.Since(start)-out, f.Now())
			for _, name := range []string{"retransmits", "duplicate_request", "out_of_seq_request"} {
				a, _ := f.Client().Device().Get(name)
				b, _ := f.Server().Device().Get(name)
				assert.Positive(t, a+b, name)
			}
			f.Client().Counters().Want(t, "bad_reply_count=0 failed_marshal_count=0")
		}
	})
}
