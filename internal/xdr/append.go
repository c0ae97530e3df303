package xdr

import "encoding/binary"

// zeros is the pad of an opaque, at most three bytes.
var zeros [3]byte

// Pad is the number of bytes, 0 to 3, that fill n bytes up to a multiple of four.
func Pad(n int) int { return -n & 3 }

// Roundup is n filled up to a multiple of four.
func Roundup(n int) int { return n + Pad(n) }

// AppendUint32 appends an unsigned int, or an enum.
func AppendUint32(b []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(b, v) }

// AppendUint64 appends an unsigned hyper.
func AppendUint64(b []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(b, v) }

// AppendBool appends a bool, 0 or 1.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 0, 0, 0, 1)
	}
	return append(b, 0, 0, 0, 0)
}

// AppendOpaque appends variable-length opaque data: length word, data, pad.
func AppendOpaque(b, v []byte) []byte {
	return AppendFixedOpaque(AppendUint32(b, uint32(len(v))), v)
}

// AppendFixedOpaque appends fixed-length opaque data: data and pad, no length word.
func AppendFixedOpaque(b, v []byte) []byte {
	return append(append(b, v...), zeros[:Pad(len(v))]...)
}

// AppendString appends a string, encoded as variable-length opaque data.
func AppendString(b []byte, v string) []byte {
	b = append(AppendUint32(b, uint32(len(v))), v...)
	return append(b, zeros[:Pad(len(v))]...)
}
