package nfs3

import (
	"fmt"

	"example.org/nfsrdma/internal/xdr"
)

// ReadArgs are the arguments of READ (RFC 1813 section 3.3.6).
type ReadArgs struct {
	File   FH
	Offset uint64 // bytes
	Count  uint32 // bytes wanted
}

// AppendReadArgs encodes the arguments of READ.
func AppendReadArgs(b []byte, v *ReadArgs) []byte { return v.append(b) }

// ConsumeReadArgs decodes the arguments of READ.
func ConsumeReadArgs(b []byte, v *ReadArgs) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *ReadArgs) append(b []byte) []byte {
	b = v.File.append(b)
	b = xdr.AppendUint64(b, v.Offset)
	b = xdr.AppendUint32(b, v.Count)
	return b
}

func (v *ReadArgs) consume(r *xdr.Reader) {
	v.File.consume(r, "file")
	v.Offset = r.Uint64("offset")
	v.Count = r.Uint32("count")
}

func (v *ReadArgs) String() string {
	return fmt.Sprintf("READ file=%v offset=%d count=%d", v.File, v.Offset, v.Count)
}

// ReadRes is the result of READ (RFC 1813 section 3.3.6).
type ReadRes struct {
	Status Status

	Attr  PostOpAttr // both arms
	Count uint32     // bytes read
	EOF   bool       // the read ended at the end of the file
	Data  []byte
}

// AppendReadRes encodes the result of READ.
func AppendReadRes(b []byte, v *ReadRes) []byte { return v.append(b) }

// ConsumeReadRes decodes the result of READ.
func ConsumeReadRes(b []byte, v *ReadRes) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

// AppendReadResHead encodes the result of READ up to the length word of the data, which is
// dataLen; the bytes and their pad are elsewhere. A failure has no such word.
func AppendReadResHead(b []byte, v *ReadRes, dataLen uint32) []byte { return v.appendHead(b, dataLen) }

// ConsumeReadResHead decodes the result of READ up to the length word of the data, and gives
// that word.
func ConsumeReadResHead(b []byte, v *ReadRes) (dataLen uint32, n int, err error) {
	r := xdr.NewReader(b)
	dataLen = v.consumeHead(&r)
	n, err = r.Done()
	return dataLen, n, err
}

func (v *ReadRes) append(b []byte) []byte {
	b = v.appendHead(b, uint32(len(v.Data)))
	if v.Status != NFS3_OK {
		return b
	}
	return xdr.AppendFixedOpaque(b, v.Data)
}

func (v *ReadRes) appendHead(b []byte, dataLen uint32) []byte {
	b = xdr.AppendUint32(b, uint32(v.Status))
	b = v.Attr.append(b)
	if v.Status != NFS3_OK {
		return b
	}
	b = xdr.AppendUint32(b, v.Count)
	b = xdr.AppendBool(b, v.EOF)
	return xdr.AppendUint32(b, dataLen)
}

func (v *ReadRes) consume(r *xdr.Reader) {
	if n := v.consumeHead(r); v.Status == NFS3_OK {
		v.Data = r.FixedOpaque("data", int(n))
	}
}

func (v *ReadRes) consumeHead(r *xdr.Reader) (dataLen uint32) {
	*v = ReadRes{Status: consumeStatus(r)}
	v.Attr.consume(r, "file_attributes")
	if v.Status != NFS3_OK {
		return 0
	}
	v.Count = r.Uint32("count")
	v.EOF = r.Bool("eof")
	return r.Uint32("data")
}

func (v *ReadRes) String() string {
	if v.Status != NFS3_OK {
		return fmt.Sprintf("READ %v file_attributes=%v", v.Status, &v.Attr)
	}
	return fmt.Sprintf("READ %v file_attributes=%v count=%d eof=%t data=%d", v.Status, &v.Attr, v.Count, v.EOF, len(v.Data))
}

// ReadResHeadLen is the length in bytes of what AppendReadResHead writes for a success with
// attributes, so that data can be read into its place before the head is written.
const ReadResHeadLen = 4 + PostOpAttrMax + 4 + 4 + 4
