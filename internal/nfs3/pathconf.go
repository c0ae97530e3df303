package nfs3

import (
	"fmt"

	"example.org/nfsrdma/internal/xdr"
)

// PathconfArgs are the arguments of PATHCONF (RFC 1813 section 3.3.20).
type PathconfArgs struct {
	Object FH
}

// AppendPathconfArgs encodes the arguments of PATHCONF.
func AppendPathconfArgs(b []byte, v *PathconfArgs) []byte { return v.append(b) }

// ConsumePathconfArgs decodes the arguments of PATHCONF.
func ConsumePathconfArgs(b []byte, v *PathconfArgs) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *PathconfArgs) append(b []byte) []byte {
	b = v.Object.append(b)
	return b
}

func (v *PathconfArgs) consume(r *xdr.Reader) {
	v.Object.consume(r, "object")
}

func (v *PathconfArgs) String() string {
	return fmt.Sprintf("PATHCONF object=%v", v.Object)
}

// PathconfRes is the result of PATHCONF (RFC 1813 section 3.3.20).
type PathconfRes struct {
	Status Status

	ObjAttr         PostOpAttr // both arms
	LinkMax         uint32
	NameMax         uint32 // bytes
	NoTrunc         bool
	ChownRestricted bool
	CaseInsensitive bool
	CasePreserving  bool
}

// AppendPathconfRes encodes the result of PATHCONF.
func AppendPathconfRes(b []byte, v *PathconfRes) []byte { return v.append(b) }

// ConsumePathconfRes decodes the result of PATHCONF.
func ConsumePathconfRes(b []byte, v *PathconfRes) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *PathconfRes) append(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(v.Status))
	b = v.ObjAttr.append(b)
	if v.Status == NFS3_OK {
		b = xdr.AppendUint32(b, v.LinkMax)
		b = xdr.AppendUint32(b, v.NameMax)
		b = xdr.AppendBool(b, v.NoTrunc)
		b = xdr.AppendBool(b, v.ChownRestricted)
		b = xdr.AppendBool(b, v.CaseInsensitive)
		b = xdr.AppendBool(b, v.CasePreserving)
	}
	return b
}

func (v *PathconfRes) consume(r *xdr.Reader) {
	*v = PathconfRes{Status: consumeStatus(r)}
	v.ObjAttr.consume(r, "obj_attributes")
	if v.Status == NFS3_OK {
		v.LinkMax = r.Uint32("linkmax")
		v.NameMax = r.Uint32("name_max")
		v.NoTrunc = r.Bool("no_trunc")
		v.ChownRestricted = r.Bool("chown_restricted")
		v.CaseInsensitive = r.Bool("case_insensitive")
		v.CasePreserving = r.Bool("case_preserving")
	}
}

func (v *PathconfRes) String() string {
	if v.Status != NFS3_OK {
		return fmt.Sprintf("PATHCONF %v obj_attributes=%v", v.Status, &v.ObjAttr)
	}
	return fmt.Sprintf("PATHCONF %v obj_attributes=%v linkmax=%d name_max=%d no_trunc=%t chown_restricted=%t case_insensitive=%t case_preserving=%t",
		v.Status, &v.ObjAttr, v.LinkMax, v.NameMax, v.NoTrunc, v.ChownRestricted, v.CaseInsensitive,
		v.CasePreserving)
}
