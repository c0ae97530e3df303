//go:build rdmacore && cgo

package rdmacore_test

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"

	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/rdmacore"
	"example.org/nfsrdma/verbs/verbstest"
	"github.com/stretchr/testify/require"
)

// device opens the device that NFSRDMA_DEVICE names, for the whole test.
func device(t *testing.T) verbs.Device {
	t.Helper()
	name := os.Getenv("NFSRDMA_DEVICE")
	if name == "" {
		t.Skip("NFSRDMA_DEVICE names no device")
	}
	d, err := rdmacore.Open(name)
	require.NoError(t, err)
	t.Cleanup(func() {
		if !t.Failed() {
			require.NoError(t, d.Close())
		}
	})
	return d
}

func addrOf(d verbs.Device) string { return d.(interface{ Addr() string }).Addr() }

var lastPort atomic.Int64

// newAddr is an address of d with a port that nobody has used.
func newAddr(d verbs.Device) string {
	return net.JoinHostPort(addrOf(d), fmt.Sprint(20100+lastPort.Add(1)))
}

func newEnv(d verbs.Device) *verbstest.Env {
	e := &verbstest.Env{
		Client: d, Server: d,
		ServerAddr:  func() string { return newAddr(d) },
		UnknownAddr: "[2001:db8::1]:20049",
	}
	switch d.Attr().Vendor {
	case "0xffffff":
		e.Statuses, e.Deviations = rxeStatuses, rxeDeviations
	case "0x626d74":
		e.Statuses, e.Deviations = siwStatuses, siwDeviations
	}
	if d.Attr().Transport == verbs.RoCE {
		e.DeviceAddr = addrOf
	}
	return e
}

// TestVerbs runs the conformance checks on the device.
func TestVerbs(t *testing.T) {
	d := device(t)
	verbstest.Run(t, func(*testing.T) *verbstest.Env { return newEnv(d) })
}
