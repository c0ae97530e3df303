package nfsclient

import "example.org/nfsrdma/internal/nfs3"

// Types of RFC 1813, by its names but for the 3 at the end.
type (
	FH             = nfs3.FH         // nfs_fh3; a comparable value
	Fattr          = nfs3.Fattr3     // fattr3
	Sattr          = nfs3.Sattr3     // sattr3; the zero value sets nothing
	PostOpAttr     = nfs3.PostOpAttr // post_op_attr
	WccData        = nfs3.WccData    // wcc_data
	Time           = nfs3.Time       // nfstime3
	Spec           = nfs3.Spec       // specdata3
	FType          = nfs3.FType      // ftype3
	Verf           = nfs3.Verf       // cookieverf3, createverf3, writeverf3
	StableHow      = nfs3.StableHow  // stable_how
	CreateMode     = nfs3.CreateMode // createmode3
	Status         = nfs3.Status     // nfsstat3; an error that errors.Is finds in an *Error
	ReadRes        = nfs3.ReadRes
	WriteRes       = nfs3.WriteRes
	FsstatRes      = nfs3.FsstatRes
	FsinfoRes      = nfs3.FsinfoRes
	PathconfRes    = nfs3.PathconfRes
	ReaddirRes     = nfs3.ReaddirRes
	ReaddirplusRes = nfs3.ReaddirplusRes
	Entry          = nfs3.Entry
	EntryPlus      = nfs3.EntryPlus
)

// MakeFH makes a handle of a copy of b; false if b is longer than 64 bytes.
func MakeFH(b []byte) (FH, bool) { return nfs3.MakeFH(b) }

// Values of FType.
const (
	NF3REG  = nfs3.NF3REG
	NF3DIR  = nfs3.NF3DIR
	NF3BLK  = nfs3.NF3BLK
	NF3CHR  = nfs3.NF3CHR
	NF3LNK  = nfs3.NF3LNK
	NF3SOCK = nfs3.NF3SOCK
	NF3FIFO = nfs3.NF3FIFO
)

// Values of StableHow.
const (
	UNSTABLE  = nfs3.UNSTABLE
	DATA_SYNC = nfs3.DATA_SYNC
	FILE_SYNC = nfs3.FILE_SYNC
)

// Values of CreateMode.
const (
	UNCHECKED = nfs3.UNCHECKED
	GUARDED   = nfs3.GUARDED
	EXCLUSIVE = nfs3.EXCLUSIVE
)

// Ways to set a time, for Sattr.
const (
	DONT_CHANGE        = nfs3.DONT_CHANGE
	SET_TO_SERVER_TIME = nfs3.SET_TO_SERVER_TIME
	SET_TO_CLIENT_TIME = nfs3.SET_TO_CLIENT_TIME
)

// Bits of Access.
const (
	ACCESS3_READ    = nfs3.ACCESS3_READ
	ACCESS3_LOOKUP  = nfs3.ACCESS3_LOOKUP
	ACCESS3_MODIFY  = nfs3.ACCESS3_MODIFY
	ACCESS3_EXTEND  = nfs3.ACCESS3_EXTEND
	ACCESS3_DELETE  = nfs3.ACCESS3_DELETE
	ACCESS3_EXECUTE = nfs3.ACCESS3_EXECUTE
)

// Values of Status.
const (
	NFS3_OK             = nfs3.NFS3_OK
	NFS3ERR_PERM        = nfs3.NFS3ERR_PERM
	NFS3ERR_NOENT       = nfs3.NFS3ERR_NOENT
	NFS3ERR_IO          = nfs3.NFS3ERR_IO
	NFS3ERR_NXIO        = nfs3.NFS3ERR_NXIO
	NFS3ERR_ACCES       = nfs3.NFS3ERR_ACCES
	NFS3ERR_EXIST       = nfs3.NFS3ERR_EXIST
	NFS3ERR_XDEV        = nfs3.NFS3ERR_XDEV
	NFS3ERR_NODEV       = nfs3.NFS3ERR_NODEV
	NFS3ERR_NOTDIR      = nfs3.NFS3ERR_NOTDIR
	NFS3ERR_ISDIR       = nfs3.NFS3ERR_ISDIR
	NFS3ERR_INVAL       = nfs3.NFS3ERR_INVAL
	NFS3ERR_FBIG        = nfs3.NFS3ERR_FBIG
	NFS3ERR_NOSPC       = nfs3.NFS3ERR_NOSPC
	NFS3ERR_ROFS        = nfs3.NFS3ERR_ROFS
	NFS3ERR_MLINK       = nfs3.NFS3ERR_MLINK
	NFS3ERR_NAMETOOLONG = nfs3.NFS3ERR_NAMETOOLONG
	NFS3ERR_NOTEMPTY    = nfs3.NFS3ERR_NOTEMPTY
	NFS3ERR_DQUOT       = nfs3.NFS3ERR_DQUOT
	NFS3ERR_STALE       = nfs3.NFS3ERR_STALE
	NFS3ERR_REMOTE      = nfs3.NFS3ERR_REMOTE
	NFS3ERR_BADHANDLE   = nfs3.NFS3ERR_BADHANDLE
	NFS3ERR_NOT_SYNC    = nfs3.NFS3ERR_NOT_SYNC
	NFS3ERR_BAD_COOKIE  = nfs3.NFS3ERR_BAD_COOKIE
	NFS3ERR_NOTSUPP     = nfs3.NFS3ERR_NOTSUPP
	NFS3ERR_TOOSMALL    = nfs3.NFS3ERR_TOOSMALL
	NFS3ERR_SERVERFAULT = nfs3.NFS3ERR_SERVERFAULT
	NFS3ERR_BADTYPE     = nfs3.NFS3ERR_BADTYPE
	NFS3ERR_JUKEBOX     = nfs3.NFS3ERR_JUKEBOX
)
