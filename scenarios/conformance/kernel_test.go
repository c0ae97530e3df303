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

// TestKernelServer compares the kernel's server with the checks, in a guest that has it (guest-nfsd): every rule holds, or what is
// found is known, and the table of kernel.md is what comes out.
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
	l, err := Run(context.Background(), Options{Faults: true, Known: &Linux61, Target: &Target{
		Device: dev, Sched: s, Addr: host + ":20049", MountAddr: host + ":20048", Export: "/export"}})
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, WriteText(&b, l))
	t.Log("\n" + b.String())
	for i := range l {
		for _, c := range l[i].Checks {
			assert.Empty(t, c.Findings, c.Test)
		}
	}
	device := os.Getenv("NFSRDMA_DEVICE")
	assert.Empty(t, Linux61.Missing(l, device), "known and not found")
	want := saved(t, "linux-6.1", strings.TrimRight(device, "0123456789")).Rows
	require.Len(t, l, len(want), "make kernel-table")
	for i, row := range withoutReasons(l) {
		assert.Equal(t, asJSON(t, want[i:i+1]), asJSON(t, []RowResult{row}), "make kernel-table")
	}
}

func nfsd(t *testing.T, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "guest-nfsd", args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}
