package mount3

import (
	"strconv"

	"example.org/nfsrdma/internal/xdr"
)

// Program and Version of MOUNT version 3.
const (
	Program = 100005
	Version = 3
)

// Bounds of RFC 1813 appendix I, section 5.1.4, in bytes.
const (
	MaxPathLen = 1024 // MNTPATHLEN
	MaxNameLen = 255  // MNTNAMLEN
)

// Bounds on lists, which the RFC leaves open; a longer one is an error.
const (
	MaxFlavors = 64
	MaxList    = 1 << 16 // mounts, exports, or groups of an export
)

// Proc is a procedure number.
type Proc uint32

const (
	NULL    Proc = 0
	MNT     Proc = 1
	DUMP    Proc = 2
	UMNT    Proc = 3
	UMNTALL Proc = 4
	EXPORT  Proc = 5

	NumProcs = 6
)

func (p Proc) String() string {
	names := [NumProcs]string{"NULL", "MNT", "DUMP", "UMNT", "UMNTALL", "EXPORT"}
	if p < NumProcs {
		return names[p]
	}
	return "PROC(" + strconv.FormatUint(uint64(p), 10) + ")"
}

// Status is mountstat3. A value that the RFC does not list is kept, and is a failure. A Status other
// than MNT3_OK serves as an error.
type Status uint32

const (
	MNT3_OK             Status = 0
	MNT3ERR_PERM        Status = 1
	MNT3ERR_NOENT       Status = 2
	MNT3ERR_IO          Status = 5
	MNT3ERR_ACCES       Status = 13
	MNT3ERR_NOTDIR      Status = 20
	MNT3ERR_INVAL       Status = 22
	MNT3ERR_NAMETOOLONG Status = 63
	MNT3ERR_NOTSUPP     Status = 10004
	MNT3ERR_SERVERFAULT Status = 10006
)

func (s Status) String() string {
	switch s {
	case MNT3_OK:
		return "MNT3_OK"
	case MNT3ERR_PERM:
		return "MNT3ERR_PERM"
	case MNT3ERR_NOENT:
		return "MNT3ERR_NOENT"
	case MNT3ERR_IO:
		return "MNT3ERR_IO"
	case MNT3ERR_ACCES:
		return "MNT3ERR_ACCES"
	case MNT3ERR_NOTDIR:
		return "MNT3ERR_NOTDIR"
	case MNT3ERR_INVAL:
		return "MNT3ERR_INVAL"
	case MNT3ERR_NAMETOOLONG:
		return "MNT3ERR_NAMETOOLONG"
	case MNT3ERR_NOTSUPP:
		return "MNT3ERR_NOTSUPP"
	case MNT3ERR_SERVERFAULT:
		return "MNT3ERR_SERVERFAULT"
	}
	return "MNT3ERR(" + strconv.FormatUint(uint64(s), 10) + ")"
}

func (s Status) Error() string { return s.String() }

// consumeList reads elements while the word before each says that one follows.
func consumeList[T any](r *xdr.Reader, field string, list []T, element func(*xdr.Reader) T) []T {
	for r.Bool(field) {
		at := r.Off()
		e := element(r)
		if len(list) == MaxList {
			r.Fail(field, at, xdr.ErrTooLong)
		}
		if !r.Ok() {
			break
		}
		list = append(list, e)
	}
	return list
}

// appendList is the inverse of consumeList.
func appendList[T any](b []byte, list []T, element func([]byte, *T) []byte) []byte {
	for i := range list {
		b = element(xdr.AppendBool(b, true), &list[i])
	}
	return xdr.AppendBool(b, false)
}
