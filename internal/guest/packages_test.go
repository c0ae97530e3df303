package main

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNotInstalled(t *testing.T) {
	lines := "kmod installed\nfio config-files\nlibelf1 installed\nlibelf1 not-installed\n"
	assert.Equal(t, []string{"fio", "strace"}, notInstalled([]string{"kmod", "fio", "libelf1", "strace"}, lines))
	assert.Empty(t, notInstalled([]string{"kmod"}, lines))
}

func TestQuietTellsWhy(t *testing.T) {
	err := quiet(exec.Command("sh", "-c", "echo reason >&2; exit 3"))
	assert.ErrorContains(t, err, "reason")
	assert.ErrorContains(t, err, "exit status 3")
	assert.NoError(t, quiet(exec.Command("true")))
}

func TestTail(t *testing.T) {
	assert.Equal(t, "b\nc", tail("a\nb\nc\n", 2))
	assert.Equal(t, "a", tail("a", 2))
	assert.Empty(t, tail("", 2))
}
