package rpc

import (
	"encoding/binary"

	"example.org/nfsrdma/internal/xdr"
)

// RecordMarkLen is the length in bytes of the mark before each fragment on a stream transport
// (RFC 5531 section 11).
const RecordMarkLen = 4

// MaxFragment is the longest fragment that a mark can announce, in bytes.
const MaxFragment = 1<<31 - 1

const lastFragment = 1 << 31

func recordMark(size int, last bool) uint32 {
	w := uint32(size) & MaxFragment
	if last {
		w |= lastFragment
	}
	return w
}

// AppendRecordMark appends the mark of a fragment of size bytes; last ends the record.
func AppendRecordMark(b []byte, size int, last bool) []byte {
	return xdr.AppendUint32(b, recordMark(size, last))
}

// PutRecordMark writes the mark into the first RecordMarkLen bytes of b, reserved for it.
func PutRecordMark(b []byte, size int, last bool) {
	binary.BigEndian.PutUint32(b, recordMark(size, last))
}

// ConsumeRecordMark decodes a mark. n is negative if b is shorter than RecordMarkLen. The size is
// the peer's word; the caller bounds it.
func ConsumeRecordMark(b []byte) (size int, last bool, n int) {
	w, n := xdr.ConsumeUint32(b)
	return int(w & MaxFragment), w&lastFragment != 0, n
}
