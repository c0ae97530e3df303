package nfs3

import "example.org/nfsrdma/internal/xdr"

// dirTail is the length in bytes of what follows the entries: the end of the list, and eof.
const dirTail = 8

// dirBudget is how much a directory result may still grow.
type dirBudget struct {
	b       []byte
	left    int // bytes up to count or maxcount, the tail already taken off
	dirLeft int // bytes up to dircount
	entries int
}

func (d *dirBudget) take(size, dirSize int) bool {
	// dircount is a wish; the first entry ignores it, so that a reader always gets on.
	if size > d.left || dirSize > d.dirLeft && d.entries > 0 {
		return false
	}
	d.left -= size
	d.dirLeft -= dirSize
	d.entries++
	return true
}

// Entries is the number of entries added. If it is zero and not at the end of the directory, the
// count was too small, which is NFS3ERR_TOOSMALL.
func (d *dirBudget) Entries() int { return d.entries }

// Finish ends the result and gives the slice that the writer was made with, grown by it.
func (d *dirBudget) Finish(eof bool) []byte {
	return xdr.AppendBool(xdr.AppendUint32(d.b, 0), eof)
}

// DirWriter encodes a successful READDIR result entry by entry up to a number of bytes.
type DirWriter struct{ dirBudget }

// NewDirWriter starts a result of at most count bytes, its status word not counted (RFC 1813
// section 3.3.16), onto b. Of res it uses DirAttr and Verf.
func NewDirWriter(b []byte, res *ReaddirRes, count uint32) DirWriter {
	start := len(b) + 4
	head := ReaddirRes{DirAttr: res.DirAttr, Verf: res.Verf}
	b = head.appendHead(b)
	left := int64(count) - int64(len(b)-start) - dirTail
	return DirWriter{dirBudget{b: b, left: int(left), dirLeft: xdr.NoLimit}}
}

// Add encodes e, or gives false if it does not fit.
func (w *DirWriter) Add(e *Entry) bool {
	if !w.take(EntryLen(len(e.Name)), 0) {
		return false
	}
	w.b = AppendEntry(w.b, e)
	return true
}

// DirPlusWriter encodes a successful READDIRPLUS result entry by entry up to a number of bytes.
type DirPlusWriter struct{ dirBudget }

// NewDirPlusWriter starts a result of at most maxCount bytes, its status word not counted, onto b.
// The entries without attributes and handles take at most dirCount bytes, though one entry may be
// longer (RFC 1813 section 3.3.17). Of res it uses DirAttr and Verf.
func NewDirPlusWriter(b []byte, res *ReaddirplusRes, dirCount, maxCount uint32) DirPlusWriter {
	start := len(b) + 4
	head := ReaddirplusRes{DirAttr: res.DirAttr, Verf: res.Verf}
	b = head.appendHead(b)
	left := int64(maxCount) - int64(len(b)-start) - dirTail
	return DirPlusWriter{dirBudget{b: b, left: int(left), dirLeft: int(dirCount)}}
}

// Add encodes e, or gives false if it does not fit.
func (w *DirPlusWriter) Add(e *EntryPlus) bool {
	if !w.take(EntryPlusLen(e), EntryLen(len(e.Name))) {
		return false
	}
	w.b = AppendEntryPlus(w.b, e)
	return true
}
