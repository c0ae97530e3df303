package mount3

import (
	"fmt"

	"example.org/nfsrdma/internal/xdr"
)

// Export is exportnode: a path, and who may mount it.
type Export struct {
	Path   []byte   // at most MaxPathLen bytes
	Groups [][]byte // at most MaxNameLen bytes each; none is everyone
}

// ExportRes is the result of EXPORT, exports.
type ExportRes struct {
	Exports []Export // its storage is reused
}

// AppendExportRes encodes the result of EXPORT.
func AppendExportRes(b []byte, v *ExportRes) []byte {
	return appendList(b, v.Exports, func(b []byte, e *Export) []byte {
		return appendList(xdr.AppendOpaque(b, e.Path), e.Groups, func(b []byte, g *[]byte) []byte {
			return xdr.AppendOpaque(b, *g)
		})
	})
}

// ConsumeExportRes decodes the result of EXPORT.
func ConsumeExportRes(b []byte, v *ExportRes) (n int, err error) {
	r := xdr.NewReader(b)
	v.Exports = consumeList(&r, "exports", v.Exports[:0], func(r *xdr.Reader) Export {
		return Export{
			Path: r.Opaque("ex_dir", MaxPathLen),
			Groups: consumeList(r, "ex_groups", nil, func(r *xdr.Reader) []byte {
				return r.Opaque("gr_name", MaxNameLen)
			}),
		}
	})
	return r.Done()
}

func (e Export) String() string { return fmt.Sprintf("%q%q", e.Path, e.Groups) }

func (v *ExportRes) String() string { return fmt.Sprintf("EXPORT %v", v.Exports) }
