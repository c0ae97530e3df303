package nfs3

import (
	"fmt"

	"example.org/nfsrdma/internal/xdr"
)

// RemoveArgs are the arguments of REMOVE (RFC 1813 section 3.3.12).
type RemoveArgs struct {
	Object DirOp
}

// AppendRemoveArgs encodes the arguments of REMOVE.
func AppendRemoveArgs(b []byte, v *RemoveArgs) []byte { return v.append(b) }

// ConsumeRemoveArgs decodes the arguments of REMOVE.
func ConsumeRemoveArgs(b []byte, v *RemoveArgs) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *RemoveArgs) append(b []byte) []byte {
	b = v.Object.append(b)
	return b
}

func (v *RemoveArgs) consume(r *xdr.Reader) {
	v.Object.consume(r, "object")
}

func (v *RemoveArgs) String() string {
	return fmt.Sprintf("REMOVE object=%v", &v.Object)
}

// RemoveRes is the result of REMOVE (RFC 1813 section 3.3.12).
type RemoveRes struct {
	Status Status

	DirWcc WccData
}

// AppendRemoveRes encodes the result of REMOVE.
func AppendRemoveRes(b []byte, v *RemoveRes) []byte { return v.append(b) }

// ConsumeRemoveRes decodes the result of REMOVE.
func ConsumeRemoveRes(b []byte, v *RemoveRes) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *RemoveRes) append(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(v.Status))
	b = v.DirWcc.append(b)
	return b
}

func (v *RemoveRes) consume(r *xdr.Reader) {
	v.Status = consumeStatus(r)
	v.DirWcc.consume(r, "dir_wcc")
}

func (v *RemoveRes) String() string {
	return fmt.Sprintf("REMOVE %v dir_wcc=%v", v.Status, &v.DirWcc)
}
