package nfs3

// MaxReplyLen is the length in bytes of the longest result of p, so that a requester can tell
// whether it needs a Reply chunk and how large (RFC 8166 section 4.3.3). The RPC header comes on
// top. For READDIR and READDIRPLUS count is the call's count or maxcount; others ignore it. The
// bytes of the DDP-eligible item of READ and READLINK are not in it, its length word is: who takes
// them inline adds xdr.Roundup of what was asked for.
func MaxReplyLen(p Proc, count uint32) int {
	const (
		status = 4
		fh     = 4 + MaxFHLen
		newObj = status + PostOpFHMax + PostOpAttrMax + WccDataMax
	)
	switch p {
	case GETATTR:
		return status + Fattr3Len
	case SETATTR, REMOVE, RMDIR:
		return status + WccDataMax
	case LOOKUP:
		return status + fh + 2*PostOpAttrMax
	case ACCESS:
		return status + PostOpAttrMax + 4
	case READLINK:
		return status + PostOpAttrMax + 4
	case READ:
		return ReadResHeadLen
	case WRITE:
		return status + WccDataMax + 4 + 4 + VerfLen
	case CREATE, MKDIR, SYMLINK, MKNOD:
		return newObj
	case RENAME:
		return status + 2*WccDataMax
	case LINK:
		return status + PostOpAttrMax + WccDataMax
	case READDIR, READDIRPLUS:
		// By RFC 1813 count holds for all of the result. Linux's server takes it for the entries alone (fs/nfsd/nfs3proc.c),
		// and its client makes room for that.
		return status + PostOpAttrMax + VerfLen + int(count)
	case FSSTAT:
		return status + PostOpAttrMax + 6*8 + 4
	case FSINFO:
		return status + PostOpAttrMax + 7*4 + 8 + 8 + 4
	case PATHCONF:
		return status + PostOpAttrMax + 2*4 + 4*4
	case COMMIT:
		return status + WccDataMax + VerfLen
	}
	return 0
}
