package nfs3

import (
	"fmt"
	"strings"

	"example.org/nfsrdma/internal/xdr"
)

// Fattr3Len is the encoded length of a Fattr3 in bytes.
const Fattr3Len = 84

// Fattr3 is fattr3, the attributes of a file (RFC 1813 section 2.6).
type Fattr3 struct {
	Type   FType
	Mode   uint32 // permission bits
	Nlink  uint32
	UID    uint32
	GID    uint32
	Size   uint64 // bytes
	Used   uint64 // bytes of storage
	Rdev   Spec   // of NF3CHR and NF3BLK
	FSID   uint64
	FileID uint64
	Atime  Time
	Mtime  Time
	Ctime  Time
}

func (f *Fattr3) append(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(f.Type))
	b = xdr.AppendUint32(b, f.Mode)
	b = xdr.AppendUint32(b, f.Nlink)
	b = xdr.AppendUint32(b, f.UID)
	b = xdr.AppendUint32(b, f.GID)
	b = xdr.AppendUint64(b, f.Size)
	b = xdr.AppendUint64(b, f.Used)
	b = f.Rdev.append(b)
	b = xdr.AppendUint64(b, f.FSID)
	b = xdr.AppendUint64(b, f.FileID)
	b = f.Atime.append(b)
	b = f.Mtime.append(b)
	return f.Ctime.append(b)
}

func (f *Fattr3) consume(r *xdr.Reader) {
	f.Type.consume(r, "type")
	f.Mode = r.Uint32("mode")
	f.Nlink = r.Uint32("nlink")
	f.UID = r.Uint32("uid")
	f.GID = r.Uint32("gid")
	f.Size = r.Uint64("size")
	f.Used = r.Uint64("used")
	f.Rdev.consume(r, "rdev")
	f.FSID = r.Uint64("fsid")
	f.FileID = r.Uint64("fileid")
	f.Atime.consume(r, "atime")
	f.Mtime.consume(r, "mtime")
	f.Ctime.consume(r, "ctime")
}

func (f *Fattr3) String() string {
	return fmt.Sprintf("{%v mode=%04o nlink=%d uid=%d gid=%d size=%d used=%d rdev=%v fsid=%#x fileid=%d atime=%v mtime=%v ctime=%v}",
		f.Type, f.Mode, f.Nlink, f.UID, f.GID, f.Size, f.Used, f.Rdev, f.FSID, f.FileID, f.Atime, f.Mtime, f.Ctime)
}

// PostOpAttrMax is the encoded length in bytes of a PostOpAttr that is present.
const PostOpAttrMax = 4 + Fattr3Len

// PostOpAttr is post_op_attr: attributes after an operation, if the server gives them.
type PostOpAttr struct {
	Present bool
	Attr    Fattr3
}

func (p *PostOpAttr) append(b []byte) []byte {
	b = xdr.AppendBool(b, p.Present)
	if p.Present {
		b = p.Attr.append(b)
	}
	return b
}

func (p *PostOpAttr) consume(r *xdr.Reader, field string) {
	if p.Present = r.Bool(field); p.Present {
		p.Attr.consume(r)
	} else {
		p.Attr = Fattr3{}
	}
}

func (p *PostOpAttr) String() string {
	if !p.Present {
		return "-"
	}
	return p.Attr.String()
}

// PreOpAttr is pre_op_attr: what tells whether a file changed under an operation (wcc_attr).
type PreOpAttr struct {
	Present bool
	Size    uint64 // bytes
	Mtime   Time
	Ctime   Time
}

func (p *PreOpAttr) append(b []byte) []byte {
	b = xdr.AppendBool(b, p.Present)
	if p.Present {
		b = xdr.AppendUint64(b, p.Size)
		b = p.Mtime.append(b)
		b = p.Ctime.append(b)
	}
	return b
}

func (p *PreOpAttr) consume(r *xdr.Reader, field string) {
	if p.Present = r.Bool(field); !p.Present {
		*p = PreOpAttr{}
		return
	}
	p.Size = r.Uint64("size")
	p.Mtime.consume(r, "mtime")
	p.Ctime.consume(r, "ctime")
}

func (p *PreOpAttr) String() string {
	if !p.Present {
		return "-"
	}
	return fmt.Sprintf("{size=%d mtime=%v ctime=%v}", p.Size, p.Mtime, p.Ctime)
}

// WccDataMax is the encoded length in bytes of a WccData with both parts present.
const WccDataMax = 4 + 24 + PostOpAttrMax

// WccData is wcc_data: weak cache consistency (RFC 1813 section 2.6).
type WccData struct {
	Before PreOpAttr
	After  PostOpAttr
}

func (w *WccData) append(b []byte) []byte { return w.After.append(w.Before.append(b)) }

func (w *WccData) consume(r *xdr.Reader, field string) {
	w.Before.consume(r, field)
	w.After.consume(r, field)
}

func (w *WccData) String() string { return w.Before.String() + ">" + w.After.String() }

// PostOpFHMax is the encoded length in bytes of a PostOpFH with the longest handle.
const PostOpFHMax = 4 + 4 + MaxFHLen

// PostOpFH is post_op_fh3: a new file's handle, if the server gives it.
type PostOpFH struct {
	Present bool
	FH      FH
}

func (p *PostOpFH) append(b []byte) []byte {
	b = xdr.AppendBool(b, p.Present)
	if p.Present {
		b = p.FH.append(b)
	}
	return b
}

func (p *PostOpFH) consume(r *xdr.Reader, field string) {
	if p.Present = r.Bool(field); p.Present {
		p.FH.consume(r, field)
	} else {
		p.FH = FH{}
	}
}

func (p *PostOpFH) String() string {
	if !p.Present {
		return "-"
	}
	return p.FH.String()
}

// TimeHow is time_how.
type TimeHow uint32

const (
	DONT_CHANGE        TimeHow = 0
	SET_TO_SERVER_TIME TimeHow = 1
	SET_TO_CLIENT_TIME TimeHow = 2
)

// Sattr3 is sattr3, the attributes to set. The zero value sets none.
type Sattr3 struct {
	SetMode, SetUID, SetGID, SetSize bool

	Mode     uint32
	UID      uint32
	GID      uint32
	Size     uint64
	AtimeHow TimeHow
	Atime    Time // SET_TO_CLIENT_TIME
	MtimeHow TimeHow
	Mtime    Time // SET_TO_CLIENT_TIME
}

func (s *Sattr3) append(b []byte) []byte {
	b = appendSet32(b, s.SetMode, s.Mode)
	b = appendSet32(b, s.SetUID, s.UID)
	b = appendSet32(b, s.SetGID, s.GID)
	b = xdr.AppendBool(b, s.SetSize)
	if s.SetSize {
		b = xdr.AppendUint64(b, s.Size)
	}
	b = appendSetTime(b, s.AtimeHow, &s.Atime)
	return appendSetTime(b, s.MtimeHow, &s.Mtime)
}

func appendSet32(b []byte, set bool, v uint32) []byte {
	b = xdr.AppendBool(b, set)
	if set {
		b = xdr.AppendUint32(b, v)
	}
	return b
}

func appendSetTime(b []byte, how TimeHow, t *Time) []byte {
	b = xdr.AppendUint32(b, uint32(how))
	if how == SET_TO_CLIENT_TIME {
		b = t.append(b)
	}
	return b
}

func (s *Sattr3) consume(r *xdr.Reader) {
	*s = Sattr3{}
	if s.SetMode = r.Bool("mode"); s.SetMode {
		s.Mode = r.Uint32("mode")
	}
	if s.SetUID = r.Bool("uid"); s.SetUID {
		s.UID = r.Uint32("uid")
	}
	if s.SetGID = r.Bool("gid"); s.SetGID {
		s.GID = r.Uint32("gid")
	}
	if s.SetSize = r.Bool("size"); s.SetSize {
		s.Size = r.Uint64("size")
	}
	s.AtimeHow = consumeSetTime(r, "atime", &s.Atime)
	s.MtimeHow = consumeSetTime(r, "mtime", &s.Mtime)
}

func consumeSetTime(r *xdr.Reader, field string, t *Time) TimeHow {
	how := TimeHow(r.Enum(field, uint32(DONT_CHANGE), uint32(SET_TO_CLIENT_TIME)))
	if how == SET_TO_CLIENT_TIME {
		t.consume(r, field)
	}
	return how
}

func (s *Sattr3) String() string {
	var w []string
	if s.SetMode {
		w = append(w, fmt.Sprintf("mode=%04o", s.Mode))
	}
	if s.SetUID {
		w = append(w, fmt.Sprintf("uid=%d", s.UID))
	}
	if s.SetGID {
		w = append(w, fmt.Sprintf("gid=%d", s.GID))
	}
	if s.SetSize {
		w = append(w, fmt.Sprintf("size=%d", s.Size))
	}
	w = printSetTime(w, "atime", s.AtimeHow, s.Atime)
	w = printSetTime(w, "mtime", s.MtimeHow, s.Mtime)
	return "{" + strings.Join(w, " ") + "}"
}

func printSetTime(w []string, field string, how TimeHow, t Time) []string {
	switch how {
	case SET_TO_SERVER_TIME:
		return append(w, field+"=server")
	case SET_TO_CLIENT_TIME:
		return append(w, field+"="+t.String())
	}
	return w
}
