package nfs3

import (
	"fmt"

	"example.org/nfsrdma/internal/xdr"
)

// MknodArgs are the arguments of MKNOD (RFC 1813 section 3.3.11).
type MknodArgs struct {
	Where DirOp
	Type  FType  // other than the four below is for the server to refuse with NFS3ERR_BADTYPE
	Attr  Sattr3 // NF3CHR, NF3BLK, NF3SOCK and NF3FIFO
	Spec  Spec   // NF3CHR and NF3BLK
}

// AppendMknodArgs encodes the arguments of MKNOD.
func AppendMknodArgs(b []byte, v *MknodArgs) []byte { return v.append(b) }

// ConsumeMknodArgs decodes the arguments of MKNOD.
func ConsumeMknodArgs(b []byte, v *MknodArgs) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *MknodArgs) append(b []byte) []byte {
	b = xdr.AppendUint32(v.Where.append(b), uint32(v.Type))
	switch v.Type {
	case NF3CHR, NF3BLK:
		b = v.Spec.append(v.Attr.append(b))
	case NF3SOCK, NF3FIFO:
		b = v.Attr.append(b)
	}
	return b
}

func (v *MknodArgs) consume(r *xdr.Reader) {
	*v = MknodArgs{}
	v.Where.consume(r, "where")
	v.Type.consume(r, "type")
	switch v.Type {
	case NF3CHR, NF3BLK:
		v.Attr.consume(r)
		v.Spec.consume(r, "spec")
	case NF3SOCK, NF3FIFO:
		v.Attr.consume(r)
	}
}

func (v *MknodArgs) String() string {
	s := fmt.Sprintf("MKNOD where=%v %v", &v.Where, v.Type)
	switch v.Type {
	case NF3CHR, NF3BLK:
		return s + fmt.Sprintf(" attributes=%v spec=%v", &v.Attr, v.Spec)
	case NF3SOCK, NF3FIFO:
		return s + fmt.Sprintf(" attributes=%v", &v.Attr)
	}
	return s
}

// MknodRes is the result of MKNOD (RFC 1813 section 3.3.11).
type MknodRes struct {
	Status Status

	Object  PostOpFH
	ObjAttr PostOpAttr
	DirWcc  WccData // both arms
}

// AppendMknodRes encodes the result of MKNOD.
func AppendMknodRes(b []byte, v *MknodRes) []byte { return v.append(b) }

// ConsumeMknodRes decodes the result of MKNOD.
func ConsumeMknodRes(b []byte, v *MknodRes) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *MknodRes) append(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(v.Status))
	if v.Status == NFS3_OK {
		b = v.Object.append(b)
		b = v.ObjAttr.append(b)
	}
	b = v.DirWcc.append(b)
	return b
}

func (v *MknodRes) consume(r *xdr.Reader) {
	*v = MknodRes{Status: consumeStatus(r)}
	if v.Status == NFS3_OK {
		v.Object.consume(r, "obj")
		v.ObjAttr.consume(r, "obj_attributes")
	}
	v.DirWcc.consume(r, "dir_wcc")
}

func (v *MknodRes) String() string {
	if v.Status != NFS3_OK {
		return fmt.Sprintf("MKNOD %v dir_wcc=%v", v.Status, &v.DirWcc)
	}
	return fmt.Sprintf("MKNOD %v obj=%v obj_attributes=%v dir_wcc=%v", v.Status, &v.Object, &v.ObjAttr, &v.DirWcc)
}
