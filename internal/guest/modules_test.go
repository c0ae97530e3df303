package main

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const depText = `kernel/a/ib-core.ko:
kernel/a/rdma_rxe.ko.xz: kernel/a/ib_uverbs.ko kernel/a/ib-core.ko
kernel/a/ib_uverbs.ko: kernel/a/ib-core.ko
kernel/b/lonely.ko:
kernel/b/broken.ko: kernel/b/gone.ko
`

func TestModuleClosure(t *testing.T) {
	d, err := parseModuleDeps(depText)
	require.NoError(t, err)
	got, err := d.closure([]string{"rdma-rxe", "ib_core", "crc32c_generic"}, "kernel/crypto/crc32c_generic.ko\n")
	require.NoError(t, err)
	assert.Equal(t, []string{"kernel/a/ib-core.ko", "kernel/a/ib_uverbs.ko", "kernel/a/rdma_rxe.ko.xz"}, got)
	assert.False(t, slices.Contains(got, "kernel/b/lonely.ko"))

	_, err = d.closure([]string{"siw"}, "")
	assert.ErrorContains(t, err, "no module siw")
	_, err = d.closure([]string{"broken"}, "")
	assert.ErrorContains(t, err, "kernel/b/gone.ko")
	_, err = parseModuleDeps("kernel/a.ko\n")
	assert.ErrorContains(t, err, "modules.dep:1")
}

func TestModuleCycleEnds(t *testing.T) {
	d, err := parseModuleDeps("a.ko: b.ko\nb.ko: a.ko\n")
	require.NoError(t, err)
	got, err := d.closure([]string{"a"}, "")
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"a.ko", "b.ko"}, got)
}
