package rpcrdma

import (
	"encoding/binary"
	"strconv"

	"example.org/nfsrdma/internal/xdr"
)

// Version is the protocol version of RFC 8166.
const Version = 1

// MinHeaderLen is the length in bytes of a header with three empty lists (RFC 8166 section 4.5).
const MinHeaderLen = 28

const (
	fixedLen       = 16 // xid, vers, credits, proc
	segmentLen     = 16
	readSegmentLen = 20
)

// Proc is rdma_proc, the kind of a message (RFC 8166 section 4.2.4).
type Proc uint32

const (
	RDMA_MSG   Proc = 0 // an RPC message follows the header
	RDMA_NOMSG Proc = 1 // the RPC message is in a chunk
	RDMA_MSGP  Proc = 2 // RDMA_MSG with alignment padding; not sent any more (section 4.6.1)
	RDMA_DONE  Proc = 3 // not sent any more (section 4.6.2)
	RDMA_ERROR Proc = 4 // a responder could not parse the header
)

func (p Proc) String() string {
	switch p {
	case RDMA_MSG:
		return "RDMA_MSG"
	case RDMA_NOMSG:
		return "RDMA_NOMSG"
	case RDMA_MSGP:
		return "RDMA_MSGP"
	case RDMA_DONE:
		return "RDMA_DONE"
	case RDMA_ERROR:
		return "RDMA_ERROR"
	}
	return "RDMA_PROC(" + strconv.FormatUint(uint64(p), 10) + ")"
}

// ErrCode is rdma_err of an RDMA_ERROR message (RFC 8166 section 4.5).
type ErrCode uint32

const (
	ERR_VERS  ErrCode = 1 // version not supported; low and high say which are
	ERR_CHUNK ErrCode = 2 // header does not parse, or the call can never succeed
)

func (e ErrCode) String() string {
	switch e {
	case ERR_VERS:
		return "ERR_VERS"
	case ERR_CHUNK:
		return "ERR_CHUNK"
	}
	return "RDMA_ERR(" + strconv.FormatUint(uint64(e), 10) + ")"
}

// Segment is a remote memory region: xdr_rdma_segment (RFC 8166 section 3.4.3).
type Segment struct {
	Handle uint32 // rkey, or STag
	Length uint32 // bytes
	Offset uint64 // virtual address in the region
}

// ReadSegment is an element of the Read list. Segments with equal Position form one Read chunk.
type ReadSegment struct {
	Position uint32 // offset of the data item in the unreduced XDR stream, in bytes
	Segment
}

// Header is an RPC-over-RDMA transport header. The zero value is an RDMA_MSG with no chunks and
// version 0; Reset makes it one of version 1. A Header is used by one task at a time.
type Header struct {
	XID     uint32
	Vers    uint32
	Credits uint32 // asked for in a call, granted in a reply
	Proc    Proc

	Align, Thresh uint32 // RDMA_MSGP: alignment in bytes, and from what length on

	Reads    []ReadSegment // Read list
	Writes   ChunkList     // Write list
	HasReply bool          // a Reply chunk is present, possibly with no segment
	Reply    []Segment     // Reply chunk

	Err       ErrCode // RDMA_ERROR
	Low, High uint32  // ERR_VERS: versions the responder supports
}

// Reset empties h to an RDMA_MSG of version 1 and keeps the storage of its lists.
func (h *Header) Reset() {
	*h = Header{
		Vers:   Version,
		Reads:  h.Reads[:0],
		Writes: ChunkList{segs: h.Writes.segs[:0], ends: h.Writes.ends[:0]},
		Reply:  h.Reply[:0],
	}
}

// HasChunks reports whether proc's header part has the three chunk lists.
func (p Proc) HasChunks() bool { return p <= RDMA_MSGP }

// HeaderLen is the length in bytes of h once encoded.
func HeaderLen(h *Header) int {
	n := fixedLen
	switch {
	case h.Proc == RDMA_ERROR && h.Err == ERR_VERS:
		return n + 12
	case h.Proc == RDMA_ERROR:
		return n + 4
	case !h.Proc.HasChunks():
		return n
	case h.Proc == RDMA_MSGP:
		n += 8
	}
	n += 12 + len(h.Reads)*(4+readSegmentLen) + len(h.Writes.ends)*8 + len(h.Writes.segs)*segmentLen
	if h.HasReply {
		n += 4 + len(h.Reply)*segmentLen
	}
	return n
}

// AppendHeader encodes h as it stands, without a check of its content. A Proc or Err that is not
// known is written with nothing behind it.
func AppendHeader(b []byte, h *Header) []byte {
	b = xdr.AppendUint32(b, h.XID)
	b = xdr.AppendUint32(b, h.Vers)
	b = xdr.AppendUint32(b, h.Credits)
	b = xdr.AppendUint32(b, uint32(h.Proc))
	if h.Proc == RDMA_ERROR {
		b = xdr.AppendUint32(b, uint32(h.Err))
		if h.Err == ERR_VERS {
			b = xdr.AppendUint32(b, h.Low)
			b = xdr.AppendUint32(b, h.High)
		}
		return b
	}
	if !h.Proc.HasChunks() {
		return b
	}
	if h.Proc == RDMA_MSGP {
		b = xdr.AppendUint32(b, h.Align)
		b = xdr.AppendUint32(b, h.Thresh)
	}
	for i := range h.Reads {
		b = xdr.AppendUint32(b, 1)
		b = xdr.AppendUint32(b, h.Reads[i].Position)
		b = appendSegment(b, &h.Reads[i].Segment)
	}
	b = xdr.AppendUint32(b, 0)
	for i := range h.Writes.Len() {
		b = appendChunk(b, h.Writes.Chunk(i))
	}
	b = xdr.AppendUint32(b, 0)
	if h.HasReply {
		return appendChunk(b, h.Reply)
	}
	return xdr.AppendUint32(b, 0)
}

func appendChunk(b []byte, c []Segment) []byte {
	b = xdr.AppendUint32(b, 1)
	b = xdr.AppendUint32(b, uint32(len(c)))
	for i := range c {
		b = appendSegment(b, &c[i])
	}
	return b
}

func appendSegment(b []byte, s *Segment) []byte {
	b = xdr.AppendUint32(b, s.Handle)
	b = xdr.AppendUint32(b, s.Length)
	return xdr.AppendUint64(b, s.Offset)
}

// PatchXID sets the XID of an encoded header in place.
func PatchXID(b []byte, xid uint32) { binary.BigEndian.PutUint32(b[0:4], xid) }

// PatchCredits sets the credits of an encoded header in place.
func PatchCredits(b []byte, credits uint32) { binary.BigEndian.PutUint32(b[8:12], credits) }
