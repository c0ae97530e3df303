package xdr

import "encoding/binary"

// Values of n that ConsumeX gives for bad input.
const (
	short   = -1 // the input ends too early
	invalid = -2 // a value that the type does not have
	tooLong = -3 // a length above the caller's limit
)

// NoLimit as a maximum leaves a length bounded by the input alone.
const NoLimit = 1<<31 - 1

// ConsumeUint32 decodes an unsigned int, or an enum.
func ConsumeUint32(b []byte) (v uint32, n int) {
	if len(b) < 4 {
		return 0, short
	}
	return binary.BigEndian.Uint32(b), 4
}

// ConsumeUint64 decodes an unsigned hyper.
func ConsumeUint64(b []byte) (v uint64, n int) {
	if len(b) < 8 {
		return 0, short
	}
	return binary.BigEndian.Uint64(b), 8
}

// ConsumeBool decodes a bool; a word other than 0 and 1 is bad.
func ConsumeBool(b []byte) (v bool, n int) {
	w, n := ConsumeUint32(b)
	if n < 0 {
		return false, n
	}
	if w > 1 {
		return false, invalid
	}
	return w == 1, n
}

// ConsumeOpaque decodes variable-length opaque data of at most limit bytes. v aliases b.
func ConsumeOpaque(b []byte, limit int) (v []byte, n int) {
	w, n := ConsumeUint32(b)
	if n < 0 {
		return nil, n
	}
	if uint64(w) > uint64(limit) {
		return nil, tooLong
	}
	v, m := ConsumeFixedOpaque(b[n:], int(w))
	if m < 0 {
		return nil, m
	}
	return v, n + m
}

// ConsumeFixedOpaque decodes fixed-length opaque data of size bytes. v aliases b, and its capacity ends with
// it; a size that does not fit an int, and so is negative, is too long.
func ConsumeFixedOpaque(b []byte, size int) (v []byte, n int) {
	if uint(size) > uint(len(b)) || Pad(size) > len(b)-size {
		return nil, short
	}
	return b[:size:size], size + Pad(size)
}

// ConsumeString is ConsumeOpaque that copies into a string, for what is not on a hot path.
func ConsumeString(b []byte, limit int) (v string, n int) {
	p, n := ConsumeOpaque(b, limit)
	return string(p), n
}
