package verbs

import (
	"errors"
	"fmt"
)

// Errors, matched with errors.Is. Devices wrap them with the object and the limit.
var (
	ErrUnsupported  = errors.New("not supported by the device")
	ErrInvalid      = errors.New("invalid argument") // EINVAL
	ErrQueueFull    = errors.New("queue full")       // ENOMEM
	ErrNoResources  = errors.New("out of resources") // ENOMEM: a device limit
	ErrState        = errors.New("wrong queue pair state")
	ErrBusy         = errors.New("in use") // EBUSY
	ErrClosed       = errors.New("closed")
	ErrCQOverflow   = errors.New("completion queue overflow")
	ErrRefused      = errors.New("connection refused")
	ErrUnreachable  = errors.New("address unreachable")
	ErrAddrInUse    = errors.New("address in use")
	ErrDisconnected = errors.New("disconnected")
)

// RejectError is the peer's refusal of a connection; it matches ErrRefused.
type RejectError struct {
	Reason      string // "consumer defined", "invalid service ID", ...
	PrivateData []byte
}

func (e *RejectError) Error() string {
	return fmt.Sprintf("connection rejected by the peer: %s", e.Reason)
}

// Is makes it match ErrRefused.
func (e *RejectError) Is(target error) bool { return target == ErrRefused }

// WCError is a completion that failed, as an error.
type WCError struct {
	Status Status
	Op     Opcode
}

func (e *WCError) Error() string { return fmt.Sprintf("%v: %v", e.Op, e.Status) }
