package nfs3

import (
	"fmt"

	"example.org/nfsrdma/internal/xdr"
)

// RmdirArgs are the arguments of RMDIR (RFC 1813 section 3.3.13).
type RmdirArgs struct {
	Object DirOp
}

// AppendRmdirArgs encodes the arguments of RMDIR.
func AppendRmdirArgs(b []byte, v *RmdirArgs) []byte { return v.append(b) }

// ConsumeRmdirArgs decodes the arguments of RMDIR.
func ConsumeRmdirArgs(b []byte, v *RmdirArgs) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *RmdirArgs) append(b []byte) []byte {
	b = v.Object.append(b)
	return b
}

func (v *RmdirArgs) consume(r *xdr.Reader) {
	v.Object.consume(r, "object")
}

func (v *RmdirArgs) String() string {
	return fmt.Sprintf("RMDIR object=%v", &v.Object)
}

// RmdirRes is the result of RMDIR (RFC 1813 section 3.3.13).
type RmdirRes struct {
	Status Status

	DirWcc WccData
}

// AppendRmdirRes encodes the result of RMDIR.
func AppendRmdirRes(b []byte, v *RmdirRes) []byte { return v.append(b) }

// ConsumeRmdirRes decodes the result of RMDIR.
func ConsumeRmdirRes(b []byte, v *RmdirRes) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *RmdirRes) append(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(v.Status))
	b = v.DirWcc.append(b)
	return b
}

func (v *RmdirRes) consume(r *xdr.Reader) {
	v.Status = consumeStatus(r)
	v.DirWcc.consume(r, "dir_wcc")
}

func (v *RmdirRes) String() string {
	return fmt.Sprintf("RMDIR %v dir_wcc=%v", v.Status, &v.DirWcc)
}
