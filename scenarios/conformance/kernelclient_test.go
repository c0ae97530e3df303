package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/rdmacore"
)

// kernelClientDiffers are the checks that the kernel's client (Linux 6.1) does not pass, with the reason. All others it must pass.
var kernelClientDiffers = map[string]string{}

// TestMountedChecks wants each check of a requester to have a form for a client that mounts, or a reason why not.
func TestMountedChecks(t *testing.T) {
	list := append([]Row(nil), rows...)
	for i := range faults {
		list = append(list, faults[i].row())
	}
	for i := range list {
		for _, k := range list[i].checks {
			if k.requester != nil {
				m := mountedChecks[k.name]
				require.NotNil(t, m, k.name)
				assert.Equal(t, m.why == "", m.f != nil, k.name)
			}
		}
	}
}

// TestKernelClient compares the kernel's client with the checks, in a guest.
func TestKernelClient(t *testing.T) {
	if os.Getenv("NFSRDMA_GUEST") == "" {
		t.Skip("not in the guest: make test-rxe")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8)) // calls into the mount must not keep its server from running
	ran, err := command(t, "modprobe", "-a", "rpcrdma", "nfs", "nfsv3")
	require.NoError(t, err, ran)
	dev, err := rdmacore.Open(os.Getenv("NFSRDMA_DEVICE"))
	require.NoError(t, err)
	s := sched.NewLive(1)
	t.Cleanup(func() {
		assert.NoError(t, s.Close())
		assert.Equal(t, verbs.Resources{}, dev.Resources())
		assert.NoError(t, dev.Close())
	})
	start := time.Now()
	l, err := Run(context.Background(), Options{Faults: true, Only: os.Getenv("NFSRDMA_ROWS"), Client: &ClientTarget{
		Device: dev, Sched: s, Host: os.Getenv("NFSRDMA_ADDR"), Port: 21000,
		Mount:    func(_ context.Context, m MountTarget) (*Mounted, error) { return kernelMount(t, m) },
		Direct:   syscall.O_DIRECT,
		ReadLink: func(ctx context.Context, name string) error { return exec.CommandContext(ctx, "readlink", name).Run() },
	}})
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, WriteText(&b, l))
	t.Logf("%v\n%s", time.Since(start), &b)
	for i := range l {
		for _, c := range l[i].Checks {
			why, known := kernelClientDiffers[c.Test]
			switch {
			case len(c.Findings) > 0 && !known:
				assert.Fail(t, c.Test+": "+strings.Join(c.Findings, "; "))
			case len(c.Findings) == 0 && known:
				assert.Fail(t, c.Test+" holds, which is listed as different: "+why)
			}
		}
	}
}

func command(t *testing.T, argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	return string(out), err
}

// kernelMount mounts softly. A mount that cannot be undone is left behind, detached.
func kernelMount(t *testing.T, m MountTarget) (*Mounted, error) {
	dir := filepath.Join("/run", fmt.Sprint("mnt", m.Port))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	tenths := max(1, int(m.Timeout/(100*time.Millisecond)))
	o := fmt.Sprintf("rdma,port=%d,vers=3,nolock,noacl,noac,soft,timeo=%d,retrans=%d,mountproto=tcp,mountport=%d,mountvers=3",
		m.Port, tenths, (150+tenths-1)/tenths, m.MountPort)
	if out, err := command(t, "mount.nfs", m.Host+":/", dir, "-o", o); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return &Mounted{Dir: dir, Unmount: func() error {
		out, err := command(t, "umount", dir)
		if err == nil {
			return nil
		}
		more, ferr := command(t, "umount", "-f", "-l", dir)
		return errors.Join(fmt.Errorf("%w: %s", err, out), ferr, errors.New(more))
	}}, nil
}
