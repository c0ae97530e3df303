package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBuildDirIsAllOrNothing(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "kernel")
	err := buildDir(dir, func(tmp string) error {
		require.NoError(t, os.WriteFile(filepath.Join(tmp, "half"), nil, 0o644))
		return errors.New("disk full")
	})
	assert.ErrorContains(t, err, "disk full")
	left, err := os.ReadDir(root)
	require.NoError(t, err)
	assert.Empty(t, left)

	require.NoError(t, buildDir(dir, func(tmp string) error {
		_, err := os.Stat(dir)
		assert.ErrorIs(t, err, os.ErrNotExist)
		return os.WriteFile(filepath.Join(tmp, "whole"), nil, 0o644)
	}))
	assert.FileExists(t, filepath.Join(dir, "whole"))
}

func TestCacheLockIsOnes(t *testing.T) {
	cache := filepath.Join(t.TempDir(), "new")
	unlock, err := lockCache(t.Context(), cache)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = lockCache(ctx, cache)
	assert.ErrorIs(t, err, context.Canceled)
	unlock()
	unlock, err = lockCache(t.Context(), cache)
	require.NoError(t, err)
	unlock()
}

func TestCacheDir(t *testing.T) {
	t.Setenv("NFSRDMA_CACHE", "/some/where")
	d, err := cacheDir()
	require.NoError(t, err)
	assert.Equal(t, "/some/where", d)
	t.Setenv("NFSRDMA_CACHE", "")
	t.Setenv("XDG_CACHE_HOME", "/cache")
	d, err = cacheDir()
	require.NoError(t, err)
	assert.Equal(t, "/cache/nfsrdma", d)
}
