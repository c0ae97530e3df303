//go:build !rdmacore || !cgo

package rdmacore

import (
	"fmt"

	"example.org/nfsrdma/verbs"
)

// Open opens a device of the machine. This build cannot.
func Open(name string) (verbs.Device, error) {
	return nil, fmt.Errorf("rdmacore: device %q: built without the build tag rdmacore: install libibverbs-dev and librdmacm-dev, "+
		"and build with CGO_ENABLED=1 go build -tags rdmacore: %w", name, verbs.ErrUnsupported)
}
