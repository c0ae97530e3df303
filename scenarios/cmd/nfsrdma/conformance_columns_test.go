package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestConformanceColumns sets a saved run beside a new one.
func TestConformanceColumns(t *testing.T) {
	status, out, errOut := runCLI(t, "conformance", "C14,C23", "-format", "json")
	require.Zero(t, status, errOut)
	file := filepath.Join(t.TempDir(), "saved.json")
	require.NoError(t, os.WriteFile(file, []byte(out), 0o644))

	status, out, errOut = runCLI(t, "conformance", "C14,C01", "-embedded", "-column", "old="+file)
	require.Zero(t, status, errOut)
	assert.Regexp(t, `ID +SECTION +WHO +embedded +old`, out)
	assert.Regexp(t, `C01 .*requester +proved +-`, out)
	assert.Regexp(t, `C14 .*responder +proved +proved`, out)
	assert.Regexp(t, `C23 .*responder +- +proved`, out)

	linux := filepath.Join("..", "..", "conformance", "testdata", "linux-6.1.rxe.json")
	status, out, errOut = runCLI(t, "conformance", "-column", "Linux="+linux, "-known", "linux-6.1", "-format", "markdown")
	require.Zero(t, status, errOut)
	assert.Contains(t, out, "| C42 |")
	assert.Contains(t, out, "pcl_alloc_read")

	for _, bad := range [][]string{
		{"-embedded", "-column", "old=" + file, "-format", "json"}, {"-column", file}, {"-column", "x=" + file + "x"}, {"-known", "minix"},
	} {
		status, _, errOut = runCLI(t, append([]string{"conformance", "C14"}, bad...)...)
		assert.Equal(t, 1, status, "%v: %s", bad, errOut)
	}
}
