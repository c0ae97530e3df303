package nfs3

import (
	"fmt"

	"example.org/nfsrdma/internal/xdr"
)

// MkdirArgs are the arguments of MKDIR (RFC 1813 section 3.3.9).
type MkdirArgs struct {
	Where DirOp
	Attr  Sattr3
}

// AppendMkdirArgs encodes the arguments of MKDIR.
func AppendMkdirArgs(b []byte, v *MkdirArgs) []byte { return v.append(b) }

// ConsumeMkdirArgs decodes the arguments of MKDIR.
func ConsumeMkdirArgs(b []byte, v *MkdirArgs) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *MkdirArgs) append(b []byte) []byte {
	b = v.Where.append(b)
	b = v.Attr.append(b)
	return b
}

func (v *MkdirArgs) consume(r *xdr.Reader) {
	v.Where.consume(r, "where")
	v.Attr.consume(r)
}

func (v *MkdirArgs) String() string {
	return fmt.Sprintf("MKDIR where=%v attributes=%v", &v.Where, &v.Attr)
}

// MkdirRes is the result of MKDIR (RFC 1813 section 3.3.9).
type MkdirRes struct {
	Status Status

	Object  PostOpFH
	ObjAttr PostOpAttr
	DirWcc  WccData // both arms
}

// AppendMkdirRes encodes the result of MKDIR.
func AppendMkdirRes(b []byte, v *MkdirRes) []byte { return v.append(b) }

// ConsumeMkdirRes decodes the result of MKDIR.
func ConsumeMkdirRes(b []byte, v *MkdirRes) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *MkdirRes) append(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(v.Status))
	if v.Status == NFS3_OK {
		b = v.Object.append(b)
		b = v.ObjAttr.append(b)
	}
	b = v.DirWcc.append(b)
	return b
}

func (v *MkdirRes) consume(r *xdr.Reader) {
	*v = MkdirRes{Status: consumeStatus(r)}
	if v.Status == NFS3_OK {
		v.Object.consume(r, "obj")
		v.ObjAttr.consume(r, "obj_attributes")
	}
	v.DirWcc.consume(r, "dir_wcc")
}

func (v *MkdirRes) String() string {
	if v.Status != NFS3_OK {
		return fmt.Sprintf("MKDIR %v dir_wcc=%v", v.Status, &v.DirWcc)
	}
	return fmt.Sprintf("MKDIR %v obj=%v obj_attributes=%v dir_wcc=%v", v.Status, &v.Object, &v.ObjAttr, &v.DirWcc)
}
