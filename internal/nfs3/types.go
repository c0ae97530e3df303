package nfs3

import (
	"encoding/hex"
	"fmt"
	"strconv"

	"example.org/nfsrdma/internal/xdr"
)

// MaxFHLen is NFS3_FHSIZE, the longest file handle in bytes.
const MaxFHLen = 64

// FH is nfs_fh3, a file handle. It is a value and comparable; the zero FH has no bytes.
type FH struct {
	n    uint8
	data [MaxFHLen]byte // zero beyond n
}

// MakeFH makes a handle of a copy of b. ok is false if b is longer than MaxFHLen.
func MakeFH(b []byte) (f FH, ok bool) {
	if len(b) > MaxFHLen {
		return FH{}, false
	}
	f.n = uint8(copy(f.data[:], b))
	return f, true
}

// Len is the length of the handle in bytes.
func (f *FH) Len() int { return int(f.n) }

// Bytes gives the bytes of the handle in place; they are not to be changed.
func (f *FH) Bytes() []byte { return f.data[:f.n:f.n] }

func (f FH) String() string { return hex.EncodeToString(f.data[:f.n]) }

func (f *FH) append(b []byte) []byte { return xdr.AppendOpaque(b, f.data[:f.n]) }

func (f *FH) consume(r *xdr.Reader, field string) {
	p := r.Opaque(field, MaxFHLen)
	f.n = uint8(copy(f.data[:], p))
	clear(f.data[f.n:])
}

// VerfLen is the length in bytes of all three kinds of Verf.
const VerfLen = 8

// Verf is cookieverf3, createverf3 or writeverf3.
type Verf [VerfLen]byte

func (v Verf) String() string { return hex.EncodeToString(v[:]) }

func (v *Verf) append(b []byte) []byte { return append(b, v[:]...) }

func (v *Verf) consume(r *xdr.Reader, field string) { copy(v[:], r.FixedOpaque(field, VerfLen)) }

// FType is ftype3.
type FType uint32

const (
	NF3REG  FType = 1
	NF3DIR  FType = 2
	NF3BLK  FType = 3
	NF3CHR  FType = 4
	NF3LNK  FType = 5
	NF3SOCK FType = 6
	NF3FIFO FType = 7
)

func (t FType) String() string {
	names := [...]string{"", "REG", "DIR", "BLK", "CHR", "LNK", "SOCK", "FIFO"}
	if t >= NF3REG && t <= NF3FIFO {
		return names[t]
	}
	return "FTYPE(" + strconv.FormatUint(uint64(t), 10) + ")"
}

func (t *FType) consume(r *xdr.Reader, field string) {
	*t = FType(r.Enum(field, uint32(NF3REG), uint32(NF3FIFO)))
}

// Time is nfstime3: seconds and nanoseconds since 1970-01-01 UTC.
type Time struct{ Sec, Nsec uint32 }

func (t Time) String() string { return fmt.Sprintf("%d.%09d", t.Sec, t.Nsec) }

func (t *Time) append(b []byte) []byte { return xdr.AppendUint32(xdr.AppendUint32(b, t.Sec), t.Nsec) }

func (t *Time) consume(r *xdr.Reader, field string) {
	t.Sec = r.Uint32(field)
	t.Nsec = r.Uint32(field)
}

// Spec is specdata3, the numbers of a device.
type Spec struct{ Major, Minor uint32 }

func (s Spec) String() string { return fmt.Sprintf("%d:%d", s.Major, s.Minor) }

func (s *Spec) append(b []byte) []byte {
	return xdr.AppendUint32(xdr.AppendUint32(b, s.Major), s.Minor)
}

func (s *Spec) consume(r *xdr.Reader, field string) {
	s.Major = r.Uint32(field)
	s.Minor = r.Uint32(field)
}

// DirOp is diropargs3: a name in a directory.
type DirOp struct {
	Dir  FH
	Name []byte // RFC 1813 sets no limit; a server answers NFS3ERR_NAMETOOLONG by its own
}

func (d *DirOp) append(b []byte) []byte { return xdr.AppendOpaque(d.Dir.append(b), d.Name) }

func (d *DirOp) consume(r *xdr.Reader, field string) {
	d.Dir.consume(r, field)
	d.Name = r.Opaque(field, xdr.NoLimit)
}

func (d *DirOp) String() string { return fmt.Sprintf("%v/%q", d.Dir, d.Name) }

func consumeStatus(r *xdr.Reader) Status { return Status(r.Uint32("status")) }
