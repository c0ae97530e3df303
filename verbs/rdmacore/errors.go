package rdmacore

import (
	"fmt"
	"syscall"

	"example.org/nfsrdma/verbs"
)

// ofErrno is the verbs error of an errno, nil if there is none that fits.
func ofErrno(e syscall.Errno) error {
	switch e {
	case syscall.EINVAL, syscall.ERANGE, syscall.EFAULT, syscall.EAFNOSUPPORT:
		return verbs.ErrInvalid
	case syscall.ENOMEM, syscall.EAGAIN, syscall.ENOSPC, syscall.EMFILE, syscall.ENFILE:
		return verbs.ErrNoResources
	case syscall.EBUSY:
		return verbs.ErrBusy
	case syscall.ENOSYS, syscall.EOPNOTSUPP, syscall.EPROTONOSUPPORT:
		return verbs.ErrUnsupported
	case syscall.EADDRINUSE:
		return verbs.ErrAddrInUse
	case syscall.ECONNREFUSED:
		return verbs.ErrRefused
	case syscall.ENODEV, syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.ETIMEDOUT, syscall.EADDRNOTAVAIL, syscall.ENETDOWN:
		return verbs.ErrUnreachable
	case syscall.ENOTCONN, syscall.ECONNRESET, syscall.EPIPE:
		return verbs.ErrDisconnected
	case syscall.EIO:
		return verbs.ErrClosed // the device was removed
	}
	return nil
}

// errnoError wraps an errno and its verbs error with what was tried.
func errnoError(rc int, format string, args ...any) error {
	e := syscall.Errno(rc)
	what := fmt.Sprintf(format, args...)
	if v := ofErrno(e); v != nil {
		return fmt.Errorf("rdmacore: %s: %w: %w", what, v, e)
	}
	return fmt.Errorf("rdmacore: %s: %w", what, e)
}

// bounded checks a limit; knob names the field and what the device calls it.
func bounded(dev, what, knob string, v, lo, hi int) error {
	if v < lo || v > hi {
		return fmt.Errorf("rdmacore: %s: %s: %s is %d, must be %d to %d: %w", dev, what, knob, v, lo, hi, verbs.ErrInvalid)
	}
	return nil
}

// unreachable is the error of an event that tells of a negative errno.
func unreachable(status int, what string) error {
	e := syscall.Errno(-status)
	v := ofErrno(e)
	if v == nil || v == verbs.ErrInvalid {
		v = verbs.ErrUnreachable
	}
	return fmt.Errorf("%s: %w: %w", what, v, e)
}

// Rejection reasons of the IB communication manager (IB specification table 103), as far as one is likely to meet them.
var rejectReasons = map[int]string{
	1: "no QP available", 2: "no EEC available", 3: "no resources", 4: "timeout", 5: "unsupported request",
	6: "invalid communication ID", 8: "invalid service ID", 9: "invalid transport service type",
	10: "stale connection", 11: "RDC does not exist", 12: "primary GID rejected", 13: "primary LID rejected", 14: "invalid primary SL",
	28: "consumer defined", 31: "invalid MTU", 32: "insufficient responder resources",
}

// rejected is the error of a REJECTED event: a reason of InfiniBand, or a negative errno of iWARP.
func rejected(status int, private []byte) *verbs.RejectError {
	reason := rejectReasons[status]
	switch {
	case status < 0 && syscall.Errno(-status) == syscall.ECONNRESET && len(private) > 0:
		reason = "consumer defined"
	case status < 0:
		reason = syscall.Errno(-status).Error()
	case reason == "":
		reason = fmt.Sprintf("reason %d", status)
	}
	return &verbs.RejectError{Reason: reason, PrivateData: private}
}
