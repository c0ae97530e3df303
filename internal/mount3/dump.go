package mount3

import (
	"fmt"

	"example.org/nfsrdma/internal/xdr"
)

// Mount is mountbody: a client and what it has mounted.
type Mount struct {
	Hostname []byte // at most MaxNameLen bytes
	Path     []byte // at most MaxPathLen bytes
}

// DumpRes is the result of DUMP, mountlist.
type DumpRes struct {
	Mounts []Mount // its storage is reused
}

// AppendDumpRes encodes the result of DUMP.
func AppendDumpRes(b []byte, v *DumpRes) []byte {
	return appendList(b, v.Mounts, func(b []byte, m *Mount) []byte {
		return xdr.AppendOpaque(xdr.AppendOpaque(b, m.Hostname), m.Path)
	})
}

// ConsumeDumpRes decodes the result of DUMP.
func ConsumeDumpRes(b []byte, v *DumpRes) (n int, err error) {
	r := xdr.NewReader(b)
	v.Mounts = consumeList(&r, "mountlist", v.Mounts[:0], func(r *xdr.Reader) Mount {
		return Mount{
			Hostname: r.Opaque("ml_hostname", MaxNameLen),
			Path:     r.Opaque("ml_directory", MaxPathLen),
		}
	})
	return r.Done()
}

func (m Mount) String() string { return fmt.Sprintf("%q:%q", m.Hostname, m.Path) }

func (v *DumpRes) String() string { return fmt.Sprintf("DUMP %v", v.Mounts) }
