package verbstest_test

import (
	"strings"
	"testing"
	"time"

	"example.org/nfsrdma/internal/link"
	"example.org/nfsrdma/verbs/softroce"
	"example.org/nfsrdma/verbs/verbstest"
	"github.com/stretchr/testify/require"
)

// lossy loses, doubles and reorders packets.
var lossy = link.Config{
	BitsPerSecond: 100e9, Delay: time.Microsecond, Overhead: 58,
	Loss: 0.01, Duplicate: 0.01, Reorder: 0.02,
}

// exact says whether a check is of data that must be right over any wire. What
// asks for a status that a lost packet may change is not.
func exact(name string) bool {
	theme, _, _ := strings.Cut(name, "/")
	switch theme {
	case "integrity", "order", "write", "read", "imm", "inline":
		return true
	}
	return name == "send/sizes" || name == "send/1MiB" || name == "send/many-in-order" || name == "send/both-directions" ||
		strings.HasSuffix(name, "-odd-splits")
}

func runLossy(t *testing.T, live bool, seeds ...uint64) {
	ran := 0
	for _, c := range verbstest.Checks() {
		if !exact(c.Name) {
			continue
		}
		ran++
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			for _, seed := range seeds {
				l := lossy
				verbstest.RunCheck(t, c, newEnv(t, network{live: live, personality: softroce.RoCE, link: &l, seed: seed}))
			}
		})
	}
	require.Greater(t, ran, 30)
}

func TestLossyVirtual(t *testing.T) { runLossy(t, false, 1, 2, 3) }

func TestLossyLive(t *testing.T) { runLossy(t, true, 1) }

// TestLossyWireLoses: the wire of the tests above does what it is meant to.
func TestLossyWireLoses(t *testing.T) {
	l := lossy
	e := newEnv(t, network{personality: softroce.RoCE, link: &l, seed: 1})
	for _, c := range verbstest.Checks() {
		if c.Name == "integrity/checksum" {
			verbstest.RunCheck(t, c, e)
		}
	}
	count := map[string]uint64{}
	for _, c := range append(e.Client.Counters(), e.Server.Counters()...) {
		count[c.Name] += c.Value
	}
	for _, name := range []string{"out_of_seq_request", "duplicate_request", "retransmits"} {
		require.NotZero(t, count[name], name)
	}
}
