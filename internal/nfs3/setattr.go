package nfs3

import (
	"fmt"

	"example.org/nfsrdma/internal/xdr"
)

// SetattrArgs are the arguments of SETATTR (RFC 1813 section 3.3.2).
type SetattrArgs struct {
	Object     FH
	Attr       Sattr3
	Guard      bool // set only if the file's ctime is GuardCtime, else NFS3ERR_NOT_SYNC
	GuardCtime Time
}

// AppendSetattrArgs encodes the arguments of SETATTR.
func AppendSetattrArgs(b []byte, v *SetattrArgs) []byte { return v.append(b) }

// ConsumeSetattrArgs decodes the arguments of SETATTR.
func ConsumeSetattrArgs(b []byte, v *SetattrArgs) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *SetattrArgs) append(b []byte) []byte {
	b = v.Attr.append(v.Object.append(b))
	b = xdr.AppendBool(b, v.Guard)
	if v.Guard {
		b = v.GuardCtime.append(b)
	}
	return b
}

func (v *SetattrArgs) consume(r *xdr.Reader) {
	v.Object.consume(r, "object")
	v.Attr.consume(r)
	v.GuardCtime = Time{}
	if v.Guard = r.Bool("guard"); v.Guard {
		v.GuardCtime.consume(r, "guard")
	}
}

func (v *SetattrArgs) String() string {
	guard := "-"
	if v.Guard {
		guard = v.GuardCtime.String()
	}
	return fmt.Sprintf("SETATTR object=%v new_attributes=%v guard=%s", v.Object, &v.Attr, guard)
}

// SetattrRes is the result of SETATTR (RFC 1813 section 3.3.2).
type SetattrRes struct {
	Status Status

	ObjWcc WccData
}

// AppendSetattrRes encodes the result of SETATTR.
func AppendSetattrRes(b []byte, v *SetattrRes) []byte { return v.append(b) }

// ConsumeSetattrRes decodes the result of SETATTR.
func ConsumeSetattrRes(b []byte, v *SetattrRes) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *SetattrRes) append(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(v.Status))
	b = v.ObjWcc.append(b)
	return b
}

func (v *SetattrRes) consume(r *xdr.Reader) {
	v.Status = consumeStatus(r)
	v.ObjWcc.consume(r, "obj_wcc")
}

func (v *SetattrRes) String() string {
	return fmt.Sprintf("SETATTR %v obj_wcc=%v", v.Status, &v.ObjWcc)
}
