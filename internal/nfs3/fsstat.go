package nfs3

import (
	"fmt"

	"example.org/nfsrdma/internal/xdr"
)

// FsstatArgs are the arguments of FSSTAT (RFC 1813 section 3.3.18).
type FsstatArgs struct {
	Root FH
}

// AppendFsstatArgs encodes the arguments of FSSTAT.
func AppendFsstatArgs(b []byte, v *FsstatArgs) []byte { return v.append(b) }

// ConsumeFsstatArgs decodes the arguments of FSSTAT.
func ConsumeFsstatArgs(b []byte, v *FsstatArgs) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *FsstatArgs) append(b []byte) []byte {
	b = v.Root.append(b)
	return b
}

func (v *FsstatArgs) consume(r *xdr.Reader) {
	v.Root.consume(r, "fsroot")
}

func (v *FsstatArgs) String() string {
	return fmt.Sprintf("FSSTAT fsroot=%v", v.Root)
}

// FsstatRes is the result of FSSTAT (RFC 1813 section 3.3.18).
type FsstatRes struct {
	Status Status

	ObjAttr    PostOpAttr // both arms
	TotalBytes uint64
	FreeBytes  uint64
	AvailBytes uint64 // free to the caller
	TotalFiles uint64
	FreeFiles  uint64
	AvailFiles uint64 // free to the caller
	Invarsec   uint32 // seconds the figures will hold
}

// AppendFsstatRes encodes the result of FSSTAT.
func AppendFsstatRes(b []byte, v *FsstatRes) []byte { return v.append(b) }

// ConsumeFsstatRes decodes the result of FSSTAT.
func ConsumeFsstatRes(b []byte, v *FsstatRes) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *FsstatRes) append(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(v.Status))
	b = v.ObjAttr.append(b)
	if v.Status == NFS3_OK {
		b = xdr.AppendUint64(b, v.TotalBytes)
		b = xdr.AppendUint64(b, v.FreeBytes)
		b = xdr.AppendUint64(b, v.AvailBytes)
		b = xdr.AppendUint64(b, v.TotalFiles)
		b = xdr.AppendUint64(b, v.FreeFiles)
		b = xdr.AppendUint64(b, v.AvailFiles)
		b = xdr.AppendUint32(b, v.Invarsec)
	}
	return b
}

func (v *FsstatRes) consume(r *xdr.Reader) {
	*v = FsstatRes{Status: consumeStatus(r)}
	v.ObjAttr.consume(r, "obj_attributes")
	if v.Status == NFS3_OK {
		v.TotalBytes = r.Uint64("tbytes")
		v.FreeBytes = r.Uint64("fbytes")
		v.AvailBytes = r.Uint64("abytes")
		v.TotalFiles = r.Uint64("tfiles")
		v.FreeFiles = r.Uint64("ffiles")
		v.AvailFiles = r.Uint64("afiles")
		v.Invarsec = r.Uint32("invarsec")
	}
}

func (v *FsstatRes) String() string {
	if v.Status != NFS3_OK {
		return fmt.Sprintf("FSSTAT %v obj_attributes=%v", v.Status, &v.ObjAttr)
	}
	return fmt.Sprintf("FSSTAT %v obj_attributes=%v tbytes=%d fbytes=%d abytes=%d tfiles=%d ffiles=%d afiles=%d invarsec=%d",
		v.Status, &v.ObjAttr, v.TotalBytes, v.FreeBytes, v.AvailBytes, v.TotalFiles, v.FreeFiles, v.AvailFiles,
		v.Invarsec)
}
