package nfs3

import (
	"fmt"

	"example.org/nfsrdma/internal/xdr"
)

// ReaddirplusArgs are the arguments of READDIRPLUS (RFC 1813 section 3.3.17).
type ReaddirplusArgs struct {
	Dir      FH
	Cookie   uint64 // 0 for the start, or the cookie of the last entry that was seen
	Verf     Verf   // zero for the start, or that of the last result
	DirCount uint32 // largest size of entries without attributes and handles, bytes
	MaxCount uint32 // largest result without its status word, bytes
}

// AppendReaddirplusArgs encodes the arguments of READDIRPLUS.
func AppendReaddirplusArgs(b []byte, v *ReaddirplusArgs) []byte { return v.append(b) }

// ConsumeReaddirplusArgs decodes the arguments of READDIRPLUS.
func ConsumeReaddirplusArgs(b []byte, v *ReaddirplusArgs) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *ReaddirplusArgs) append(b []byte) []byte {
	b = v.Dir.append(b)
	b = xdr.AppendUint64(b, v.Cookie)
	b = v.Verf.append(b)
	b = xdr.AppendUint32(b, v.DirCount)
	return xdr.AppendUint32(b, v.MaxCount)
}

func (v *ReaddirplusArgs) consume(r *xdr.Reader) {
	v.Dir.consume(r, "dir")
	v.Cookie = r.Uint64("cookie")
	v.Verf.consume(r, "cookieverf")
	v.DirCount = r.Uint32("dircount")
	v.MaxCount = r.Uint32("maxcount")
}

func (v *ReaddirplusArgs) String() string {
	return fmt.Sprintf("READDIRPLUS dir=%v cookie=%d cookieverf=%v dircount=%d maxcount=%d",
		v.Dir, v.Cookie, v.Verf, v.DirCount, v.MaxCount)
}

// ReaddirplusRes is the result of READDIRPLUS (RFC 1813 section 3.3.17). A server that fills a buffer up to
// a budget uses [DirPlusWriter] instead.
type ReaddirplusRes struct {
	Status Status

	DirAttr PostOpAttr // both arms
	Verf    Verf
	Entries EntryPlusList
	EOF     bool // no entry is left behind these
}

// AppendReaddirplusRes encodes the result of READDIRPLUS.
func AppendReaddirplusRes(b []byte, v *ReaddirplusRes) []byte { return v.append(b) }

// ConsumeReaddirplusRes decodes the result of READDIRPLUS. All entries are checked, and stay where they are.
func ConsumeReaddirplusRes(b []byte, v *ReaddirplusRes) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *ReaddirplusRes) append(b []byte) []byte {
	b = v.appendHead(b)
	if v.Status != NFS3_OK {
		return b
	}
	b = xdr.AppendUint32(append(b, v.Entries...), 0)
	return xdr.AppendBool(b, v.EOF)
}

// appendHead encodes what stands before the entries.
func (v *ReaddirplusRes) appendHead(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(v.Status))
	b = v.DirAttr.append(b)
	if v.Status == NFS3_OK {
		b = v.Verf.append(b)
	}
	return b
}

func (v *ReaddirplusRes) consume(r *xdr.Reader) {
	*v = ReaddirplusRes{Status: consumeStatus(r)}
	v.DirAttr.consume(r, "dir_attributes")
	if v.Status != NFS3_OK {
		return
	}
	v.Verf.consume(r, "cookieverf")
	start, end := r.Off(), r.Off()
	for r.Bool("entries") {
		var e EntryPlus
		e.consume(r)
		end = r.Off()
	}
	if r.Ok() {
		v.Entries = EntryPlusList(r.Span(start, end))
	}
	v.EOF = r.Bool("eof")
}

func (v *ReaddirplusRes) String() string {
	if v.Status != NFS3_OK {
		return fmt.Sprintf("READDIRPLUS %v dir_attributes=%v", v.Status, &v.DirAttr)
	}
	return fmt.Sprintf("READDIRPLUS %v dir_attributes=%v cookieverf=%v entries=%v eof=%t",
		v.Status, &v.DirAttr, v.Verf, v.Entries, v.EOF)
}
