package conformance

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/fabric/chunkfuzz"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/verbs/rdmacore"
)

// TestKernelServerFuzz sends the kernel's server hostile calls: it does what the oracle of chunkfuzz foresees, or what is known of it.
func TestKernelServerFuzz(t *testing.T) {
	if os.Getenv("NFSRDMA_GUEST") == "" {
		t.Skip("not in the guest: make test-rxe")
	}
	if strings.HasPrefix(os.Getenv("NFSRDMA_DEVICE"), "siw") {
		t.Skip("over siw the calls go as over rxe, but one time in some the kernel's nfsd does not stop behind them, and the guest with it")
	}
	nfsd(t, "start", "4", "400m")
	t.Cleanup(func() { nfsd(t, "stop") })
	dev, err := rdmacore.Open(os.Getenv("NFSRDMA_DEVICE"))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, dev.Close()) })
	host := os.Getenv("NFSRDMA_ADDR")
	addr := net.JoinHostPort(host, "20049")
	s := sched.NewLive(1)
	m, err := nfsclient.New(context.Background(), nfsclient.Config{
		Device: dev, Sched: s, Addr: addr, Export: "/export", MountAddr: net.JoinHostPort(host, "20048"), ResvPort: true, Soft: true})
	require.NoError(t, err)
	root := m.Root()
	require.NoError(t, m.Close())
	require.NoError(t, s.Close())
	rep := chunkfuzz.Run(t, func(ctx context.Context) (*chunkfuzz.Requester, error) {
		return chunkfuzz.Dial(ctx, chunkfuzz.Config{Device: dev, Addr: addr, Silence: 5e7})
	}, chunkfuzz.Options{Calls: 300, Root: root.Bytes(), Known: chunkfuzz.Linux61, Careful: true})
	assert.NotEmpty(t, rep.Known)
	assert.Greater(t, rep.Kinds[chunkfuzz.Reply], 150)
}
