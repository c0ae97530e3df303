package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCPIOBytes(t *testing.T) {
	var b bytes.Buffer
	c := newCPIOWriter(&b)
	require.NoError(t, c.File("ab", 0o644, []byte("hello")))
	require.NoError(t, c.Close())
	// Fields of the format: inode, mode, uid, gid, links, mtime, size, device (2), rdev (2), name with NUL, check.
	want := "070701" + "00000001" + "000081A4" + "00000000" + "00000000" + "00000001" + "00000000" + "00000005" +
		"00000000" + "00000000" + "00000000" + "00000000" + "00000003" + "00000000" +
		"ab\x00\x00\x00\x00" + "hello\x00\x00\x00" +
		"070701" + "00000000" + "00000000" + "00000000" + "00000000" + "00000001" + "00000000" + "00000000" +
		"00000000" + "00000000" + "00000000" + "00000000" + "0000000B" + "00000000" +
		"TRAILER!!!\x00\x00\x00\x00"
	assert.Equal(t, want, b.String())
	assert.Zero(t, b.Len()%4)
}

// What we write, cpio unpacks: kinds, rights, contents of every length modulo four.
func TestCPIOUnpacks(t *testing.T) {
	if _, err := exec.LookPath("cpio"); err != nil {
		t.Skip("no cpio here")
	}
	var b bytes.Buffer
	c := newCPIOWriter(&b)
	require.NoError(t, c.Dir(".", 0o755))
	require.NoError(t, c.Dir("d", 0o711))
	for n := range 5 {
		data := strings.Repeat("x", n)
		require.NoError(t, c.File("d/f"+data, 0o640, []byte(data)))
		require.NoError(t, c.FileFrom("d/g"+data, 0o755, strings.NewReader(data), int64(n)))
	}
	require.NoError(t, c.Symlink("d/l", "fx"))
	require.NoError(t, c.Close())

	dir := t.TempDir()
	cmd := exec.Command("cpio", "-i", "--quiet", "--no-preserve-owner")
	cmd.Dir, cmd.Stdin = dir, &b
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for n := range 5 {
		data := strings.Repeat("x", n)
		for _, f := range []string{"f", "g"} {
			got, err := os.ReadFile(filepath.Join(dir, "d", f+data))
			require.NoError(t, err)
			assert.Equal(t, data, string(got))
		}
	}
	target, err := os.Readlink(filepath.Join(dir, "d/l"))
	require.NoError(t, err)
	assert.Equal(t, "fx", target)
	st, err := os.Stat(filepath.Join(dir, "d"))
	require.NoError(t, err)
	assert.Equal(t, os.ModeDir|0o711, st.Mode())
	st, err = os.Stat(filepath.Join(dir, "d/gxx"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o755), st.Mode())
}

func TestCPIORefuses(t *testing.T) {
	c := newCPIOWriter(io.Discard)
	assert.ErrorContains(t, c.File("/abs", 0o644, nil), "relative")
	assert.ErrorContains(t, c.File("", 0o644, nil), "relative")
	assert.ErrorContains(t, c.FileFrom("big", 0o644, nil, 1<<32), "at most")
	assert.ErrorIs(t, c.FileFrom("short", 0o644, strings.NewReader("abc"), 4), io.EOF)
}
