package memfs

import (
	"testing"

	"go.uber.org/goleak"

	"example.org/nfsrdma/nfsserver/vfs"
	"example.org/nfsrdma/nfsserver/vfs/vfstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	t.Run("default", func(t *testing.T) {
		vfstest.Run(t, func(*testing.T) vfs.FS { return New(Options{}) })
	})
	t.Run("track unstable", func(t *testing.T) {
		vfstest.Run(t, func(*testing.T) vfs.FS { return New(Options{TrackUnstable: true}) })
	})
	// In virtual time the clock may stand between two calls.
	t.Run("clock stands", func(t *testing.T) {
		now := func() vfs.Time { return vfs.Time{Sec: 1} }
		vfstest.Run(t, func(*testing.T) vfs.FS { return New(Options{Now: now}) }, "attr/times")
	})
}
