package linuxclient

import (
	"bufio"
	"bytes"
	"crypto/md5"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The tests here run first: the device is only used by the command's processes.

// served is a running nfsrdma serve.
type served struct {
	cmd   *exec.Cmd
	mount []string // arguments of mount.nfs, of the command that it prints
	lines chan string
	errs  bytes.Buffer
	ended chan error
}

func startServe(t *testing.T, args ...string) *served {
	t.Helper()
	program := filepath.Join(os.Getenv("NFSRDMA_PROGRAMS"), "nfsrdma")
	require.FileExists(t, program)
	s := &served{cmd: exec.Command(program, append([]string{"serve"}, args...)...), lines: make(chan string, 1000), ended: make(chan error, 1)}
	s.cmd.Stderr = &s.errs
	out, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.cmd.Start())
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	go func() {
		for in := bufio.NewScanner(out); in.Scan(); {
			select {
			case s.lines <- in.Text():
			default: // nobody reads so many
			}
		}
		close(s.lines)
		s.ended <- s.cmd.Wait()
	}()
	line := s.wait(t, `^\s*mount -t nfs -o rdma,\S+ \S+ /mnt$`)
	f := strings.Fields(line) // mount -t nfs -o OPTIONS SOURCE DIR
	s.mount = []string{"mount.nfs", f[5], f[6], "-o", f[4]}
	return s
}

// wait gives the next line that matches.
func (s *served) wait(t *testing.T, pattern string) string {
	t.Helper()
	want := regexp.MustCompile(pattern)
	limit := time.After(30 * time.Second)
	var seen []string
	for {
		select {
		case l, ok := <-s.lines:
			require.True(t, ok, "it ended; it printed %s\n%s", strings.Join(seen, "\n"), &s.errs)
			seen = append(seen, l)
			if want.MatchString(l) {
				return l
			}
		case <-limit:
			require.Fail(t, "no line "+pattern, strings.Join(seen, "\n"))
		}
	}
}

// interrupt ends it as Ctrl-C does.
func (s *served) interrupt(t *testing.T) error {
	t.Helper()
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGINT))
	select {
	case err := <-s.ended:
		return err
	case <-time.After(30 * time.Second):
		require.Fail(t, "SIGINT does not end it")
		return nil
	}
}

func mountServed(t *testing.T, s *served, options string) {
	t.Helper()
	clearTrace(t)
	args := append([]string(nil), s.mount...)
	args[len(args)-1] += options
	sh(t, args...)
	t.Cleanup(func() {
		if t.Failed() {
			c, cancel := command("umount", "-f", "-l", mnt)
			defer cancel()
			_ = c.Run()
		}
	})
	require.Contains(t, mountOptions(t), "proto=rdma")
}

// TestServeCommand runs nfsrdma serve, mounts what it exports by the command that it prints, and interrupts it.
func TestServeCommand(t *testing.T) {
	name, _ := inGuest(t)
	prepareKernel(t)
	before := resources(t, name)
	log := markKernelLog(t)
	root := t.TempDir()
	data := pattern(1, 2<<20+3)
	write(t, filepath.Join(root, "there"), data)

	s := startServe(t, "-d", name, "-e", "/data="+root)
	s.wait(t, `calls/s`)
	mountServed(t, s, "")
	wantFile(t, filepath.Join(mnt, "there"), data)
	write(t, filepath.Join(mnt, "here"), data)
	got, err := os.ReadFile(filepath.Join(root, "here"))
	require.NoError(t, err)
	assert.True(t, bytes.Equal(data, got))
	status := s.wait(t, `connections 1 rdma`)
	assert.Contains(t, status, "errors 0")
	assert.Zero(t, xprtStats(t)["bad_reply_count"])
	sh(t, "umount", mnt)

	assert.NoError(t, s.interrupt(t))
	assert.Empty(t, s.errs.String())
	wantResources(t, name, before)
	assert.Empty(t, log.news(t), "the kernel's log")
}

// TestDeviceRemoved takes the RDMA device away under load, from the kernel's client and from the server, which ends; on a new
// device another one serves the same directory, with the same handles.
func TestDeviceRemoved(t *testing.T) {
	name, _ := inGuest(t)
	require.False(t, warmed, "this process has the device open, which keeps it from going")
	prepareKernel(t)
	log := markKernelLog(t)
	log.allow(`infiniband (rxe|siw)0: (set|added)|rpcrdma: removing device`)
	root, key := t.TempDir(), filepath.Join(t.TempDir(), "key")
	args := []string{"-d", name, "-e", "/data=" + root, "--key", key}
	s := startServe(t, args...)
	mountServed(t, s, ",wsize=65536")
	loads := []*load{startLoad(t, "buffered", false), startLoad(t, "direct", true)}
	for _, l := range loads {
		require.Empty(t, eventually(time.Minute, func() string {
			if st, err := os.Stat(filepath.Join(root, filepath.Base(l.name))); err != nil || st.Size() < 2<<20 {
				return "nothing is written"
			}
			return ""
		}))
	}
	start := time.Now()
	removed := make(chan error, 1)
	del := exec.Command("rdma", "link", "delete", name)
	require.NoError(t, del.Start())
	go func() { removed <- del.Wait() }()
	// Only then: a client of Linux 6.1 that is about to connect when its device goes fails a call with EINVAL, even on a hard mount.
	require.Empty(t, eventually(10*time.Second, func() string {
		if strings.Contains(log.since(t), "rpcrdma: removing device "+name) {
			return ""
		}
		return "the client still has the device"
	}))
	_ = s.interrupt(t) // that it goes is what counts
	select {
	case err := <-removed:
		require.NoError(t, err)
	case <-time.After(30 * time.Second):
		require.Fail(t, "the device does not go")
	}
	t.Logf("removed after %v", time.Since(start).Round(time.Millisecond))
	sh(t, "guest-rdma", "add", strings.TrimSuffix(name, "0"))
	before := resources(t, name)
	s = startServe(t, args...)
	for _, l := range loads {
		l.want(t)
		got, err := os.ReadFile(filepath.Join(root, filepath.Base(l.name)))
		require.NoError(t, err)
		assert.Equal(t, md5.Sum(l.data), md5.Sum(got))
	}
	t.Logf("written after %v", time.Since(start).Round(time.Millisecond))
	x := xprtStats(t)
	assert.Greater(t, x["connect_count"], int64(1))
	assert.Zero(t, x["bad_reply_count"])
	sh(t, "umount", mnt)
	assert.NoError(t, s.interrupt(t))
	wantResources(t, name, before)
	assert.Empty(t, log.news(t), "the kernel's log")
}
