package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A kernel image is code, false starts, the payload, and what follows it.
func TestExtractVmlinux(t *testing.T) {
	if _, err := exec.LookPath("gzip"); err != nil {
		t.Skip("no gzip here")
	}
	elf := append([]byte("\x7fELF"), bytes.Repeat([]byte("kernel"), 1000)...)
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, _ = w.Write(elf)
	require.NoError(t, w.Close())
	dir := t.TempDir()
	image, vmlinux := filepath.Join(dir, "vmlinuz"), filepath.Join(dir, "vmlinux")
	bz := append([]byte("MZ code \x1f\x8b\x08 no payload "), z.Bytes()...)
	require.NoError(t, os.WriteFile(image, append(bz, "tail"...), 0o644))
	require.NoError(t, extractVmlinux(t.Context(), image, vmlinux))
	got, err := os.ReadFile(vmlinux)
	require.NoError(t, err)
	assert.Equal(t, elf, got)

	require.NoError(t, os.WriteFile(image, []byte("MZ nothing in it"), 0o644))
	assert.ErrorContains(t, extractVmlinux(t.Context(), image, vmlinux), "no ELF payload")
}

func TestReleasePattern(t *testing.T) {
	m := releasePattern.FindStringSubmatch("linux-image-amd64\n  Depends: linux-image-6.1.0-48-amd64\n")
	require.NotNil(t, m)
	assert.Equal(t, "6.1.0-48-amd64", m[1])
	assert.Nil(t, releasePattern.FindStringSubmatch("  Depends: linux-image-6.1.0-48-cloud-amd64\n"))
	assert.Nil(t, releasePattern.FindStringSubmatch("  Depends: linux-image-6.12.9-1-amd64\n"))
}

func TestCachedKernelIsOfThisRecipe(t *testing.T) {
	cache := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(cache, "kernel-6.1.0-1-amd64-other"), 0o755))
	assert.Empty(t, cachedKernel(cache))
	ours := filepath.Join(cache, "kernel-6.1.0-1-amd64-"+kernelKey())
	require.NoError(t, os.Mkdir(ours, 0o755))
	assert.Equal(t, ours, cachedKernel(cache))
}
