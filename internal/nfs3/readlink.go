package nfs3

import (
	"fmt"

	"example.org/nfsrdma/internal/xdr"
)

// ReadlinkArgs are the arguments of READLINK (RFC 1813 section 3.3.5).
type ReadlinkArgs struct {
	Symlink FH
}

// AppendReadlinkArgs encodes the arguments of READLINK.
func AppendReadlinkArgs(b []byte, v *ReadlinkArgs) []byte { return v.append(b) }

// ConsumeReadlinkArgs decodes the arguments of READLINK.
func ConsumeReadlinkArgs(b []byte, v *ReadlinkArgs) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *ReadlinkArgs) append(b []byte) []byte {
	b = v.Symlink.append(b)
	return b
}

func (v *ReadlinkArgs) consume(r *xdr.Reader) {
	v.Symlink.consume(r, "symlink")
}

func (v *ReadlinkArgs) String() string {
	return fmt.Sprintf("READLINK symlink=%v", v.Symlink)
}

// ReadlinkRes is the result of READLINK (RFC 1813 section 3.3.5).
type ReadlinkRes struct {
	Status Status

	Attr PostOpAttr // both arms
	Path []byte
}

// AppendReadlinkRes encodes the result of READLINK.
func AppendReadlinkRes(b []byte, v *ReadlinkRes) []byte { return v.append(b) }

// ConsumeReadlinkRes decodes the result of READLINK.
func ConsumeReadlinkRes(b []byte, v *ReadlinkRes) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

// AppendReadlinkResHead encodes the result of READLINK up to the length word of the data, which is
// dataLen; the bytes and their pad are elsewhere. A failure has no such word.
func AppendReadlinkResHead(b []byte, v *ReadlinkRes, dataLen uint32) []byte {
	return v.appendHead(b, dataLen)
}

// ConsumeReadlinkResHead decodes the result of READLINK up to the length word of the data, and gives
// that word.
func ConsumeReadlinkResHead(b []byte, v *ReadlinkRes) (dataLen uint32, n int, err error) {
	r := xdr.NewReader(b)
	dataLen = v.consumeHead(&r)
	n, err = r.Done()
	return dataLen, n, err
}

func (v *ReadlinkRes) append(b []byte) []byte {
	b = v.appendHead(b, uint32(len(v.Path)))
	if v.Status != NFS3_OK {
		return b
	}
	return xdr.AppendFixedOpaque(b, v.Path)
}

func (v *ReadlinkRes) appendHead(b []byte, dataLen uint32) []byte {
	b = xdr.AppendUint32(b, uint32(v.Status))
	b = v.Attr.append(b)
	if v.Status != NFS3_OK {
		return b
	}
	return xdr.AppendUint32(b, dataLen)
}

func (v *ReadlinkRes) consume(r *xdr.Reader) {
	if n := v.consumeHead(r); v.Status == NFS3_OK {
		v.Path = r.FixedOpaque("data", int(n))
	}
}

func (v *ReadlinkRes) consumeHead(r *xdr.Reader) (dataLen uint32) {
	*v = ReadlinkRes{Status: consumeStatus(r)}
	v.Attr.consume(r, "symlink_attributes")
	if v.Status != NFS3_OK {
		return 0
	}
	return r.Uint32("data")
}

func (v *ReadlinkRes) String() string {
	if v.Status != NFS3_OK {
		return fmt.Sprintf("READLINK %v symlink_attributes=%v", v.Status, &v.Attr)
	}
	return fmt.Sprintf("READLINK %v symlink_attributes=%v data=%q", v.Status, &v.Attr, v.Path)
}
