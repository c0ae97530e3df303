package nfs3

import (
	"fmt"

	"example.org/nfsrdma/internal/xdr"
)

// StableHow is stable_how: how far a WRITE is committed.
type StableHow uint32

const (
	UNSTABLE  StableHow = 0
	DATA_SYNC StableHow = 1
	FILE_SYNC StableHow = 2
)

func (s StableHow) String() string {
	switch s {
	case UNSTABLE:
		return "UNSTABLE"
	case DATA_SYNC:
		return "DATA_SYNC"
	case FILE_SYNC:
		return "FILE_SYNC"
	}
	return fmt.Sprintf("STABLE_HOW(%d)", uint32(s))
}

// WriteArgs are the arguments of WRITE (RFC 1813 section 3.3.7).
type WriteArgs struct {
	File   FH
	Offset uint64 // bytes
	Count  uint32 // bytes; a server checks it against the data
	Stable StableHow
	Data   []byte
}

// AppendWriteArgs encodes the arguments of WRITE.
func AppendWriteArgs(b []byte, v *WriteArgs) []byte { return v.append(b) }

// ConsumeWriteArgs decodes the arguments of WRITE.
func ConsumeWriteArgs(b []byte, v *WriteArgs) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

// AppendWriteArgsHead encodes the arguments of WRITE up to the length word of the data, which is
// dataLen; the bytes and their pad are elsewhere.
func AppendWriteArgsHead(b []byte, v *WriteArgs, dataLen uint32) []byte {
	return v.appendHead(b, dataLen)
}

// ConsumeWriteArgsHead decodes the arguments of WRITE up to the length word of the data, and gives
// that word.
func ConsumeWriteArgsHead(b []byte, v *WriteArgs) (dataLen uint32, n int, err error) {
	r := xdr.NewReader(b)
	dataLen = v.consumeHead(&r)
	n, err = r.Done()
	return dataLen, n, err
}

func (v *WriteArgs) append(b []byte) []byte {
	return xdr.AppendFixedOpaque(v.appendHead(b, uint32(len(v.Data))), v.Data)
}

func (v *WriteArgs) appendHead(b []byte, dataLen uint32) []byte {
	b = v.File.append(b)
	b = xdr.AppendUint64(b, v.Offset)
	b = xdr.AppendUint32(b, v.Count)
	b = xdr.AppendUint32(b, uint32(v.Stable))
	return xdr.AppendUint32(b, dataLen)
}

func (v *WriteArgs) consume(r *xdr.Reader) {
	n := v.consumeHead(r)
	v.Data = r.FixedOpaque("data", int(n))
}

func (v *WriteArgs) consumeHead(r *xdr.Reader) (dataLen uint32) {
	v.File.consume(r, "file")
	v.Offset = r.Uint64("offset")
	v.Count = r.Uint32("count")
	v.Stable = StableHow(r.Enum("stable", uint32(UNSTABLE), uint32(FILE_SYNC)))
	v.Data = nil
	return r.Uint32("data")
}

func (v *WriteArgs) String() string {
	return fmt.Sprintf("WRITE file=%v offset=%d count=%d stable=%v data=%d", v.File, v.Offset, v.Count, v.Stable, len(v.Data))
}

// WriteRes is the result of WRITE (RFC 1813 section 3.3.7).
type WriteRes struct {
	Status Status

	FileWcc   WccData // both arms
	Count     uint32  // bytes written
	Committed StableHow
	Verf      Verf // changes when the server may have lost unstable data
}

// AppendWriteRes encodes the result of WRITE.
func AppendWriteRes(b []byte, v *WriteRes) []byte { return v.append(b) }

// ConsumeWriteRes decodes the result of WRITE.
func ConsumeWriteRes(b []byte, v *WriteRes) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *WriteRes) append(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(v.Status))
	b = v.FileWcc.append(b)
	if v.Status == NFS3_OK {
		b = xdr.AppendUint32(b, v.Count)
		b = xdr.AppendUint32(b, uint32(v.Committed))
		b = v.Verf.append(b)
	}
	return b
}

func (v *WriteRes) consume(r *xdr.Reader) {
	*v = WriteRes{Status: consumeStatus(r)}
	v.FileWcc.consume(r, "file_wcc")
	if v.Status == NFS3_OK {
		v.Count = r.Uint32("count")
		v.Committed = StableHow(r.Enum("committed", uint32(UNSTABLE), uint32(FILE_SYNC)))
		v.Verf.consume(r, "verf")
	}
}

func (v *WriteRes) String() string {
	if v.Status != NFS3_OK {
		return fmt.Sprintf("WRITE %v file_wcc=%v", v.Status, &v.FileWcc)
	}
	return fmt.Sprintf("WRITE %v file_wcc=%v count=%d committed=%v verf=%v", v.Status, &v.FileWcc, v.Count, v.Committed, v.Verf)
}
