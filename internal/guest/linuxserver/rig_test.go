package linuxserver

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/rdmacore"
)

var bg = context.Background()

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// export is what guest-nfsd exports.
const export = "/export"

// sh runs a program to its end and gives what it printed.
func sh(t *testing.T, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(bg, time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	require.NoError(t, err, "%v\n%s", argv, out)
	return string(out)
}

// rig is a device, and the kernel's server on it.
type rig struct {
	t    *testing.T
	dev  verbs.Device
	addr string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	if os.Getenv("NFSRDMA_GUEST") == "" {
		t.Skip("not in the guest: make test-rxe")
	}
	r := &rig{t: t, addr: os.Getenv("NFSRDMA_ADDR")}
	sh(t, "dmesg", "-n", "1")
	before := kernelLog(t)
	sh(t, "guest-nfsd", "start", "4", "400m")
	t.Cleanup(func() { sh(t, "guest-nfsd", "stop") })
	dev, err := rdmacore.Open(os.Getenv("NFSRDMA_DEVICE"))
	require.NoError(t, err)
	r.dev = dev
	t.Cleanup(func() {
		assert.Equal(t, verbs.Resources{}, dev.Resources(), "left on the device")
		assert.NoError(t, dev.Close())
		log := strings.TrimPrefix(kernelLog(t), before)
		assert.NotRegexp(t, `(?i)warning|BUG|oops|call trace|rpcrdma.*err`, log)
	})
	return r
}

func kernelLog(t *testing.T) string { return sh(t, "dmesg") }

// dial mounts the export.
func (r *rig) dial(cfg nfsclient.Config) *nfsclient.Mount {
	r.t.Helper()
	cfg.Device, cfg.Addr, cfg.MountAddr, cfg.Export = r.dev, r.addr+":20049", r.addr+":20048", export
	if cfg.ReconnectMin == 0 {
		cfg.ReconnectMin, cfg.ReconnectMax = 50*time.Millisecond, time.Second
	}
	m, err := nfsclient.New(bg, cfg)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { assert.NoError(r.t, m.Close()) })
	return m
}

// counter is one of the server's (/proc/sys/sunrpc/svc_rdma).
func counter(t *testing.T, name string) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("/proc/sys/sunrpc/svc_rdma", name))
	require.NoError(t, err)
	n, err := strconv.Atoi(regexp.MustCompile(`\d+`).FindString(string(b)))
	require.NoError(t, err)
	return n
}

// get is one of the client's counters.
func get(t *testing.T, m *nfsclient.Mount, name string) uint64 {
	t.Helper()
	for _, c := range m.Counters() {
		if c.Name == name {
			return c.Value
		}
	}
	require.Fail(t, "no counter "+name)
	return 0
}

// wantClean fails if the client lost a connection or did not understand a reply.
func wantClean(t *testing.T, m *nfsclient.Mount) {
	t.Helper()
	for _, name := range []string{"retransmissions", "bad_reply_count", "failed_marshal_count"} {
		assert.Zero(t, get(t, m, name), name)
	}
}

// data is n bytes that repeat nowhere near.
func data(n int, seed uint32) []byte {
	b := make([]byte, n)
	x := seed*2654435761 + 1
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

// sameFile compares a file of the export, as the server's machine sees it.
func sameFile(t *testing.T, name string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(export, name))
	require.NoError(t, err)
	if !bytes.Equal(want, got) {
		i := 0
		for i < min(len(want), len(got)) && want[i] == got[i] {
			i++
		}
		require.Fail(t, fmt.Sprintf("%s: %d bytes, want %d; differs from byte %d on", name, len(got), len(want), i))
	}
}

// lines keeps the last of a trace.
type lines struct {
	mu   sync.Mutex
	last []string
}

func (l *lines) add(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.last) == 20 {
		l.last = l.last[1:]
	}
	l.last = append(l.last, s[:min(len(s), 400)])
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.last, "\n")
}
