package nfs3

import (
	"fmt"

	"example.org/nfsrdma/internal/xdr"
)

// Bits of FsinfoRes.Properties.
const (
	FSF3_LINK        = 0x01
	FSF3_SYMLINK     = 0x02
	FSF3_HOMOGENEOUS = 0x08
	FSF3_CANSETTIME  = 0x10
)

// FsinfoArgs are the arguments of FSINFO (RFC 1813 section 3.3.19).
type FsinfoArgs struct {
	Root FH
}

// AppendFsinfoArgs encodes the arguments of FSINFO.
func AppendFsinfoArgs(b []byte, v *FsinfoArgs) []byte { return v.append(b) }

// ConsumeFsinfoArgs decodes the arguments of FSINFO.
func ConsumeFsinfoArgs(b []byte, v *FsinfoArgs) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *FsinfoArgs) append(b []byte) []byte {
	b = v.Root.append(b)
	return b
}

func (v *FsinfoArgs) consume(r *xdr.Reader) {
	v.Root.consume(r, "fsroot")
}

func (v *FsinfoArgs) String() string {
	return fmt.Sprintf("FSINFO fsroot=%v", v.Root)
}

// FsinfoRes is the result of FSINFO (RFC 1813 section 3.3.19).
type FsinfoRes struct {
	Status Status

	ObjAttr     PostOpAttr // both arms
	RtMax       uint32     // largest READ, bytes
	RtPref      uint32
	RtMult      uint32
	WtMax       uint32 // largest WRITE, bytes
	WtPref      uint32
	WtMult      uint32
	DtPref      uint32 // preferred READDIR, bytes
	MaxFileSize uint64 // bytes
	TimeDelta   Time   // granularity of times
	Properties  uint32 // FSF3 bits
}

// AppendFsinfoRes encodes the result of FSINFO.
func AppendFsinfoRes(b []byte, v *FsinfoRes) []byte { return v.append(b) }

// ConsumeFsinfoRes decodes the result of FSINFO.
func ConsumeFsinfoRes(b []byte, v *FsinfoRes) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *FsinfoRes) append(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(v.Status))
	b = v.ObjAttr.append(b)
	if v.Status == NFS3_OK {
		b = xdr.AppendUint32(b, v.RtMax)
		b = xdr.AppendUint32(b, v.RtPref)
		b = xdr.AppendUint32(b, v.RtMult)
		b = xdr.AppendUint32(b, v.WtMax)
		b = xdr.AppendUint32(b, v.WtPref)
		b = xdr.AppendUint32(b, v.WtMult)
		b = xdr.AppendUint32(b, v.DtPref)
		b = xdr.AppendUint64(b, v.MaxFileSize)
		b = v.TimeDelta.append(b)
		b = xdr.AppendUint32(b, v.Properties)
	}
	return b
}

func (v *FsinfoRes) consume(r *xdr.Reader) {
	*v = FsinfoRes{Status: consumeStatus(r)}
	v.ObjAttr.consume(r, "obj_attributes")
	if v.Status == NFS3_OK {
		v.RtMax = r.Uint32("rtmax")
		v.RtPref = r.Uint32("rtpref")
		v.RtMult = r.Uint32("rtmult")
		v.WtMax = r.Uint32("wtmax")
		v.WtPref = r.Uint32("wtpref")
		v.WtMult = r.Uint32("wtmult")
		v.DtPref = r.Uint32("dtpref")
		v.MaxFileSize = r.Uint64("maxfilesize")
		v.TimeDelta.consume(r, "time_delta")
		v.Properties = r.Uint32("properties")
	}
}

func (v *FsinfoRes) String() string {
	if v.Status != NFS3_OK {
		return fmt.Sprintf("FSINFO %v obj_attributes=%v", v.Status, &v.ObjAttr)
	}
	return fmt.Sprintf("FSINFO %v obj_attributes=%v rtmax=%d rtpref=%d rtmult=%d wtmax=%d wtpref=%d wtmult=%d dtpref=%d maxfilesize=%d time_delta=%v properties=%#x",
		v.Status, &v.ObjAttr, v.RtMax, v.RtPref, v.RtMult, v.WtMax, v.WtPref, v.WtMult, v.DtPref, v.MaxFileSize,
		v.TimeDelta, v.Properties)
}
