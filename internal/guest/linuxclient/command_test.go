package linuxclient

import (
	"bufio"
	"bytes"
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

// TestServeCommand runs nfsrdma serve, mounts what it exports by the command that it prints, and interrupts it.
func TestServeCommand(t *testing.T) {
	name, _ := inGuest(t)
	program := filepath.Join(os.Getenv("NFSRDMA_PROGRAMS"), "nfsrdma")
	require.FileExists(t, program)
	warmUp(t)
	before := resources(t, name)
	log := markKernelLog(t)
	root := t.TempDir()
	data := pattern(1, 2<<20+3)
	write(t, filepath.Join(root, "there"), data)

	cmd := exec.Command(program, "serve", "-d", name, "-e", "/data="+root)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	lines := make(chan string, 1000)
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			select {
			case lines <- s.Text():
			default: // nobody reads so many
			}
		}
		close(lines)
		ended <- cmd.Wait()
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill() })

	mount := waitLine(t, lines, regexp.MustCompile(`^\s*mount -t nfs -o rdma,\S+ \S+ /mnt$`))
	waitLine(t, lines, regexp.MustCompile(`calls/s`))
	sh(t, append([]string{"mount.nfs"}, mountArgs(mount)...)...)
	t.Cleanup(func() {
		if t.Failed() {
			c, cancel := command("umount", "-f", "-l", mnt)
			defer cancel()
			_ = c.Run()
		}
	})
	assert.Contains(t, mountOptions(t), "proto=rdma")
	wantFile(t, filepath.Join(mnt, "there"), data)
	write(t, filepath.Join(mnt, "here"), data)
	got, err := os.ReadFile(filepath.Join(root, "here"))
	require.NoError(t, err)
	assert.True(t, bytes.Equal(data, got))
	status := waitLine(t, lines, regexp.MustCompile(`connections 1 rdma`))
	assert.Contains(t, status, "errors 0")
	assert.Zero(t, xprtStats(t)["bad_reply_count"])
	sh(t, "umount", mnt)

	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	select {
	case err := <-ended:
		assert.NoError(t, err, errs.String())
	case <-time.After(30 * time.Second):
		require.Fail(t, "SIGINT does not end it")
	}
	assert.Empty(t, errs.String())
	assert.Empty(t, eventually(10*time.Second, func() string {
		if now := resources(t, name); now != before {
			return now
		}
		return ""
	}), "RDMA resources not given back")
	assert.Empty(t, log.news(t), "the kernel's log")
}

func waitLine(t *testing.T, lines <-chan string, want *regexp.Regexp) string {
	t.Helper()
	limit := time.After(30 * time.Second)
	var seen []string
	for {
		select {
		case l, ok := <-lines:
			require.True(t, ok, "it ended; it printed %s", strings.Join(seen, "\n"))
			seen = append(seen, l)
			if want.MatchString(l) {
				return l
			}
		case <-limit:
			require.Fail(t, "no line "+want.String(), strings.Join(seen, "\n"))
		}
	}
}

// mountArgs makes arguments of mount.nfs of a printed mount command.
func mountArgs(line string) []string {
	f := strings.Fields(line) // mount -t nfs -o OPTIONS SOURCE DIR
	return []string{f[5], f[6], "-o", f[4]}
}
