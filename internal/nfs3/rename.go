package nfs3

import (
	"fmt"

	"example.org/nfsrdma/internal/xdr"
)

// RenameArgs are the arguments of RENAME (RFC 1813 section 3.3.14).
type RenameArgs struct {
	From DirOp
	To   DirOp
}

// AppendRenameArgs encodes the arguments of RENAME.
func AppendRenameArgs(b []byte, v *RenameArgs) []byte { return v.append(b) }

// ConsumeRenameArgs decodes the arguments of RENAME.
func ConsumeRenameArgs(b []byte, v *RenameArgs) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *RenameArgs) append(b []byte) []byte {
	b = v.From.append(b)
	b = v.To.append(b)
	return b
}

func (v *RenameArgs) consume(r *xdr.Reader) {
	v.From.consume(r, "from")
	v.To.consume(r, "to")
}

func (v *RenameArgs) String() string {
	return fmt.Sprintf("RENAME from=%v to=%v", &v.From, &v.To)
}

// RenameRes is the result of RENAME (RFC 1813 section 3.3.14).
type RenameRes struct {
	Status Status

	FromDirWcc WccData
	ToDirWcc   WccData
}

// AppendRenameRes encodes the result of RENAME.
func AppendRenameRes(b []byte, v *RenameRes) []byte { return v.append(b) }

// ConsumeRenameRes decodes the result of RENAME.
func ConsumeRenameRes(b []byte, v *RenameRes) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *RenameRes) append(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(v.Status))
	b = v.FromDirWcc.append(b)
	b = v.ToDirWcc.append(b)
	return b
}

func (v *RenameRes) consume(r *xdr.Reader) {
	v.Status = consumeStatus(r)
	v.FromDirWcc.consume(r, "fromdir_wcc")
	v.ToDirWcc.consume(r, "todir_wcc")
}

func (v *RenameRes) String() string {
	return fmt.Sprintf("RENAME %v fromdir_wcc=%v todir_wcc=%v", v.Status, &v.FromDirWcc, &v.ToDirWcc)
}
