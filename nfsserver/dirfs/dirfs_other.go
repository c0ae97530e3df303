//go:build !linux

package dirfs

import (
	"errors"
	"fmt"
	"runtime"

	"example.org/nfsrdma/nfsserver/vfs"
)

// FS is a directory in service; there is none on this system.
type FS struct{ vfs.FS }

// New fails with errors.ErrUnsupported.
func New(string, Options) (*FS, error) {
	return nil, fmt.Errorf("dirfs on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// Close does nothing.
func (*FS) Close() error { return nil }
