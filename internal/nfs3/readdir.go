package nfs3

import (
	"fmt"

	"example.org/nfsrdma/internal/xdr"
)

// ReaddirArgs are the arguments of READDIR (RFC 1813 section 3.3.16).
type ReaddirArgs struct {
	Dir    FH
	Cookie uint64 // 0 for the start, or the cookie of the last entry that was seen
	Verf   Verf   // zero for the start, or that of the last result
	Count  uint32 // largest result without its status word, bytes
}

// AppendReaddirArgs encodes the arguments of READDIR.
func AppendReaddirArgs(b []byte, v *ReaddirArgs) []byte { return v.append(b) }

// ConsumeReaddirArgs decodes the arguments of READDIR.
func ConsumeReaddirArgs(b []byte, v *ReaddirArgs) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *ReaddirArgs) append(b []byte) []byte {
	b = v.Dir.append(b)
	b = xdr.AppendUint64(b, v.Cookie)
	b = v.Verf.append(b)
	return xdr.AppendUint32(b, v.Count)
}

func (v *ReaddirArgs) consume(r *xdr.Reader) {
	v.Dir.consume(r, "dir")
	v.Cookie = r.Uint64("cookie")
	v.Verf.consume(r, "cookieverf")
	v.Count = r.Uint32("count")
}

func (v *ReaddirArgs) String() string {
	return fmt.Sprintf("READDIR dir=%v cookie=%d cookieverf=%v count=%d", v.Dir, v.Cookie, v.Verf, v.Count)
}

// ReaddirRes is the result of READDIR (RFC 1813 section 3.3.16). A server that fills a buffer up to
// a budget uses [DirWriter] instead.
type ReaddirRes struct {
	Status Status

	DirAttr PostOpAttr // both arms
	Verf    Verf
	Entries EntryList
	EOF     bool // no entry is left behind these
}

// AppendReaddirRes encodes the result of READDIR.
func AppendReaddirRes(b []byte, v *ReaddirRes) []byte { return v.append(b) }

// ConsumeReaddirRes decodes the result of READDIR. All entries are checked, and stay where they are.
func ConsumeReaddirRes(b []byte, v *ReaddirRes) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *ReaddirRes) append(b []byte) []byte {
	b = v.appendHead(b)
	if v.Status != NFS3_OK {
		return b
	}
	b = xdr.AppendUint32(append(b, v.Entries...), 0)
	return xdr.AppendBool(b, v.EOF)
}

// appendHead encodes what stands before the entries.
func (v *ReaddirRes) appendHead(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(v.Status))
	b = v.DirAttr.append(b)
	if v.Status == NFS3_OK {
		b = v.Verf.append(b)
	}
	return b
}

func (v *ReaddirRes) consume(r *xdr.Reader) {
	*v = ReaddirRes{Status: consumeStatus(r)}
	v.DirAttr.consume(r, "dir_attributes")
	if v.Status != NFS3_OK {
		return
	}
	v.Verf.consume(r, "cookieverf")
	start, end := r.Off(), r.Off()
	for r.Bool("entries") {
		var e Entry
		e.consume(r)
		end = r.Off()
	}
	if r.Ok() {
		v.Entries = EntryList(r.Span(start, end))
	}
	v.EOF = r.Bool("eof")
}

func (v *ReaddirRes) String() string {
	if v.Status != NFS3_OK {
		return fmt.Sprintf("READDIR %v dir_attributes=%v", v.Status, &v.DirAttr)
	}
	return fmt.Sprintf("READDIR %v dir_attributes=%v cookieverf=%v entries=%v eof=%t",
		v.Status, &v.DirAttr, v.Verf, v.Entries, v.EOF)
}
