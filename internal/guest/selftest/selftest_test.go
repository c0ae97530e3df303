package selftest

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

// sh runs a program to its end and gives what it printed.
func sh(t *testing.T, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute) // clean-ups call it too
	defer cancel()
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	require.NoError(t, err, "%v\n%s", argv, out)
	return string(out)
}

// pair runs server, and client when it listens, to the end of both; it gives what the client printed. A client that is
// refused would not end: rping waits for ever.
func pair(t *testing.T, server, client []string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var served bytes.Buffer
	s := exec.CommandContext(ctx, server[0], server[1:]...)
	s.Stdout, s.Stderr = &served, &served
	require.NoError(t, s.Start())
	listens := regexp.MustCompile(fmt.Sprintf(`state LISTEN .* pid %d `, s.Process.Pid))
	for ctx.Err() == nil && !listens.MatchString(sh(t, "rdma", "resource", "show", "cm_id")) {
	}
	out, err := exec.CommandContext(ctx, client[0], client[1:]...).CombinedOutput()
	if !assert.NoError(t, err, "%v\n%s", client, out) {
		cancel()
	}
	assert.NoError(t, s.Wait(), "%v\n%s", server, &served)
	return string(out)
}

func TestDevice(t *testing.T) {
	dev, _ := inGuest(t)
	info := sh(t, "ibv_devinfo", "-v", "-d", dev)
	assert.Contains(t, info, "PORT_ACTIVE")
	want := map[string]string{"rxe0": "InfiniBand (0)", "siw0": "iWARP (1)"}[dev]
	assert.Regexp(t, `transport:\s+`+regexp.QuoteMeta(want), info)
	assert.Contains(t, sh(t, "rdma", "link"), dev+"/1 state ACTIVE")
}

func TestRping(t *testing.T) {
	_, addr := inGuest(t)
	out := pair(t, []string{"rping", "-s", "-a", addr, "-C", "3"}, []string{"rping", "-c", "-a", addr, "-C", "3", "-v"})
	assert.Equal(t, 3, strings.Count(out, "ping data: rdma-ping-"))
}

func TestPerftest(t *testing.T) {
	dev, addr := inGuest(t)
	for _, program := range []string{"ib_send_lat", "ib_read_bw", "ib_write_bw"} {
		t.Run(program, func(t *testing.T) {
			argv := []string{program, "-d", dev, "-R", "-F", "-n", "100", "-s", "65536"}
			out := pair(t, argv, append(argv, addr))
			assert.Regexp(t, `(?m)^ 65536\s+100\s`, out)
		})
	}
}

// The kernel's client and server over the device: what one writes, the other has; and a server without threads comes back.
func TestKernelNFS(t *testing.T) {
	_, addr := inGuest(t)
	sh(t, "guest-nfsd", "start", "4", "64m")
	t.Cleanup(func() { sh(t, "guest-nfsd", "stop") })
	assert.Contains(t, sh(t, "cat", "/proc/fs/nfsd/portlist"), "rdma 20049")

	data := make([]byte, 4<<20)
	for i, sum := 0, sha256.Sum256([]byte("seed")); i < len(data); i += len(sum) {
		copy(data[i:], sum[:])
		sum = sha256.Sum256(sum[:])
	}
	for _, c := range []struct{ name, path, options string }{
		{"v3", "/export", "vers=3,nolock,mountproto=tcp"},
		{"v4.2", "/", "vers=4.2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sh(t, "mount.nfs", addr+":"+c.path, "/mnt", "-o", "rdma,port=20049,"+c.options)
			t.Cleanup(func() { sh(t, "umount", "/mnt") })
			mounts, err := os.ReadFile("/proc/mounts")
			require.NoError(t, err)
			assert.Regexp(t, ` /mnt nfs4? .*proto=rdma`, string(mounts))

			require.NoError(t, os.WriteFile("/mnt/file", data, 0o644))
			there, err := os.ReadFile("/export/file")
			require.NoError(t, err)
			assert.Equal(t, md5.Sum(data), md5.Sum(there))

			require.NoError(t, os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0o200))
			sh(t, "guest-nfsd", "threads", "0")
			sh(t, "guest-nfsd", "threads", "8")
			here, err := os.ReadFile("/mnt/file")
			require.NoError(t, err)
			assert.Equal(t, md5.Sum(data), md5.Sum(here))
			require.NoError(t, os.Remove("/mnt/file"))
		})
	}
}

// The suite's surroundings: its package's directory, read-only, and memory to write to.
func TestSurroundings(t *testing.T) {
	inGuest(t)
	wd, err := os.Getwd()
	require.NoError(t, err)
	assert.Equal(t, "selftest", filepath.Base(wd))
	_, err = os.ReadFile("doc.go")
	assert.NoError(t, err)
	assert.Error(t, os.WriteFile("new", nil, 0o644))
	assert.NoError(t, os.WriteFile(filepath.Join(t.TempDir(), "new"), nil, 0o644))
	assert.Regexp(t, `^fio-`, sh(t, "fio", "--version"))
}
