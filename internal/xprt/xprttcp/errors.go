package xprttcp

import (
	"errors"
	"fmt"

	"example.org/nfsrdma/internal/xprt/clnt"
)

var (
	errLost         = errors.New("connection lost")
	errDisconnected = errors.New("disconnected")
	errCancelled    = errors.New("a call was cancelled in the middle of its record")
)

func badReply(format string, args ...any) error {
	return fmt.Errorf("%w: %s", clnt.ErrBadReply, fmt.Sprintf(format, args...))
}
