package dirfs

import (
	"testing"

	"example.org/nfsrdma/nfsserver/vfs"
	"example.org/nfsrdma/nfsserver/vfs/vfstest"
)

// skips names the tests that do not apply. Link targets are a byte shorter than the suite wants, and
// what a file system that others use too has free is not for a test to say. Where times move by
// ticks, what wants each change to have its own is left out.
func skips(own bool) []string {
	s := []string{"symlink"}
	if !own {
		s = append(s, "stat", "data/used")
	}
	if !own && !mayMknod() {
		s = append(s, "mknod")
	}
	if !own && onBtrfs() {
		s = append(s, "attr/root", "mkdir/nlink", "rename/dirs nlink", "readdir/changes")
	}
	if !fineTimes() {
		s = append(s, "setattr", "setattr/guard", "setattr/size", "attr/times", "create/wcc", "write/wcc", "link", "rename", "rename/wcc")
	}
	return s
}

func TestConformance(t *testing.T) {
	needRoot(t) // for owners and devices
	for name, without := range ways {
		t.Run(name, func(t *testing.T) {
			vfstest.Run(t, func(t *testing.T) vfs.FS {
				fs := newTestFS(t, t.TempDir(), Options{AsyncMeta: true, Devices: true}, without)
				if name != "all" {
					fs.syncFD = func(int) error { return nil } // once is enough to wait for the disk
				}
				return fs
			}, skips(false)...)
		})
	}
	t.Run("tmpfs", func(t *testing.T) {
		vfstest.Run(t, func(t *testing.T) vfs.FS {
			return newTestFS(t, newTmpfs(t, nil, 0), Options{Devices: true}, lacks{})
		}, skips(true)...)
	})
}
