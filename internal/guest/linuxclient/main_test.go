package linuxclient

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(loadEnv); spec != "" {
		if err := writeLoad(spec); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// A system call on the mount point must not keep the server, in the same process, from running.
	runtime.GOMAXPROCS(4)
	goleak.VerifyTestMain(m)
}

// inGuest gives the device's name and address.
func inGuest(t *testing.T) (dev, addr string) {
	t.Helper()
	if os.Getenv("NFSRDMA_GUEST") == "" {
		t.Skip("not in the guest: make test-rxe")
	}
	dev, addr = os.Getenv("NFSRDMA_DEVICE"), os.Getenv("NFSRDMA_ADDR")
	require.NotEmpty(t, dev)
	require.NotEmpty(t, addr)
	return dev, addr
}

// shTimeout is more than any program takes, less than the suite may.
const shTimeout = 3 * time.Minute

func command(argv ...string) (*exec.Cmd, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), shTimeout) // clean-ups call it too
	return exec.CommandContext(ctx, argv[0], argv[1:]...), cancel
}

// sh runs a program to its end and gives what it printed.
func sh(t *testing.T, argv ...string) string {
	t.Helper()
	cmd, cancel := command(argv...)
	defer cancel()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%v\n%s", argv, out)
	return string(out)
}

// eventually asks now and then until f has nothing to complain about, for at most a time; it gives the last complaint. It is
// for what the kernel or another process does: there is nothing to wait for instead.
func eventually(limit time.Duration, f func() string) string {
	start := time.Now()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		s := f()
		if s == "" || time.Since(start) > limit {
			return s
		}
		<-tick.C
	}
}
