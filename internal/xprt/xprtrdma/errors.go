package xprtrdma

import (
	"errors"
	"fmt"

	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/xprt/clnt"
)

// Errors of calls; match with errors.Is.
var (
	ErrClosed   = clnt.ErrClosed
	ErrTimedOut = clnt.ErrTimedOut
	ErrBadReply = clnt.ErrBadReply
	ErrMarshal  = clnt.ErrMarshal

	errLost      = errors.New("connection lost")
	errCancelled = errors.New("a call that cannot be fenced was cancelled")
)

// MarshalError names the limit that a call exceeds. It matches ErrMarshal.
type MarshalError struct {
	What  string // "call", "reply", "data", ...
	Size  int
	Limit int
	Unit  string // "" is bytes
	Knob  string // what would have to be larger
}

func (e *MarshalError) Error() string {
	unit := e.Unit
	if unit == "" {
		unit = "bytes"
	}
	return fmt.Sprintf("%s of %d %s exceeds %d, the limit of %s", e.What, e.Size, unit, e.Limit, e.Knob)
}

// Is makes it match ErrMarshal.
func (e *MarshalError) Is(target error) bool { return target == ErrMarshal }

// RDMAError is an RDMA_ERROR reply (RFC 8166 section 4.5). The call is not sent again.
type RDMAError struct {
	Code      rpcrdma.ErrCode
	Low, High uint32 // ERR_VERS: versions that the server has
}

func (e *RDMAError) Error() string {
	if e.Code == rpcrdma.ERR_VERS {
		return fmt.Sprintf("RDMA_ERROR ERR_VERS: the server has versions %d to %d", e.Low, e.High)
	}
	return "RDMA_ERROR " + e.Code.String()
}

func badReply(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrBadReply, fmt.Sprintf(format, args...))
}
