package nfs3

import (
	"fmt"

	"example.org/nfsrdma/internal/xdr"
)

// CommitArgs are the arguments of COMMIT (RFC 1813 section 3.3.21).
type CommitArgs struct {
	File   FH
	Offset uint64 // bytes
	Count  uint32 // bytes; 0 is up to the end of the file
}

// AppendCommitArgs encodes the arguments of COMMIT.
func AppendCommitArgs(b []byte, v *CommitArgs) []byte { return v.append(b) }

// ConsumeCommitArgs decodes the arguments of COMMIT.
func ConsumeCommitArgs(b []byte, v *CommitArgs) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *CommitArgs) append(b []byte) []byte {
	b = v.File.append(b)
	b = xdr.AppendUint64(b, v.Offset)
	b = xdr.AppendUint32(b, v.Count)
	return b
}

func (v *CommitArgs) consume(r *xdr.Reader) {
	v.File.consume(r, "file")
	v.Offset = r.Uint64("offset")
	v.Count = r.Uint32("count")
}

func (v *CommitArgs) String() string {
	return fmt.Sprintf("COMMIT file=%v offset=%d count=%d", v.File, v.Offset, v.Count)
}

// CommitRes is the result of COMMIT (RFC 1813 section 3.3.21).
type CommitRes struct {
	Status Status

	FileWcc WccData // both arms
	Verf    Verf    // as in WriteRes
}

// AppendCommitRes encodes the result of COMMIT.
func AppendCommitRes(b []byte, v *CommitRes) []byte { return v.append(b) }

// ConsumeCommitRes decodes the result of COMMIT.
func ConsumeCommitRes(b []byte, v *CommitRes) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *CommitRes) append(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(v.Status))
	b = v.FileWcc.append(b)
	if v.Status == NFS3_OK {
		b = v.Verf.append(b)
	}
	return b
}

func (v *CommitRes) consume(r *xdr.Reader) {
	*v = CommitRes{Status: consumeStatus(r)}
	v.FileWcc.consume(r, "file_wcc")
	if v.Status == NFS3_OK {
		v.Verf.consume(r, "verf")
	}
}

func (v *CommitRes) String() string {
	if v.Status != NFS3_OK {
		return fmt.Sprintf("COMMIT %v file_wcc=%v", v.Status, &v.FileWcc)
	}
	return fmt.Sprintf("COMMIT %v file_wcc=%v verf=%v", v.Status, &v.FileWcc, v.Verf)
}
