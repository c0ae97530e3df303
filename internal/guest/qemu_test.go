package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A step's words reach its program as they are.
func TestStepScript(t *testing.T) {
	dir := t.TempDir()
	argv := []string{"printf", "%s|", "a b", "it's", "$HOME `x`", "", "new\nline"}
	s := step{name: "1", dir: dir, env: []string{"V=x 'y' $z=1"}, argv: []string{"sh", "-c", `pwd; echo "$V"; exec "$@"`, "sh"}}
	s.argv = append(s.argv, argv...)
	out, err := exec.Command("sh", "-c", s.script()).CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Equal(t, dir+"\nx 'y' $z=1\na b|it's|$HOME `x`||new\nline|", string(out))
}

func TestPrepare(t *testing.T) {
	g := &guest{cache: t.TempDir(), dir: "/kernel", vmlinux: "/kernel/vmlinux", initramfs: "/kernel/i.cpio"}
	m, err := newMachine(g, "siw")
	require.NoError(t, err)
	defer m.remove()
	m.mounts, m.goroot = []string{"/a,b", "/go"}, "/go"
	m.steps = []step{{name: "two", argv: []string{"true"}}, {name: "one", argv: []string{"true"}}}
	args, err := m.prepare("steps", "TOK")
	require.NoError(t, err)
	line := strings.Join(args, " ")
	assert.Contains(t, line, "path=/a,,b,")
	assert.Contains(t, line, "-m 3072 ")
	assert.NotContains(t, line, "netdev", "the guest has no network")
	assert.Equal(t, 4, strings.Count(line, "mount_tag="))
	assert.Equal(t, 3, strings.Count(line, "readonly=on"))

	mounts, err := os.ReadFile(filepath.Join(m.dir, "mounts"))
	require.NoError(t, err)
	assert.Equal(t, "dir0 /opt/shared\ndir1 /a,b\ndir2 /go\n", string(mounts))
	env, err := os.ReadFile(filepath.Join(m.dir, "boot.env"))
	require.NoError(t, err)
	assert.Contains(t, string(env), "GUEST_DEV=siw\nGUEST_TOKEN=TOK\n")
	assert.FileExists(t, filepath.Join(m.dir, "steps", "one"))
	order, err := os.ReadFile(filepath.Join(m.dir, "order"))
	require.NoError(t, err)
	assert.Equal(t, "two\none\n", string(order))
}

func TestKernelTrouble(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dmesg")
	require.NoError(t, os.WriteFile(file, []byte("[1] rdma_rxe: loaded\n[2] WARNING: CPU: 0 PID: 1 at x.c:1\n[3]  ? a\n[4] BUG: unable\n"), 0o644))
	assert.Equal(t, "[2] WARNING: CPU: 0 PID: 1 at x.c:1\n[4] BUG: unable", kernelTrouble(file))
	assert.Empty(t, kernelTrouble(file+"-none"))
}

func TestLastWords(t *testing.T) {
	m := &machine{dir: t.TempDir()}
	assert.Empty(t, m.lastWords(3))
	require.NoError(t, os.WriteFile(m.console(), []byte("a\r\nb\r\nc\r\nd\r\n"), 0o644))
	assert.Equal(t, "c\nd", m.lastWords(2))
	require.NoError(t, os.WriteFile(m.console(), []byte("a\r\n[2] BUG: one\r\ntrace\r\nKernel panic\r\n"), 0o644))
	assert.Equal(t, "[2] BUG: one\ntrace", m.lastWords(2))
}

func TestKeptLogsAreBounded(t *testing.T) {
	g := &guest{cache: t.TempDir()}
	for i := range keptLogs + 5 {
		require.NoError(t, os.MkdirAll(filepath.Join(g.cache, "logs", fmt.Sprintf("2000-%02d", i)), 0o755))
	}
	m := &machine{g: g, dir: t.TempDir(), dev: "rxe"}
	require.NoError(t, os.WriteFile(m.console(), []byte("x"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(m.dir, "dmesg-a"), []byte("y"), 0o644))
	m.keepLogs()
	left, err := os.ReadDir(filepath.Join(g.cache, "logs"))
	require.NoError(t, err)
	require.Len(t, left, keptLogs)
	assert.Equal(t, "2000-06", left[0].Name())
	last := filepath.Join(g.cache, "logs", left[len(left)-1].Name())
	assert.FileExists(t, filepath.Join(last, "console.log"))
	assert.FileExists(t, filepath.Join(last, "dmesg-a"))
}

func TestCheckDevice(t *testing.T) {
	d, err := checkDevice("")
	require.NoError(t, err)
	assert.Equal(t, "rxe", d)
	_, err = checkDevice("mlx5_0")
	assert.ErrorContains(t, err, "rxe, siw, none")
}
