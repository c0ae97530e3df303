package nfsclient

import (
	"errors"
	"fmt"
	"io/fs"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/xprt/xprtrdma"
)

// Errors of calls that the server did not answer with a status; match with errors.Is. Others are
// those of package verbs, of the context, and *RPCError and *RDMAError.
var (
	ErrClosed   = xprtrdma.ErrClosed   // the mount is closed
	ErrTimedOut = xprtrdma.ErrTimedOut // ETIMEDOUT: a soft mount gave up
	ErrBadReply = xprtrdma.ErrBadReply // EIO: the reply breaks the protocol
	ErrMarshal  = xprtrdma.ErrMarshal  // EIO: the call is too long for inline and chunks
	ErrLoop     = errors.New("too many levels of symbolic links")
)

// RDMAError is an RDMA_ERROR instead of a reply (RFC 8166 section 4.5).
type RDMAError = xprtrdma.RDMAError

// MarshalError says which limit a call exceeds.
type MarshalError = xprtrdma.MarshalError

// Error is a status that is not NFS3_OK.
type Error struct {
	Op     string // "READ", ...
	Name   string // what it was about, if it has a name
	Status Status
}

func (e *Error) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("%s: %v", e.Op, e.Status)
	}
	return fmt.Sprintf("%s %q: %v", e.Op, e.Name, e.Status)
}

// Unwrap gives the status, so that errors.Is(err, NFS3ERR_STALE) holds.
func (e *Error) Unwrap() error { return e.Status }

// Is matches the errors of io/fs.
func (e *Error) Is(target error) bool {
	switch target {
	case fs.ErrNotExist:
		return e.Status == nfs3.NFS3ERR_NOENT || e.Status == nfs3.NFS3ERR_STALE
	case fs.ErrExist:
		return e.Status == nfs3.NFS3ERR_EXIST || e.Status == nfs3.NFS3ERR_NOTEMPTY
	case fs.ErrPermission:
		return e.Status == nfs3.NFS3ERR_PERM || e.Status == nfs3.NFS3ERR_ACCES
	case fs.ErrInvalid:
		return e.Status == nfs3.NFS3ERR_INVAL
	case errors.ErrUnsupported:
		return e.Status == nfs3.NFS3ERR_NOTSUPP
	}
	return false
}

// RPCError is a reply in which RPC, not NFS, refuses the call (RFC 5531 section 9).
type RPCError struct {
	Denied bool
	Accept rpc.AcceptStat // not denied: PROG_UNAVAIL, GARBAGE_ARGS, ...
	Reject rpc.RejectStat // denied
	Auth   rpc.AuthStat   // denied with AUTH_ERROR
	Low    uint32         // versions that the server has, on a mismatch
	High   uint32
}

func (e *RPCError) Error() string {
	switch {
	case !e.Denied && e.Accept == rpc.PROG_MISMATCH:
		return fmt.Sprintf("rpc: %v: the server has versions %d to %d", e.Accept, e.Low, e.High)
	case !e.Denied:
		return fmt.Sprintf("rpc: %v", e.Accept)
	case e.Reject == rpc.RPC_MISMATCH:
		return fmt.Sprintf("rpc: RPC_MISMATCH: the server has versions %d to %d", e.Low, e.High)
	}
	return fmt.Sprintf("rpc: AUTH_ERROR %v", e.Auth)
}

// Is matches fs.ErrPermission when the credential was refused.
func (e *RPCError) Is(target error) bool {
	return target == fs.ErrPermission && e.Denied && e.Reject == rpc.AUTH_ERROR
}

// failed wraps an error that is no status.
func failed(op string, err error) error {
	if err == nil || err == errJukebox { //nolint:errorlint // it goes no further than to who tries again
		return err
	}
	return fmt.Errorf("%s: %w", op, err)
}
