package verbstest_test

import (
	"fmt"
	"testing"
	"time"

	"example.org/nfsrdma/internal/link"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
	"example.org/nfsrdma/verbs/verbstest"
	"github.com/stretchr/testify/require"
)

// network is what a run of the suite on soft-RoCE varies.
type network struct {
	live        bool
	personality softroce.Personality
	link        *link.Config
	seed        uint64
}

// newEnvOf makes two devices on a network of their own.
func newEnvOf(t *testing.T, n network) *verbstest.Env {
	t.Helper()
	s := sched.NewVirtual(n.seed)
	if n.live {
		s = sched.NewLive(n.seed)
	}
	net := softroce.NewNetwork(s, softroce.NetConfig{Link: n.link})
	c, err := net.NewDevice("softroce0", n.personality)
	require.NoError(t, err)
	d, err := net.NewDevice("softroce1", n.personality)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	port := 20000
	return &verbstest.Env{
		Client: c, Server: d, Sched: s,
		ServerAddr:  func() string { port++; return fmt.Sprint("softroce1:", port) },
		UnknownAddr: "nobody:20049",
		DeviceAddr:  func(d verbs.Device) string { return d.Name() },
	}
}

// newEnv is newEnvOf whose devices must close at the end.
func newEnv(t *testing.T, n network) *verbstest.Env {
	t.Helper()
	e := newEnvOf(t, n)
	c, s := e.Client, e.Server
	t.Cleanup(func() {
		if !t.Failed() {
			require.NoError(t, c.Close())
			require.NoError(t, s.Close())
		}
	})
	return e
}

func runOn(t *testing.T, n network) {
	verbstest.Run(t, func(t *testing.T) *verbstest.Env {
		t.Parallel()
		return newEnv(t, n)
	})
}

func TestVirtual(t *testing.T) { runOn(t, network{personality: softroce.RoCE}) }

func TestLive(t *testing.T) { runOn(t, network{live: true, personality: softroce.RoCE}) }

func TestPersonalities(t *testing.T) {
	for _, p := range []softroce.Personality{softroce.MT25208, softroce.T310} {
		t.Run(p.Name, func(t *testing.T) { runOn(t, network{personality: p}) })
	}
}

// TestLink runs the suite over a modelled wire that takes time.
func TestLink(t *testing.T) {
	runOn(t, network{personality: softroce.RoCE, link: &link.Config{BitsPerSecond: 10e9, Delay: 5 * time.Microsecond, Overhead: 58}})
}

// TestOneDevice has client and server on one device.
func TestOneDevice(t *testing.T) {
	verbstest.Run(t, func(t *testing.T) *verbstest.Env {
		t.Parallel()
		e := newEnv(t, network{personality: softroce.RoCE})
		e.Client = e.Server
		return e
	})
}

// TestNothingSkipped: a device with every feature skips no check, so that a
// capability cannot get lost.
func TestNothingSkipped(t *testing.T) {
	e := newEnv(t, network{personality: softroce.RoCE})
	for _, c := range verbstest.Checks() {
		for _, n := range c.Needs {
			require.True(t, n.Holds(e), "%s needs %s", c.Name, n.What)
		}
	}
}
