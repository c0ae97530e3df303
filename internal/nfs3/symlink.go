package nfs3

import (
	"fmt"

	"example.org/nfsrdma/internal/xdr"
)

// SymlinkArgs are the arguments of SYMLINK (RFC 1813 section 3.3.10).
type SymlinkArgs struct {
	Where DirOp
	Attr  Sattr3
	Path  []byte
}

// AppendSymlinkArgs encodes the arguments of SYMLINK.
func AppendSymlinkArgs(b []byte, v *SymlinkArgs) []byte { return v.append(b) }

// ConsumeSymlinkArgs decodes the arguments of SYMLINK.
func ConsumeSymlinkArgs(b []byte, v *SymlinkArgs) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

// AppendSymlinkArgsHead encodes the arguments of SYMLINK up to the length word of the symlink_data, which is
// dataLen; the bytes and their pad are elsewhere.
func AppendSymlinkArgsHead(b []byte, v *SymlinkArgs, dataLen uint32) []byte {
	return v.appendHead(b, dataLen)
}

// ConsumeSymlinkArgsHead decodes the arguments of SYMLINK up to the length word of the symlink_data, and gives
// that word.
func ConsumeSymlinkArgsHead(b []byte, v *SymlinkArgs) (dataLen uint32, n int, err error) {
	r := xdr.NewReader(b)
	dataLen = v.consumeHead(&r)
	n, err = r.Done()
	return dataLen, n, err
}

func (v *SymlinkArgs) append(b []byte) []byte {
	return xdr.AppendFixedOpaque(v.appendHead(b, uint32(len(v.Path))), v.Path)
}

func (v *SymlinkArgs) appendHead(b []byte, dataLen uint32) []byte {
	b = v.Where.append(b)
	b = v.Attr.append(b)
	return xdr.AppendUint32(b, dataLen)
}

func (v *SymlinkArgs) consume(r *xdr.Reader) {
	n := v.consumeHead(r)
	v.Path = r.FixedOpaque("symlink_data", int(n))
}

func (v *SymlinkArgs) consumeHead(r *xdr.Reader) (dataLen uint32) {
	v.Where.consume(r, "where")
	v.Attr.consume(r)
	v.Path = nil
	return r.Uint32("symlink_data")
}

func (v *SymlinkArgs) String() string {
	return fmt.Sprintf("SYMLINK where=%v symlink_attributes=%v symlink_data=%q", &v.Where, &v.Attr, v.Path)
}

// SymlinkRes is the result of SYMLINK (RFC 1813 section 3.3.10).
type SymlinkRes struct {
	Status Status

	Object  PostOpFH
	ObjAttr PostOpAttr
	DirWcc  WccData // both arms
}

// AppendSymlinkRes encodes the result of SYMLINK.
func AppendSymlinkRes(b []byte, v *SymlinkRes) []byte { return v.append(b) }

// ConsumeSymlinkRes decodes the result of SYMLINK.
func ConsumeSymlinkRes(b []byte, v *SymlinkRes) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *SymlinkRes) append(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(v.Status))
	if v.Status == NFS3_OK {
		b = v.Object.append(b)
		b = v.ObjAttr.append(b)
	}
	b = v.DirWcc.append(b)
	return b
}

func (v *SymlinkRes) consume(r *xdr.Reader) {
	*v = SymlinkRes{Status: consumeStatus(r)}
	if v.Status == NFS3_OK {
		v.Object.consume(r, "obj")
		v.ObjAttr.consume(r, "obj_attributes")
	}
	v.DirWcc.consume(r, "dir_wcc")
}

func (v *SymlinkRes) String() string {
	if v.Status != NFS3_OK {
		return fmt.Sprintf("SYMLINK %v dir_wcc=%v", v.Status, &v.DirWcc)
	}
	return fmt.Sprintf("SYMLINK %v obj=%v obj_attributes=%v dir_wcc=%v", v.Status, &v.Object, &v.ObjAttr, &v.DirWcc)
}
