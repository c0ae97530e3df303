package conformance

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/rdmacore"
)

// kernelDiffers are the checks that the kernel's server (Linux 6.1) does not pass, with the reason. All others it must pass.
var kernelDiffers = map[string]string{}

// TestKernelServer compares the kernel's server with the checks, in the guest: make test-rxe SUITE=conformance.
func TestKernelServer(t *testing.T) {
	if os.Getenv("NFSRDMA_GUEST") == "" {
		t.Skip("not in the guest: make test-rxe")
	}
	nfsd(t, "start", "4", "400m")
	t.Cleanup(func() { nfsd(t, "stop") })
	dev, err := rdmacore.Open(os.Getenv("NFSRDMA_DEVICE"))
	require.NoError(t, err)
	s := sched.NewLive(1)
	t.Cleanup(func() {
		assert.NoError(t, s.Close())
		assert.Equal(t, verbs.Resources{}, dev.Resources())
		assert.NoError(t, dev.Close())
	})
	host := os.Getenv("NFSRDMA_ADDR")
	l, err := Run(context.Background(), Options{Faults: true, Target: &Target{
		Device: dev, Sched: s, Addr: host + ":20049", MountAddr: host + ":20048", Export: "/export"}})
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, WriteText(&b, l))
	t.Log("\n" + b.String())
	for i := range l {
		for _, c := range l[i].Checks {
			why, known := kernelDiffers[c.Test]
			switch {
			case len(c.Findings) > 0 && !known:
				assert.Fail(t, c.Test+": "+strings.Join(c.Findings, "; "))
			case len(c.Findings) == 0 && known:
				assert.Fail(t, c.Test+" holds, which is listed as different: "+why)
			case known:
				t.Logf("%s differs: %s", c.Test, why)
			}
		}
	}
}

func nfsd(t *testing.T, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "guest-nfsd", args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}
