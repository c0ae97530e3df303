package nfs3

import (
	"fmt"
	"strings"

	"example.org/nfsrdma/internal/xdr"
)

// Entry is entry3, a name in a directory.
type Entry struct {
	FileID uint64
	Name   []byte
	Cookie uint64 // to go on behind this entry
}

func (e *Entry) append(b []byte) []byte {
	b = xdr.AppendUint64(b, e.FileID)
	b = xdr.AppendOpaque(b, e.Name)
	return xdr.AppendUint64(b, e.Cookie)
}

func (e *Entry) consume(r *xdr.Reader) {
	e.FileID = r.Uint64("fileid")
	e.Name = r.Opaque("name", xdr.NoLimit)
	e.Cookie = r.Uint64("cookie")
}

// EntryPlus is entryplus3, a name with attributes and handle if the server gives them.
type EntryPlus struct {
	Entry
	Attr PostOpAttr
	FH   PostOpFH
}

func (e *EntryPlus) append(b []byte) []byte { return e.FH.append(e.Attr.append(e.Entry.append(b))) }

func (e *EntryPlus) consume(r *xdr.Reader) {
	e.Entry.consume(r)
	e.Attr.consume(r, "name_attributes")
	e.FH.consume(r, "name_handle")
}

// EntryLen is the length in bytes that AppendEntry adds for a name of nameLen bytes.
func EntryLen(nameLen int) int { return 4 + 8 + 4 + xdr.Roundup(nameLen) + 8 }

// EntryPlusLen is the length in bytes that AppendEntryPlus adds.
func EntryPlusLen(e *EntryPlus) int {
	n := EntryLen(len(e.Name)) + 8
	if e.Attr.Present {
		n += Fattr3Len
	}
	if e.FH.Present {
		n += 4 + xdr.Roundup(e.FH.FH.Len())
	}
	return n
}

// AppendEntry appends an entry to an EntryList.
func AppendEntry(b []byte, e *Entry) []byte { return e.append(xdr.AppendBool(b, true)) }

// AppendEntryPlus appends an entry to an EntryPlusList.
func AppendEntryPlus(b []byte, e *EntryPlus) []byte { return e.append(xdr.AppendBool(b, true)) }

// EntryList is the encoded entries of a READDIR result, without the word that ends the list:
//
//	{ 1 fileid(64) name cookie(64) } ...
//
// A copy of the slice serves as cursor; the list itself stays.
type EntryList []byte

// Next takes the first entry off l. It gives false at the end of the list.
func (l *EntryList) Next(e *Entry) bool {
	r := xdr.NewReader(*l)
	if !r.Bool("entries") {
		return false
	}
	e.consume(&r)
	*l = (*l)[r.Off():]
	return r.Ok()
}

func (l EntryList) String() string {
	var s strings.Builder
	var e Entry
	s.WriteByte('[')
	for sep := ""; l.Next(&e); sep = " " {
		fmt.Fprintf(&s, "%s%q:%d@%d", sep, e.Name, e.FileID, e.Cookie)
	}
	s.WriteByte(']')
	return s.String()
}

// EntryPlusList is the encoded entries of a READDIRPLUS result, without the word that ends the list:
//
//	{ 1 fileid(64) name cookie(64) name_attributes name_handle } ...
//
// A copy of the slice serves as cursor; the list itself stays.
type EntryPlusList []byte

// Next takes the first entry off l. It gives false at the end of the list.
func (l *EntryPlusList) Next(e *EntryPlus) bool {
	r := xdr.NewReader(*l)
	if !r.Bool("entries") {
		return false
	}
	e.consume(&r)
	*l = (*l)[r.Off():]
	return r.Ok()
}

func (l EntryPlusList) String() string {
	var s strings.Builder
	var e EntryPlus
	s.WriteByte('[')
	for sep := ""; l.Next(&e); sep = " " {
		fmt.Fprintf(&s, "%s%q:%d@%d attr=%v fh=%v", sep, e.Name, e.FileID, e.Cookie, &e.Attr, &e.FH)
	}
	s.WriteByte(']')
	return s.String()
}
