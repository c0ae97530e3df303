package nfs3

import (
	"fmt"

	"example.org/nfsrdma/internal/xdr"
)

// LinkArgs are the arguments of LINK (RFC 1813 section 3.3.15).
type LinkArgs struct {
	File FH
	Link DirOp
}

// AppendLinkArgs encodes the arguments of LINK.
func AppendLinkArgs(b []byte, v *LinkArgs) []byte { return v.append(b) }

// ConsumeLinkArgs decodes the arguments of LINK.
func ConsumeLinkArgs(b []byte, v *LinkArgs) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *LinkArgs) append(b []byte) []byte {
	b = v.File.append(b)
	b = v.Link.append(b)
	return b
}

func (v *LinkArgs) consume(r *xdr.Reader) {
	v.File.consume(r, "file")
	v.Link.consume(r, "link")
}

func (v *LinkArgs) String() string {
	return fmt.Sprintf("LINK file=%v link=%v", v.File, &v.Link)
}

// LinkRes is the result of LINK (RFC 1813 section 3.3.15).
type LinkRes struct {
	Status Status

	Attr       PostOpAttr
	LinkDirWcc WccData
}

// AppendLinkRes encodes the result of LINK.
func AppendLinkRes(b []byte, v *LinkRes) []byte { return v.append(b) }

// ConsumeLinkRes decodes the result of LINK.
func ConsumeLinkRes(b []byte, v *LinkRes) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *LinkRes) append(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(v.Status))
	b = v.Attr.append(b)
	b = v.LinkDirWcc.append(b)
	return b
}

func (v *LinkRes) consume(r *xdr.Reader) {
	v.Status = consumeStatus(r)
	v.Attr.consume(r, "file_attributes")
	v.LinkDirWcc.consume(r, "linkdir_wcc")
}

func (v *LinkRes) String() string {
	return fmt.Sprintf("LINK %v file_attributes=%v linkdir_wcc=%v", v.Status, &v.Attr, &v.LinkDirWcc)
}
