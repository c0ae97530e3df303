package nfs3

import (
	"fmt"

	"example.org/nfsrdma/internal/xdr"
)

// Bits of the ACCESS arguments and result.
const (
	ACCESS3_READ    = 0x01
	ACCESS3_LOOKUP  = 0x02
	ACCESS3_MODIFY  = 0x04
	ACCESS3_EXTEND  = 0x08
	ACCESS3_DELETE  = 0x10
	ACCESS3_EXECUTE = 0x20
)

// AccessArgs are the arguments of ACCESS (RFC 1813 section 3.3.4).
type AccessArgs struct {
	Object FH
	Access uint32 // ACCESS3 bits to check
}

// AppendAccessArgs encodes the arguments of ACCESS.
func AppendAccessArgs(b []byte, v *AccessArgs) []byte { return v.append(b) }

// ConsumeAccessArgs decodes the arguments of ACCESS.
func ConsumeAccessArgs(b []byte, v *AccessArgs) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *AccessArgs) append(b []byte) []byte {
	b = v.Object.append(b)
	b = xdr.AppendUint32(b, v.Access)
	return b
}

func (v *AccessArgs) consume(r *xdr.Reader) {
	v.Object.consume(r, "object")
	v.Access = r.Uint32("access")
}

func (v *AccessArgs) String() string {
	return fmt.Sprintf("ACCESS object=%v access=%#x", v.Object, v.Access)
}

// AccessRes is the result of ACCESS (RFC 1813 section 3.3.4).
type AccessRes struct {
	Status Status

	ObjAttr PostOpAttr // both arms
	Access  uint32     // ACCESS3 bits granted, of those asked
}

// AppendAccessRes encodes the result of ACCESS.
func AppendAccessRes(b []byte, v *AccessRes) []byte { return v.append(b) }

// ConsumeAccessRes decodes the result of ACCESS.
func ConsumeAccessRes(b []byte, v *AccessRes) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *AccessRes) append(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(v.Status))
	b = v.ObjAttr.append(b)
	if v.Status == NFS3_OK {
		b = xdr.AppendUint32(b, v.Access)
	}
	return b
}

func (v *AccessRes) consume(r *xdr.Reader) {
	*v = AccessRes{Status: consumeStatus(r)}
	v.ObjAttr.consume(r, "obj_attributes")
	if v.Status == NFS3_OK {
		v.Access = r.Uint32("access")
	}
}

func (v *AccessRes) String() string {
	if v.Status != NFS3_OK {
		return fmt.Sprintf("ACCESS %v obj_attributes=%v", v.Status, &v.ObjAttr)
	}
	return fmt.Sprintf("ACCESS %v obj_attributes=%v access=%#x", v.Status, &v.ObjAttr, v.Access)
}
