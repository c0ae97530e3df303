package conformance

import (
	"context"
	"errors"
	"flag"
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

var printRun = flag.Bool("print", false, "TestKernelClient prints its run as JSON, and compares nothing")

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

// TestKernelClient compares the kernel's client with the checks, in a guest: every rule holds, or what is found is known, and the table
// of kernel.md is what comes out. With -print it prints the run as JSON instead.
func TestKernelClient(t *testing.T) {
	if os.Getenv("NFSRDMA_GUEST") == "" {
		t.Skip("not in the guest: make test-rxe")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8)) // calls into the mount must not keep its server from running
	ran, err := command("modprobe", "-a", "rpcrdma", "nfs", "nfsv3")
	require.NoError(t, err, ran)
	device := os.Getenv("NFSRDMA_DEVICE")
	dev, err := rdmacore.Open(device)
	require.NoError(t, err)
	s := sched.NewLive(1)
	t.Cleanup(func() {
		assert.NoError(t, s.Close())
		assert.Equal(t, verbs.Resources{}, dev.Resources())
		assert.NoError(t, dev.Close())
	})
	start := time.Now()
	l, err := Run(context.Background(), Options{Faults: true, Known: &Linux61Client, Client: &ClientTarget{
		Device: dev, Sched: s, Host: os.Getenv("NFSRDMA_ADDR"), Port: 21000,
		Mount: func(_ context.Context, m MountTarget) (*Mounted, error) {
			t.Logf("%v: port %d", time.Since(start).Round(time.Millisecond), m.Port)
			return kernelMount(m)
		},
		Direct:   syscall.O_DIRECT,
		ReadLink: func(ctx context.Context, name string) error { return exec.CommandContext(ctx, "readlink", name).Run() },
	}})
	require.NoError(t, err)
	if *printRun {
		require.NoError(t, WriteJSON(os.Stdout, l))
		return
	}
	var b strings.Builder
	require.NoError(t, WriteText(&b, l))
	t.Logf("%v\n%s", time.Since(start), &b)
	for i := range l {
		for _, c := range l[i].Checks {
			assert.Empty(t, c.Findings, c.Test)
		}
	}
	assert.Empty(t, Linux61Client.Missing(l, device), "known and not found")
	assert.Equal(t, asJSON(t, saved(t, "linux-6.1-client", strings.TrimRight(device, "0123456789")).Rows), asJSON(t, withoutReasons(l)), "make kernel-table")
}

func command(argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	return string(out), err
}

// kernelMount mounts softly. A mount that cannot be undone is left behind, detached.
func kernelMount(m MountTarget) (*Mounted, error) {
	dir := filepath.Join("/run", fmt.Sprint("mnt", m.Port))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	tenths := max(1, int(m.Timeout/(100*time.Millisecond)))
	o := fmt.Sprintf("rdma,port=%d,vers=3,nolock,noacl,noac,soft,timeo=%d,retrans=%d,mountproto=tcp,mountport=%d,mountvers=3",
		m.Port, tenths, (150+tenths-1)/tenths, m.MountPort)
	if out, err := command("mount.nfs", m.Host+":/", dir, "-o", o); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return &Mounted{Dir: dir, Unmount: func() error {
		out, err := command("umount", dir)
		if err == nil {
			return nil
		}
		more, ferr := command("umount", "-f", "-l", dir)
		return errors.Join(fmt.Errorf("%w: %s", err, out), ferr, errors.New(more))
	}}, nil
}
