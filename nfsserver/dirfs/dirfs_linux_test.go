package dirfs

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/nfsserver/vfs"
	"example.org/nfsrdma/nfsserver/vfs/vfstest"
)

func openFDs(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(list)
}

func newTestFS(t *testing.T, root string, o Options, without lacks) *FS {
	t.Helper()
	fs, err := newFS(root, o, without)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, fs.Close()) })
	return fs
}

func TestConformance(t *testing.T) {
	for name, without := range map[string]lacks{
		"all":          {},
		"no openat2":   {openat2: true},
		"no by handle": {byHandle: true},
		"no handles":   {handles: true, byHandle: true},
		"weak":         {handles: true, byHandle: true, birth: true},
	} {
		t.Run(name, func(t *testing.T) {
			vfstest.Run(t, func(t *testing.T) vfs.FS {
				return newTestFS(t, t.TempDir(), Options{AsyncMeta: true, Devices: true}, without)
			}, "stat", "data/used", "symlink")
		})
	}
}
