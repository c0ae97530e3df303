package dirfs

import (
	"testing"

	"example.org/nfsrdma/nfsserver/vfs"
	"example.org/nfsrdma/nfsserver/vfs/vfstest"
)

// Link targets are a byte shorter than the suite wants, and what a file system that
// others use too has free is not for a test to say.
var skips = []string{"symlink", "stat", "data/used"}

func TestConformance(t *testing.T) {
	needRoot(t) // for owners and devices
	for name, without := range ways {
		t.Run(name, func(t *testing.T) {
			vfstest.Run(t, func(t *testing.T) vfs.FS {
				return newTestFS(t, t.TempDir(), Options{AsyncMeta: true, Devices: true}, without)
			}, skips...)
		})
	}
	t.Run("tmpfs", func(t *testing.T) {
		vfstest.Run(t, func(t *testing.T) vfs.FS {
			return newTestFS(t, newTmpfs(t, nil, 0), Options{Devices: true}, lacks{})
		}, skips[:1]...)
	})
}
