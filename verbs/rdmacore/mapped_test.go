package rdmacore

import (
	"os"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// Memory that was given back stays readable, comes back for the same size, and is zero.
func TestMapped(t *testing.T) {
	n := 3 * os.Getpagesize()
	b, err := mapMemory(n)
	require.NoError(t, err)
	require.Len(t, b, n)
	b[0], b[n-1] = 1, 2
	unmapMemory(b)
	require.Zero(t, b[0])
	other, err := mapMemory(n + os.Getpagesize())
	require.NoError(t, err)
	require.NotSame(t, unsafe.SliceData(b), unsafe.SliceData(other))
	again, err := mapMemory(n)
	require.NoError(t, err)
	require.Same(t, unsafe.SliceData(b), unsafe.SliceData(again))
	require.Zero(t, again[n-1])
	unmapMemory(again)
	unmapMemory(other)
}

func TestNextTag(t *testing.T) {
	require.EqualValues(t, 0x1234_5601, nextTag(0x1234_5600))
	require.EqualValues(t, 0x1234_5600, nextTag(0x1234_56ff))
}
