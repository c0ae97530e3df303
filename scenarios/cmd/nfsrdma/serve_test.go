package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
)

// served is nfsrdma serve in a goroutine of its own.
type served struct {
	t    *testing.T
	stop context.CancelFunc
	done chan struct{}

	mu     sync.Mutex
	out    bytes.Buffer
	lines  chan struct{} // closed and made anew by each write
	status int
	errOut bytes.Buffer
}

func (s *served) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.lines)
	s.lines = make(chan struct{})
	return s.out.Write(b)
}

// startServe runs it until the end of the test, or end.
func startServe(t *testing.T, args ...string) *served {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &served{t: t, stop: cancel, done: make(chan struct{}), lines: make(chan struct{})}
	go func() {
		defer close(s.done)
		s.status = run(env{ctx, s, &s.errOut}, append([]string{"serve"}, args...))
	}()
	t.Cleanup(func() { s.end() })
	return s
}

// want waits for output that matches, and gives the first group.
func (s *served) want(expr string) string {
	s.t.Helper()
	re := regexp.MustCompile(expr)
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	for {
		s.mu.Lock()
		m := re.FindStringSubmatch(s.out.String())
		more, text := s.lines, s.out.String()
		s.mu.Unlock()
		if m != nil {
			return m[len(m)-1]
		}
		select {
		case <-more:
		case <-s.done:
			require.Fail(s.t, "serve ended", "%s\n%s", text, s.errOut.String())
		case <-deadline.C:
			require.Fail(s.t, "no such output", "%s in:\n%s", expr, text)
		}
	}
}

// end interrupts it, and gives its output.
func (s *served) end() string {
	s.stop()
	<-s.done
	assert.Zero(s.t, s.status, "%s", s.errOut.String())
	return s.out.String()
}

var loopback = []string{"-tcp", "127.0.0.1:0", "-mount", "127.0.0.1:0", "-interval", "20ms"}

func TestServeAndProbe(t *testing.T) {
	s := startServe(t, append(loopback, "-e", "/=memfs:64M", "-e", "/ro=memfs:64M,ro")...)
	addr := s.want(`nfsrdma probe (tcp://127\.0\.0\.1:\d+)/`)
	mountport := s.want(`mount  127\.0\.0\.1:(\d+)`)
	s.want(`mount -t nfs -o proto=tcp,port=\d+,vers=3,nolock,mountproto=tcp,mountport=` + mountport + `,mountvers=3,noacl 127\.0\.0\.1:/ /mnt`)

	status, out, errOut := runCLI(t, "probe", addr, "-write", "-size", "3M", "-format", "json")
	require.Zero(t, status, errOut)
	var r probeReport
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	assert.Equal(t, "tcp", r.Negotiated.Transport)
	assert.EqualValues(t, 1<<20, r.FSInfo.RtMax)
	assert.EqualValues(t, 255, r.PathConf.NameMax)
	assert.EqualValues(t, 64<<20, r.FSStat.TotalBytes)
	assert.Equal(t, roundTrips, r.RoundTrip["NULL"].Calls)
	names := map[string]int{}
	for _, c := range r.Checks {
		assert.Empty(t, c.Error)
		assert.Positive(t, c.Bytes)
		names[c.Name]++
	}
	assert.Equal(t, map[string]int{"write": 1, "read": 10, "overwrite": 1}, names)
	assert.Greater(t, r.Counters["serverreadbytes"], uint64(12<<20))

	// MOUNT at its own port; nothing is left of the first probe.
	status, out, errOut = runCLI(t, "probe", addr, "-mountport", mountport, "-no-resvport")
	require.Zero(t, status, errOut)
	assert.Contains(t, out, "MOUNT over tcp 127.0.0.1:"+mountport)
	assert.Contains(t, out, "0 names")

	status, _, errOut = runCLI(t, "probe", addr+"/ro", "-write")
	assert.Equal(t, 1, status)
	assert.Contains(t, errOut, "NFS3ERR_ROFS")
	status, _, errOut = runCLI(t, "probe", addr+"/nothing")
	assert.Equal(t, 1, status)
	assert.Contains(t, errOut, "NFS3ERR_NOENT")

	s.want(`calls/s [1-9]`)
	assert.Regexp(t, `served \d+ calls in .*: 1[0-9]\.\d MB read, [34]\.\d MB written, 0 errors\n$`, s.end())
}

// TestServeEndsBySignal, as a service manager ends it.
func TestServeEndsBySignal(t *testing.T) {
	own := make(chan os.Signal, 8) // so that the signal does not end the test
	signal.Notify(own, syscall.SIGTERM)
	defer signal.Stop(own)
	s := startServe(t, loopback...)
	s.want(`nfsrdma probe tcp`)
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
	<-s.done
	assert.Contains(t, s.end(), "served 0 calls")
}

func TestServeDirectory(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o777))
	want := bytes.Repeat([]byte("0123456789"), 5000)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), want, 0o644))
	key := filepath.Join(t.TempDir(), "key")
	s := startServe(t, append(loopback, "-e", "/d="+dir, "-key", key, "-trace")...)
	addr := s.want(`nfsrdma probe (tcp://127\.0\.0\.1:\d+)/d`)
	status, out, errOut := runCLI(t, "probe", addr+"/d")
	require.Zero(t, status, errOut)
	assert.Contains(t, out, "1 names")
	assert.Contains(t, out, "read file    50000 bytes")
	status, _, errOut = runCLI(t, "probe", addr+"/d", "-write", "-size", "1M")
	require.Zero(t, status, errOut)
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, list, 1, "the probe's file is removed")
	i, err := os.Stat(key)
	require.NoError(t, err)
	assert.EqualValues(t, keyLen, i.Size())
	assert.Equal(t, os.FileMode(0o600), i.Mode())
	assert.Contains(t, s.end(), "| MNT")
}

// TestServeOverRDMA has a softroce network in the place of the machine's devices.
func TestServeOverRDMA(t *testing.T) {
	live := sched.NewLive(1)
	network := softroce.NewNetwork(live, softroce.NetConfig{})
	t.Cleanup(func() {
		assert.NoError(t, network.Close())
		assert.NoError(t, live.Close())
	})
	saved := openDevice
	t.Cleanup(func() { openDevice = saved })
	openDevice = func(name string) (verbs.Device, error) { return network.NewDevice(name, softroce.RoCE) }

	s := startServe(t, append(loopback, "-d", "server", "-rdma-port", "77")...)
	s.want(`mount -t nfs -o rdma,port=77,vers=3,nolock,mountproto=tcp,mountport=\d+,mountvers=3,noacl server:/ /mnt`)
	status, out, errOut := runCLI(t, "probe", "rdma://server:77/", "-d", "client", "-write", "-size", "2M")
	require.Zero(t, status, errOut)
	assert.Regexp(t, `credits +\d+\ninline +4096 out, 4096 in; private data yes\ninvalidation remote\nIRD, ORD +\d+, 0\n`, out)
	assert.NotContains(t, out, "FAILED")
	s.want(`calls/s [1-9]`)
}

func TestServeErrors(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	at := taken.Addr().String()
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"serve -tcp " + at + " -mount none", 1, "choose others with --tcp"},
		{"serve -tcp nonsense -mount none", 1, "nonsense"},
		{"serve -e data=/srv -mount none -tcp 127.0.0.1:0", 1, "PATH beginning with /"},
		{"serve -e /x -mount none", 1, "want PATH=DIR"},
		{"serve -e /x=/no/such/dir -mount none", 1, "no such file"},
		{"serve -e /x=/tmp,readonly", 1, "ends with an option"},
		{"serve -e /x=/tmp,anonuid=root", 1, "anonuid=1..4294967295"},
		{"serve -e /x=/tmp,ro=1", 1, "takes no value"},
		{"serve -e /x=memfs:lots", 1, "want a size such as"},
		{"serve -e /=memfs -e /=memfs -mount none -tcp 127.0.0.1:0", 1, "same path"},
		{"serve -block-size 1000", 1, "a multiple of 4096"},
		{"serve -threads 0", 1, "at least 1"},
		{"serve -d nosuchdevice", 1, "nosuchdevice"},
		{"serve -for soon", 2, "soon"},
		{"probe", 2, "expected"},
		{"probe ftp://x/", 1, `transport "ftp"`},
		{"probe server", 1, "want rdma://HOST"},
		{"probe tcp://:2049/", 1, "no host"},
		{"probe tcp://x:99999/", 1, "port 99999"},
		{"probe tcp://x:1/ -size 2G", 1, "1 to 1G"},
		{"probe tcp://x:1/ -mode magic", 2, "magic"},
		{"probe rdma://x/ -d nosuchdevice", 1, "nosuchdevice"},
		{"probe tcp://127.0.0.1:1/", 1, "refused"},
	} {
		status, _, errOut := runCLI(t, strings.Fields(c.args)...)
		assert.Equal(t, c.status, status, c.args)
		assert.Contains(t, errOut, c.want, c.args)
	}
	for _, args := range [][]string{{"serve", "-h"}, {"probe", "--help"}} {
		status, out, _ := runCLI(t, args...)
		assert.Zero(t, status)
		assert.Contains(t, out, "nfsrdma "+args[0]+" -d rxe0")
	}
}

func TestParseTarget(t *testing.T) {
	for s, want := range map[string]string{
		"tcp://h:1/a/b":       "tcp://h:1/a/b",
		"rdma://h":            "rdma://h:0/",
		"h:/srv/data":         "rdma://h:0/srv/data",
		"tcp://[fe80::1]:7/x": "tcp://[fe80::1]:7/x",
		"rdma://[::1]/x":      "rdma://[::1]:0/x",
		"[::1]:/x":            "rdma://[::1]:0/x",
	} {
		got, err := parseTarget(s)
		require.NoError(t, err, s)
		assert.Equal(t, want, got.String(), s)
	}
}

func TestExportOptions(t *testing.T) {
	var c serveCmd
	for s, want := range map[string]string{
		"/=memfs:1M":                                    "/ (rw,no_root_squash) of a memory",
		"/a=memfs:1M,ro,root_squash":                    "/a (ro,root_squash) of a memory",
		"/a=memfs,all_squash,anonuid=7,anongid=8":       "/a (rw,no_root_squash,all_squash,anonuid=7,anongid=8) of a memory",
		"/a=memfs:64k,ro,rw,root_squash,no_root_squash": "/a (rw,no_root_squash) of a memory",
	} {
		x, closeFS, err := c.export(s)
		require.NoError(t, err, s)
		assert.Equal(t, want, describe(&x), s)
		require.NoError(t, closeFS())
	}
	dir := filepath.Join(t.TempDir(), "a,b")
	require.NoError(t, os.Mkdir(dir, 0o755))
	var x nfsserver.Export
	got, err := exportOptions(dir+",ro", &x)
	require.NoError(t, err)
	assert.Equal(t, dir, got)
	assert.True(t, x.ReadOnly)
}
