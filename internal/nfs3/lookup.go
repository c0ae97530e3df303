package nfs3

import (
	"fmt"

	"example.org/nfsrdma/internal/xdr"
)

// LookupArgs are the arguments of LOOKUP (RFC 1813 section 3.3.3).
type LookupArgs struct {
	What DirOp
}

// AppendLookupArgs encodes the arguments of LOOKUP.
func AppendLookupArgs(b []byte, v *LookupArgs) []byte { return v.append(b) }

// ConsumeLookupArgs decodes the arguments of LOOKUP.
func ConsumeLookupArgs(b []byte, v *LookupArgs) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *LookupArgs) append(b []byte) []byte {
	b = v.What.append(b)
	return b
}

func (v *LookupArgs) consume(r *xdr.Reader) {
	v.What.consume(r, "what")
}

func (v *LookupArgs) String() string {
	return fmt.Sprintf("LOOKUP what=%v", &v.What)
}

// LookupRes is the result of LOOKUP (RFC 1813 section 3.3.3).
type LookupRes struct {
	Status Status

	Object  FH
	ObjAttr PostOpAttr
	DirAttr PostOpAttr // both arms
}

// AppendLookupRes encodes the result of LOOKUP.
func AppendLookupRes(b []byte, v *LookupRes) []byte { return v.append(b) }

// ConsumeLookupRes decodes the result of LOOKUP.
func ConsumeLookupRes(b []byte, v *LookupRes) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *LookupRes) append(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(v.Status))
	if v.Status == NFS3_OK {
		b = v.Object.append(b)
		b = v.ObjAttr.append(b)
	}
	b = v.DirAttr.append(b)
	return b
}

func (v *LookupRes) consume(r *xdr.Reader) {
	*v = LookupRes{Status: consumeStatus(r)}
	if v.Status == NFS3_OK {
		v.Object.consume(r, "object")
		v.ObjAttr.consume(r, "obj_attributes")
	}
	v.DirAttr.consume(r, "dir_attributes")
}

func (v *LookupRes) String() string {
	if v.Status != NFS3_OK {
		return fmt.Sprintf("LOOKUP %v dir_attributes=%v", v.Status, &v.DirAttr)
	}
	return fmt.Sprintf("LOOKUP %v object=%v obj_attributes=%v dir_attributes=%v", v.Status, v.Object, &v.ObjAttr, &v.DirAttr)
}
