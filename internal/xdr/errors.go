package xdr

import (
	"errors"
	"strconv"
)

// Reasons for an [Error]; match with errors.Is.
var (
	ErrShort   = errors.New("input too short")
	ErrInvalid = errors.New("invalid value")
	ErrTooLong = errors.New("length above limit")
)

// Error says where decoding failed.
type Error struct {
	Field string // name of the item in its RFC
	Off   int    // offset of the item, in bytes from the start of the decoded input
	Err   error  // ErrShort, ErrInvalid, ErrTooLong or a protocol's own reason
}

func (e *Error) Error() string {
	return "xdr: " + e.Field + " at byte " + strconv.Itoa(e.Off) + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// reason gives the error for a negative n of ConsumeX.
func reason(n int) error {
	switch n {
	case invalid:
		return ErrInvalid
	case tooLong:
		return ErrTooLong
	}
	return ErrShort
}
