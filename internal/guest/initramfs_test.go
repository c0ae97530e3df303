package main

import (
	"bytes"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The kernel makes no directory by itself: each comes before what is in it.
func TestTreeOrder(t *testing.T) {
	tr := newTree()
	tr.data("/a/b/c", []byte("x"))
	tr.data("/a-b", []byte("y"))
	tr.link("/a/b/l", "c")
	tr.dir("/z")
	seen := map[string]bool{}
	for _, name := range tr.names() {
		assert.True(t, name == "/" || seen[path.Dir(name)], "%s before its directory", name)
		seen[name] = true
	}
	assert.Equal(t, uint32(modeDir), tr.nodes["/a"].kind)
	var b bytes.Buffer
	require.NoError(t, tr.write(newCPIOWriter(&b)))
	assert.Equal(t, 1, strings.Count(b.String(), "a/b/c\x00"))
}

func TestTreeKeyChanges(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o644))
	key := func(contents string) string {
		tr := newTree()
		tr.data("/a", []byte(contents))
		tr.file("/f", file)
		k, err := tr.key()
		require.NoError(t, err)
		return k
	}
	first := key("1")
	assert.Equal(t, first, key("1"))
	assert.NotEqual(t, first, key("2"))
	require.NoError(t, os.WriteFile(file, []byte("xy"), 0o644))
	assert.NotEqual(t, first, key("1"))
	require.NoError(t, os.Remove(file))
	_, err := newTreeOf(file).key()
	assert.Error(t, err)
}

func newTreeOf(file string) *tree {
	tr := newTree()
	tr.file("/f", file)
	return tr
}

// The guest's own programs are there, and are programs of a shell that can read them.
func TestRootfs(t *testing.T) {
	tr := newTree()
	require.NoError(t, addRootfs(tr))
	for _, name := range []string{"/init", "/usr/sbin/guest-rdma", "/usr/sbin/guest-nfsd"} {
		n, ok := tr.nodes[name]
		require.True(t, ok, name)
		assert.Equal(t, os.FileMode(0o755), n.perm)
		cmd := exec.Command("sh", "-n")
		cmd.Stdin = bytes.NewReader(n.data)
		out, err := cmd.CombinedOutput()
		assert.NoError(t, err, "%s: %s", name, out)
	}
}

func TestLibraries(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755))
	got, err := libraries([]string{script})
	require.NoError(t, err)
	assert.Empty(t, got)
	_, err = libraries([]string{script + "-none"})
	assert.Error(t, err)
	assert.Empty(t, findLibrary("libnosuch.so.1"))
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "libnosuch.so.1"), nil, 0o644))
	assert.Equal(t, filepath.Join(dir, "libnosuch.so.1"), findLibrary("libnosuch.so.1", dir))
}
