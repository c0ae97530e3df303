package rpcrdma

import (
	"encoding/binary"
	"fmt"
)

// PrivateData is what a peer says of itself when it connects (RFC 8797 section 4):
//
//	magic(32) | version(8) | flags(8) | send size(8) | receive size(8)
type PrivateData struct {
	RemoteInvalidate bool // the peer may be sent Send With Invalidate
	SendSize         int  // largest inline message the peer sends, bytes
	RecvSize         int  // largest inline message the peer receives, bytes
}

// PrivateDataLen is the encoded length in bytes.
const PrivateDataLen = 8

// DefaultInline is the inline threshold in bytes when nothing is negotiated, and the least there is.
const DefaultInline = 1024

// MaxInline is the largest size in bytes that private data can carry.
const MaxInline = 256 * 1024

const (
	privateMagic   = 0xf6ab0e18
	privateVersion = 1
	flagRemoteInv  = 1 // R; the others are reserved, sent as zero and ignored
)

// DefaultPrivateData is what holds for a peer that sent no valid private data (RFC 8797 section 5.1).
var DefaultPrivateData = PrivateData{SendSize: DefaultInline, RecvSize: DefaultInline}

// AppendPrivateData encodes p. Sizes are rounded down to a multiple of 1024 and kept within
// DefaultInline and MaxInline.
func AppendPrivateData(b []byte, p PrivateData) []byte {
	b = binary.BigEndian.AppendUint32(b, privateMagic)
	var flags byte
	if p.RemoteInvalidate {
		flags = flagRemoteInv
	}
	return append(b, privateVersion, flags, encodeSize(p.SendSize), encodeSize(p.RecvSize))
}

// encodeSize gives bytes/1024 - 1 (RFC 8797 section 4.2).
func encodeSize(n int) byte { return byte(min(max(n, DefaultInline), MaxInline)/1024 - 1) }

// ConsumePrivateData decodes private data. Bytes behind it are ignored, since connection managers
// pad. If b is too short, or of another magic or version, ok is false and p the default.
func ConsumePrivateData(b []byte) (p PrivateData, ok bool) {
	if len(b) < PrivateDataLen || binary.BigEndian.Uint32(b) != privateMagic || b[4] != privateVersion {
		return DefaultPrivateData, false
	}
	return PrivateData{
		RemoteInvalidate: b[5]&flagRemoteInv != 0,
		SendSize:         (int(b[6]) + 1) * 1024,
		RecvSize:         (int(b[7]) + 1) * 1024,
	}, true
}

func (p PrivateData) String() string {
	return fmt.Sprintf("send=%d recv=%d remote_inv=%t", p.SendSize, p.RecvSize, p.RemoteInvalidate)
}
