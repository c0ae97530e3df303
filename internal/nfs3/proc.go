package nfs3

import "strconv"

// Program and Version of NFS version 3.
const (
	Program = 100003
	Version = 3
)

// Proc is a procedure number (RFC 1813 section 3).
type Proc uint32

const (
	NULL        Proc = 0
	GETATTR     Proc = 1
	SETATTR     Proc = 2
	LOOKUP      Proc = 3
	ACCESS      Proc = 4
	READLINK    Proc = 5
	READ        Proc = 6
	WRITE       Proc = 7
	CREATE      Proc = 8
	MKDIR       Proc = 9
	SYMLINK     Proc = 10
	MKNOD       Proc = 11
	REMOVE      Proc = 12
	RMDIR       Proc = 13
	RENAME      Proc = 14
	LINK        Proc = 15
	READDIR     Proc = 16
	READDIRPLUS Proc = 17
	FSSTAT      Proc = 18
	FSINFO      Proc = 19
	PATHCONF    Proc = 20
	COMMIT      Proc = 21

	NumProcs = 22
)

var procNames = [NumProcs]string{
	"NULL", "GETATTR", "SETATTR", "LOOKUP", "ACCESS", "READLINK", "READ", "WRITE", "CREATE", "MKDIR", "SYMLINK",
	"MKNOD", "REMOVE", "RMDIR", "RENAME", "LINK", "READDIR", "READDIRPLUS", "FSSTAT", "FSINFO", "PATHCONF", "COMMIT",
}

func (p Proc) String() string {
	if p < NumProcs {
		return procNames[p]
	}
	return "PROC(" + strconv.FormatUint(uint64(p), 10) + ")"
}

// ArgsEligible reports whether the last argument of p may be moved by a Read chunk (RFC 8267 section 4).
func (p Proc) ArgsEligible() bool { return p == WRITE || p == SYMLINK }

// ResEligible reports whether the last result of p may be moved by a Write chunk (RFC 8267 section 4).
func (p Proc) ResEligible() bool { return p == READ || p == READLINK }

// Idempotent reports whether p may be executed twice with the same outcome; the others need a
// request cache against retransmissions (RFC 1813 section 4.5).
func (p Proc) Idempotent() bool {
	switch p {
	case SETATTR, CREATE, MKDIR, SYMLINK, MKNOD, REMOVE, RMDIR, RENAME, LINK:
		return false
	}
	return true
}
