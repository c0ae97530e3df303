package nfs3

import (
	"fmt"

	"example.org/nfsrdma/internal/xdr"
)

// GetattrArgs are the arguments of GETATTR (RFC 1813 section 3.3.1).
type GetattrArgs struct {
	Object FH
}

// AppendGetattrArgs encodes the arguments of GETATTR.
func AppendGetattrArgs(b []byte, v *GetattrArgs) []byte { return v.append(b) }

// ConsumeGetattrArgs decodes the arguments of GETATTR.
func ConsumeGetattrArgs(b []byte, v *GetattrArgs) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *GetattrArgs) append(b []byte) []byte {
	b = v.Object.append(b)
	return b
}

func (v *GetattrArgs) consume(r *xdr.Reader) {
	v.Object.consume(r, "object")
}

func (v *GetattrArgs) String() string {
	return fmt.Sprintf("GETATTR object=%v", v.Object)
}

// GetattrRes is the result of GETATTR (RFC 1813 section 3.3.1).
type GetattrRes struct {
	Status Status

	Attr Fattr3
}

// AppendGetattrRes encodes the result of GETATTR.
func AppendGetattrRes(b []byte, v *GetattrRes) []byte { return v.append(b) }

// ConsumeGetattrRes decodes the result of GETATTR.
func ConsumeGetattrRes(b []byte, v *GetattrRes) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *GetattrRes) append(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(v.Status))
	if v.Status == NFS3_OK {
		b = v.Attr.append(b)
	}
	return b
}

func (v *GetattrRes) consume(r *xdr.Reader) {
	*v = GetattrRes{Status: consumeStatus(r)}
	if v.Status == NFS3_OK {
		v.Attr.consume(r)
	}
}

func (v *GetattrRes) String() string {
	if v.Status != NFS3_OK {
		return "GETATTR " + v.Status.String()
	}
	return fmt.Sprintf("GETATTR %v obj_attributes=%v", v.Status, &v.Attr)
}
